"""Text in a workflow file that YAML takes for something else is told with the line as it reads."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine

ONE = "cascade_id: tides\nphases:\n  - name: one\n    "


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("instructions: {{ input.port }}", 'instructions: "{{ input.port }}"'),
        ("instructions: {{ input.port }} and back", 'instructions: "{{ input.port }} and back"'),
        ("instructions: {% if input.x %}a{% endif %}", None),
        ("instructions: {{ input['port'] }}", "instructions: \"{{ input['port'] }}\""),
        ("instructions: Answer so: yes or no", 'instructions: "Answer so: yes or no"'),
        ("instructions: 'don't go'", 'instructions: "don\'t go"'),
        ('instructions: "Go" is the word', "instructions: '\"Go\" is the word'"),
        ('instructions: "Go on', 'instructions: "Go on"'),
        ("instructions: @ask.md", 'instructions: "@ask.md"'),
        ("instructions: *Now* go", 'instructions: "*Now* go"'),
        ("instructions: {input.port}", 'instructions: "{input.port}"'),
        (
            "soundings: {factor: 2, mutations: [{{ input.x }}, b]}",
            'soundings: {factor: 2, mutations: ["{{ input.x }}", b]}',
        ),
        (
            "soundings: {factor: 2, evaluator_instructions: Best: the short one, mutate: true}",
            'soundings: {factor: 2, evaluator_instructions: "Best: the short one", mutate: true}',
        ),
    ],
)
def test_text_without_quotes_is_told_with_the_line_in_quotes(
    windlass: CommandLine, written: str, meant: str | None
) -> None:
    windlass.write("c.yaml", f"{ONE}{written}\n  - name: two\n    instructions: Go.\n")
    said = windlass("check", "c.yaml")
    assert said.code == 2
    key, _, rest = written.partition(": ")
    line = meant or f'{key}: "{rest}"'
    assert said.complaint.startswith("windlass: c.yaml:4: ")
    assert said.complaint.endswith(f"; put the text in quotes: {line}")
    windlass.write("c.yaml", f"{ONE}{line}\n  - name: two\n    instructions: Go.\n")
    assert "in quotes" not in windlass("check", "c.yaml").err


def test_a_text_of_several_lines_is_told_to_be_a_block(windlass: CommandLine) -> None:
    windlass.write("c.yaml", f"{ONE}instructions: Answer so,\n      briefly: yes or no\n")
    said = windlass("check", "c.yaml").complaint
    assert said.startswith("windlass: c.yaml:5: ")
    assert "begin a text of several lines with 'instructions: |'" in said


def test_a_fault_that_quotes_do_not_mend_says_nothing_of_them(windlass: CommandLine) -> None:
    windlass.write("c.yaml", "cascade_id: tides\n\tphases: []\n")
    assert "quotes" not in windlass("check", "c.yaml").complaint


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        ("string", "00501", "321"),
        ("text", "12:30", "750"),
        ("str", "no", "false"),
        ("path", "On", "true"),
        ("string", "1.10", "1.1"),
        ("string", "1.0e+3", "1000.0"),
        ("string", "0x1F", "31"),
        ("string", "1_000", "1000"),
    ],
)
def test_a_default_of_a_text_that_yaml_reads_as_another_type(
    windlass: CommandLine, kind: str, written: str, read: str
) -> None:
    text = f"inputs_schema:\n  port: {{type: {kind}, default: {written}}}\n{ONE}instructions: Go.\n"
    windlass.write("c.yaml", text)
    said = windlass("check", "c.yaml")
    assert said.complaint == (
        f"windlass: c.yaml:2: inputs_schema.port.default: expected text, not {read}; write"
        f" '{written}' in quotes, YAML reads it as {read}"
    )
    windlass.write("c.yaml", text.replace(written, f"'{written}'"))
    assert windlass("check", "c.yaml").code == 0


@pytest.mark.parametrize("written", ["2026", "true", "2026-01-31", "1e3", "y", "'00501'"])
def test_a_default_that_stays_as_it_is_written_is_no_mistake(
    windlass: CommandLine, written: str
) -> None:
    text = f"inputs_schema:\n  port: {{type: string, default: {written}}}\n"
    windlass.write("c.yaml", f'{text}{ONE}instructions: "[{{{{ input.port }}}}]"\n')
    assert windlass("run", "c.yaml").code == 0
    assert windlass.requests[-1].messages[-1].text.endswith("[" + written.strip("'") + "]")


@pytest.mark.parametrize(
    "written",
    [
        "inputs: {at: 12:30}",
        "inputs: {code: [00501]}",
        "rules: {max_turns: 010}",
        "sub_cascades: [{ref: d.yaml, input_map: {at: 1:00}}]",
    ],
)
def test_a_number_that_nobody_means_is_a_mistake_wherever_it_stands(
    windlass: CommandLine, written: str
) -> None:
    windlass.write("d.yaml", "cascade_id: d\nphases: [{name: a, instructions: Go.}]")
    asks = "tool: list_files" if written.startswith("inputs") else "instructions: Go."
    windlass.write("c.yaml", f"{ONE}{asks}\n    {written}\n")
    said = windlass("check", "c.yaml")
    assert said.code == 2
    assert "c.yaml:5: phase 'one', " in said.complaint
    assert "YAML reads " in said.complaint


def test_text_that_is_no_template_is_told_how_to_stand(windlass: CommandLine) -> None:
    text = f"{ONE}instructions: |\n      A chart with {{{{ .Values.image }}}}.\n"
    windlass.write("c.yaml", text)
    said = windlass("check", "c.yaml").complaint
    assert said.startswith("windlass: c.yaml:5: ")
    assert "between {% raw %} and {% endraw %}" in said
    windlass.write(
        "c.yaml", text.replace("A chart", "{% raw %}A chart").replace("}}.", "}}.{% endraw %}")
    )
    assert windlass("check", "c.yaml").code == 0


def test_parts_for_aliases_stand_under_keys_of_nobody(windlass: CommandLine) -> None:
    common = "x-common: &common\n  tackle: [read_file]\n"
    windlass.write("c.yaml", f"{common}{ONE}<<: *common\n    instructions: Go.\n")
    assert windlass("run", "c.yaml").code == 0
    assert [tool.name for tool in windlass.requests[-1].tools] == ["read_file"]


@pytest.mark.parametrize("written", ["12:30", "00501", "no"])
def test_an_input_file_in_which_yaml_reads_another_value(
    windlass: CommandLine, written: str
) -> None:
    windlass.write("c.yaml", f'{ONE}instructions: "{{{{ input.port }}}}"\n')
    windlass.write("in.yaml", f"port: {written}\n")
    said = windlass("run", "c.yaml", "-i", "in.yaml")
    assert said.code == 2
    assert said.complaint.startswith(f"windlass: in.yaml:1: port: YAML reads {written} as ")
    windlass.write("in.yaml", f"port: '{written}'\n")
    assert windlass("run", "c.yaml", "-i", "in.yaml").code == 0
    assert windlass.requests[-1].messages[-1].text == written


@pytest.mark.parametrize("written", ["1.10", "1.0e+3"])
def test_a_number_is_the_text_that_was_written_where_text_is_declared(
    windlass: CommandLine, written: str
) -> None:
    schema = "inputs_schema:\n  v: {type: string}\n  w: {type: number}\n  x: any\n"
    asks = 'instructions: "{{ input.v }} {{ input.w + 1 }} {{ input.x + 1 }}"'
    windlass.write("c.yaml", f"{schema}{ONE}{asks}\n")
    windlass.write("in.yaml", "".join(f"{name}: {written}\n" for name in "vwx"))
    number = float(written) + 1
    for given in (["in.yaml"], [f"{name}={written}" for name in "vwx"]):
        said = windlass("run", "c.yaml", *(word for each in given for word in ("-i", each)))
        assert said.code == 0, said.err
        assert windlass.requests[-1].messages[-1].text == f"{written} {number} {number}"
