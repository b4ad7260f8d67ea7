"""Files become cascades, or a sentence with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.cascade.making import cascades, dump, loaded, places
from windlass.cascade.load import Format, load, parse
from windlass.errors import CascadeError, UsageError


def fault(text: str, form: Format = "json") -> str:
    with pytest.raises(CascadeError) as raised:
        _ = parse(text, name="c", format=form).cascade
    return str(raised.value)


class TestFiles:
    def test_a_missing_folder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="there is no folder"):
            load(tmp_path / "nowhere" / "c.json")

    def test_a_folder_lists_the_cascades_in_it(self, tmp_path: Path) -> None:
        (tmp_path / "chart.json").write_text("{}")
        with pytest.raises(UsageError, match=r"is a folder; name a file; .* chart.json"):
            load(tmp_path)

    def test_another_suffix_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "c.toml").write_text("")
        with pytest.raises(UsageError, match=r"must end in \.json or \.yaml or \.yml"):
            load(tmp_path / "c.toml")

    def test_what_is_not_utf8_is_told_with_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "c.json"
        path.write_bytes(b'{\n"cascade_id": "\xff"}')
        with pytest.raises(CascadeError, match=r"c\.json:2: not UTF-8: the byte 0xFF"):
            load(path)


class TestBrokenText:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("", "c: the file is empty"),
            (" \n", "c: the file is empty"),
            ("[1]", "c:1: expected an object at the top, not a list"),
            ("3", "c:1: expected an object at the top, not 3"),
            (
                '{"a": 1',
                "c:1: not valid JSON at column 8: expected a comma or the closing bracket, but",
            ),
            ('{"a":\n 1,}', "c:2: not valid JSON at column 3: remove the comma before '}'"),
            ('{"a": [1,\n]}', "c:1: not valid JSON at column 9: remove the comma before ']'"),
            (
                "{'a': 1}",
                "c:1: not valid JSON at column 2: expected a key in double quotes, but found",
            ),
            ('{"a" 1}', "expected a colon after the key, but found '1'"),
            ('{"a": }', "expected a value, but found '}'"),
            ('{"a": 1} x', "expected the end of the file after the closing bracket, but found 'x'"),
            ('{"a": "x', "the text that begins here has no closing double quote"),
            ('{"a": "x\ny"}', "c:1: not valid JSON at column 9: a line end or tab inside a text"),
            ('{"a": "\\x"}', "is not an escape in JSON"),
            (
                '{\n// x\n"a": 1}',
                "c:2: not valid JSON at column 1: expected a key in double quotes; JSON",
            ),
            ('{"a":\n NaN}', "c:2: NaN is not a number that JSON can hold"),
            ('{"a": ["NaN",\n -Infinity]}', "c:2: -Infinity is not a number"),
            ('{"a": 1e999}', "1e999 is not a number that JSON can hold"),
            ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
            ('{"a": ' + "[" * 200 + "]" * 200 + "}", "nested more than 100 levels deep"),
            ("[" * 100_000, "nested more than 100 levels deep"),
        ],
    )
    def test_json(self, text: str, told: str) -> None:
        assert told in fault(text)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("# nothing", "c: the file is empty"),
            ("- a", "c:1: expected an object at the top, not a list"),
            (
                "a: 1\n\tb: 2",
                "c:2: not valid YAML at column 1: a tab; YAML is indented with spaces",
            ),
            ("a: [1, 2\nb: 3", "not valid YAML at column"),
            ("a: 1\n---\nb: 2", "a second document begins here; one file holds one"),
            ("a: *b", "c:1: not valid YAML at column 4: found undefined alias 'b'"),
            (
                "a: !!python/object:os.system x",
                "the YAML tag '!!python/object:os.system' is not allowed",
            ),
            ("a: !!set {x}", "the YAML tag '!!set' is not allowed"),
            ("a: !!int x", "c:1: 'x' is not of the YAML type int"),
            ("a: !!bool x", "c:1: 'x' is not of the YAML type bool"),
            ("a: .inf", "c:1: .inf is not a number"),
            ("? [a]\n: b", "c:1: a key must be text"),
            ("a: \x07", "c:1: the character U+0007 is not allowed in YAML"),
            ("a: &x\n  <<: *x", "an object is merged into itself"),
            ("a: &x [*x]", "nested more than 100 levels deep"),
            ("a: " + "[" * 20_000, "nested more than 100 levels deep"),
            ("<<: 3", "'<<' needs an alias of an object"),
        ],
    )
    def test_yaml(self, text: str, told: str) -> None:
        assert told in fault(text, "yaml")

    def test_aliases_cannot_be_piled_up(self) -> None:
        lines = ["a0: &a0 [x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
        assert "more than 100,000 values" in fault("\n".join(lines), "yaml")
        merges = ["a0: &a0 {x: 1}"]
        merges += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
        assert "more than 100,000 values" in fault("\n".join(merges), "yaml")

    @given(st.text(max_size=60) | st.text("{}[]:,\"' \n-&*!<#|>\\ab1", max_size=40))
    def test_any_text_is_refused_in_a_sentence(self, text: str) -> None:
        for form in ("json", "yaml"):
            assert fault(text, form)


class TestYaml:
    def test_words_that_yaml_reads_as_something_else_are_explained(self) -> None:
        told = fault("cascade_id: c\nphases:\n- name: on\n  instructions: x", "yaml")
        assert told == (
            "c:3: phases[0].name: expected text, not true; write 'on' in quotes,"
            " YAML reads it as true"
        )
        told = fault("cascade_id: 1.10\nphases:\n- instructions: x\n  name:", "yaml")
        assert "write '1.10' in quotes, YAML reads it as 1.1" in told
        assert "c:4: phases[0].name: expected text, not null; nothing is written here" in told


class TestProperties:
    @given(cascades())
    def test_json_and_yaml_of_one_cascade_are_equal(self, data: dict[str, Any]) -> None:
        assert loaded(data, "json").cascade == loaded(data, "yaml").cascade

    @given(cascades(), st.data(), st.sampled_from(["json", "yaml"]))
    def test_an_unknown_key_is_told_with_its_line(
        self, data: dict[str, Any], draw: st.DataObject, form: Format
    ) -> None:
        parts = {"rules", "context", "context_ttl"}
        phases = [("phases", index) for index in range(len(data["phases"]))]
        objects = [(), *phases, *(path for path in places(data) if path[-1] in parts)]
        holder: Any = data
        for step in draw.draw(st.sampled_from(objects)):
            holder = holder[step]
        holder["no_such"] = 1
        lines = dump(data, form).splitlines()
        line = 1 + next(i for i, text in enumerate(lines) if "no_such" in text)
        (mistake,) = loaded(data, form).mistakes
        assert mistake.line == line
        assert "unknown key 'no_such'" in mistake.text

    @given(cascades(), st.data(), st.sampled_from(["json", "yaml"]))
    def test_a_wrong_value_is_told_with_its_line(
        self, data: dict[str, Any], draw: st.DataObject, form: Format
    ) -> None:
        index = draw.draw(st.integers(0, len(data["phases"]) - 1))
        data["phases"][index]["context_retention"] = "no_such"
        lines = dump(data, form).splitlines()
        line = 1 + next(i for i, text in enumerate(lines) if "no_such" in text)
        (mistake,) = loaded(data, form).mistakes
        assert (mistake.file, mistake.line) == (f"c.{form}", line)

    @given(cascades(), st.sampled_from([None, 1, 7]))
    def test_the_lines_do_not_depend_on_the_layout(
        self, data: dict[str, Any], indent: int | None
    ) -> None:
        text = json.dumps(data, indent=indent, ensure_ascii=False)
        text = text.replace("{", "{\t", 1) + "\n"
        reading = parse(text, name="c", format="json").reading
        lines = text.split("\n")
        assert set(reading.lines) >= {*places(data)}
        for path, line in reading.lines.items():
            if path and isinstance(path[-1], str):
                assert json.dumps(path[-1], ensure_ascii=False) in lines[line - 1]

    @given(cascades())
    def test_yaml_is_read_as_the_safe_loader_reads_it(self, data: dict[str, Any]) -> None:
        text = dump(data, "yaml")
        assert parse(text, name="c", format="yaml").reading.data == yaml.safe_load(text)
