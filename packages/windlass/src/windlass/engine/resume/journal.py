"""The steps of a session: what was sent, and what a resumed run finds answered in its record.

Each call of a model is a step with a place in the program. A row `sent` is written before the
call, and its answer after it: the reply's own row, or one of its own. A resumed run walks the
program again. Where a step was answered, the answer comes from the record at no cost. What was
sent and never answered may have been billed: it is sent again, and both stand in the bill.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from windlass.errors import ContextTooLong, StepDiffers, ThinkingRefused, Unsure, WindlassError
from windlass.history.base import Row, StoredRow
from windlass.history.row_details import (
    Answer,
    Approval,
    CallAnswered,
    CallFailed,
    CallSent,
    Inherited,
    ReplyDetails,
    ReplyOnly,
    ToolAttemptFailed,
    ToolResult,
    ToolsStarted,
    Validation,
    WardJudged,
    details_of,
    turn_of,
    usage_counts,
    usage_of,
)
from windlass.history.step import Step
from windlass.messages import Message, ToolCall, assistant, canonical_json
from windlass.wire.base import Reply, Request, Usage
from windlass.wire.calls import with_own_ids


@dataclass(frozen=True, slots=True)
class TakenStep:
    """A step with its reply; `inherited`: another session paid for it."""

    step: Step
    reply: Reply
    inherited: bool = False


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What the record holds of a step: when it was sent, what was asked, and what came of it.

    Times are in seconds since 1970, and `request` is the digest of what was asked (None: another
    session sent it). `refused` is what the provider would say again.
    """

    sent: float | None = None
    request: str | None = None
    reply: Reply | None = None
    answered: float | None = None
    refused: WindlassError | None = None


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What the record holds of a turn besides its calls of models.

    `started` names the tools that were started, `results` are their results as they stand in the
    record, and `state` is what they set in the state. `verdict` is what was said of the output.
    `error` is what the attempt of a tool phase failed by.
    """

    started: Sequence[str] = ()
    results: Sequence[Message] = ()
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    verdict: Validation | None = None
    error: str | None = None


AskingKey: TypeAlias = tuple[Step, int, str, str]
"""What a call that asks a person is known by: its turn, position, tool and arguments."""


WardKey: TypeAlias = tuple[Step, str, int, str, str]
"""What a ward's verdict is known by: step, place, position, validator, digest of the text."""


@dataclass(frozen=True, slots=True)
class AskingCall:
    """A call that asks a person: its turn, the position in it, from 0, and the call.

    What a person says is said of this one: of no other call, and not of this tool with arguments
    of another meaning. The id that a provider gave it says nothing.
    """

    turn: Step
    position: int
    call: ToolCall

    @property
    def key(self) -> AskingKey:
        """What it is known by in its session."""
        return self.turn, self.position, self.call.name, self.arguments

    @property
    def arguments(self) -> str:
        """Its arguments in the one form that equal ones have."""
        return self.call.canonical_arguments

    def name_in(self, session_id: str) -> str:
        """Return what a person calls it by, of all calls of all sessions: 32 hex digits."""
        told = canonical_json([session_id, self.turn.as_json(), *self.key[1:]])
        return hashlib.sha256(told.encode("ascii")).hexdigest()[:32]

    def answered(self, text: str, tool: str | None, answer: str) -> Answer:
        """Return what a row says of the answer; `text` is the question with the answer."""
        kind, call = Answer if tool is None else Approval, self.call
        at, arguments = self.position, self.arguments
        return kind(text, call.id, answer, self.turn, at, call.name, arguments, tool)


