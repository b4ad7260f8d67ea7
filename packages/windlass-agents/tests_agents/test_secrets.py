"""With `--redact` nothing that a hook writes holds a credential, whatever happens; and git."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import CommandLine, windlass
from tests.support.hooks_agent import RecordingAgent, lines
from tests.support.hooks_events import HookedAgent, after, bash, log, output

from windlass.api.opening import open_store
from windlass.errors import StoreError, UsageError
from windlass.history.sqlite import SqliteStore
from windlass.settings.settings import Settings
from windlass_agents import shell_words
from windlass_agents.agent_events import is_recall
from windlass_agents.hook_journal import HookJournal
from windlass_agents.hooked_sessions import store_hooked

__all__ = ["windlass"]

KEY = "sk-proj-0123456789abcdefABCDEF"
SECRET = f"one\nOPENAI_API_KEY={KEY}\ntwo"
CLEAN = "one\nOPENAI_API_KEY=***\ntwo"


def said(call_id: str, text: object, **keys: Any) -> dict[str, Any]:
    told = {"session": "s1", "call_id": call_id, "tool": "bash", "arguments": {"command": "ls"}}
    return {**told, "text": text, **keys}


def holds_no_key(folder: Path) -> bool:
    """Whether the key stands in no file and no name; some files must be there."""
    paths = [*(folder / ".windlass").rglob("*")]
    assert any(path.is_file() for path in paths)
    data = [path.read_bytes() for path in paths if path.is_file()]
    return not any(KEY in str(path) for path in paths) and not any(KEY.encode() in d for d in data)


WAYS: dict[str, dict[str, Any]] = {
    "failed": {"failed": True},
    "fetched back": {"arguments": {"command": "windlass recall result_1234abcd"}},
    "with a comment": {"arguments": {"command": "cat .env # windlass recall"}},
    "in the arguments": {"arguments": {"command": f"export API_KEY={KEY}", "more": [KEY]}},
    "as the call's id": {"call_id": KEY},
    "as the tool": {"tool": KEY},
    "as the session": {"session": KEY, "thread": KEY},
    "long": {"text": log().replace("worker-300 ", f"token={KEY} ")},
    "earlier": {"earlier": [{"call_id": KEY, "tool": "t", "arguments": {"k": KEY}, "text": KEY}]},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", [(), ("--holdout", "99.99%")], ids=["", "held out"])
def test_no_way_leads_around_it(tmp_path: Path, way: str, options: tuple[str, ...]) -> None:
    agent = HookedAgent(tmp_path, "--redact", *options, name="plain")
    for at in range(2):  # the second refers to the first
        told = agent.tell({**said(f"c{at}", SECRET), **WAYS[way]})
        shown = told["text"]
        assert KEY not in shown
        assert way == "long" or at or shown == CLEAN
    assert holds_no_key(tmp_path)


def test_a_late_answer_leaves_none(tmp_path: Path) -> None:
    agent = HookedAgent(tmp_path, "--redact", name="plain")
    answer = agent.answer(said("c1", f"{log()}\nkey={KEY}"))
    answer.take_back()
    assert holds_no_key(tmp_path)


@pytest.mark.parametrize("name", ["plain", "claude-code"])
@pytest.mark.parametrize("broken", ["settings", "option", "policy", "store", "disk"])
def test_what_is_broken_does_not_turn_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, broken: str
) -> None:
    options = {"option": ("--polcy", "lean"), "policy": ("--policy", "no such policy")}
    agent = HookedAgent(tmp_path, "--redact", *options.get(broken, ()), name=name)
    if broken == "settings":
        (tmp_path / "windlass.toml").write_text("[prices\n")
    elif broken == "store":
        (tmp_path / ".windlass").write_text("a file")
    elif broken == "disk":

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(HookJournal, "write", fail)
    told = after(bash(SECRET)) if name == "claude-code" else said("c1", SECRET)
    answer = agent.answer(told)
    shown = json.loads(answer.text)
    assert (output(shown)["stdout"] if name == "claude-code" else shown["text"]) == CLEAN
    assert answer.failure  # which is counted
    with pytest.raises((OSError, UsageError)):  # nothing to take out: it stays as it is
        agent.tell(after(bash(log())) if name == "claude-code" else said("c2", log()))


def test_the_store_has_none_of_the_transcript(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path, "s1", "--redact")
    agent.write("user", {"role": "user", "content": f"my token={KEY} is"})
    agent.run("Bash", {"command": f"export K={KEY}; make"}, {**bash(lines("x")), "stdout": SECRET})
    agent.run("Bash", {"command": "make"}, bash(f"{lines('object')}\n{SECRET}"))
    agent.run("Bash", {"command": "ls"}, bash("main.c"))
    [stored] = store_hooked(agent.store, "claude-code", "s1")
    assert holds_no_key(tmp_path)
    settings = Settings.read({"store": str(agent.store)}, {}, tmp_path)
    with open_store(settings, existing=True) as store:
        texts = [row.row.message.text for row in store.rows(stored.session_id) if row.row.message]
    assert CLEAN in texts
    assert any("object 899" in text and "OPENAI_API_KEY=***" in text for text in texts)


def test_what_was_seen_before_is_kept_without_one(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    secret = f"{SECRET}\n" + "\n".join(f"part {at} of src/part_{at}.py" for at in range(60))
    agent.run("Bash", {"command": "cat a"}, bash(secret))  # without the option
    agent.arguments = ("claude-code", "--redact")
    shown = agent.run("Bash", {"command": "cat b"}, bash(secret))["stdout"]
    assert shown.startswith("[Same as Bash cat a, result_")
    originals = (agent.store / "hooks" / "originals").iterdir()
    assert not any(KEY in path.read_text() for path in originals)


# ---- what is our own command --------------------------------------------------------------

NONE_OF_OURS = [
    "cat .env # windlass recall",
    "cat .env # windlass recall result_1234abcd",
    "windlass recall result_1234abcd; cat .env",
    "windlass recall result_1234abcd\ncat .env",
    "windlass recall result_1234abcd & cat .env",
    "windlass recall result_1234abcd && cat .env",
    "windlass recall result_1234abcd || cat .env",
    "windlass recall $(cat .env)",
    'windlass recall "`cat .env`"',
    "echo windlass recall result_1234abcd",
    "cat 'windlass recall result_1234abcd'",
    "cat <(windlass recall result_1234abcd)",
    "cd x && cat .env | windlass recall result_1234abcd",
    "windlass recall result_1234abcd | xargs cat .env",
    "windlass recall",
    "my-windlass recall result_1234abcd",
]


@pytest.mark.parametrize("command", NONE_OF_OURS)
def test_a_recall_is_recognised_by_its_whole_command(command: str) -> None:
    assert not is_recall("Bash", {"command": command})


@pytest.mark.parametrize(
    "command",
    [
        "windlass recall result_1234abcd --grep 'a|b; $(c) # d' 2>&1 | head -20",
        'WINDLASS_STORE=x windlass recall result_1234abcd --grep "foo$"',
        "cd /p; python3.12 -P /x/windlass/__main__.py recall result_1234abcd | grep x | tail -1",
    ],
)
def test_a_recall_may_be_filtered(command: str) -> None:
    assert is_recall("Bash", {"command": command})


@given(st.text(), st.sampled_from(["", ";", "\n", "&&", "|", "#", "$(", "`", "'", '"']))
def test_any_text_is_a_command_or_none(text: str, mark: str) -> None:
    for command in (text, f"windlass recall result_1234abcd {mark}{text}", f"{text}{mark} x"):
        shell_words.is_recall(command)
        shell_words.is_hook_run(command)


@pytest.mark.parametrize(
    ("tool", "is_ours"),
    [
        ("mcp__windlass__recall", True),
        ("mcp__plugin_windlass_windlass__recall", True),
        ("windlass_recall", True),
        ("mcp__windlass_notes__total_recall", False),
        ("mcp__notes__windlass_and_recall", False),
    ],
)
def test_the_tool_is_recognised_by_its_whole_name(tool: str, is_ours: bool) -> None:
    assert is_recall(tool, {}) == is_ours


# ---- git ----------------------------------------------------------------------------------


def added(folder: Path) -> list[str]:
    """What `git add -A` would commit."""
    git = ["git", "-c", "safe.directory=*", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    listed = subprocess.run([*git, "ls-files"], capture_output=True, text=True, check=True)
    return listed.stdout.split()


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
BEFORE: dict[str, bytes | None] = {
    "no folder": None,
    "no rules": b"-",
    "other rules": b"*\n!*\n!hooks/\n",
    "without an end": b"# mine",
    "too many": b"#" * 100_000,
}


@needs_git
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("who", ["hook", "store", "both"])
def test_git_never_gets_what_is_recorded(tmp_path: Path, before: str, who: str) -> None:
    store, rules = tmp_path / ".windlass", BEFORE[before]
    if rules is not None:
        store.mkdir()
        if rules != b"-":
            (store / ".gitignore").write_bytes(rules)
    if who != "store":
        HookedAgent(tmp_path).result(after(bash(log())))
    if who != "hook":
        SqliteStore(store).close()
    assert added(tmp_path) == []
    kept = (store / ".gitignore").read_bytes().splitlines()
    assert kept[-1] == b"*"
    if rules is not None and b"!" in rules:
        assert kept[:-1] == rules.splitlines()


@needs_git
def test_rules_that_are_a_link_are_replaced(tmp_path: Path) -> None:
    store, others = tmp_path / ".windlass", tmp_path / "rules"
    store.mkdir()
    others.write_text("mine")
    (store / ".gitignore").symlink_to(others)
    HookedAgent(tmp_path).result(after(bash(log())))
    assert added(tmp_path) == ["rules"]
    assert others.read_text() == "mine"


def test_a_store_that_nobody_named_is_no_link(windlass: CommandLine) -> None:
    docs, link = windlass.folder / "docs", windlass.folder / ".windlass"
    phase = {"name": "a", "instructions": "Say it."}
    docs.mkdir()
    link.symlink_to(docs)
    with pytest.raises(StoreError, match="is a link, and nobody named it"):
        HookedAgent(windlass.folder).tell(after(bash(log())))
    for words in (
        ("sessions",),
        ("recall", "result_1234abcd"),
        ("hook", "status"),
        ("run", windlass.write("c.json", {"cascade_id": "c", "phases": [phase]})),
    ):
        said = windlass(*words)
        assert said.code != 0, words
        assert "is a link, and nobody named it" in said.complaint, words
    assert list(docs.iterdir()) == []
    HookedAgent(windlass.folder, "--store", ".windlass").tell(after(bash(log())))
    assert {path.name for path in docs.iterdir()} == {"hooks", ".gitignore"}
