"""Files of a repository that Windlass reads unasked: its settings, and originals of its hooks.

Whoever wrote the repository may have made them to hold up or to fill whatever reads them, and one
process reads them for all projects of a user.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.attacks.conftest import odd_words
from tests.cli.conftest import CommandLine
from tests.support.hooks_events import HookedAgent, after, bash, kept, log
from windlass.errors import StoreError, UsageError
from windlass.settings.fields import SettingFields
from windlass.settings.settings import Settings
from windlass_agents.kept_originals import originals_folder

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(os.name == "nt", reason="devices and pipes are POSIX's here"),
]

QUICK_S = 5.0
"""Far below what each of these took; the machine may be busy."""


def link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def text(written: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(written)

    return write


ODD_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a device without end": (link("/dev/zero"), "is not a regular file"),
    "a terminal": (link("/dev/tty"), "is not a regular file"),
    "a pipe": (os.mkfifo, "is not a regular file"),
    "a link to itself": (link("windlass.toml"), "cannot be read (Too many levels of symbolic"),
    "a folder": (Path.mkdir, "cannot be read (Is a directory)"),
    "numbers in a line": (text("a = [" + "1, " * 1_300_000 + "]"), "more than 100,000 bytes"),
    "numbers in lines": (text("a = [\n" + "1,\n" * 33_000 + "]"), "unknown setting 'a'"),
    "a dotted key": (text(".".join("a" * 20_000) + " = 1"), "nested more than 20 levels deep"),
    "quoted dotted keys": (text(' . "b" '.join("a" * 9_000) + "= 1"), "nested more than 20"),
    "dotted tables": (text(f"[{'.'.join('a' * 20_000)}]"), "nested more than 20 levels deep"),
    "lists in lists": (text("a = " + "[" * 90_000), "nested more than 20 levels deep"),
    "tables in tables": (text("a = " + "{a = " * 19_000), "nested more than 20 levels deep"),
    "lines of nothing": (text("\n" * 99_000 + "modell = 1"), ":99001: unknown setting 'modell'"),
    "a text without end": (text('model = """' + '""' * 45_000), "not TOML"),
    "unknown settings": (text("".join(f"a{n} = 1\n" for n in range(9_000))), "more mistakes"),
    "a long number": (text("max_output_tokens = 1" + "0" * 90_000), "more digits than"),
    "a long hexadecimal": (text("max_output_tokens = 0x" + "f" * 90_000), "more digits than"),
    "a long name": (text("a" * 90_000 + " = 1"), "unknown setting 'aaa"),
    "a long value": (text(f'tool_timeout_s = "{"a" * 90_000}"'), "must be a number above 0"),
    "a long path": (text(f'root = "{"a/" * 40_000}"'), "root must be a path"),
    "no path": (text('root = "a\\u0000b"'), "root must be a path"),
    "somebody's home": (text('store = "~nobody-here/x"'), "store must be a path"),
}


class TestSettings:
    @pytest.mark.parametrize("kind", ODD_FILES)
    def test_are_refused_in_a_sentence_at_once(self, windlass: CommandLine, kind: str) -> None:
        write, told = ODD_FILES[kind]
        write(windlass.folder / "windlass.toml")
        began = time.monotonic()
        said = windlass("config")
        assert time.monotonic() - began < QUICK_S
        assert (said.code, said.out) == (2, "")
        assert "Traceback" not in said.err
        assert told in said.err
        assert len(said.err) < 100_000
        assert all(len(line) < 2_000 for line in said.err.splitlines())

    def test_of_the_user_may_be_a_link(self, windlass: CommandLine, own_marks: Path) -> None:
        (windlass.folder / "mine.toml").write_text("max_output_tokens = 7")
        (own_marks / "windlass.toml").symlink_to(windlass.folder / "mine.toml")
        rows = {row["name"]: row for row in windlass("config", "--json").json}
        assert rows["max_output_tokens"]["value"] == 7

    @pytest.mark.parametrize(
        ("written", "line"),
        [
            ("# a = [\n\nmodell = 1", 3),
            ('headings = {task = """\n[x]\n""", fresh = 1}', 1),
            ("http_allow = [\n  'a', # ]\n  'b',\n]\nmodell = 1", 5),
            ("model = '''\na = 1 # '\n''''\nmodell = 1", 4),
            ('[prices."a/b.c"]\ninput = 1\noutput = "x"', 3),
            ("[cards]\nbatch_size = 2\nworkerz = 1", 3),
        ],
    )
    def test_lines_are_those_of_the_file(
        self, windlass: CommandLine, written: str, line: int
    ) -> None:
        windlass.write("windlass.toml", written)
        assert f"windlass.toml:{line}: " in windlass("config").complaint


