"""The steps of a session: what was sent, and what a resumed run finds answered in its record.

Each call of a model is a step with a place in the program. A row `sent` is written before the
call, and its answer after it: the reply's own row, or one of its own. A resumed run walks the
program again. Where a place was answered, the answer comes from the record at no cost. What was
sent and never answered may have been billed: it is sent again, and both stand in the bill.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

from windlass.errors import (
    ContextTooLong,
    StepDiffers,
    ThinkingRefused,
    Unsure,
    WindlassError,
)
from windlass.history.base import (
    ANSWERED,
    CONTINUES,
    FAILED,
    INHERITED,
    SENT,
    STARTED,
    STEP,
    NodeType,
    StoredRow,
)
from windlass.messages import Message, ToolCall, assistant, canonical_json
from windlass.wire.base import Finish, Reply, Request, Usage
from windlass.wire.calls import with_own_ids

_Known = TypeVar("_Known")

BROKEN_OFF: Final = "[no result: the run was interrupted]"
"""The result of a tool that ran when the user stopped the run: a resumed run does not count it."""


QUESTIONS: Final = ("answer", "approval")
"""The kinds of rows that hold a person's answers: to `ask_human`, and whether a tool may run."""


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """A tool call that is in the record: its result, and what it left in the state."""

    message: Message
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AskingCall:
    """A call that asks a person: the place of its turn, the position in it, from 0, and the call.

    What a person says is said of this one: of no other call, and not of this tool with arguments
    of another meaning. The id that a provider gave it says nothing.
    """

    place: str
    position: int
    call: ToolCall

    @property
    def key(self) -> str:
        """What it is known by in its session; it begins with the place."""
        call = self.call
        return f"{self.place}: {canonical_json([self.position, call.name, self.arguments])}"

    @property
    def arguments(self) -> str:
        """Its arguments in the one form that equal ones have."""
        return self.call.canonical_arguments

    def name_in(self, session_id: str) -> str:
        """What a person calls it by, of all calls of all sessions: 32 hex digits."""
        told = canonical_json([session_id, self.key])
        return hashlib.sha256(told.encode("ascii")).hexdigest()[:32]

    def told(self) -> dict[str, Any]:
        """What a row says of it."""
        call = {"name": self.call.name, "arguments": self.arguments}
        return {STEP: self.place, "call": self.call.id, "at": self.position, **call}


@dataclass
class Journal:
    """What the record of a session knows of its steps.

    Args:
        replies: The answers, by place.
        times: When they were recorded, in seconds since 1970, by place.
        sent: When what has an answer was sent, likewise.
        requests: The digests of what was asked for them, by place.
        refused: What a provider refused, and would again.
        results: The results of tools, by the place of the turn that asked for them.
        started: The tools that were started in a turn, by its place.
        verdicts: What validators answered, by the place of the turn and the output.
        answers: What a person answered, by what says which call it was about.
        changed: What of the program is another one now: `the cascade`, `tool 'x'`.
        again: The tools that may run again though they may have run.
        holds_back: Whether it is of a sounding, whose memories are kept only if it wins.
        origin: The session that the record is of, where this one was forked from it.
        before: Up to when, in seconds since 1970.
        message: What is said before the first call that is not answered there.
        seen: How often each place was come by in this run.
    """

    replies: Mapping[str, Reply] = field(default_factory=dict[str, Reply])
    times: Mapping[str, float] = field(default_factory=dict[str, float])
    sent: Mapping[str, float] = field(default_factory=dict[str, float])
    requests: Mapping[str, str] = field(default_factory=dict[str, str])
    refused: Mapping[str, WindlassError] = field(default_factory=dict[str, WindlassError])
    results: Mapping[str, Sequence[RecordedResult]] = field(
        default_factory=dict[str, Sequence[RecordedResult]]
    )
    started: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    verdicts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    changed: Sequence[str] = ()
    again: frozenset[str] = frozenset()
    holds_back: bool = False
    origin: str = ""
    before: float = 0.0
    message: str = ""
    seen: Counter[str] = field(default_factory=Counter[str])

    def next_place(self, place: str) -> str:
        """The place, with how often it was come by before: a turn may ask twice."""
        named = self._next(place)
        self.seen[place] += 1
        return named

    def _next(self, place: str) -> str:
        number = self.seen[place]
        return f"{place}, again {number}" if number else place

    def sent_at(self, place: str) -> float | None:
        """When what comes next at a place was sent, in seconds since 1970; None: it is to be."""
        place = self._next(place)
        known = place in self.replies or place in self.refused
        return self.sent.get(place) if known else None

    def forget(self, phase: str) -> None:
        """Know nothing more of what a phase did: it is run anew."""
        begin = turn_place(phase, None, 0, 0).partition("attempt")[0]
        self.replies = _without(self.replies, begin)
        self.refused = _without(self.refused, begin)
        self.results = _without(self.results, begin)
        self.started = _without(self.started, begin)
        self.verdicts = _without(self.verdicts, begin)
        self.answers = _without(self.answers, begin)
        self.seen = Counter(_without(self.seen, begin))

    def verdict(self, place: str, output: str) -> Mapping[str, Any] | None:
        """What a validator answered on the output of a turn; None: it was not asked."""
        return self.verdicts.get(f"{place}: {output}")

    def answer_to(self, asking: AskingCall) -> str | None:
        """What a person answered where a call asks for it; None: nobody was asked."""
        return self.answers.get(asking.key)

    def tools_at(self, place: str, calls: Sequence[ToolCall]) -> Sequence[RecordedResult] | None:
        """The results of the calls of a turn; None: they are to be run.

        Raises Unsure where tools may have run whose effects cannot be taken back.
        """
        tried = self.results.get(place, ())
        # Those of a turn are recorded in the order of its calls, also where these shared an id.
        if [each.message.tool_call_id for each in tried] == [call.id for call in calls]:
            return tried
        unsure = [name for name in self.started.get(place, ()) if name not in self.again]
        if unsure:
            raise Unsure(place, unsure)
        return None

    def answer(self, place: str, request: str) -> Reply | None:
        """The recorded answer at a place; None: it is to be asked for.

        Raises StepDiffers where a different request was answered there and the program has changed.
        Where it has not, only time or chance makes the requests differ: then the answer stands.
        """
        if (error := self.refused.get(place)) is not None:
            raise error
        reply = self.replies.get(place)
        if reply is None:
            return None
        if self.changed and self.requests.get(place) != request:
            raise StepDiffers(place, self.changed)
        return reply