@dataclass
class Journal:
    """What the record of a session knows of its steps.

    Args:
        calls: What it holds of calls of models, by step.
        turns: What it holds of turns besides, by the step of the turn's own call.
        answers: What a person answered, by the call that asked.
        wards: What wards said, by what they judged.
        changed: What of the program has changed since: `the cascade`, `tool 'x'`.
        again: The tools that may run again though they may have run.
        origin: The session that the record is of, where this one was forked from it.
        before: Up to when, in seconds since 1970.
        message: What is said before the first call that is not answered there.
        passed: How often the run came to each place until now.
    """

    calls: Mapping[Step, StepRecord] = field(default_factory=dict[Step, StepRecord])
    turns: Mapping[Step, TurnRecord] = field(default_factory=dict[Step, TurnRecord])
    answers: Mapping[AskingKey, str] = field(default_factory=dict[AskingKey, str])
    wards: Mapping[WardKey, WardJudged] = field(default_factory=dict[WardKey, WardJudged])
    changed: Sequence[str] = ()
    again: frozenset[str] = frozenset()
    origin: str = ""
    before: float = 0.0
    message: str = ""
    passed: Counter[Step] = field(default_factory=Counter[Step])

    def next_step(self, place: Step) -> Step:
        """Return the step that comes next at a place: a turn may ask twice. It counts as passed."""
        step = self._next(place)
        self.passed[place] += 1
        return step

    def _next(self, place: Step) -> Step:
        return replace(place, repeat=self.passed[place])

    def sent_at(self, place: Step) -> float | None:
        """When what comes next at a place was sent, in seconds since 1970; None: it is to be."""
        call = self.calls.get(self._next(place))
        return call.sent if call is not None and (call.reply or call.refused) else None

    def is_answered(self, step: Step) -> bool:
        """Return whether the record holds the reply."""
        call = self.calls.get(step)
        return call is not None and call.reply is not None

    def forget(self, phase: str) -> None:
        """Know nothing more of what a phase did: it is run anew."""
        self.calls = {key: value for key, value in self.calls.items() if key.phase != phase}
        self.turns = {key: value for key, value in self.turns.items() if key.phase != phase}
        self.answers = {key: value for key, value in self.answers.items() if key[0].phase != phase}
        self.passed = Counter({k: value for k, value in self.passed.items() if k.phase != phase})

    def verdict(self, turn: Step, output: str) -> Validation | None:
        """Return what a validator said of the output of a turn; None: it was not asked."""
        known = self.turns.get(turn)
        verdict = None if known is None else known.verdict
        return verdict if verdict is not None and verdict.output == output else None

    def answer_to(self, asking: AskingCall) -> str | None:
        """Return what a person answered where a call asks for it; None: nobody was asked."""
        return self.answers.get(asking.key)

    def tools_at(self, turn: Step, calls: Sequence[ToolCall]) -> TurnRecord | None:
        """Return the turn, with a result for each of its calls; None: they are to be run.

        Raises Unsure where tools may have run whose effects cannot be taken back.
        """
        known = self.turns.get(turn, TurnRecord())
        # Those of a turn are recorded in the order of its calls, also where these shared an id.
        if [each.tool_call_id for each in known.results] == [call.id for call in calls]:
            return known
        self._check_again(turn, known)
        return None

    def tool_phase_at(self, turn: Step) -> TurnRecord | None:
        """Return an attempt of a tool phase that ended in the record; None: it is to be made.

        Raises Unsure where the tool may have run whose effects cannot be taken back.
        """
        known = self.turns.get(turn, TurnRecord())
        if known.results or known.error is not None:
            return known
        self._check_again(turn, known)
        return None

    def _check_again(self, turn: Step, known: TurnRecord) -> None:
        unsure = [name for name in known.started if name not in self.again]
        if unsure:
            raise Unsure(str(turn), unsure)

    def recorded(self, step: Step, request: str) -> Reply | None:
        """Return the recorded reply of a step; None: it is to be asked for.

        Raises StepDiffers where a different request was answered there and the program has changed.
        Where it has not, only time or chance makes the requests differ: then the answer stands.
        """
        call = self.calls.get(step, StepRecord())
        if call.refused is not None:
            raise call.refused
        if call.reply is not None and self.changed and call.request != request:
            raise StepDiffers(str(step), self.changed, call.sent)
        return call.reply


def digest_of(request: Request) -> str:
    """Return what a request is known by: its messages, tools and parameters."""
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


def read_journal(
    rows: Iterable[StoredRow], changed: Sequence[str], again: Iterable[str]
) -> Journal:
    """Return the journal of a session, from its rows."""
    calls = defaultdict[Step, StepRecord](StepRecord)
    turns = defaultdict[Step, TurnRecord](TurnRecord)
    replies = defaultdict[Step, list[Message]](list)
    answers = dict[AskingKey, str]()
    wards = dict[WardKey, WardJudged]()
    for row in (stored.row for stored in rows):
        turn, message = turn_of(row), row.message
        match details_of(row):
            case CallSent(step=step, request=request):
                calls[step] = StepRecord(row.timestamp, request)  # sent again: nothing stands
            case CallFailed(step=step) as failed:
                calls[step] = replace(calls[step], refused=_refusal(failed))
            case CallAnswered(step=step, reply=told):
                reply = _as_reply(told)
                calls[step] = replace(calls[step], reply=reply, answered=row.timestamp)
            case ReplyDetails(step=Step() as step) as told if message is not None:
                replies[turn].append(message)
                turns.pop(turn, None)  # it was about the calls before
                answers = {key: value for key, value in answers.items() if key[0] != turn}
                reply = _reply_of(row, message, told)
                calls[step] = replace(calls[step], reply=reply, answered=row.timestamp)
            case ToolsStarted(step=step, tools=tools):
                turns[step] = replace(turns[step], started=tools, error=None)
            case ToolAttemptFailed(step=step, error=error):
                turns[step] = replace(turns[step], error=error)
            case Answer() as answer:
                if (asking := _asking(answer, replies)) is not None:
                    answers[asking.key] = answer.answer
            case ToolResult(interrupted=False, state=state) if message is not None:
                known = turns[turn]
                results = (*known.results, message)
                turns[turn] = replace(known, results=results, state={**known.state, **state})
            case WardJudged() as judged:
                key = judged.place, judged.position, judged.validator, judged.digest
                wards[judged.step, *key] = judged
            case Validation() as verdict:
                turns[turn] = replace(turns[turn], verdict=verdict)
            case _:
                pass
    own_ids = {
        turn: replace(known, results=_with_own_ids(replies[turn], known.results))
        for turn, known in turns.items()
    }
    return Journal(
        calls={step: _as_it_stands(step, call, calls) for step, call in calls.items()},
        turns=own_ids,
        answers=answers,
        wards=wards,
        changed=changed,
        again=frozenset(again),
    )


