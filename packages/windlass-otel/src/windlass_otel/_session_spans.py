"""The spans of one session, made batch by batch of what is appended to its record.

A session is a span, its phases are below it, soundings below their phase, and calls of models and
of tools below the phase or sounding that made them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

from windlass.public import (
    FORKED_FROM,
    RAN,
    CallRecord,
    Finish,
    Message,
    Outcome,
    Row,
    SessionStart,
    ShownMessage,
    Step,
    ToolCall,
    Usage,
    assistant,
    cost,
    decisions,
    genai_names,
    row_details,
)
from windlass_otel.genai_messages import (
    Contents,
    as_text,
    split_system,
)
from windlass_otel.spans import OtelSpan, SpanSink

_FINISHES: Final[Mapping[Finish, str]] = {
    "tool_calls": "tool_call",
    "filter": "content_filter",
    "window": "length",
}
"""The reasons why a reply ended that have another name in the conventions."""

_FAILED: Final = ("failed", "interrupted")
"""The endings that count as errors."""

_Place: TypeAlias = tuple[str, int | None]
"""A phase and its sounding (None: the phase itself)."""


def began_at(row: Row) -> float:
    """When what a row tells of began, in seconds since 1970."""
    return row.timestamp - (row.duration_ms or 0.0) / 1_000


@dataclass(frozen=True, slots=True)
class _Sent:
    """A call that is on its way: its model, and since when."""

    model: str
    at: float


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a call ended: with an answer, or with an error."""

    usage: Usage | None = None
    finish: Finish | None = None
    answer: Message | None = None
    error: str = ""
    told: str = ""


