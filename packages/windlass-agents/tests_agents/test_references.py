"""Every reference that a model is shown can be fetched: at once, later, and from elsewhere."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as command_line
from tests.support.hooks_agent import RecordingAgent
from tests.support.hooks_events import HookedAgent, after, bash, listing, log

from windlass.errors import UsageError
from windlass.importing.streams import recordings
from windlass.settings.settings import Settings
from windlass_agents import client, project_stores
from windlass_agents._mcp_answers import ToolAnswers
from windlass_agents.handler import HookHandler
from windlass_agents.hooked_sessions import store_hooked
from windlass_agents.project_stores import note_store, usual_store
from windlass_agents.recalled import Recall, recalled

__all__ = ["command_line"]

REFERENCE = re.compile(r"result_[0-9a-f]{8}")
SAME = re.compile(r"\[Same as .*, (result_[0-9a-f]{8})\]")
LINES = re.compile(r"\[(\d+)-(\d+) of (result_[0-9a-f]{8})(?: ([^\s,\]]+))?(?:, .*)?\]")
KEY = "sk-proj-0123456789abcdefABCDEF"

RECORDS = json.dumps([{"id": at, "name": f"user {at}", "city": "Oslo"} for at in range(150)])
POOL = (
    listing(),
    listing(60),
    listing() + "\n" + listing(30, "module"),
    "before\n" + listing() + "\nafter",
    log(400),
    log(400).replace("worker-7 ", "helper-7 "),
    log(380) + "\n" + listing(),
    RECORDS,
    json.dumps({"rows": json.loads(RECORDS)}, indent=2),
    "\r\n".join(f"line {at} of a file for Windows\x1b[0m" for at in range(40)),
    f"{listing(20)}\nAPI_KEY={KEY}\n{listing(20, 'other')}",
    "done",
)


def fetched(ref: str, folder: Path, **asked: str) -> str:
    """What `windlass recall` finds in a folder."""
    with contextlib.chdir(folder):
        return recalled(Recall(ref, **asked))


@dataclass
class Talk:
    """Whatever was shown in a project: texts of results, and how the agent tells a hook."""

    folder: Path
    redact: bool = False
    shown: list[tuple[str, str]] = field(default_factory=list)
    """Each result, as the tool gave it and as its model saw it."""

    def check(self, *folders: Path) -> None:
        """Every reference that was shown can be fetched from each folder, and is what it says."""
        for given_text, seen in self.shown:
            own = set(REFERENCE.findall(seen)) - set(REFERENCE.findall(given_text))
            for folder in folders:
                for ref in own:
                    assert fetched(ref, folder)
                    assert KEY not in fetched(ref, folder) or not self.redact
                if same := SAME.fullmatch(seen):
                    original = fetched(same[1], folder)
                    told = given_text.replace(KEY, "***") if self.redact else given_text
                    assert original == told or json.loads(original) == json.loads(told)
                for first, last, ref, path in LINES.findall(seen):
                    part = fetched(ref, folder, lines=f"{first}:{last}", path=path)
                    assert part.count("\n") == int(last) - int(first)
                    assert part.replace(KEY, "***") in given_text.replace(KEY, "***")


STEPS = st.lists(
    st.tuples(
        st.integers(0, len(POOL) - 1),
        st.sampled_from(["", "", "", "restart", "store", "subagent", "compact"]),
        st.sampled_from(["make", "cat a", "grep -rn part .", "write"]),
    ),
    min_size=2,
    max_size=7,
)


@settings(max_examples=40, deadline=None)
@given(STEPS, st.booleans())
def test_in_any_session_that_is_recorded(
    tmp_path_factory: pytest.TempPathFactory, steps: Sequence[tuple[int, str, str]], redact: bool
) -> None:
    folder = tmp_path_factory.mktemp("project")
    deep = folder / "src" / "deep"
    deep.mkdir(parents=True)
    agent = RecordingAgent(folder, "s1", *(["--redact"] if redact else []))
    agent.run("Bash", {"command": "true"}, bash("begun"))
    side: RecordingAgent | None = None
    talk = Talk(folder, redact)
    for drawn, moment, command in steps:
        if moment == "restart":
            agent.answering = HookHandler(lambda: 1_000_000.0)
        if moment == "store":
            store_hooked(agent.store, "claude-code", "s1")
        if moment == "compact":
            agent.ask("PostCompact")
        if moment == "subagent":
            side = side or agent.subagent("a1")
            side.answering = agent.answering
        one = side if side and moment == "subagent" else agent
        if command == "write":  # what the model wrote itself is in view, too
            given_file = {"file_path": "/p/a", "content": POOL[drawn]}
            one.run("Write", given_file, {"type": "create", "filePath": "/p/a"}, text="Created.")
        seen = one.run("Bash", {"command": command}, bash(POOL[drawn]))["stdout"]
        talk.shown.append((POOL[drawn], seen))
        talk.check(folder, deep)
    agent.answer([{"type": "text", "text": "Done."}])
    store_hooked(agent.store, "claude-code", "s1")
    talk.check(folder)


@settings(max_examples=40, deadline=None)
@given(STEPS, st.booleans())
def test_in_any_session_that_nobody_records(
    tmp_path_factory: pytest.TempPathFactory, steps: Sequence[tuple[int, str, str]], redact: bool
) -> None:
    folder = tmp_path_factory.mktemp("project")
    agent = HookedAgent(folder, *(["--redact"] if redact else []), name="opencode")
    talk = Talk(folder, redact)
    for at, (drawn, moment, command) in enumerate(steps):
        if moment == "restart":
            agent.answering = HookHandler(lambda: 1_000.0)
        if moment == "store" and at:
            store_hooked(folder / ".windlass", "opencode", "s1")
        if moment == "compact":
            agent.tell({"session": "s1", "moment": "compacted"})
        told = agent.tell(
            {
                "session": "s1",
                "call_id": f"c{at}",
                "tool": "bash",
                "text": POOL[drawn],
                **({"thread": "t1"} if moment == "subagent" else {}),
                "arguments": {"command": command},
            }
        )
        talk.shown.append((POOL[drawn], told.get("text", POOL[drawn])))
        talk.check(folder)
    store_hooked(folder / ".windlass", "opencode", "s1")
    talk.check(folder)


def test_lines_of_what_the_model_wrote(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    agent.run("Write", {"file_path": "/a", "content": listing()}, {"type": "create"}, text="Done.")
    seen = agent.run("Bash", {"command": "cat /a"}, bash(listing()))["stdout"]
    [(first, last, ref, path)] = LINES.findall(seen)
    assert (first, last, path) == ("1", "40", "content")
    assert fetched(ref, tmp_path, path=path) == listing()
    assert fetched(ref, tmp_path, path=path, lines="30:31") == "\n".join(
        listing().split("\n")[29:31]
    )
    with pytest.raises(UsageError, match="no 'contents'"):
        fetched(ref, tmp_path, path="contents")
    asked = ToolAnswers(Settings.read({"store": str(agent.store)}), tmp_path)
    try:
        assert asked.recall(f"{ref} content", lines="2") == listing().split("\n")[1]
    finally:
        asked.close()


def test_a_repeat_of_a_result_that_was_shown_whole(tmp_path: Path) -> None:
    for name in ("plain", "claude-code"):
        folder = tmp_path / name
        folder.mkdir()
        agent = HookedAgent(folder, name=name)
        seen = []
        for call_id in ("c1", "c2"):
            told = {"session": "s", "call_id": call_id, "tool": "bash", "text": listing()}
            answer = agent.tell(after(bash(listing()), call_id) if name != "plain" else told)
            seen.append(answer)
        assert seen[0] in (None, {})
        [ref] = REFERENCE.findall(json.dumps(seen[1]))
        assert fetched(ref, folder) == listing()


# ---- where it is asked for ----------------------------------------------------------------


def repeat(agent: RecordingAgent, text: str = listing()) -> str:
    """The reference that stands for a text which the model saw before."""
    for _ in range(2):
        seen = agent.run("Bash", {"command": "cat a"}, bash(text))["stdout"]
    [ref] = REFERENCE.findall(seen)
    return str(ref)


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs git in a folder."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    for name in (
        "GIT_AUTHOR_NAME",
        "GIT_COMMITTER_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_EMAIL",
    ):
        monkeypatch.setenv(name, "a@b.c")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))

    def run(folder: Path, *words: str) -> None:
        subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)

    return run


@pytest.fixture
def trees(tmp_path: Path, git: Callable[..., None]) -> tuple[Path, Path]:
    """A repository with a folder in it, and a linked working tree beside it."""
    main, linked = tmp_path / "main", tmp_path / "linked"
    (main / "src").mkdir(parents=True)
    (main / "src" / "a.py").write_text("a\n")
    git(main, "init", "-q")
    git(main, "add", "-A")
    git(main, "commit", "-qm", "a")
    git(main, "worktree", "add", "-q", str(linked))
    return main, linked


def test_from_every_working_tree(trees: tuple[Path, Path], git: Callable[..., None]) -> None:
    main, linked = trees
    refs = [repeat(RecordingAgent(folder)) for folder in (main, linked)]
    for ref in refs:
        for folder in (main, linked, linked / "src", main / "src"):
            assert fetched(ref, folder) == listing()
    (linked / ".windlass").mkdir()  # a run may have made it
    assert fetched(refs[0], linked) == listing()
    git(main, "worktree", "remove", "--force", str(linked))
    for ref in refs:  # what was kept stays when a tree is removed
        assert fetched(ref, main) == listing()


def test_in_a_working_tree_of_a_bare_repository(tmp_path: Path, git: Callable[..., None]) -> None:
    source, bare = tmp_path / "source", tmp_path / "all" / "repo.git"
    source.mkdir()
    git(source, "init", "-q")
    git(source, "commit", "-q", "--allow-empty", "-m", "a")
    git(tmp_path, "clone", "-q", "--bare", str(source), str(bare))
    one, two = tmp_path / "all" / "one", tmp_path / "all" / "two"
    for tree in (one, two):
        git(bare, "worktree", "add", "-q", "-b", tree.name, str(tree))
    ref = repeat(RecordingAgent(one))
    assert (one / ".windlass").is_dir()
    assert fetched(ref, two) == listing()


def test_nobody_can_claim_a_working_tree_of_others(
    trees: tuple[Path, Path], tmp_path: Path
) -> None:
    main, linked = trees
    ref = repeat(RecordingAgent(main))
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    shutil.copy(linked / ".git", stranger / ".git")
    assert usual_store(stranger) == stranger / ".windlass"
    with pytest.raises(UsageError):
        fetched(ref, stranger)
    for content in ("", "gitdir: ", "gitdir: /\n", "x" * 10_000, "gitdir: ../main/.git\n"):
        (stranger / ".git").write_text(content)
        assert usual_store(stranger) == stranger / ".windlass"


def test_from_anywhere_where_a_hook_noted_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    agent = RecordingAgent(tmp_path / "project", "s1", "--store", str(tmp_path / "mine"))
    agent.answering = HookHandler(lambda: 1.0, None, note_store)
    ref = repeat(agent)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".windlass").mkdir(parents=True)
    for folder in (agent.folder, elsewhere):
        assert fetched(ref, folder) == listing()
    with pytest.raises(UsageError):  # a store that is named is the only one
        fetched(ref, elsewhere, store=".windlass")
    for at in range(3):
        note_store(tmp_path / f"s{at % 2}")
    file = Path(client.own_folder(), project_stores._STORES)
    assert file.read_text().splitlines() == [str(tmp_path / name) for name in ("mine", "s0", "s1")]


def test_where_settings_name_another_store(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    ref = repeat(agent)
    (tmp_path / "windlass.toml").write_text('store = "runs"\n')
    assert fetched(ref, tmp_path) == listing()


# ---- other ways in and out ----------------------------------------------------------------


def test_what_was_fetched_names_can_be_fetched_too(tmp_path: Path) -> None:
    agent = RecordingAgent(tmp_path)
    text = log()
    first = agent.run("Bash", {"command": "make"}, bash(text))["stdout"]
    agent.answering = HookHandler(lambda: 1.0)
    agent.run("Bash", {"command": "cat log"}, bash("\n".join([*text.split("\n")[:30], "x"])))
    asked = ToolAnswers(Settings.read({"store": str(agent.store)}), tmp_path)
    try:
        for file in (agent.store / "hooks" / "originals").iterdir():
            quoted = asked.recall(file.stem)
            for ref in REFERENCE.findall(quoted):
                assert asked.recall(ref)
        [ref] = set(REFERENCE.findall(first))
        assert asked.recall(ref, lines="300:310").split("\n") == text.split("\n")[299:310]
    finally:
        asked.close()


def test_of_an_imported_session(command_line: CommandLine) -> None:
    agent = RecordingAgent(command_line.folder / "work", "s1")
    ref = repeat(agent)
    agent.answer([{"type": "text", "text": "Done."}])
    assert list(recordings(agent.transcript))
    said = command_line("import", str(agent.transcript))
    assert said.code == 0
    shown = command_line("sessions", "--json").json[0]["session_id"]
    call = command_line("explain", shown, "2", "--json").json
    names = set(REFERENCE.findall(json.dumps(call)))
    assert names
    for name in names - {ref}:
        assert command_line("recall", name).code == 0
    assert command_line("recall", ref, "--store", str(agent.store)).out == listing()


def test_of_a_run(command_line: CommandLine) -> None:
    from tests.engine.harness import call, calls, cascade, phase

    command_line.write("data.log", log(900))
    command_line.write("list.txt", listing())
    command_line.write("c.json", cascade(phase("a", tackle=["read_file"]), auto_context=True))
    asked = [
        calls(call("read_file", json.dumps({"path": name})))
        for name in ("data.log", "list.txt", "data.log", "list.txt")
    ]
    answers: list[Any] = [*asked, "Done."]
    command_line.script = lambda _: answers.pop(0)
    said = command_line("run", "c.json", "--session", "s1")
    assert said.code == 0, said.err
    refs = {
        ref
        for request in command_line.requests
        for message in request.messages
        for ref in REFERENCE.findall(message.text)
    }
    assert refs
    for ref in refs:
        assert command_line("recall", ref).code == 0
