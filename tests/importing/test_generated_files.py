"""Larger files of each format with odd shapes: nothing that can be read is lost without a word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.importing.making import Session, call, result, text, used
from tests.support import importing_agents as agents
from tests.support.importing_otel import export, span
from windlass.errors import UsageError
from windlass.importing.streams import recordings
from windlass.wire.base import Usage

pytestmark = pytest.mark.timeout(120)

Odd: TypeAlias = st.SearchStrategy[Any]

PARTS: Odd = st.sampled_from([{}, {"type": "mystery", "x": 1}, None, "", 3, [], {"type": None}])
"""Parts of a message that no client should write."""


class Made:
    """A file of some turns, and what stands in it that can be read."""

    def __init__(self, data: st.DataObject, *, odd_parts: bool = True) -> None:
        self.data = data
        self.odd_parts = odd_parts
        self.turns = data.draw(st.integers(2, 12))
        self.marks: list[str] = []
        self.total = Usage(0, 0)
        self.records: list[Any] = []

    def words(self, kind: str) -> str:
        """Words that stand nowhere else; some are long."""
        self.marks.append(f"{kind}{len(self.marks)}!")
        return self.marks[-1] + " x" * (50_000 if self.chance(60) else 3)

    def chance(self, of: int) -> bool:
        return self.data.draw(st.integers(1, of)) == of

    def ident(self, name: str) -> str:
        """An id, which may be missing, or be that of another."""
        return self.data.draw(st.sampled_from([name, name, name, "", "same"]))

    def parts(self, *parts: Any) -> list[Any]:
        """The parts of a message, perhaps with an odd one among them."""
        listed = list(parts)
        if self.odd_parts and self.chance(3):
            listed.insert(self.data.draw(st.integers(0, len(listed))), self.data.draw(PARTS))
        return listed

    def usage(self) -> Usage:
        """What an answer used; it is added to the file's own sum."""
        sent = self.data.draw(st.integers(1, 9_000))
        cached = self.data.draw(st.integers(0, sent))
        one = Usage(sent, self.data.draw(st.integers(0, 900)), cached)
        self.total = self.total.plus(one)
        return one


def claude_code(made: Made) -> None:
    session = Session()
    for turn in range(made.turns):
        record = session.user(made.parts(text(made.words("u"))))
        above = [one["uuid"] for one in session.records]
        odd = made.data.draw(st.sampled_from(["", "", "self", "later", "unknown", "other", "none"]))
        if odd == "none":
            del record["parentUuid"]
        elif odd:
            later, other = f"s-1-{len(above) + 3}", made.data.draw(st.sampled_from(above))
            named = {"self": record["uuid"], "later": later, "unknown": "?", "other": other}
            record["parentUuid"] = named[odd]
        one = made.usage()
        told = used(one.tokens_in - one.tokens_cached, one.tokens_out, one.tokens_cached)
        blocks = made.parts(text(made.words("a")), call(f"t{turn}"))
        session.answer(f"m{turn}", *blocks, usage=told)
        session.user(made.parts(result(f"t{turn}", made.words("r"))))
        session.records[-1]["has_no_id"] = made.chance(4)
    session.answer("last", text("done"), usage=used(0, 0))
    for record in session.records:
        if record.pop("has_no_id", False):
            del record["uuid"]
    made.records += session.records


def codex(made: Made) -> None:
    def add(kind: str, **payload: Any) -> None:
        made.records.append({"type": kind, "payload": payload})

    def message(role: str, kind: str, words: str) -> None:
        content = made.parts({"type": kind, "text": words})
        add("response_item", type="message", role=role, content=content)

    add("session_meta", id="th-1", cwd="/w")
    add("turn_context", model="gpt-5")
    for turn in range(made.turns):
        message("user", "input_text", made.words("u"))
        message("assistant", "output_text", made.words("a"))
        add("response_item", type="function_call", call_id=f"c{turn}", name="ls", arguments="{}")
        one = made.usage()
        counts = {"input_tokens": one.tokens_in, "cached_input_tokens": one.tokens_cached}
        add(
            "token_usage_record",
            response_id=made.data.draw(st.sampled_from([f"r{turn}", ""])),
            usage={**counts, "output_tokens": one.tokens_out},
        )
        output = made.words("r")
        add("response_item", type="function_call_output", call_id=f"c{turn}", output=output)
        if made.chance(6):
            add("compacted", message=made.words("s"))


