"""The model that is a function."""

from __future__ import annotations

import pytest

from windlass.errors import ProviderError
from windlass.messages import Message, ToolCall, ToolSpec, assistant, system, user
from windlass.providers.scripted import Scripted
from windlass.text.tokens import FamilyCounter, request_tokens
from windlass.wire.base import Request


def _request(*messages: Message, tools: tuple[ToolSpec, ...] = ()) -> Request:
    return Request("function", messages, max_output_tokens=10, tools=tools)


async def test_text_and_usage() -> None:
    pieces: list[str] = []
    model = Scripted(lambda request: f"{len(request.messages)} messages")
    reply = await model.send(_request(system("S"), user("U")), pieces.append)
    assert reply.message == assistant("2 messages")
    assert pieces == ["2 messages"]
    assert reply.finish == "stop"
    counter = FamilyCounter("gpt-4o")
    assert reply.usage.tokens_in == request_tokens(counter, [system("S"), user("U")])
    assert reply.usage.tokens_out == counter.message(reply.message)


async def test_async_scripts_and_calls() -> None:
    async def script(_: Request) -> Message:
        return assistant(calls=[ToolCall("c", "t", "{}")])

    pieces: list[str] = []
    reply = await Scripted(script).send(_request(user("U")), pieces.append)
    assert (reply.finish, pieces) == ("tool_calls", [])


async def test_what_two_requests_share_is_cached() -> None:
    model = Scripted(lambda _: "ok")
    spec = ToolSpec("t", "d", {"type": "object"})
    head = (system("S"), user("one"))
    first = await model.send(_request(*head), lambda _: None)
    second = await model.send(_request(*head, user("two")), lambda _: None)
    other = await model.send(_request(*head, tools=(spec,)), lambda _: None)
    assert first.usage.tokens_cached == 0
    assert second.usage.tokens_cached == first.usage.tokens_in
    assert other.usage.tokens_cached == 0  # tools come first


async def test_exceptions_of_the_script_pass() -> None:
    def script(_: Request) -> str:
        raise ProviderError("down")

    model = Scripted(script)
    with pytest.raises(ProviderError, match="down"):
        await model.send(_request(user("U")), lambda _: None)
    assert len(model.requests) == 1
    await model.close()
    await model.close()


def test_model_info() -> None:
    model = Scripted(lambda _: "", window=9, sees_pictures=False, system_anywhere=False)
    info = model.model("whatever")
    assert (info.window, info.sees_pictures, info.system_anywhere) == (9, False, False)
