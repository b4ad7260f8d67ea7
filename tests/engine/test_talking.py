"""Going on with a session: `result.session.send`, and `Session` for a recorded one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.engine.harness import House, call, calls, cascade, phase
from windlass.api.engine import Engine
from windlass.errors import ProviderError, UsageError
from windlass.messages import Message
from windlass.providers.scripted import Scripted
from windlass.report.call_views import view_session
from windlass.report.explanation import explain_call
from windlass.wire.base import Request
from windlass.wire.openai import check_sequence

WORKS = cascade(phase("a"), phase("b", tackle=["set_state"]), auto_context={})


def says(request: Request) -> Message | str:
    """An answer that tells what was asked last; it calls a tool where it is to `set`."""
    check_sequence(request.messages)
    last = request.messages[-1]
    if last.role == "user" and last.text.startswith("set "):
        value = last.text.split()[1]
        return calls(call("set_state", f'{{"key": "k", "value": "{value}"}}'))
    return f"re: {last.text}"


def options(folder: Path, model: Scripted) -> dict[str, Any]:
    return {
        "model": "scripted/m",
        "store": folder / "store",
        "root": folder,
        "providers": {"scripted": model},
    }


async def test_a_person_goes_on_with_a_finished_session(house: House, tmp_path: Path) -> None:
    model = Scripted(says)
    first = await windlass.run(WORKS, session_id="s1", **options(tmp_path, model))
    assert first.session is not None
    text = "And {{ now }}, {% why %}?"
    second = await first.session.send(text)
    assert (second.status, second.output, second.session_id) == ("completed", f"re: {text}", "s1")
    sent = [message.text for message in model.requests[-1].messages]
    assert sent[-5:] == ["Do a.", "re: Do a.", "Do b.", "re: Do b.", text]
    assert second.session is not None
    third = await second.session.send("set x")
    assert third.output == "re: set state 'k'"
    assert third.state == {"k": "x"}
    assert third.usage.tokens_in > second.usage.tokens_in
    assert model.requests[-1].messages[: len(sent)] == model.requests[2].messages
    store = house.open_store()
    view = view_session(store, "s1")
    assert [(each.phase, each.turn) for each in view.calls] == [
        ("a", 1),
        ("b", 1),
        ("chat", 1),
        ("chat", 2),
        ("chat", 3),
    ]
    assert explain_call(store, "s1", 4)
    assert not [found for found in store.verify() if found.severity == "damage"]


async def test_another_process_goes_on_from_the_record(house: House, tmp_path: Path) -> None:
    model = Scripted(says)
    await windlass.run(WORKS, session_id="s1", **options(tmp_path, model))
    later = Engine(**options(tmp_path, model)).session(resume="s1")
    assert (await later.send("One?")).output == "re: One?"
    again = Engine(**options(tmp_path, model)).session(resume="latest")
    async with again:
        result = await again.send("Two?")
        await again.send("Three?")
    sent = [message.text for message in model.requests[-1].messages]
    assert sent == [
        "Do a.",
        "re: Do a.",
        "Do b.",
        "re: Do b.",
        "One?",
        "re: One?",
        "Two?",
        "re: Two?",
        "Three?",
    ]
    assert result.usage.tokens_in > 0
    (session,) = house.open_store().sessions()
    assert (session.status, session.calls) == ("completed", 5)


async def test_a_fresh_session_needs_a_model_only(house: House, tmp_path: Path) -> None:
    model = Scripted(says)
    session = Engine(**options(tmp_path, model)).session()
    assert session.session_id is None
    result = await session.send("Hello")
    assert result.output == "re: Hello"
    await session.send("Bye")
    assert [m.text for m in model.requests[-1].messages] == ["Hello", "re: Hello", "Bye"]
    assert house.open_store().sessions()[0].cascade_id == "chat"


async def test_a_reply_that_is_cancelled_ends_the_reply_and_not_the_session(
    house: House, tmp_path: Path
) -> None:
    class Slow(Scripted):
        async def send(self, request: Request, on_text: Any) -> Any:
            if "slowly" in request.messages[-1].text:
                await asyncio.sleep(30)
            return await super().send(request, on_text)

    session = Engine(**options(tmp_path, Slow(says))).session()
    await session.send("Hello")
    reply = asyncio.ensure_future(session.send("slowly"))
    await asyncio.sleep(0.3)
    reply.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reply
    assert house.open_store().sessions()[0].status == "interrupted"
    result = await session.send("And now?")
    assert (result.status, result.output) == ("completed", "re: And now?")
    assert house.open_store().sessions()[0].status == "completed"


async def test_it_goes_on_behind_calls_that_have_no_result(house: House, tmp_path: Path) -> None:
    asks = cascade(phase("a", tackle=["ask_human"]))
    model = Scripted(
        lambda r: (
            calls(call("ask_human", '{"question": "Which?"}'))
            if r.messages[-1].text == "Do a."
            else says(r)
        )
    )
    first = await windlass.run(asks, **options(tmp_path, model))
    assert first.status == "waiting"
    assert first.session is not None
    assert (await first.session.send("Never mind.")).output == "re: Never mind."


async def test_bad_messages_are_one_sentence(tmp_path: Path) -> None:
    session = Engine(**options(tmp_path, Scripted(says))).session()
    with pytest.raises(UsageError, match="the message is empty"):
        await session.send("  \n")
    with pytest.raises(UsageError, match=r"await windlass\.Session\.send"):
        session.send_sync("Hello")
    with pytest.raises(UsageError, match="no store"):
        await Engine(**options(tmp_path, Scripted(says))).session(resume="nope").send("x")


def test_without_a_loop(tmp_path: Path) -> None:
    model = Scripted(says)
    first = windlass.run_sync(WORKS, **options(tmp_path, model))
    assert first.session is not None
    assert first.session.send_sync("Hi").output == "re: Hi"
    assert first.session.send_sync("Ho").output == "re: Ho"


async def test_limits_hold_for_all_messages(tmp_path: Path) -> None:
    model = Scripted(says)
    first = await windlass.run(WORKS, **options(tmp_path, model), max_turns=3, max_seconds=60)
    assert first.session is not None
    assert (await first.session.send("One?")).status == "completed"
    ended = await first.session.send("Two?")
    assert (ended.status, ended.reason) == ("incomplete", "turns")
    assert ended.notes["budget"]["of"] == "the run"
    declared = Engine(**options(tmp_path, model)).session({**WORKS, "limits": {"max_turns": 1}})
    assert (await declared.send("One?")).status == "completed"
    assert (await declared.send("Two?")).reason == "turns"


async def test_a_chat_is_gone_on_with_as_one(tmp_path: Path) -> None:
    def fails(_: Request) -> str:
        raise ProviderError("no answer")

    failing = Scripted(fails)
    session = Engine(**options(tmp_path, failing)).session()
    assert (await session.send("One?")).status == "failed"
    with pytest.raises(UsageError, match="is a chat: windlass chat --session"):
        await windlass.resume("latest", **options(tmp_path, failing))


async def test_a_session_that_is_open_elsewhere_is_not_gone_on_with(tmp_path: Path) -> None:
    model = Scripted(says)
    await windlass.run(WORKS, session_id="s1", **options(tmp_path, model))
    async with Engine(**options(tmp_path, model)).session(resume="s1") as first:
        with pytest.raises(UsageError, match="session 's1' is running in process"):
            await Engine(**options(tmp_path, model)).session(resume="s1").send("One?")
        assert (await first.send("Two?")).output == "re: Two?"