def digest_of(request: Request) -> str:
    """What a request is known by: its messages, tools and parameters."""
    asked = {
        "model": request.model,
        "messages": [message.key for message in request.messages],
        "tools": [spec.to_openai() for spec in request.tools],
        "most": request.max_output_tokens,
        "temperature": request.temperature,
        "choice": request.tool_choice,
        "schema": request.output_schema,
    }
    return hashlib.sha256(canonical_json(asked).encode("ascii")).hexdigest()[:16]


def _without(known: Mapping[str, _Known], begin: str) -> dict[str, _Known]:
    return {place: value for place, value in known.items() if not place.startswith(begin)}


def turn_place(phase: str, sounding: int | None, attempt: int, turn: int) -> str:
    """The place of a turn in its session, in words."""
    of = "" if sounding is None else f"sounding {sounding}, "
    return f"phase {phase}, {of}attempt {attempt}, turn {turn}"


def read_journal(
    rows: Iterable[StoredRow], changed: Sequence[str], again: Iterable[str]
) -> Journal:
    """The journal of a session, from its rows."""
    journal = Journal(changed=changed, again=frozenset(again))
    replies, requests = dict[str, Reply](), dict[str, str]()
    times, sent = dict[str, float](), dict[str, float]()
    refused = dict[str, WindlassError]()
    results: dict[str, list[RecordedResult]] = defaultdict(list)
    started, verdicts = dict[str, Sequence[str]](), dict[str, Mapping[str, Any]]()
    answers, asked = dict[str, str](), defaultdict[str, list[Message]](list)
    for stored in rows:
        row, told = stored.row, stored.row.metadata
        kind = told.get("kind") if row.node_type == NodeType.DECISION else None
        place = turn_place(row.phase or "", row.sounding_index, row.attempt or 1, row.turn or 0)
        if kind == SENT:
            requests[told[STEP]] = told["request"]
            sent[told[STEP]] = row.timestamp
        elif kind == FAILED and "limit" in told:
            refused[told[STEP]] = ContextTooLong(
                told["text"], counted=told["counted"], limit=told["limit"]
            )
        elif kind == FAILED and told["error"] == ThinkingRefused.__name__:
            refused[told[STEP]] = ThinkingRefused(told["text"])
        elif kind == ANSWERED:
            replies[told[STEP]] = _as_reply(told["reply"])
            times[told[STEP]] = row.timestamp
        elif kind == STARTED:
            started[told[STEP]] = told["tools"]
        elif kind in QUESTIONS and STEP in told:
            if (asking := _asking(told, asked[told[STEP]])) is not None:
                answers[asking.key] = told["answer"]
        elif row.node_type in (NodeType.AGENT, NodeType.FOLLOW_UP) and STEP in told:
            assert row.message is not None
            asked[place].append(row.message)
            answers = _without(answers, f"{place}: ")  # they were about the calls before
            replies[told[STEP]] = _reply_of(stored)
            times[told[STEP]] = row.timestamp
        elif row.node_type == NodeType.TOOL_RESULT and row.message is not None:
            if row.message.failed and row.message.text == BROKEN_OFF:
                continue
            results[place].append(RecordedResult(row.message, told))
        elif row.node_type == NodeType.VALIDATION:
            verdicts[f"{place}: {told['output']}"] = told
    return replace(
        journal,
        replies=replies,
        times=times,
        sent=sent,
        requests=requests,
        refused={
            place: error
            for place, error in refused.items()
            # Thinking that was refused is refused again; what was too long need not be.
            if isinstance(error, ThinkingRefused) or f"{place}, again 1" in replies
        },
        results={place: _with_own_ids(asked[place], tried) for place, tried in results.items()},
        started=started,
        verdicts=verdicts,
        answers=answers,
    )


