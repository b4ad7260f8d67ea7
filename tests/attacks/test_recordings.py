"""What somebody who may write a recording can make `import`, `replay` and `export` do."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import windlass as library
from tests.cli.conftest import CommandLine, windlass
from tests.engine.harness import by_phase, call, calls, cascade, phase
from tests.importing.making import Session, text, used, write_lines
from tests.support.importing_odd_files import FILES
from tests.support.importing_otel import export, span
from windlass.errors import UsageError
from windlass.history.sqlite import SqliteStore
from windlass.importing.streams import recordings

__all__ = ["windlass"]

pytestmark = pytest.mark.timeout(120)

_NUMBERS = (
    *("1e400", "-1e400", "1e308", "NaN", "Infinity", "-Infinity", "-1", "0", "-0.0", "1e-400"),
    *("true", "false", "null", "1.5", "1e11", "1e12", "253402300800", "1" + "0" * 13),
    *("9" * 20, "9" * 309, "9" * 400, "9" * 5_000, "-" + "9" * 400),
    *('"1e400"', f'"{"9" * 400}"', f'"{"9" * 5_000}"', '"NaN"', '"-1"', '"12"', '"\\u0669"'),
    *('"9999-12-31T23:59:59-12:00"', '"0001-01-01T00:00:00+12:00"', '"1960-01-01"'),
    *("[1]", '{"a": 1e400}', "[" * 120 + "]" * 120),
)
ODD_NUMBERS = st.one_of(
    st.sampled_from(_NUMBERS),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(0, 600).map(lambda digits: f"1{'0' * digits}"),
    st.integers(-400, 400).map(lambda power: f"1e{power}"),
)


def _numbers(value: Any) -> Iterator[tuple[Any, Any]]:
    """The places of numbers and times."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            held = value[key]
            is_time = isinstance(held, str) and re.match(r"\d{4}-\d\d-\d\d|\d{10,}$", held)
            if is_time or (isinstance(held, int | float) and not isinstance(held, bool)):
                yield value, key
            yield from _numbers(held)


def _told(use: Callable[[], object]) -> str:
    """What is told where it is refused; empty where it works."""
    try:
        use()
    except UsageError as error:
        return str(error)
    return ""


def _written(path: Path, records: list[Any], texts: list[str]) -> Path:
    lines = "".join(json.dumps(record) + "\n" for record in records)
    for at, told in enumerate(texts):
        lines = lines.replace(f'"@{at}@"', told)
    path.write_text(lines, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FILES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_odd_numbers_end_quickly_and_in_a_sentence(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    records = json.loads(json.dumps(FILES[name]()))
    if name in ("chat", "anthropic"):  # what logs may say besides
        records[0] |= {"timestamp": 1_700_000_000, "cost": 0.5}
    places = [place for record in records for place in _numbers(record)]
    if not places:
        records[0]["timestamp"] = 1
        places = [(records[0], "timestamp")]
    chosen = data.draw(st.lists(st.sampled_from(range(len(places))), min_size=1, max_size=3))
    texts = [data.draw(ODD_NUMBERS) for _ in chosen]
    for at, place in enumerate(chosen):
        holder, key = places[place]
        holder[key] = f"@{at}@"
    path = _written(tmp_path / "x.jsonl", records, texts)
    store = tmp_path / "store"
    for use in (
        lambda: library.import_sessions(path, store=store),
        lambda: library.replay(path, ["everything"], store=store),
    ):
        assert "\n" not in _told(use)
    with SqliteStore(store) as history:
        for info in history.sessions():
            assert info.cost is None or 0 <= info.cost < 1e15
            assert 0 <= info.tokens_in < 1e15
            assert 0 < info.started < 1e11


@pytest.mark.parametrize("when", ["1e400", "9" * 400, f'"{"9" * 400}"', "NaN", "-1", "true"])
def test_a_time_that_cannot_be_is_unknown(windlass: CommandLine, when: str) -> None:
    session = Session()
    session.user("Go.")
    session.answer("m1", text("a"), usage=used(), timestamp="@0@")
    _written(windlass.folder / "s.jsonl", session.records, [when])
    said = windlass("import", "s.jsonl", "--json")
    assert said.code == 0, said.err
    assert windlass("sessions").code == 0
    assert windlass("replay", "s.jsonl", "--policy", "everything").code == 0


# ---- depth --------------------------------------------------------------------------


def _deep(levels: int, key: str = "a") -> str:
    return f'{{"{key}":' * levels + '"sk-abcdefghijklmnopqrstuvwx"' + "}" * levels


def test_a_line_that_is_nested_too_deep_is_told_and_left_out(windlass: CommandLine) -> None:
    session = Session()
    session.user("Go.")
    block = {"type": "tool_use", "id": "t1", "name": "f", "input": "@0@"}
    session.answer("m1", block)
    session.user([{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}])
    session.answer("m2", text("done"))
    _written(windlass.folder / "s.jsonl", session.records, [_deep(900)])
    said = windlass("import", "s.jsonl", "--json")
    assert said.code == 0, said.err
    (one,) = said.json["sessions"] if isinstance(said.json, dict) else said.json
    assert "lines that cannot be read: the values are nested more than 100 levels deep" in str(one)


@pytest.mark.parametrize("levels", [90, 120, 900, 5_000])
@pytest.mark.parametrize("form", ["openai", "anthropic", "jsonl", "markdown", "html"])
def test_arguments_of_a_recording_that_are_deep_are_written_out_without_keys(
    windlass: CommandLine, form: str, levels: int
) -> None:
    function = {"name": "f", "arguments": _deep(levels)}
    asked = {"id": "c1", "type": "function", "function": function}
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "assistant", "content": "done"},
    ]
    windlass.write("talk.json", {"model": "gpt-5", "messages": messages})
    assert windlass("import", "talk.json").code == 0
    (session,) = windlass("sessions", "--json").json
    for more in ((), ("--redact",)):
        said = windlass("export", session["session_id"], "--as", form, *more)
        assert said.code == 0, said.err
        assert ("sk-abcdefgh" in said.out) is not bool(more)
    for command in ("show", "report"):
        said = windlass(command, session["session_id"], "--json")
        assert said.code == 0, said.err