@dataclass(slots=True)
class SessionSpans:
    """Makes the spans of one run of a session. Tools are told by the replies that called them.

    Args:
        session_id: The session.
        start: How it began.
        sink: Where its spans go.
        contents: What is told of contents.
        parent: The span that it is below (None: of no other session).
        at: When this run began, in seconds since 1970.
        number: How many spans of the session were made before.
    """

    session_id: str
    start: SessionStart
    sink: SpanSink
    contents: Contents
    parent: OtelSpan | None
    at: float
    number: int = 0
    ended: bool = False
    root: OtelSpan = field(init=False)
    _last: float = field(init=False)
    _open: dict[_Place, OtelSpan] = field(init=False, default_factory=dict[_Place, OtelSpan])
    _begun: dict[str, float] = field(init=False, default_factory=dict[str, float])
    _sent: dict[Step, _Sent] = field(init=False, default_factory=dict[Step, _Sent])
    _called: dict[str, ToolCall] = field(init=False, default_factory=dict[str, ToolCall])
    _bodies: dict[str, dict[str, Any]] = field(
        init=False, default_factory=dict[str, dict[str, Any]]
    )

    def __post_init__(self) -> None:
        self._last, name = self.at, self.start.cascade_id
        self.root = self._begin(
            genai_names.INVOKE_AGENT, name, self.parent, self.at, {"agent_name": name}
        )

    def phase_span(
        self, phase: str | None, sounding: int | None = None, at: float | None = None
    ) -> OtelSpan:
        """Return the span of a phase or of one of its soundings.

        That of the session where it has none.

        Where the record said nothing of the phase yet, it begins `at` this time.
        """
        if not phase:
            return self.root
        span = self._open.get((phase, sounding))
        if span is None:
            above = self.root if sounding is None else self.phase_span(phase)
            began = self._begun.setdefault(phase, self._last if at is None else at)
            known = {"agent_name": phase, "phase": phase, "sounding": sounding}
            span = self._begin(genai_names.INVOKE_AGENT, phase, above, began, known)
            self._open[phase, sounding] = span
        return span

    def know(self, row: Row, ident: str | None) -> None:
        """Take note of a message that may be sent, or whose tools may answer."""
        if row.message is None:
            return
        self._called |= {call.id: call for call in row.message.tool_calls}
        if self.contents.told and ident is not None:
            self._bodies[ident] = self.contents.message(row.message)

    def take_row(self, row: Row, ident: str | None, call: CallRecord | None) -> None:
        """Tell of a row, and of the call whose reply it is (None: it is none)."""
        self.know(row, ident)
        self._last = max(self._last, row.timestamp)
        if row.phase and decisions.VisitBegun.read(row) is not None:
            self._begun[row.phase] = row.timestamp
        elif row.phase:
            self._begun.setdefault(row.phase, began_at(row))
        details = row_details.details_of(row)
        match details:
            case row_details.CallSent(step=step, model=model):
                self._sent[step] = _Sent(model, row.timestamp)
            case row_details.CallAnswered(step=step, reply=reply):
                answer, usage = assistant(reply.text), row_details.usage_of(reply.usage)
                self._tell_call(row, step, _Ended(usage, reply.finish, answer), {})
            case row_details.CallFailed(step=step):
                self._tell_call(row, step, _Ended(error=details.error, told=details.message), {})
            case row_details.ToolResult() if not self._inherits(row):
                self._tell_tool(row, details)
            case row_details.ReplyDetails() if (call or row.model) and not details.inherited:
                self._tell_reply(row, details, call)
            case decisions.SoundingsDecided() if row.phase:
                self._close_soundings(row.phase)

    def _inherits(self, row: Row) -> bool:
        """Return whether the session that this one was forked from ran the tool of a result."""
        ran = self.start.cascade.get(RAN, {})
        return row.timestamp < self.at and bool(ran.get(FORKED_FROM))

    def take_outcome(self, outcome: Outcome) -> None:
        """Tell how a phase or the session ended."""
        self._last = max(self._last, outcome.timestamp)
        if outcome.phase is None:
            self.finish(outcome)
        elif outcome.phase in self._begun:
            self._close_soundings(outcome.phase)
            span = self.phase_span(outcome.phase)
            del self._open[outcome.phase, None], self._begun[outcome.phase]
            self._end(span, outcome)

    def finish(self, outcome: Outcome | None = None, *, status: str = "") -> None:
        """Close what is open yet, and the session; `status` is how it stands without an outcome."""
        if not self.ended:
            self.ended = True
            if status:
                self.root.attributes |= genai_names.named({"status": status})
            for step, sent in self._sent.items():
                self._tell_unanswered(step, sent)
            for span in reversed(self._open.values()):
                self._end(span, outcome)
            self._end(self.root, outcome)

    # ---- calls and tools --------------------------------------------------------------------

    def _tell_reply(
        self, row: Row, details: row_details.ReplyDetails, call: CallRecord | None
    ) -> None:
        usage = None
        if row.tokens_in is not None:
            of_cache = row.tokens_cached or 0, details.tokens_written
            usage = Usage(row.tokens_in, row.tokens_out or 0, *of_cache)
        known: dict[str, Any] = {
            "conversation": self.session_id,
            "cost": row.cost,
            "saved": row.tokens_saved,
            "compacted": True if call is not None and call.bodies else None,
        }
        if self.contents.told and call is not None:
            known |= self._sent_contents(call)
        ended = _Ended(usage, details.finish, row.message)
        self._tell_call(row, details.step, ended, known)

    def _sent_contents(self, call: CallRecord) -> dict[str, str]:
        changed = {body.key: self.contents.message(body) for body in call.bodies}
        messages = [self._body(shown, changed) for shown in call.shown]
        system, rest = split_system([one for one in messages if one is not None])
        contents = {"system": system, "input": rest, "tools": self.contents.tools(call.tools)}
        return {name: as_text(value) for name, value in contents.items() if value}

    def _body(
        self, shown: ShownMessage, changed: Mapping[str, dict[str, Any]]
    ) -> dict[str, Any] | None:
        known = self._bodies.get(shown.message_id)
        return known if shown.shown_as is None else changed.get(shown.shown_as, known)

    def _tell_call(
        self, row: Row, step: Step | None, ended: _Ended, known: Mapping[str, Any]
    ) -> None:
        known = dict(known)
        sent = None if step is None else self._sent.pop(step, None)
        began = sent.at if sent is not None and row.duration_ms is None else began_at(row)
        place = step or Step(row.phase or "", row.sounding_index, row.attempt or 0, row.turn or 0)
        model = row.model or (sent.model if sent else "")
        if (usage := ended.usage) is not None:
            known |= {"in": usage.tokens_in, "out": usage.tokens_out}
            known |= {"read": usage.tokens_cached, "written": usage.tokens_written}
            if "cost" not in known:  # asked beside the calls: a later row has what it cost
                known["cost"] = cost(model, **asdict(usage))
        if ended.finish is not None:
            known["finish"] = [_FINISHES.get(ended.finish, ended.finish)]
        if self.contents.told and ended.answer is not None:
            known["output"] = as_text([self.contents.message(ended.answer)])
        span = self._begin_call(place, model, began, known)
        self._end_at(span, row.timestamp, ended.error, ended.told)

    def _tell_unanswered(self, step: Step, sent: _Sent) -> None:
        span = self._begin_call(step, sent.model, sent.at, {})
        self._end_at(span, self._last, "unanswered")

    def _begin_call(self, step: Step, model: str, at: float, known: Mapping[str, Any]) -> OtelSpan:
        place = {"phase": step.phase or None, "turn": step.turn or None}
        place["attempt"] = step.attempt or None
        above, name = self.phase_span(step.phase, step.sounding), model.partition("/")[2] or model
        span = self._begin(genai_names.CHAT, name, above, at, {**place, **known})
        span.attributes |= genai_names.provider_and_model(model)
        return span

    def _tell_tool(self, row: Row, details: row_details.ToolResult) -> None:
        message = row.message
        ident = message.tool_call_id if message is not None else None
        call = self._called.get(ident or "")
        name = details.tool or (call.name if call else message.name if message else None) or "tool"
        known: dict[str, Any] = {"tool_name": name, "tool_type": "function", "tool_call": ident}
        known["phase"] = row.phase
        if self.contents.told and message is not None:
            known["tool_result"] = self.contents.shown(message).text
            if call is not None:
                known["tool_arguments"] = as_text(self.contents.arguments(call))
        above = self.phase_span(row.phase, row.sounding_index)
        span = self._begin(genai_names.EXECUTE_TOOL, name, above, began_at(row), known)
        failed = details.error or (message is not None and message.failed)
        error = "interrupted" if details.interrupted else "tool_error" if failed else ""
        self._end_at(span, row.timestamp, error, message.text if message and error else "")

    # ---- spans ------------------------------------------------------------------------------

    def _begin(
        self,
        operation: str,
        name: str,
        parent: OtelSpan | None,
        at: float,
        known: Mapping[str, Any],
    ) -> OtelSpan:
        self.number += 1
        at = at if parent is None else max(at, parent.start)  # a clock may run backwards
        attributes = genai_names.named({"operation": operation, **known})
        if operation == genai_names.INVOKE_AGENT:
            attributes |= genai_names.named({"conversation": self.session_id})
        ident, title = f"{self.session_id}/{self.number}", f"{operation} {name}"
        span = OtelSpan(ident, self.session_id, parent, operation, title, at, attributes)
        self.sink.opened(span)
        return span

    def _end(self, span: OtelSpan, outcome: Outcome | None = None) -> None:
        if outcome is None:
            self._end_at(span, self._last)
            return
        span.attributes |= genai_names.named({"status": outcome.status})
        error = outcome.status if outcome.status in _FAILED else ""
        self._end_at(span, self._last, error, outcome.error or "")

    def _end_at(self, span: OtelSpan, at: float, error: str = "", told: str = "") -> None:
        span.end, span.error = max(at, span.start), error
        if error:
            span.attributes |= genai_names.named({"error": error})
        if self.contents.told:
            span.told = self.contents.text(told)
        self.sink.closed(span)

    def _close_soundings(self, phase: str) -> None:
        for place in [each for each in self._open if each[0] == phase and each[1] is not None]:
            self._end(self._open.pop(place))