def _asking(told: Mapping[str, Any], replies: Sequence[Message]) -> AskingCall | None:
    """The call that an answer is about, which stands in one of the replies of its turn.

    Before, the row held the id alone: then it is about the only call that had it (None: there is
    no such one).
    """
    place = told[STEP]
    if "arguments" in told:
        call = ToolCall(told["call"], told["name"], told["arguments"])
        return AskingCall(place, told["at"], call)
    calls = [call for reply in replies for call in reply.tool_calls]
    at = [at for at, call in enumerate(calls) if call.id == told["call"]]
    if len(at) != 1 or len([reply for reply in replies if reply.tool_calls]) != 1:
        return None
    call = calls[at[0]]
    return AskingCall(place, at[0], call) if told["tool"] in (None, call.name) else None


def _with_own_ids(
    replies: Sequence[Message], tried: Sequence[RecordedResult]
) -> list[RecordedResult]:
    """The results of a turn under the ids that its calls have now."""
    messages = with_own_ids([*replies[-1:], *(each.message for each in tried)])
    now = messages[len(replies[-1:]) :]
    return [replace(each, message=message) for each, message in zip(tried, now, strict=True)]


def _reply_of(stored: StoredRow) -> Reply:
    """The reply that a row tells of; of one that goes on with another only the rest."""
    row, told = stored.row, stored.row.metadata
    message = row.message
    assert message is not None
    if CONTINUES in told:
        message = assistant(told["rest"])
    (message,) = with_own_ids([message])  # before, they stood as the provider gave them
    usage = Usage(
        row.tokens_in or 0,
        row.tokens_out or 0,
        row.tokens_cached or 0,
        told.get("tokens_written", 0),
        told.get("tokens_written_long", 0),
    )
    model = (row.model or "").partition("/")[2]
    return Reply(
        message,
        usage,
        told["finish"],
        model,
        tries=told.get("tries", 1),
        waited_s=told.get("waited_s", 0.0),
        seconds=(row.duration_ms or 0) / 1_000,
        estimated=bool(told.get("estimated")),
        provider_edits=told.get("provider_edits", {}),
    )


def billed_here(journal: Journal, reply: Reply) -> tuple[Reply, dict[str, Any]]:
    """A reply with what this session pays for it, and what its row says of its step."""
    told: dict[str, Any] = {"finish": reply.finish, STEP: reply.step}
    if reply.provider_edits:
        told["provider_edits"] = reply.provider_edits
    if not reply.inherited:
        return reply, told
    told[INHERITED] = {"session": journal.origin, "usage": _usage_of(reply)}
    return replace(reply, usage=Usage(0, 0)), told


def failure_of(error: WindlassError) -> dict[str, Any]:
    """What a row says of a failed call beside its text."""
    told: dict[str, Any] = {"error": type(error).__name__}
    if isinstance(error, ContextTooLong):
        told |= {"counted": error.counted, "limit": error.limit}
    return told


def as_record(reply: Reply) -> dict[str, Any]:
    """A reply as JSON, for a row."""
    return {
        "text": reply.message.text,
        "usage": _usage_of(reply),
        "finish": reply.finish,
        "model": reply.model,
    }


def _usage_of(reply: Reply) -> list[int]:
    usage = reply.usage
    read, written = usage.tokens_cached, usage.tokens_written
    return [usage.tokens_in, usage.tokens_out, read, written, usage.tokens_written_long]


def _as_reply(told: Mapping[str, Any]) -> Reply:
    finish = cast("Finish", told["finish"])
    return Reply(assistant(told["text"]), Usage(*told["usage"]), finish, told["model"])