def codex_exec(made: Made) -> None:
    made.records += [{"type": "thread.started", "thread_id": "t-1"}]
    for turn in range(made.turns):
        made.records.append({"type": "turn.started"})
        for number in range(made.data.draw(st.integers(0, 3))):
            output = made.words("r")
            ran = {"command": "ls", "aggregated_output": output}
            ident = made.ident(f"i{turn}.{number}")
            made.records.append(agents.item("command_execution", ident, **ran))
        made.records.append(agents.item("agent_message", made.ident("m"), text=made.words("a")))
        if not made.chance(5):
            made.usage()
        total = made.total
        made.records.append(agents.turn_end(total.tokens_in, total.tokens_cached, total.tokens_out))


def gemini_cli(made: Made) -> None:
    made.records.append(agents.HEADER)
    for turn in range(made.turns):
        words = made.parts({"text": made.words("u")})
        made.records.append(agents.gemini_user(f"u{turn}", words))
        one = made.usage()
        counts = {"input": one.tokens_in, "output": one.tokens_out, "cached": one.tokens_cached}
        answer = agents.gemini(f"m{turn}", made.words("a"), f"c{turn}", **counts)
        response = answer["toolCalls"][0]["result"][0]["functionResponse"]["response"]
        response["output"] = made.words("r")
        made.records.append(answer)
        if made.chance(5):
            back = made.data.draw(st.integers(0, turn))
            made.records.append({"$rewindTo": made.data.draw(st.sampled_from([f"u{back}", "?"]))})


def opencode(made: Made) -> None:
    messages: list[Any] = []
    for turn in range(made.turns):
        asked = made.parts(agents.words(made.words("u")))
        messages.append(agents.opencode("user", *asked))
        one = made.usage()
        end = agents.step(0.5, one.tokens_in - one.tokens_cached, one.tokens_out)
        end["tokens"]["cache"]["read"] = one.tokens_cached
        done = agents.opencode_call(f"t{turn}", status="completed", output=made.words("r"))
        said = made.parts(agents.START, agents.words(made.words("a")), done)
        told = {**agents.CLAUDE, "id": f"m{turn}", "summary": made.chance(6)}
        messages.append(agents.opencode("assistant", *said, end, **told))
    made.records.append({"info": {"id": "ses_1"}, "messages": messages})


def cline(made: Made) -> None:
    for turn in range(made.turns):
        words = made.parts({"type": "text", "text": f"<task> {made.words('u')}"})
        made.records.append(agents.cline_user(*words, ts=2 * turn + 1))
        one = made.usage()
        fresh = one.tokens_in - one.tokens_cached
        counts = {"prompt": fresh, "completion": one.tokens_out, "cached": one.tokens_cached}
        asked = {**agents.CLINE_CALL, "id": f"t{turn}"}
        answer = agents.cline_answer(made.words("a"), *made.parts(asked), ts=2 * turn + 2)
        metrics = {"metrics": {"tokens": counts}, "modelInfo": agents.SONNET}
        made.records.append({**answer, **metrics})
        got = {**agents.CLINE_RESULT, "tool_use_id": f"t{turn}", "content": made.words("r")}
        made.records.append(agents.cline_user(got))
    made.records.append(agents.cline_answer("done", ts=2 * made.turns + 2))


