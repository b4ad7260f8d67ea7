"""`client.windlass.save`: a wrapped client's calls, read in a store as those of a run."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from tests_inspector.conftest import signed_in

import windlass as library
from tests.cli.conftest import CommandLine, windlass
from tests.context import loops
from tests.context.doors import ASYNC_DOORS, DOORS, broken, scripted, through
from tests.context.loops import LOOPS, claude_request
from tests.providers.model_server import ModelServer, log, model_server, reads_logs
from tests.providers.server import streamed, whole
from windlass.caching.rates import money
from windlass.context import _threads
from windlass.errors import UsageError
from windlass.history.base import NodeType, Store
from windlass.history.row_details import ReplyDetails
from windlass.history.sqlite import SqliteStore
from windlass.report.call_views import view_session

__all__ = ["windlass"]

CLIENTS: dict[str, Callable[[], Any]] = {
    "anthropic": lambda: anthropic.Anthropic(max_retries=0),
    "openai": lambda: openai.OpenAI(max_retries=0),
    "responses": lambda: openai.OpenAI(max_retries=0),
    "gemini": genai.Client,
}
LEAN = {"profile": "lean", "commit": "at_once"}
every_form = pytest.mark.parametrize("form", LOOPS)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server(reads_logs(8)) as served:
        served.lead(monkeypatch)
        yield served


@pytest.fixture
def claude(server: ModelServer) -> Iterator[Any]:
    with anthropic.Anthropic(max_retries=0) as client:
        yield client


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def opened(store: Path) -> Store:
    return SqliteStore.open_existing(store, reading=True)


def ask(client: Any, messages: list[Any], **more: Any) -> Any:
    return client.messages.create(**{**claude_request(messages), **more})


def history(turns: int, task: str = "Read all logs.") -> list[Any]:
    listed: list[Any] = [{"role": "user", "content": task}]
    for at in range(turns):
        use = {"type": "tool_use", "id": f"call_{at}", "name": "read_log", "input": {"number": at}}
        result = {"type": "tool_result", "tool_use_id": f"call_{at}", "content": log(at)}
        listed += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return listed


def agree(windlass: CommandLine, store: Path, report: Any) -> None:
    """What `str(report)` says is what `windlass report` says of the saved sessions."""
    listed = windlass("sessions", "--store", str(store), "--json", "--limit", "999").json
    own = [one["session_id"] for one in listed if one["session_id"].startswith("wrap-")]
    totals = [windlass("report", name, "--store", str(store), "--json").json for name in own]
    totals = [one["total"] for one in totals]
    assert sum(one["calls"] for one in totals) == len(report.answered)
    cost = sum(one["dollars"] or 0.0 for one in totals)
    plain = sum(one["snowball_dollars"] or 0.0 for one in totals)
    assert cost == pytest.approx(report.cost)
    assert plain == pytest.approx(report.plain_cost)
    assert money(cost) in str(report)
    assert sum(one["tokens_in"] for one in totals) == sum(
        call.usage.tokens_in for call in report.answered if call.usage
    )
    assert windlass("verify", "--store", str(store)).code == 0


class TestLoops:
    @every_form
    def test_every_command_reads_a_saved_session(
        self, form: str, server: ModelServer, store: Path, windlass: CommandLine
    ) -> None:
        with closing(CLIENTS[form]()) as plain:
            client = library.wrap(plain, LEAN)
            LOOPS[form](client)
        report = client.windlass
        saved = report.save(store)
        (name,) = saved.sessions
        assert (saved.calls, saved.bare) == (9, 0)
        agree(windlass, store, report)
        with opened(store) as kept:
            view = view_session(kept, name)
            rows = list(kept.rows(name))
            calls = kept.calls(name)
        # The system prompt, the task, and a reply and a result for each log: each of them once.
        assert sum(one.row.message is not None for one in rows) == 2 + 2 * 8 + 1
        assert [call.number for call in view.calls] == [*range(1, 10)]
        for call, own in zip(view.calls, report.calls, strict=True):
            assert call.tokens_in == own.usage.tokens_in
            assert call.tokens_cached == own.usage.tokens_cached
            assert call.cost == own.cost
            assert call.tool_names == ("read_log",)
            assert len(call.seen) == 2 * call.number
        replies = [ReplyDetails.read(one.row) for one in rows]
        written = [one.tokens_written for one in replies if one is not None]
        assert written == [call.usage.tokens_written for call in report.calls]
        shortened = [one for one in view.calls[-1].seen if one.edit and one.role == "tool"]
        assert len(shortened) == sum(
            one.original is not None and log(at)[:30] in one.original.text
            for at, one in enumerate(shortened)
        )
        assert len(shortened) >= 5
        assert all(one.shown_as for one in calls[-1].shown if one.because)
        said = {
            words: windlass(*words.split(), "--store", str(store)).out
            for words in (
                f"show {name} --call 9",
                f"report {name} --call 9",
                f"report {name} --prefix",
                f"explain {name} 9",
                f"replay {name}",
                f"export {name}",
                f"diff {name} {name}",
                "sessions",
            )
        }
        assert all(said.values())
        assert "shortened: digest" in said[f"explain {name} 9"]
        assert "profile lean" in said[f"explain {name} 9"]
        assert loops.TASK[:30] in said["sessions"]
        assert money(report.cost) in said[f"replay {name}"]
        reference = report.calls[-1].changes[0].reference if report.calls[-1].changes else ""
        for change in [one for call in report.calls for one in call.changes][:3]:
            again = windlass("recall", change.reference, "--store", str(store))
            assert again.code == 0, (reference, again.err)

    def test_the_inspector_shows_it(self, claude: Any, store: Path) -> None:
        client = library.wrap(claude, LEAN)
        loops.claude(client)
        (name,) = client.windlass.save(store).sessions
        with opened(store) as kept:
            pages = signed_in(kept)
            with pages.client:
                assert "a conversation of a wrapped client" in pages.get(f"/session/{name}").text
                assert "Next is log 7." in pages.get(f"/session/{name}/call/9").text
                assert money(client.windlass.cost) in pages.get("/").text

    @every_form
    def test_an_async_client_saves_the_same(
        self, form: str, server: ModelServer, store: Path, windlass: CommandLine
    ) -> None:
        def asked(client: Any, form: str) -> Any:
            if form == "anthropic":
                return client.messages.create(**claude_request(history(3)))
            if form == "openai":
                listed = [
                    {"role": "system", "content": "Read."},
                    {"role": "user", "content": "Go."},
                ]
                return client.chat.completions.create(model="gpt-5", messages=listed)
            if form == "responses":
                return client.responses.create(model="gpt-5", input="Go.", instructions="Read.")
            return client.aio.models.generate_content(model="gemini-2.5-flash", contents="Go.")

        makers = {"anthropic": anthropic.AsyncAnthropic, "gemini": genai.Client}

        async def run() -> Any:
            client = library.wrap(makers.get(form, openai.AsyncOpenAI)())
            await asked(client, form)
            await (client.aio.aclose if form == "gemini" else client.close)()
            if form == "gemini":
                client.close()
            return client.windlass

        report = asyncio.run(run())
        assert report.save(store).calls == 1
        agree(windlass, store, report)
        with opened(store) as kept:
            (info,) = kept.sessions()
            (call,) = view_session(kept, info.session_id).calls
        assert "Next is log" in call.reply.text

    @pytest.mark.parametrize("form", ["anthropic", "openai", "responses"])
    @pytest.mark.parametrize("name", [*DOORS, *ASYNC_DOORS])
    def test_the_reply_is_heard_by_every_door(
        self, name: str, form: str, server: ModelServer, store: Path
    ) -> None:
        reports: list[Any] = []

        def wrapped(client: Any) -> Any:
            reports.append(library.wrap(client))
            return reports[-1]

        through(name, form, wrapped)
        assert reports[0].windlass.save(store).calls == 1
        with opened(store) as kept:
            (info,) = kept.sessions()
            (call,) = view_session(kept, info.session_id).calls
        assert "Next is log 0." in call.reply.text
        assert call.tokens_in == server.billed[0].tokens


class TestAgain:
    def test_what_is_new_is_added_and_the_session_goes_on(
        self, claude: Any, store: Path, windlass: CommandLine
    ) -> None:
        client, at_once = library.wrap(claude, LEAN), store.with_name("at_once")
        report = client.windlass
        for turns in range(1, 7):
            ask(client, history(turns))
            assert report.save(store).calls == 1
            assert report.save(store).calls == 0
        ask(client, history(1, "Another task."))
        assert report.save(store).calls == 1
        assert report.save(at_once).calls == 7
        in_parts: list[Any] = []
        whole: list[Any] = []
        for folder, held in ((store, in_parts), (at_once, whole)):
            agree(windlass, folder, report)
            with opened(folder) as kept:
                for info in sorted(kept.sessions(), key=lambda info: info.session_id):
                    rows = [(stored.id, stored.row) for stored in kept.rows(info.session_id)]
                    edits = kept.edits(info.session_id)
                    held.append((info.calls, rows, kept.calls(info.session_id), edits))
        assert in_parts == whole
        assert [calls for calls, *_ in whole] == [6, 1]
        assert len(whole[0][3]) >= 5

    def test_a_store_with_other_sessions_is_gone_on_with(
        self, claude: Any, store: Path, windlass: CommandLine
    ) -> None:
        chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
        store.mkdir()
        path = store.with_name("chat.jsonl")
        path.write_text(json.dumps({"model": "gpt-5", "messages": chat}), encoding="utf-8")
        library.import_sessions(path, store=store)
        for _ in range(2):  # two clients with the same conversation are two sessions
            client = library.wrap(claude)
            ask(client, history(2))
            client.windlass.save(store)
        with opened(store) as kept:
            assert sorted(one.cascade_id for one in kept.sessions()) == ["chat-1", "wrap", "wrap"]
        assert windlass("verify", "--store", str(store)).code == 0

    def test_nothing_is_saved_of_a_call_that_is_under_way(self, claude: Any, store: Path) -> None:
        client = library.wrap(claude)
        request = claude_request([{"role": "user", "content": loops.TASK}])
        with client.messages.stream(**request) as events:
            next(iter(events))
            assert client.windlass.save(store).calls == 0
            assert client.windlass.cost == 0
            assert events.get_final_text()
        assert client.windlass.save(store).calls == 1

    def test_saving_beside_calls_loses_none(
        self, claude: Any, store: Path, windlass: CommandLine
    ) -> None:
        client = library.wrap(claude, LEAN)

        def loop(number: int) -> None:
            for turns in range(1, 5):
                ask(client, history(turns, f"Task {number}."))
                client.windlass.save(store)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(loop, range(6)))
        assert client.windlass.save(store).calls == 0
        assert len({call.number for call in client.windlass.calls}) == 24
        agree(windlass, store, client.windlass)
        with opened(store) as kept:
            assert [info.calls for info in kept.sessions()] == [4] * 6


class TestPlaces:
    def test_a_file_and_a_folder_of_other_files_are_no_stores(
        self, claude: Any, tmp_path: Path
    ) -> None:
        client = library.wrap(claude)
        ask(client, history(1))
        (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
        with pytest.raises(UsageError, match=r"notes\.txt' is a file; name a folder"):
            client.windlass.save(tmp_path / "notes.txt")
        with pytest.raises(UsageError, match="holds other files and no store"):
            client.windlass.save(tmp_path)
        assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]
        (tmp_path / "empty").mkdir()
        assert client.windlass.save(str(tmp_path / "empty")).calls == 1

    def test_no_key_is_written(self, claude: Any, store: Path) -> None:
        client = library.wrap(claude)
        ask(client, history(1), extra_headers={"x-own": "secret-of-mine"})
        client.windlass.save(store)
        data = b"".join(one.read_bytes() for one in store.rglob("*") if one.is_file())
        assert b"Read all logs." in data
        assert b"sk-test" not in data
        assert b"secret-of-mine" not in data


class TestOddCalls:
    def test_failures_are_told(
        self, server: ModelServer, claude: Any, store: Path, windlass: CommandLine
    ) -> None:
        client = library.wrap(claude)
        ask(client, history(1))
        with pytest.raises(anthropic.BadRequestError):
            ask(client, [*history(1), {"role": "assistant", "content": "Order"}])
        ask(client, history(2))
        saved = client.windlass.save(store)
        agree(windlass, store, client.windlass)
        shown = [windlass("show", one, "--store", str(store)).out for one in saved.sessions]
        assert "error: conversation: call 2 of the client failed: " in "".join(shown)
        assert "; it went out as it came: wrap mends no list" in "".join(shown)

    @pytest.mark.parametrize("form", ["anthropic", "openai", "responses"])
    def test_an_answer_that_breaks_off_is_a_failure(
        self, form: str, monkeypatch: pytest.MonkeyPatch, store: Path, windlass: CommandLine
    ) -> None:
        clients: list[Any] = []

        def wrapped(client: Any) -> Any:
            clients.append(library.wrap(client))
            return clients[-1]

        with scripted(monkeypatch, streamed(broken(form), cut=True)), suppress(Exception):
            through("stream", form, wrapped)
        report = clients[0].windlass
        assert report.calls[0].failed
        report.save(store)
        agree(windlass, store, report)
        (name,) = report.save(store).sessions
        assert "failed: " in windlass("show", name, "--store", str(store)).out

    def test_requests_that_cannot_be_read_are_told_and_counted(
        self, server: ModelServer, store: Path, windlass: CommandLine
    ) -> None:
        with openai.OpenAI() as plain:
            client: Any = library.wrap(plain)
            answer = client.responses.create(model="gpt-5", input="Go.", tools=loops.FLAT_TOOLS)
            client.responses.create(
                model="gpt-5", input="On.", previous_response_id=answer.id, tools=loops.FLAT_TOOLS
            )
        report = client.windlass
        assert [call.thread for call in report.calls] == [1, 0]
        saved = report.save(store)
        assert (len(saved.sessions), saved.calls, saved.bare) == (2, 2, 1)
        agree(windlass, store, report)
        shown = windlass("show", saved.sessions[1], "--call", "1", "--store", str(store)).out
        assert "went out as it came: its earlier messages lie with the provider" in shown

    def test_held_out_conversations_are_marked(
        self, claude: Any, store: Path, windlass: CommandLine
    ) -> None:
        client = library.wrap(claude, LEAN, holdout=0.5)
        for number in range(8):
            for turns in (1, 3):
                ask(client, history(turns, f"Task {number}."))
        held = {call.thread for call in client.windlass.calls if call.held_out}
        assert 0 < len(held) < 8
        saved = client.windlass.save(store)
        agree(windlass, store, client.windlass)
        for name in saved.sessions:
            said = windlass("report", name, "--store", str(store)).out
            told = windlass("explain", name, "2", "--store", str(store)).out
            is_held = int(name.rpartition("-")[2]) in held
            assert ("a conversation that is held out of a wrapped client" in said) == is_held
            assert ("its conversation is held out" in told) == is_held

    def test_conversations_that_were_let_go_keep_their_figures(
        self, claude: Any, store: Path, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_threads, "_MOST_THREADS", 2)
        client = library.wrap(claude, LEAN)
        for number in range(3):
            for turns in (1, 2):
                ask(client, history(turns, f"Task {number}."))
        saved = client.windlass.save(store)
        assert (len(saved.sessions), saved.calls, saved.bare) == (3, 6, 2)
        agree(windlass, store, client.windlass)
        told = windlass("explain", saved.sessions[0], "1", "--store", str(store)).out
        assert "what was said is not kept" in told

    def test_tiers_and_searches_are_kept(
        self, monkeypatch: pytest.MonkeyPatch, store: Path, windlass: CommandLine
    ) -> None:
        usage = {
            "input_tokens": 1_000,
            "output_tokens": 100,
            "cache_read_input_tokens": 500,
            "cache_creation_input_tokens": 300,
            "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
            "server_tool_use": {"web_search_requests": 3},
            "service_tier": "batch",
        }
        answer = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5",
            "content": [{"type": "text", "text": "Late is order 7."}],
            "stop_reason": "end_turn",
            "usage": usage,
        }
        with scripted(monkeypatch, whole(answer)), anthropic.Anthropic() as plain:
            client: Any = library.wrap(plain)
            ask(client, [{"role": "user", "content": "Which?"}], model="claude-sonnet-5")
        report = client.windlass
        (name,) = report.save(store).sessions
        agree(windlass, store, report)
        with opened(store) as kept:
            (reply,) = (one for one in kept.rows(name) if one.row.node_type == NodeType.AGENT)
        details = ReplyDetails.read(reply.row)
        assert details is not None
        assert (details.tokens_written, details.tokens_written_long) == (300, 200)
        assert (details.searches, details.tier) == (3, "batch")
        assert reply.row.tokens_in == 1_800
        assert reply.row.tokens_cached == 500
        assert reply.row.cost == report.cost > 0

    def test_pictures_are_kept(self, claude: Any, store: Path, windlass: CommandLine) -> None:
        data = (
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
            "rkJggg=="
        )
        source = {"type": "base64", "media_type": "image/png", "data": data}
        image = {"type": "image", "source": source}
        client = library.wrap(claude, {**LEAN, "images_after": 1})
        messages = history(3)
        messages[2]["content"][0]["content"] = [{"type": "text", "text": "It is:"}, image]
        for turns in (1, 2, 3):
            ask(client, messages[: 2 * turns + 1])
            client.windlass.save(store)
        (name,) = client.windlass.save(store).sessions
        agree(windlass, store, client.windlass)
        with opened(store) as kept:
            said = [one.row.message for one in kept.rows(name) if one.row.message is not None]
            (picture,) = (one for message in said for one in message.pictures)
            assert kept.picture(picture.sha256) == base64.b64decode(data)

    def test_a_caller_that_changes_replies_makes_no_second_one(
        self, claude: Any, store: Path
    ) -> None:
        client = library.wrap(claude)
        messages: list[Any] = [{"role": "user", "content": "Say something."}]
        for _ in range(3):
            answer = ask(client, messages, tools=[])
            text = answer.content[-1].text if answer.content[-1].type == "text" else "Well."
            messages += [
                {"role": "assistant", "content": text.upper()},
                {"role": "user", "content": "Go on."},
            ]
        (name,) = client.windlass.save(store).sessions
        with opened(store) as kept:
            said = [one.row.message for one in kept.rows(name) if one.row.message is not None]
            last = view_session(kept, name).calls[-1]
            assert [one.role for one in last.seen] == ["system", *["user", "assistant"] * 2, "user"]
            assert last.seen[2].message.text == text.upper()
            assert last.seen[2].original is not None
        assert sum(message.role == "assistant" for message in said) == 3