def _asking(answer: Answer, replies: Mapping[Step, Sequence[Message]]) -> AskingCall | None:
    """Return the call that an answer is about, which stands in one of the replies of its turn.

    Where an earlier version recorded the id alone, it is about the only call that had it (None:
    there is no such call).
    """
    turn = answer.step
    if turn is None:
        return None
    if answer.at is not None and answer.name is not None and answer.arguments is not None:
        return AskingCall(turn, answer.at, ToolCall(answer.call, answer.name, answer.arguments))
    asked = [reply.tool_calls for reply in replies.get(turn, ()) if reply.tool_calls]
    calls = [(at, call) for calls in asked for at, call in enumerate(calls)]
    named = [(at, call) for at, call in calls if call.id == answer.call]
    if len(asked) != 1 or len(named) != 1:
        return None
    at, call = named[0]
    return AskingCall(turn, at, call) if answer.tool in (None, call.name) else None


def _refusal(failed: CallFailed) -> WindlassError | None:
    """The error of a call that a provider refused for what was asked; None: it failed otherwise."""
    if failed.error == ContextTooLong.__name__:
        return ContextTooLong(failed.message, counted=failed.counted, limit=failed.limit)
    if failed.error == ThinkingRefused.__name__:
        return ThinkingRefused(failed.message)
    return None


def _as_it_stands(step: Step, call: StepRecord, calls: Mapping[Step, StepRecord]) -> StepRecord:
    """Return a call, with its refusal only where a provider would refuse it again.

    Thinking that was refused is refused again; what was too long need not be, unless the run went
    on from there.
    """
    after = calls.get(replace(step, repeat=step.repeat + 1), StepRecord())
    stands = isinstance(call.refused, ThinkingRefused) or after.reply is not None
    return call if stands else replace(call, refused=None)


def _with_own_ids(replies: Sequence[Message], results: Sequence[Message]) -> Sequence[Message]:
    """Return the results of a turn under the ids that its calls have now."""
    return with_own_ids([*replies[-1:], *results])[len(replies[-1:]) :]


def _reply_of(row: Row, message: Message, told: ReplyDetails) -> Reply:
    """Return the reply that a row tells of; of one that goes on with another only the rest."""
    if told.continues is not None:
        message = assistant(told.rest or "")
    (message,) = with_own_ids([message])  # earlier versions kept the ids that the provider gave
    tokens = row.tokens_in or 0, row.tokens_out or 0, row.tokens_cached or 0
    return Reply(
        message,
        Usage(*tokens, told.tokens_written, told.tokens_written_long, told.searches, told.tier),
        told.finish or "stop",
        (row.model or "").partition("/")[2],
        tries=told.tries,
        waited_s=told.waited_s,
        seconds=(row.duration_ms or 0) / 1_000,
        provider_edits=told.provider_edits,
    )


def bill_step(journal: Journal, taken: TakenStep) -> tuple[Reply, ReplyDetails]:
    """Return a reply with what this session pays for it, and what its row says of it."""
    reply = taken.reply
    told = ReplyDetails(
        finish=reply.finish,
        step=taken.step,
        tokens_written=reply.usage.tokens_written,
        tokens_written_long=reply.usage.tokens_written_long,
        tries=reply.tries,
        waited_s=round(reply.waited_s, 3),
        provider_edits=reply.provider_edits,
        searches=reply.usage.searches,
        tier=reply.usage.tier,
    )
    if not taken.inherited:
        return reply, told
    inherited = Inherited(journal.origin, usage_counts(reply.usage))
    told = replace(
        told, tokens_written=0, tokens_written_long=0, searches=0, tier="", inherited=inherited
    )
    return replace(reply, usage=Usage(0, 0)), told


def failure_of(step: Step, error: WindlassError) -> CallFailed:
    """Return what a row says of a failed call."""
    told = CallFailed(f"{step}: {error}", type(error).__name__, step)
    if isinstance(error, ContextTooLong):
        return replace(told, counted=error.counted, limit=error.limit)
    return told


def reply_only(reply: Reply) -> ReplyOnly:
    """Return a reply as it is recorded where it has no row of its own."""
    return ReplyOnly(reply.message.text, usage_counts(reply.usage), reply.finish, reply.model)


def _as_reply(told: ReplyOnly) -> Reply:
    return Reply(assistant(told.text), usage_of(told.usage), told.finish, told.model)