def openinference(made: Made) -> None:
    asked: dict[str, Any] = {}
    for turn in range(made.turns):
        at = f"llm.input_messages.{2 * turn}.message"
        asked |= {f"{at}.role": "user", f"{at}.content": made.words("u")}
        answer = made.words("a")
        one = made.usage()
        made.records.append(
            export(
                span(
                    turn,
                    "",
                    **asked,
                    **{
                        "openinference.span.kind": "LLM",
                        "gen_ai.response.id": made.data.draw(st.sampled_from([f"x{turn}", ""])),
                        "llm.output_messages.0.message.role": "assistant",
                        "llm.output_messages.0.message.content": answer,
                        "gen_ai.usage.input_tokens": one.tokens_in,
                        "gen_ai.usage.output_tokens": one.tokens_out,
                        "gen_ai.usage.cache_read.input_tokens": one.tokens_cached,
                    },
                )
            )
        )
        at = f"llm.input_messages.{2 * turn + 1}.message"
        asked |= {f"{at}.role": "assistant", f"{at}.content": answer}


def ai_sdk(made: Made) -> None:
    asked: list[Any] = []
    for turn in range(made.turns):
        content = made.parts({"type": "text", "text": made.words("u")})
        asked.append({"role": "user", "content": content})
        answer = made.words("a")
        one = made.usage()
        made.records.append(
            export(
                span(
                    turn,
                    "ai.streamText.doStream",
                    **{
                        "ai.operationId": "ai.streamText.doStream",
                        "ai.prompt.messages": json.dumps(asked),
                        "ai.response.text": answer,
                        "gen_ai.usage.input_tokens": one.tokens_in,
                        "gen_ai.usage.output_tokens": one.tokens_out,
                        "gen_ai.usage.cache_read.input_tokens": one.tokens_cached,
                    },
                )
            )
        )
        asked.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})


def requests(made: Made) -> None:
    asked: list[Any] = []
    for turn in range(made.turns):
        content = made.parts({"type": "text", "text": made.words("u")})
        asked.append({"role": "user", "content": content})
        answer = {"role": "assistant", "content": made.words("a")}
        one = made.usage()
        counts = {"cached_tokens": one.tokens_cached}
        usage = {
            "prompt_tokens": one.tokens_in,
            "completion_tokens": one.tokens_out,
            "prompt_tokens_details": counts,
        }
        response = {"id": f"x{turn}", "choices": [{"message": answer}], "usage": usage}
        request = {"model": "gpt-5", "messages": list(asked)}
        made.records.append({"request": request, "response": response})
        asked.append(answer)


FORMATS: tuple[Callable[[Made], None], ...] = (
    *(claude_code, codex, codex_exec, gemini_cli, opencode, cline, openinference, ai_sdk, requests),
)


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_can_be_read_is_there_or_counted_and_the_tokens_are_the_files_own(
    tmp_path: Path, form: Callable[[Made], None], data: st.DataObject
) -> None:
    made = Made(data)
    form(made)
    lines = [json.dumps(record) for record in made.records]
    if form not in (opencode, cline):
        for _ in range(data.draw(st.integers(0, 2))):
            lines.insert(data.draw(st.integers(1, len(lines))), '{"type": "mystery", "x": [1]}')
    path = tmp_path / "rollout-x.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    read = list(recordings(path))
    said = {message.key: message for one in read for message in one.messages}
    everything = "\n".join(f"{one.text} {one.tool_calls}" for one in said.values())
    lost = [mark for mark in made.marks if mark not in everything]
    skipped = sum(count for one in read for count in one.skipped.values())
    assert len(lost) <= skipped, lost
    if not any("in no recorded call" in reason for one in read for reason in one.skipped):
        assert not lost
    used = Usage(0, 0)
    for one in read:
        used = used.plus(one.usage)
    assert used == made.total


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_whose_last_line_is_cut_is_read_up_to_there(
    tmp_path: Path, form: Callable[[Made], None], data: st.DataObject
) -> None:
    made = Made(data)
    form(made)
    whole = "".join(f"{json.dumps(record)}\n" for record in made.records).encode()
    path = tmp_path / "x.jsonl"
    path.write_bytes(whole[: data.draw(st.integers(1, len(whole)))])
    try:
        read = list(recordings(path))
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017 - the property is of either way
        return
    counts = [call.usage or Usage(0, 0) for one in read for call in one.calls]
    assert sum(one.tokens_in for one in counts) <= made.total.tokens_in
    assert sum(one.tokens_out for one in counts) <= made.total.tokens_out