@pytest.mark.parametrize("levels", [101, 900, 5_000])
def test_arguments_of_a_reply_that_are_deep_go_back_to_the_model(
    windlass: CommandLine, levels: int
) -> None:
    value = "[" * levels + "]" * levels
    kept = calls(call("set_state", f'{{"key": "k", "value": {value}}}'))
    windlass.write("one.json", cascade(phase("a", tackle=["set_state"])))
    windlass.script = by_phase({"a": [kept, "done"]})  # type: ignore[assignment]
    said = windlass("run", "one.json", "--session", "s1")
    assert said.code == 0, said.err
    told = windlass.requests[-1].messages[-1]
    assert told.failed
    assert "nested more than 100 levels deep" in told.text
    for more in (("show", "s1"), ("export", "s1", "--as", "openai", "--redact")):
        assert windlass(*more).code == 0


@pytest.mark.parametrize("levels", [101, 900, 5_000, 100_000])
def test_input_that_is_deep_is_refused_in_a_sentence(windlass: CommandLine, levels: int) -> None:
    windlass.write("one.json", cascade(phase("a")))
    windlass.write("in.json", f'{{"n": {"[" * levels}{"]" * levels}}}')
    for command in ("run", "batch"):
        more = ("-i", "in.json") if command == "run" else ("in.jsonl", "--out", "r.jsonl")
        Path("in.jsonl").write_text(Path("in.json").read_text())
        said = windlass(command, "one.json", *more)
        assert said.code == 2
        assert "nested more than 100 levels deep" in said.err
        assert "Traceback" not in said.err
    assert windlass.requests == []


@pytest.mark.parametrize("levels", [150, 900, 5_000])
@pytest.mark.parametrize("name", ["deep.json", "deep.yaml", "deep.xml"])
def test_a_cascade_that_is_deep_is_refused_in_a_sentence(
    windlass: CommandLine, name: str, levels: int
) -> None:
    schema = '{"type":"array","items":' * levels + "{}" + "}" * levels
    written = json.dumps(cascade(phase("a", output_schema="@@"))).replace('"@@"', schema)
    if name.endswith(".xml"):
        written = f"{'<task>' * levels}{'</task>' * levels}"
    windlass.write(name, written)
    said = windlass("check", name)
    assert said.code == 2
    assert "Traceback" not in said.err
    assert re.search("nested more than 100", said.err), said.err


def test_an_answer_that_is_deep_does_not_match_a_schema_that_names_itself(
    windlass: CommandLine,
) -> None:
    node = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}}
    schema = {**node, "$defs": {"n": node}}
    windlass.write("one.json", cascade(phase("a", output_schema=schema, rules={"max_attempts": 1})))
    for levels in (95, 300, 900):
        windlass.script = lambda _, levels=levels: '{"a":' * levels + "{}" + "}" * levels  # type: ignore[misc]
        said = windlass("run", "one.json")
        assert "Traceback" not in said.err
        assert said.code == 1 or levels < 100, said.err


# ---- spans without content ----------------------------------------------------------


def test_twenty_thousand_spans_without_content_are_read(tmp_path: Path) -> None:
    """It did not end: each call was read with a list of all before it."""
    exports = (export(*map(span, range(at, at + 500))) for at in range(0, 20_000, 500))
    path = write_lines(tmp_path / "x.jsonl", exports)
    began = time.process_time()
    read = list(recordings(path))
    assert time.process_time() - began < 20  # a sixth of it where nothing else runs
    calls = [call for one in read for call in one.calls]
    assert len({call.id for call in calls}) == 20_000
    assert max(len(one.messages) for one in read) <= 1_000
    assert [one.kind for one in read[:2]] == ["session", "branch"]
    assert len({one.name for one in read}) == len(read)
    assert {one.parent for one in read[1:]} == {read[0].name}


def test_each_of_them_is_in_the_bill_once(windlass: CommandLine) -> None:
    path = windlass.folder / "x.jsonl"
    write_lines(path, [export(*map(span, range(1_200)))])
    for _ in range(2):
        said = windlass("import", "x.jsonl", "--json")
        assert said.code == 0, said.err
        sessions = said.json["sessions"]
        assert [one["calls"] for one in sessions] == [500, 500, 200]
        assert sum(one["tokens_in"] for one in sessions) == 1_200 * 100
    listed = windlass("query", "SELECT SUM(tokens_in) AS n FROM unified_logs", "--json").json
    assert listed[0]["n"] == 1_200 * 100


def test_branches_that_share_their_beginnings_are_counted_whole(windlass: CommandLine) -> None:
    session = Session()
    for number in range(4_000):
        record = session.answer(f"m{number}", text("x"))
        session.answer(f"b{number}", text("y"))
        session.last = record["uuid"]
    write_lines(windlass.folder / "s.jsonl", session.records)
    began = time.monotonic()
    said = windlass("import", "s.jsonl")
    assert time.monotonic() - began < 60
    assert "branches of more than 1,000,000 messages" in said.err
    assert "Traceback" not in said.err
    assert windlass("sessions", "--json").json == []
