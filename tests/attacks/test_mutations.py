"""Files that work, changed a little: each ends in success or in one clear sentence.

`make fuzz` tries them for ten minutes.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import yaml
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import CommandLine, Said, ran
from tests.engine.harness import cascade, phase
from tests.support.importing_odd_files import FILES
from tests.support.mutations import as_json, changed, changed_value

__all__ = ["ran"]

pytestmark = pytest.mark.timeout(0)  # a profile may ask for many

_ROOT: Final = Path(__file__).parents[2]
_EXAMPLES: Final = _ROOT / "examples"
_FOLDERS: Final = (_EXAMPLES, _ROOT / "tests" / "cascade" / "data")
_CASCADES: Final = sorted(
    (folder, path.relative_to(folder))
    for folder in _FOLDERS
    for path in folder.rglob("*")
    if path.suffix in (".json", ".yaml") and path.stem != "mistakes"
)
_TASK: Final = """\
<task type="sequential" name="look">
  <description>Look at {{ input.topic }} &amp; &lt;more&gt;</description>
  <context_management>
    <inherit_context>none</inherit_context>
    <accumulate_data>true</accumulate_data>
    <accumulation_format>notes_only</accumulation_format>
    <fresh_context>disabled</fresh_context>
  </context_management>
  <steps>
    <task type="atomic"><description><![CDATA[First < second]]></description></task>
    <task type="atomic"><description>Then</description><tools><tool>read_file</tool></tools></task>
  </steps>