NAMES = st.sampled_from(
    [*SettingFields.model_fields, "cards.workers", "providers.x", "prices.'a/b'"]
)
SCALARS = st.one_of(
    st.sampled_from(["1", "-1", "0x1F", "1e400", "nan", "inf", "true", "''", "[]", "{}", "'x/y'"]),
    st.sampled_from(["2020-01-01", "12:00:00", "'http://a'", "'clickhouse://'", "'../x'", "'~'"]),
    odd_words.map(lambda word: f'"{word}"'),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        st.lists(st.tuples(NAMES, inner), max_size=2).map(
            lambda pairs: f"{{{', '.join(f'{name} = {value}' for name, value in pairs)}}}"
        ),
    ),
    max_leaves=6,
)
STATEMENTS = st.one_of(
    st.tuples(NAMES, VALUES).map(" = ".join),
    NAMES.map(lambda name: f"[{name}]"),
    st.sampled_from(["input = 1", "output = 2", "base_url = 'http://127.0.0.1:1'", "key = 'K'"]),
    odd_words,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(statements=st.lists(STATEMENTS, max_size=8))
def test_any_text_gives_settings_or_a_sentence(tmp_path: Path, statements: list[str]) -> None:
    (tmp_path / "windlass.toml").write_bytes("\n".join(statements).encode("utf-8", "replace"))
    with suppress(UsageError):
        read = Settings.read({}, {}, tmp_path, user_folder=tmp_path / "user")
        read.rows()
        read.check_trust()


# ---- hooks --------------------------------------------------------------------------


def shown(agent: HookedAgent, call: str = "c1") -> Any:
    return agent.result(after(bash(log()), call))


def agents(tmp_path: Path) -> tuple[HookedAgent, HookedAgent]:
    """The agents of a stranger's project and of one's own, which one process answers."""
    made = []
    for name in ("theirs", "own"):
        (tmp_path / name).mkdir()
        made.append(HookedAgent(tmp_path / name))
    made[1].answering = made[0].answering
    return made[0], made[1]


class TestHooks:
    @pytest.mark.parametrize("kind", ["a device without end", "a pipe", "a dotted key"])
    def test_of_another_project_are_answered_whatever_one_holds(
        self, tmp_path: Path, kind: str
    ) -> None:
        theirs, own = agents(tmp_path)
        write, told = ODD_FILES[kind]
        write(theirs.folder / "windlass.toml")
        began = time.monotonic()
        with pytest.raises(UsageError) as refused:
            shown(theirs)
        assert told in str(refused.value)
        assert len(shown(own)["stdout"]) < len(log())
        assert time.monotonic() - began < QUICK_S
        assert theirs.lines()[-1].outcome == "error"

    def test_do_not_wait_for_the_settings_of_another_project(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        theirs, own = agents(tmp_path)
        begun, go_on, read = threading.Event(), threading.Event(), Settings.read

        def slow(*given: Any, **named: Any) -> Settings:
            if given[2] == theirs.folder:
                begun.set()
                assert go_on.wait(30)
            return read(*given, **named)

        monkeypatch.setattr(Settings, "read", slow)
        waiting = threading.Thread(target=shown, args=(theirs,), daemon=True)
        waiting.start()
        try:
            assert begun.wait(10)
            assert len(shown(own)["stdout"]) < len(log())
        finally:
            go_on.set()
            waiting.join()
        assert theirs.lines()[-1].outcome == "shortened"

    def test_of_one_conversation_that_begins_twice_at_once_have_one_thread(
        self, tmp_path: Path
    ) -> None:
        agent, _ = agents(tmp_path)
        calls = [f"c{number}" for number in range(6)]
        working = [threading.Thread(target=shown, args=(agent, call)) for call in calls]
        for each in working:
            each.start()
        for each in working:
            each.join()
        assert {line.call_id for line in agent.lines()} == {*calls}
        # The same result again refers to the first, whichever thread that was.
        assert "Same as" in str(shown(agent, "c9"))

    @pytest.mark.parametrize("plant", [os.mkfifo, link("/dev/zero"), link("windlass.toml")])
    def test_keep_originals_whatever_lies_in_their_place(
        self, tmp_path: Path, plant: Callable[[Path], None]
    ) -> None:
        first, again = agents(tmp_path)
        shown(first)
        (file,) = originals_folder(first.folder / ".windlass").iterdir()
        planted = originals_folder(again.folder / ".windlass") / file.name
        planted.parent.mkdir(parents=True)
        plant(planted)
        shown(again)
        assert kept(again.journal, file.stem).text == log()
        assert not planted.is_symlink()

    @pytest.mark.parametrize("plant", [os.mkfifo, link("/dev/zero"), text("[" * 200_000)])
    def test_originals_that_are_none_are_told(
        self, tmp_path: Path, plant: Callable[[Path], None]
    ) -> None:
        agent, _ = agents(tmp_path)
        shown(agent)
        (file,) = originals_folder(agent.folder / ".windlass").iterdir()
        file.unlink()
        plant(file)
        with pytest.raises(StoreError, match="cannot be read"):
            kept(agent.journal, file.stem)

    @pytest.mark.parametrize("plant", [os.mkfifo, link("/dev/zero"), text("[" * 200_000 + "\n")])
    def test_journals_that_are_none_have_no_lines(
        self, tmp_path: Path, plant: Callable[[Path], None]
    ) -> None:
        agent, _ = agents(tmp_path)
        journal = agent.journal.folder / "claude-code" / "s9.jsonl"
        journal.parent.mkdir(parents=True)
        plant(journal)
        assert list(agent.journal.lines("claude-code", "s9")) == []
        assert list(agent.journal.sessions()) == []


def test_a_blob_that_is_a_device_is_no_original(windlass: CommandLine) -> None:
    windlass.script = lambda _: "word " * 40_000
    windlass.write(
        "one.json", {"cascade_id": "one", "phases": [{"name": "a", "instructions": "Go."}]}
    )
    assert windlass("run", "one.json", "--session", "s1").code == 0
    (blob,) = (windlass.folder / ".windlass" / "blobs").glob("??/*")
    blob.unlink()
    blob.symlink_to("/dev/zero")
    began = time.monotonic()
    for words in (("recall", blob.name[:16]), ("show", "s1"), ("export", "s1")):
        said = windlass(*words)
        assert "Traceback" not in said.err
        assert said.code or "is missing" in said.err
    assert time.monotonic() - began < QUICK_S
