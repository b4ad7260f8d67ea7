"""Runs that give their spans and metrics to the SDK while they go."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.harness import House, call, calls, cascade, phase
from tests.support.engine_resume import Gone, Model, look, note, noted, script
from tests.support.engine_soundings import picking, sounded
from tests.support.engine_sub_cascades import write
from tests.support.telemetry import Collected, content

import windlass
from windlass.api.engine import Engine
from windlass.errors import ProviderError, UsageError
from windlass.providers.scripted import Scripted

SECRET = "the secret word"
TWO = cascade(
    phase("a", tackle=["set_state"]), phase("b", context={"from": ["a"]}), system=f"Be {SECRET}."
)
REPLIES = {"a": [calls(call("set_state", f'{{"key": "k", "value": "{SECRET}"}}')), SECRET]}


def check_nesting(collected: Collected) -> None:
    """Each span lies within its parent."""
    spans = {span.context.span_id: span for span in collected.spans}
    for span in spans.values():
        if span.parent:
            above = spans[span.parent.span_id]
            assert above.start_time <= span.start_time <= span.end_time <= above.end_time


async def test_a_session_its_phases_calls_and_tools(house: House, collected: Collected) -> None:
    ran = await house.run(TWO, REPLIES, {"x": SECRET}, otel="on")
    assert collected.tree() == [
        "invoke_agent test",
        "  invoke_agent a",
        "    chat function",
        "    execute_tool set_state",
        "    chat function",
        "  invoke_agent b",
        "    chat function",
    ]
    first = collected.named("chat function")[0].attributes
    told = {key: value for key, value in first.items() if not key.startswith("windlass.")}
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "function",
        "gen_ai.conversation.id": ran.session,
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": ran.rows()[2].row.tokens_in,
        "gen_ai.usage.output_tokens": ran.rows()[2].row.tokens_out,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_write.input_tokens": 0,
    }
    session, a = collected.spans[:2]
    assert session.attributes["gen_ai.agent.name"] == "test"
    assert (a.attributes["gen_ai.agent.name"], a.attributes["windlass.status"]) == (
        *("a", "completed"),
    )
    check_nesting(collected)


async def test_contents_are_told_only_when_they_are_asked_for(
    house: House, collected: Collected
) -> None:
    await house.run(TWO, REPLIES, {"x": SECRET}, otel="on")
    assert SECRET not in "".join(span.to_json() for span in collected.spans)
    ran = await house.run(TWO, REPLIES, {"x": SECRET}, otel="content")
    _, second, _ = collected.named("chat function")[3:]
    assert content(second, "gen_ai.system_instructions") == [
        {"type": "text", "content": f"Be {SECRET}."}
    ]
    asked, called, answered = content(second, "gen_ai.input.messages")
    assert asked["parts"] == [{"type": "text", "content": "Do a."}]
    (part,) = called["parts"]
    assert (part["type"], part["arguments"]) == ("tool_call", {"key": "k", "value": SECRET})
    (result,) = answered["parts"]
    assert (result["type"], result["id"]) == ("tool_call_response", part["id"])
    assert content(second, "gen_ai.output.messages")[0]["parts"][0]["content"] == SECRET
    assert content(second, "gen_ai.tool.definitions")[0]["name"] == "set_state"
    tool = collected.named("execute_tool set_state")[1]
    assert content(tool, "gen_ai.tool.call.arguments") == {"key": "k", "value": SECRET}
    assert tool.attributes["gen_ai.tool.call.result"] == result["response"]
    assert ran.result.status == "completed"


async def test_what_a_shortened_call_saw_is_told(house: House, collected: Collected) -> None:
    short = cascade(
        phase("a", tackle=["read"], rules={"max_turns": 4}), auto_context={"profile": "lean"}
    )

    def read() -> str:
        """Read a lot."""
        return "\n".join(f"line {number} of the log, which is long" for number in range(3_000))

    reads = [calls(call("read")), calls(call("read")), calls(call("read")), "done"]
    ran = await house.run(short, {"a": reads}, tools=[read], otel="content")
    for number, span in enumerate(collected.named("chat function"), 1):
        told = [
            part.get("response", part.get("content"))
            for message in content(span, "gen_ai.input.messages")
            for part in message["parts"]
            if part["type"] != "tool_call"
        ]
        sent = [message.text for message in ran.request("a", number).messages]
        assert told == [text for text in sent if text]
        edited = any(shown.shown_as for shown in ran.calls()[number - 1].shown)
        assert span.attributes.get("gen_ai.conversation.compacted", False) is edited
    assert any(shown.shown_as for one in ran.calls() for shown in one.shown)


async def test_metrics(house: House, collected: Collected) -> None:
    ran = await house.run(TWO, REPLIES, otel="on")
    usage = ran.result.usage
    known = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "scripted"}
    known["gen_ai.request.model"] = "function"
    for name in ("gen_ai.client.inference.duration", "gen_ai.client.operation.duration"):
        (duration,) = collected.points(name)
        assert (duration.count, duration.attributes) == (3, known)
        assert (duration.explicit_bounds[0], duration.explicit_bounds[-1]) == (0.01, 81.92)
    tokens = collected.points("gen_ai.client.token.usage")
    assert {point.attributes["gen_ai.token.type"]: point.sum for point in tokens} == {
        "input": usage.tokens_in,
        "output": usage.tokens_out,
    }
    (read,) = collected.points("gen_ai.client.inference.usage.cache_read.input_tokens")
    assert read.value == usage.tokens_cached > 0
    (given,) = collected.points("gen_ai.client.inference.usage.input_tokens")
    assert (given.value, given.attributes["gen_ai.token.modality"]) == (usage.tokens_in, "unknown")


@pytest.mark.parametrize("otel", ["on", "content"])
async def test_a_failure_is_told_with_its_kind(
    house: House, collected: Collected, otel: str
) -> None:
    def fails(_: object) -> str:
        raise ProviderError(SECRET)

    ran = await house.run(cascade(phase("a")), fails, otel=otel)
    assert ran.result.status == "failed"
    session, a, chat = collected.spans
    assert chat.attributes["error.type"] == "ProviderError"
    assert session.attributes["error.type"] == "failed"
    assert [span.status.status_code.name for span in (session, chat)] == ["ERROR", "ERROR"]
    assert (a.name, a.attributes["error.type"]) == ("invoke_agent a", "failed")
    said = SECRET in f"{session.status.description}{chat.status.description}"
    assert said is (otel == "content")
    (point,) = collected.points("gen_ai.client.inference.duration")
    assert point.attributes["error.type"] == "ProviderError"


async def test_a_tool_that_failed(house: House, collected: Collected) -> None:
    def breaks() -> str:
        """Break."""
        raise ValueError(SECRET)

    made = cascade(phase("a", tackle=["breaks"]))
    await house.run(made, {"a": [calls(call("breaks")), "ok"]}, tools=[breaks], otel="on")
    (tool,) = collected.named("execute_tool breaks")
    assert tool.attributes["error.type"] == "tool_error"
    assert not tool.status.description


async def test_soundings_and_who_judged_them(house: House, collected: Collected) -> None:
    await house.run(cascade(sounded()), picking(1), otel="on")
    assert sorted(collected.tree()) == [
        *["      chat function"] * 3,
        "    chat function",
        *["    invoke_agent a"] * 3,
        "  invoke_agent a",
        "invoke_agent test",
    ]
    soundings = [
        span for span in collected.named("invoke_agent a") if "windlass.sounding" in span.attributes
    ]
    assert {span.attributes["windlass.sounding"] for span in soundings} == {0, 1, 2}
    judge = [
        span
        for span in collected.named("chat function")
        if "gen_ai.conversation.id" not in span.attributes
    ]
    assert len(judge) == 1


async def test_a_sub_cascade_is_below_the_phase_that_runs_it(
    house: House, collected: Collected
) -> None:
    write(house, "logs.json", phase("read"))
    made = write(house, "top.json", phase("bug", sub_cascades=[{"ref": "logs.json"}]))
    await house.run(made, otel="on")
    assert collected.tree() == [
        "invoke_agent top",
        "  invoke_agent bug",
        "    invoke_agent logs",
        "      invoke_agent read",
        "        chat function",
        "    chat function",
    ]
    assert len({span.context.trace_id for span in collected.spans}) == 1


async def test_a_run_is_below_the_span_of_the_program(house: House, collected: Collected) -> None:
    with collected.tracers.get_tracer("program").start_as_current_span("request"):
        await house.run(cascade(phase("a")), otel="on")
    assert collected.tree()[:2] == ["request", "  invoke_agent test"]


async def test_a_resumed_run_tells_what_is_new_with_what_was_said_before(
    house: House, collected: Collected
) -> None:
    noted.clear()
    made = cascade(phase("a", tackle=["look", "note"]), phase("b"))
    with pytest.raises(Gone):
        await house.run(made, Model(3, script), tools=[look, note], session_id="s", otel="content")
    before = len(collected.named("chat function"))
    assert [span.attributes.get("error.type") for span in collected.named("chat function")] == [
        None,
        None,
        "unanswered",
    ]
    result = await windlass.resume(
        "s",
        made,
        model="scripted/x",
        store=house.store,
        root=house.folder,
        tools=[look, note],
        providers={"scripted": Scripted(Model(-1, script))},
        otel="content",
    )
    assert result.status == "completed"
    again = collected.named("chat function")[before]
    said = [message["role"] for message in content(again, "gen_ai.input.messages")]
    assert said == ["user", "assistant", "tool", "assistant", "tool"]
    assert len(collected.named("invoke_agent test")) == 2
    check_nesting(collected)


async def test_what_a_forked_session_inherits_is_told_once(
    house: House, collected: Collected
) -> None:
    noted.clear()
    made = cascade(phase("a", tackle=["look", "note"]), phase("b"))
    ran = await house.run(made, script, tools=[look, note], otel="on")
    before = len(collected.spans)
    result = await windlass.fork(
        ran.session,
        len(ran.calls()),
        store=house.store,
        root=house.folder,
        tools=[look, note],
        providers={"scripted": Scripted(script)},
        otel="on",
    )
    assert result.status == "completed"
    new = [span.name for span in collected.spans[before:]]
    assert sorted(new) == ["chat function", "invoke_agent a", "invoke_agent b", "invoke_agent test"]
    check_nesting(collected)


async def test_each_message_of_a_conversation_is_a_span_of_its_session(
    house: House, collected: Collected
) -> None:
    engine = Engine(
        model="scripted/x",
        store=house.store,
        root=house.folder,
        providers={"scripted": Scripted(lambda _: "Hello.")},
        otel="content",
    )
    async with engine.session() as session:
        await session.send("Hi.")
        await session.send("Hi again.")
    sessions = [span for span in collected.spans if span.parent is None]
    assert len({span.attributes["gen_ai.conversation.id"] for span in sessions}) == 1
    assert len(sessions) == 2
    _, second = [span for span in collected.spans if span.name.startswith("chat ")]
    told = [one["parts"][0]["content"] for one in content(second, "gen_ai.input.messages")]
    assert told[-3:] == ["Hi.", "Hello.", "Hi again."]


async def test_runs_of_an_open_engine(house: House, collected: Collected) -> None:
    options: Any = {"store": house.store, "root": house.folder, "otel": "on"}
    scripted = Scripted(lambda _: "ok")
    async with Engine(model="scripted/x", providers={"scripted": scripted}, **options) as engine:
        await engine.run(cascade(phase("a")))
        assert len(collected.spans) == 3
        await engine.run(cascade(phase("a")))
    assert len({span.context.trace_id for span in collected.spans}) == 2


async def test_what_goes_wrong_with_telling_stops_no_run(
    house: House, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.sdk.trace import Tracer

    def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError("no spans today")

    monkeypatch.setattr(Tracer, "start_span", breaks)
    ran = await house.run(cascade(phase("a")), otel="on")
    assert ran.result.status == "completed"
    notes = [text for event in ran.events if (text := getattr(event, "text", ""))]
    assert any(text.startswith("OpenTelemetry: ") for text in notes)
    assert not collected.spans


async def test_the_sdk_may_be_missing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(UsageError, match="pip install 'windlass\\[otel\\]'"):
        await house.run(cascade(phase("a")), otel="on")
    assert (await house.run(cascade(phase("a")))).result.status == "completed"