</task>
"""
_TASKS: Final = [_TASK, *(path.read_text() for path in sorted(_EXAMPLES.rglob("*.xml")))]
_SETTINGS: Final = """\
store = ".windlass"
model = "anthropic/claude-sonnet-5-5"  # used where none is named
root = "."
max_output_tokens = 4096
tool_timeout_s = 12.5
keep_recent_turns = 3
breaker_sessions = 0
passthrough = false
otel = "off"
http_allow = ["example.org", '127.0.0.1']
tools = []
helper_model = "none"
[cards]
batch_size = 10
summary_chars = 300
[headings]
task = "## Task"
[providers.mine]
base_url = "http://localhost:8000/v1"
wire = "openai"
key = "MINE_KEY"
requests_per_minute = 60
[prices."mine/model"]
input = 1.5
output = 6
cache_read = 0.15
[mcp_servers.files]
command = ["server", "--root", "."]
"""
_OURS: Final = re.compile(
    r"Traceback|\b[A-Z]\w+(Error|Exception|Warning)\b|NoneType|<class|object at 0x|unhashable"
    r"|positional argument|object has no attribute|File \"|\bnot subscriptable|pydantic"
)
"""What a sentence for people does not hold."""

property_of_files = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
seeds = st.integers(0, 2**64 - 1)


def assert_ends_well(said: Said, *more: int) -> None:
    """It worked, or a sentence says what is wrong; what ran may have failed with `more` codes."""
    event(f"exit code {said.code}")
    assert said.code in (0, 2, *more), (said.code, said.err)
    # What ran may tell of its tools, in their own words.
    told = [line for line in said.err.splitlines() if not more or line.startswith("windlass: ")]
    assert not _OURS.search("\n".join(told)), said.err
    if said.code:
        assert said.err.strip()
        assert len(said.err) < 50_000
        assert "\0" not in said.err
    else:
        assert not _OURS.search(said.out), said.out


def put(line: CommandLine, name: str, data: bytes) -> str:
    """Write a file of an example, into a folder without a store."""
    shutil.rmtree(line.folder / ".windlass", ignore_errors=True)
    (line.folder / name).write_bytes(data)
    return name


def put_inputs() -> None:
    """What the tasks read."""
    for folder in ("corpus", "data"):
        shutil.copytree(_EXAMPLES / folder, folder, dirs_exist_ok=True)


@property_of_files
@given(seed=seeds)
def test_settings(windlass: CommandLine, seed: int) -> None:
    put(windlass, "windlass.toml", changed(_SETTINGS, Random(seed)))
    windlass.write("one.json", cascade(phase("a")))
    for command in (("config", "--json"), ("check", "one.json", "--trust")):
        assert_ends_well(windlass(*command))


@property_of_files
@given(written=st.sampled_from(_TASKS), seed=seeds)
def test_tasks(windlass: CommandLine, written: str, seed: int) -> None:
    put(windlass, "task.xml", changed(written, Random(seed)))
    put_inputs()
    assert_ends_well(windlass("check", "task.xml"))
    assert_ends_well(windlass("evaluate", "task.xml", "-i", "topic=a"), 1, 3)


def test_what_is_changed_has_no_mistake(windlass: CommandLine) -> None:
    """Or little would be tried."""
    put(windlass, "windlass.toml", _SETTINGS.encode())
    assert windlass("config", "--json").code == 0
    Path("windlass.toml").unlink()
    put_inputs()
    for task in _TASKS:
        put(windlass, "task.xml", task.encode())
        assert windlass("check", "task.xml").code == 0
        said = windlass("evaluate", "task.xml", "-i", "topic=a")
        assert said.code == 0, said.err


@property_of_files
@given(place=st.sampled_from(_CASCADES), seed=seeds)
def test_cascades(windlass: CommandLine, place: tuple[Path, Path], seed: int) -> None:
    folder, path = place
    (written, random), own = ((folder / path).read_text(), Random(seed)), Path(folder.name)
    if random.random() < 0.5:
        data = changed(written, random)
    else:
        value = yaml.safe_load(written)
        data = as_json(changed_value(value, random)).encode("utf-8", "surrogatepass")
    if not own.exists():
        shutil.copytree(folder, own, ignore=shutil.ignore_patterns("recordings"))
    name = put(windlass, str(own / path.parent / f"changed{path.suffix}"), data)
    checked = windlass("check", name)
    assert_ends_well(checked)
    assert_ends_well(windlass("check", name, "--strict", "--explain-defaults"))
    assert_ends_well(windlass("run", name, "--dry-run", "-i", "topic=a"))
    if checked.code == 0:
        assert_ends_well(windlass("run", name, *_needed(checked)), 1, 3)


def _needed(checked: Said) -> list[str]:
    """Inputs for what `check` says that a cascade needs."""
    names = re.findall(r"-i ([^\s=]+)=", checked.out)
    return [word for name in names for word in ("-i", f"{name}=a")]


def _records(name: str) -> list[Any]:
    if name != "recorded":
        return FILES[name]()
    with (_EXAMPLES / "recordings" / "claude_code.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line, _ in zip(lines, range(12), strict=False)]


@pytest.mark.parametrize("name", [*FILES, "recorded"])
# Of so many files a third of the examples each.
@settings(property_of_files, max_examples=max(10, settings().max_examples // 3))
@given(seed=seeds)
def test_recordings(windlass: CommandLine, name: str, seed: int) -> None:
    records, random = _records(name), Random(seed)
    if random.random() < 0.7:
        at = random.randrange(len(records))
        records[at] = changed_value(records[at], random)
        data = "".join(as_json(record) + "\n" for record in records).encode()
    else:
        data = changed("".join(as_json(record) + "\n" for record in records), random)
    put(windlass, "x.jsonl", data)
    assert_ends_well(windlass("import", "x.jsonl"))
    assert_ends_well(windlass("replay", "x.jsonl", "--policy", "everything"))
    listed = windlass("sessions", "--json")
    assert_ends_well(listed)
    for session in listed.json[:2]:
        assert_ends_well(windlass("show", session["session_id"]))
        assert_ends_well(windlass("report", session["session_id"], "--json"))


LONG: Final = "9" * 5_000


def test_numbers_of_thousands_of_digits_are_told(ran: CommandLine) -> None:
    """Which `int` refuses to read."""
    ran.write("t.xml", _TASKS[-1].replace('parallel="2"', f'parallel="{LONG}"'))
    (row, *_) = ran("query", "SELECT content_hash FROM unified_logs", "--json").json
    for words, told in (
        (["check", "t.xml"], "parallel must be a whole number from 1"),
        (["sessions", "--store", f"chdb://x?ttl_days={LONG}"], "ttl_days must be a whole number"),
        (
            ["callout", "s1", f"{row['content_hash']}-{LONG}", "x"],
            "no message of this session goes by",
        ),
    ):
        said = ran(*words)
        assert said.code == 2
        assert told in said.complaint


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("soundings", {"factor": 2, "evaluator_instructions": "Which?", "reforge": "Again."}),
        ("tackle", [["set_state", "state"]]),
        ("context", {"from": [], "include": [["output"]]}),
    ],
)
def test_values_of_another_kind_are_told(windlass: CommandLine, key: str, value: object) -> None:
    """Other spellings and warnings are looked for beside mistakes."""
    windlass.write("one.json", {**cascade(phase("a", **{key: value})), "memory": "notes"})
    said = windlass("check", "one.json")
    assert said.code == 2
    assert key in said.complaint
