"""Recordings that were made to take long: time grows as the file does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.importing.making import Session, call, result, text
from tests.support.importing_agents import HEADER, gemini
from tests.support.importing_agents import item as exec_item
from tests.support.importing_exchanges import META, TURN, chat, item
from tests.support.importing_otel import export, part, span
from tests.support.linear_time import assert_linear
from windlass.errors import UsageError
from windlass.importing.streams import recordings

pytestmark = pytest.mark.timeout(240)

CHARS = 600_000

Records: TypeAlias = Iterator[Any]


def spans_without_content() -> Records:
    for number in count():
        yield export(span(number), span(number, id=f"x{number}"))


def spans_without_usage() -> Records:
    for number in count():
        yield export({**span(number), "attributes": span(number)["attributes"][:4]})


def spans_of_many_conversations() -> Records:
    for number in count():
        yield export(span(number, **{"gen_ai.conversation.id": f"c{number}"}))


def spans_with_a_field_for_each_message() -> Records:
    for number in count():
        asked = {f"gen_ai.prompt.{at}.content": "x" for at in range(20)}
        yield export(span(number, **asked, **{"gen_ai.completion.0.content": "y"}))


def one_after_the_other() -> Records:
    session = Session()
    for number in count():
        session.answer(f"m{number}", text(f"said {number}"))
        yield session.records[-1]


def all_after_one() -> Records:
    session = Session()
    yield session.user("Go.")
    first = session.last
    for number in count():
        session.last = first
        yield session.answer(f"m{number}", text(f"said {number}"))


def each_its_own_parent() -> Records:
    session = Session()
    for number in count():
        record = session.answer(f"m{number}", text(f"said {number}"))
        yield {**record, "parentUuid": record["uuid"]}


def parents_that_come_later() -> Records:
    session = Session()
    for number in count():
        yield {**session.answer(f"m{number}", text("x")), "parentUuid": f"s-1-{number + 1}"}


def each_a_side_chain() -> Records:
    session = Session()
    for number in count():
        session.last = None
        yield session.answer(f"m{number}", text("x"), isSidechain=True)


def an_answer_of_many_blocks() -> Records:
    session = Session()
    for number in count():
        yield session.answer("m1", text(f"block {number}"))


def an_answer_of_many_calls() -> Records:
    session = Session()
    for number in count():
        yield session.answer("m1", call(f"t{number}"))


def results_of_many_calls() -> Records:
    session = Session()
    yield session.answer("m1", call("t1"))
    for number in count():
        yield session.user([result("t1"), result(f"t{number}")])


def sessions_in_one_file() -> Records:
    for number in count():
        session = Session(f"s{number}")
        yield session.user("Go.")
        yield session.answer(f"m{number}", text("x"))


def requested(session: Session, number: int, *tail: str, base: str | None = None) -> Any:
    keep = number if base else 0
    return session.add("api-request", base=base, keep=keep, tail=[*tail], id=f"q{number}")


def words_between_requests() -> Records:
    session = Session()
    yield requested(session, 0)
    for number in count():
        yield session.user([text(f"word {number}")])


def requests_without_answers() -> Records:
    session = Session()
    yield requested(session, 0)
    for number in count(1):
        yield requested(session, number)
        if number % 2:
            yield session.answer(f"m{number}", text("x"), requestId="none")


def blocks_of_a_requested_answer() -> Records:
    session = Session()
    yield requested(session, 0)
    for number in count():
        yield session.answer("m1", text(f"block {number}"))


def shapes_of_requests() -> Records:
    session = Session()
    yield requested(session, 0)
    for number in count(1):
        yield session.add("api-request-shape", hash=f"h{number}", system=[], tools=[])
        yield requested(session, number)


def items_of_one_answer() -> Records:
    yield dict(zip(("type", "payload"), META, strict=True))
    yield dict(zip(("type", "payload"), TURN, strict=True))
    for number in count():
        kind, payload = item("assistant", f"said {number}")
        yield {"type": kind, "payload": payload}


def calls_of_one_answer() -> Records:
    yield dict(zip(("type", "payload"), META, strict=True))
    for number in count():
        made = {"type": "function_call", "call_id": f"c{number}", "name": "ls", "arguments": ""}
        yield {"type": "response_item", "payload": made}


def compactions() -> Records:
    yield dict(zip(("type", "payload"), META, strict=True))
    for number in count():
        yield {"type": "compacted", "payload": {"message": f"short {number}"}}
        kind, payload = item("assistant", "x")
        yield {"type": kind, "payload": payload}


def logged_calls_that_begin_anew() -> Records:
    for number in count():
        request = {"model": "gpt-5", "messages": [chat("user", f"Go {number}.")]}
        answer = {"choices": [{"message": chat("assistant", "x")}], "id": f"a{number}"}
        yield {"request": request, "response": answer, "session_id": "s"}


def logged_calls_without_messages() -> Records:
    for number in count():
        answer = {"choices": [{"message": chat("assistant", "x")}], "id": f"a{number}"}
        yield {"request": {"model": "m", "messages": []}, "response": answer, "session_id": "s"}


def spans_within_spans() -> Records:
    for number in count():
        above = {"spanId": f"a{number}", "parentSpanId": f"a{number + 1}"}
        yield export({**span(number, **{"gen_ai.response.id": f"x{number}"}), **above})


def what_was_taken_back() -> Records:
    yield HEADER
    for number in count():
        yield gemini(f"m{number}", "x", input=1)
        yield gemini(f"n{number}", "x", input=1)
        yield {"$rewindTo": f"n{number}"}


def threads_of_codex_exec() -> Records:
    for number in count():
        yield {"type": "thread.started", "thread_id": f"t{number}"}
        yield exec_item("agent_message", "i1", text="x")


def sums_of_runs() -> Records:
    session = Session()
    for number in count():
        yield session.answer(f"m{number}", text("x"), stopped=False)
        usage = {"inputTokens": number % 2 + 1, "outputTokens": 20}
        yield {"type": "result", "session_id": "s-1", "modelUsage": {session.model: usage}}


LINES: dict[str, Callable[[], Records]] = {
    each.__name__: each
    for each in (
        spans_within_spans,
        what_was_taken_back,
        threads_of_codex_exec,
        sums_of_runs,
        spans_without_content,
        spans_without_usage,
        spans_of_many_conversations,
        spans_with_a_field_for_each_message,
        one_after_the_other,
        all_after_one,
        each_its_own_parent,
        parents_that_come_later,
        each_a_side_chain,
        an_answer_of_many_blocks,
        an_answer_of_many_calls,
        results_of_many_calls,
        sessions_in_one_file,
        words_between_requests,
        requests_without_answers,
        blocks_of_a_requested_answer,
        shapes_of_requests,
        items_of_one_answer,
        calls_of_one_answer,
        compactions,
        logged_calls_that_begin_anew,
        logged_calls_without_messages,
    )
}


def lines(make: Callable[[], Records], chars: int) -> str:
    written: list[str] = []
    for record in make():
        written.append(json.dumps(record) + "\n")
        chars -= len(written[-1])
        if chars < 0:
            break
    return "".join(written)


def once(make: Callable[[list[Any]], Any], unit: Any, chars: int) -> str:
    """One record that holds a list of so many units."""
    return json.dumps(make([unit] * (chars // len(json.dumps(unit)))))


def stream(before: list[Any], unit: Any, behind: list[Any], chars: int) -> str:
    """A logged call whose answer is a stream of many events."""
    events = [*before, *[unit] * (chars // len(json.dumps(unit))), *behind]
    answer = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    request = {"model": "m", "messages": [chat("user", "Go.")]}
    return json.dumps({"request": request, "response": answer})


BLOCK = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ab"}}
ASKS = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RECORDS: dict[str, Callable[[int], str]] = {
    "a list of messages": partial(once, lambda many: {"messages": many}, chat("assistant", "x")),
    "parts of a message": partial(
        once, lambda many: {"messages": [chat("user", many), chat("assistant", "x")]}, text("x")
    ),
    "calls of a message": partial(
        once,
        lambda many: {"messages": [chat("user", "x"), chat("assistant", "", tool_calls=many)]},
        ASKS,
    ),
    "contents of Gemini": partial(
        once,
        lambda many: {
            "request": {"contents": many, "model": "gemini-3"},
            "response": {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}}]},
        },
        {"role": "model", "parts": [{"text": "x"}]},
    ),
    "items of Responses": partial(
        once,
        lambda many: {"request": {"input": many, "model": "gpt-5"}, "response": {"output": []}},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    ),
    "spans of an export": lambda chars: lines(
        lambda: iter([export(*map(span, range(chars // 900)))]), chars
    ),
    "parts of a span": partial(
        once,
        lambda many: export(
            span(1, **{"gen_ai.input.messages": json.dumps([{"role": "user", "parts": many}])})
        ),
        part("x"),
    ),
    "a stream of Anthropic": partial(
        stream,
        [
            {"type": "message_start", "message": {"id": "m", "usage": {}, "model": "m"}},
            {"type": "content_block_start", "index": 0, "content_block": text("")},
        ],
        BLOCK,
        [{"type": "content_block_stop", "index": 0}, {"type": "message_stop"}],
    ),
    "a stream of OpenAI": partial(
        stream,
        [],
        {"id": "c", "choices": [{"index": 0, "delta": {"content": "ab"}}]},
        [{"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}],
    ),
    "arguments in a stream": partial(
        stream,
        [],
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]}}]},
        [{"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}],
    ),
}


def reader(folder: Path) -> Callable[[str], object]:
    def read(written: str) -> object:
        path = folder / "x.jsonl"
        path.write_text(written, encoding="utf-8")
        try:
            return [recording.title for recording in recordings(path)]
        except UsageError as error:
            return str(error)

    return read


@pytest.mark.parametrize("kind", LINES)
def test_records(tmp_path: Path, kind: str) -> None:
    assert_linear(reader(tmp_path), partial(lines, LINES[kind]), CHARS)


@pytest.mark.parametrize("kind", RECORDS)
def test_one_record(tmp_path: Path, kind: str) -> None:
    assert_linear(reader(tmp_path), RECORDS[kind], CHARS)
