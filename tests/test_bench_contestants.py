"""Contestants, Windlass and other packages among them, are handed the right messages."""

from __future__ import annotations

import gzip
import io
import json
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench.bench_windows import Task, available, measure
from bench.windows.contestants import MaskEveryTurn, make, options_of
from bench.windows.measure import Bench
from bench.windows.peers.lines import serve
from bench.windows.prices import VECTORS
from bench.windows.recordings import Chat, load, read
from bench.windows.validity import chat_problems

import windlass
from tests.support.bench_windows import RUN, calls, result, user

ANTHROPIC = VECTORS[0]


class TestContestants:
    def test_masking_hides_results_older_than_its_turns_and_keeps_pairs(self) -> None:
        messages = [user("go")]
        for number in range(4):
            messages += [calls(str(number)), result(str(number), "x" * 200)]
        window = MaskEveryTurn(2).window(messages, 0)
        hidden = [at for at, chat in enumerate(window) if chat != messages[at]]
        assert hidden == [2, 4]
        assert chat_problems(window) == []

    def test_options_are_json_or_text(self) -> None:
        assert options_of("a=1,b=x,c=true") == {"a": 1, "b": "x", "c": True}

    def test_an_unknown_one_lists_the_known(self) -> None:
        with pytest.raises(ValueError, match="mask:TURNS"):
            make("nobody", ANTHROPIC)

    def test_one_that_cannot_run_here_is_skipped_with_a_line(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("bench.windows.peer.python_of", Path)
        assert available(["everything", "langchain"]) == ["everything"]
        assert "make peers" in capsys.readouterr().err


class Planned:
    """Stands for `windlass.Context`: notes how it was made, shows what it was given."""

    def __init__(self, **made: Any) -> None:
        self.made = made
        self.given: list[Chat] = []

    def append(self, chat: Chat) -> None:
        self.given.append(chat)

    def window(self) -> SimpleNamespace:
        return SimpleNamespace(messages=list(self.given), breakpoints=((-1, 0), (0, 0)))


class TestWindlass:
    @pytest.fixture
    def contexts(self, monkeypatch: pytest.MonkeyPatch) -> list[Planned]:
        made: list[Planned] = []

        def context(**keywords: Any) -> Planned:
            made.append(Planned(**keywords))
            return made[-1]

        monkeypatch.setattr(windlass, "Context", context, raising=False)
        monkeypatch.setattr(windlass, "Prices", dict, raising=False)
        return made

    def test_is_run_once_a_vector_at_its_prices(self, contexts: list[Planned]) -> None:
        task = Task(0, RUN, ("windlass:lean",), VECTORS, "chat")
        found = measure(task)
        assert [made.made["prices"]["write"] for made in contexts] == [1.25, 1.25, 1.25, 1.0, 1.0]
        assert contexts[0].made["policy"] == "lean"
        assert [outcome.ratio for outcome in found.outcomes.values()] == [1.0] * 5

    def test_that_commits_at_once_is_run_once(self, contexts: list[Planned]) -> None:
        name = "windlass:lean,commit=at_once,max_input_tokens=9"
        measure(Task(0, RUN, (name,), VECTORS, "chat"))
        assert len(contexts) == 1
        assert contexts[0].made["policy"] == {"profile": "lean", "commit": "at_once"}
        assert contexts[0].made["max_input_tokens"] == 9

    def test_cuts_at_the_sizes_of_its_name(self) -> None:
        text = "\n".join(f"dock {at} is open" for at in range(180))
        task = user("Go on. " * 1_000)
        chats = [task, calls("1", command="./run.sh"), result("1", text)]
        lengths = []
        for name in ("windlass:default", "windlass:default,cut.command=200/100"):
            one = make(name, ANTHROPIC)
            one.begin(RUN)
            lengths.append(len(str(one.window(chats, 0)[-1]["content"])))
        assert lengths[1] < 700 < lengths[0]

    def test_is_told_each_message_once(self, contexts: list[Planned]) -> None:
        Bench(RUN).run(make("windlass:", ANTHROPIC))
        assert contexts[0].given == list(RUN.messages[:5])


class TestPeers:
    def test_lines_name_messages_by_place_and_carry_what_changed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Last:
            def __init__(self, word: str) -> None:
                self.word, self.count = word, 0

            def window(self, new: list[Chat]) -> list[int | Chat]:
                if not new:
                    raise ValueError("nothing new")
                self.count += len(new)
                return [self.count - 1, user(self.word)]

        told: list[dict[str, Any]] = [
            {"begin": {"word": "hidden"}},
            {"append": [user("a")]},
            {"append": []},
        ]
        answers = io.StringIO()
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(map(json.dumps, told))))
        monkeypatch.setattr("sys.stdout", answers)
        serve(Last)
        first, second = map(json.loads, answers.getvalue().splitlines())
        assert first["window"] == [0, user("hidden")]
        assert second == {"error": "ValueError: nothing new"}

    def test_headroom_is_told_what_stands_as_it_tells_its_callers(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[tuple[list[str], Any]] = []

        def compress(messages: list[Chat], **options: Any) -> SimpleNamespace:
            told.append(([str(chat["content"]) for chat in messages], options))
            return SimpleNamespace(messages=[user(f"{chat['content']}!") for chat in messages])

        monkeypatch.setitem(sys.modules, "headroom", SimpleNamespace(compress=compress))
        peer = import_module("bench.windows.peers.headroom")
        monkeypatch.delitem(sys.modules, "bench.windows.peers.headroom")
        for options in ({}, {"frozen": True}):
            one = peer.Compressed(**options)
            one.window([user("a"), user("b")])
            assert one.window([user("c")])[-1] == user("c!")
        assert [messages for messages, _ in told[1::2]] == [["a", "b", "c"], ["a!", "b!", "c"]]
        assert [options.get("frozen_message_count") for _, options in told] == [None, None, 0, 2]


class TestRecordings:
    def test_a_file_line_becomes_a_recording(self) -> None:
        rows = [
            {"message": 1, "value": 17, "said": False},
            {"message": 1, "value": "A-17", "said": True},
        ]
        told = {"id": "s/1", "messages": [user("go")], "argument_sources": rows}
        assert read(told, "s").used == {1: ("17",)}

    def test_sessions_of_people_are_recordings_of_chats(self, tmp_path: Path) -> None:
        said = ({"role": "user", "content": "go"}, {"role": "assistant", "content": "Done."})
        lines = [
            {"type": chat["role"], "uuid": str(at), "sessionId": "s", "message": chat}
            for at, chat in enumerate(said)
        ]
        folder = tmp_path / "raw/agent_sessions"
        folder.mkdir(parents=True)
        text = "\n".join(map(json.dumps, lines)).encode()
        (folder / "one__claude__1.jsonl.gz").write_bytes(gzip.compress(text))
        (folder / "one__codex__1.jsonl.gz").write_bytes(gzip.compress(text))
        (one,) = load(tmp_path, ["sessions_claude"])
        assert one.source == "sessions_claude"
        assert [(chat["role"], chat["content"]) for chat in one.messages] == [
            ("user", "go"),
            ("assistant", "Done."),
        ]

    def test_each_assistant_message_but_the_first_is_a_call(self) -> None:
        assert RUN.calls == (3, 5)
