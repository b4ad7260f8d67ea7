"""What a batch runs on: JSON lines, CSV, mappings; and what is said of a mistake in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from windlass.api.batches.inputs import read_inputs
from windlass.errors import UsageError
from windlass.providers.scripted import Scripted

CASCADE = {
    "cascade_id": "ask",
    "phases": [{"name": "say", "instructions": "Say {{ input.city }}, {{ input.country }}."}],
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def asked(inputs: Any, cascade: Any = CASCADE) -> list[str]:
    """What the model was asked, a row each, in order."""
    model = Scripted(lambda request: request.messages[-1].text)
    done = windlass.batch_sync(
        cascade, inputs, out="r.jsonl", model="s/x", providers={"s": model}, workers=3
    )
    return [line["output"] for line in done.read()]


def complaint(inputs: Any) -> list[str]:
    with pytest.raises(UsageError) as raised:
        asked(inputs)
    assert not Path("r.jsonl").exists()
    assert not Path(".windlass").exists()
    return str(raised.value).splitlines()


def write(name: str, text: str | bytes) -> str:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def test_json_lines_and_csv_and_mappings_are_the_same_to_a_cascade() -> None:
    rows = [{"city": "Łódź", "country": "PL"}, {"city": 'a "b", c\nd', "country": "\u2028"}]
    want = ["Say Łódź, PL.", 'Say a "b", c\nd, \u2028.']
    lines = write("a.jsonl", "\ufeff" + "\n\n".join(json.dumps(row) for row in rows))
    table = write("a.csv", 'city,country\r\nŁódź,PL\r\n\r\n"a ""b"", c\nd",\u2028\r\n')
    for source in (lines, table, Path(table), rows, iter(rows)):
        assert asked(source) == want
        Path("r.jsonl").unlink()


def test_a_column_that_the_cascade_needs_is_missing() -> None:
    Path("ask.json").write_text(json.dumps(CASCADE, indent=1))
    table = write("a.csv", "town,country\nx,y\nz,w\n")
    with pytest.raises(UsageError) as raised:
        asked(table, "ask.json")
    assert str(raised.value) == (
        "a.csv:1: column 'city' is missing, and ask.json:6 needs it; known: country, town"
    )


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.csv", "citty,country\nx,y\n", [":1: column 'city' is missing", "did you mean 'citty'"]),
        ("a.csv", "city,country\nx,y\n\nz\n", [":4: the row has 1 cells, and there are 2 columns"]),
        ("a.csv", 'city,country\nx,"y\n', [":2: it is not CSV"]),
        ("a.csv", "city,country,city\nx,y,z\n", [":1: two columns are named 'city'"]),
        ("a.csv", "city,,country\nx,y,z\n", [":1: a column has no name"]),
        ("a.csv", "city,country\n", ["it holds no inputs"]),
        ("a.csv", "", ["it holds no inputs"]),
        ("a.csv", b"city,country\nx,y\n\xff,z\n", [":3: it is not UTF-8 text"]),
        ("a.jsonl", "\n \n", ["it holds no inputs"]),
        ("a.jsonl", '{"city": 1, "country": 2}\n{"city": 1}\n', [":2: 'country' is missing"]),
        ("a.jsonl", '{"city": 1, "country": 2}\n\n[1]\n', [":3: a row must be an object", "list"]),
        ("a.jsonl", '{"city": 1, "country": NaN}\n', [":1: it is not JSON: NaN is not a number"]),
        ("a.jsonl", '{"city": 1,\n', [":1: it is not JSON"]),
        ("a.jsonl", "[" * 100_000, [":1: it is not JSON: the values are nested more than"]),
        ("a.txt", "x", ["a file of one of these kinds: .jsonl, .ndjson, .csv"]),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_line(
    name: str, text: str | bytes, told: list[str]
) -> None:
    (line,) = complaint(write(name, text))
    assert line.startswith(name)
    assert all(words in line for words in told), line


def test_all_mistakes_come_at_once_and_no_more_than_can_be_read() -> None:
    lines = complaint(write("a.jsonl", '{"city": "x"}\n7\n' * 50))
    assert lines[0].startswith("a.jsonl:1: 'country' is missing")
    assert lines[1].startswith("a.jsonl:2: a row must be an object")
    assert lines[-1] == "a.jsonl: and 80 more mistakes"
    assert len(lines) == 21


@pytest.mark.parametrize("given", [[7], [{1: 2}], [{"city": {1}, "country": 2}]])
def test_rows_of_a_program_are_checked_too(given: list[Any]) -> None:
    (line,) = complaint(given)
    assert line.startswith("inputs:1: a row must ")


def test_a_file_that_is_not_there() -> None:
    (line,) = complaint("none.csv")
    assert line == "none.csv: the inputs cannot be read (No such file or directory)"


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), min_size=1))
def test_json_lines_come_back_as_they_were(rows: list[dict[str, Any]]) -> None:
    text = "\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    name = write("any.jsonl", text)
    assert [each.values for each in read_inputs(name, ())] == rows
    given = read_inputs(rows, ())
    assert [each.hash for each in read_inputs(name, ())] == [each.hash for each in given]
