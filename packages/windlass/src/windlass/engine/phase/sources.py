"""Sources to messages: what a phase takes from earlier phases, read from the record.

Each source becomes its own messages, in the order written. What cannot be taken
(the phase did not run, its condition is false, it has no text, all its pictures
are shown already) is skipped and recorded as a decision; it is never an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final

from windlass.cascade.handoffs import ROUTE_TO
from windlass.cascade.model import PARENT
from windlass.cascade.rules import PhaseSource, Rule
from windlass.engine._session_state import EndedVisit
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.turn.record import Recorder
from windlass.history.base import NodeType, Row
from windlass.history.decisions import FromSource, SourceSkipped
from windlass.messages import Message, Part, Picture, Role, Text, ToolCall
from windlass.text.prompts import (
    NOT_RUN_TEXT,
    conversation_header,
    images_header,
    input_text,
    output_text,
    result_text,
    state_text,
)
from windlass.window.entries import Edit, Entry, Item, Replace, apply, show
from windlass.window.replayed import held_by, replay, text_only, without_repeats

_OF_THE_RUN: Final = frozenset({"callout", "plan", "remember", ROUTE_TO, "set_state", "todo"})
"""Tools whose results say only that they did what they were asked."""

_WITH_CALLS: Final = ("all", "last_turn")
"""The filters of messages that leave the last calls with their results."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The messages that a rule's sources brought; `told` are results that stand in their texts."""

    input: tuple[Entry, ...] = ()
    sources: tuple[Entry, ...] = ()
    told: frozenset[str] = frozenset()


def gather(
    run: CascadeRun,
    rule: Rule,
    *,
    phase: str,
    conditions: Sequence[bool],
    shown: Sequence[Entry],
    system_anywhere: bool,
) -> Gathered:
    """The messages that `rule` brings into `phase`; of the run above `run`, too.

    `conditions` holds the outcome of each source's condition. `shown` is what the
    window holds before the sources: their pictures are not injected again, nor their tool calls.
    """
    record = run.record
    before: tuple[Entry, ...] = ()
    if rule.mode == "selective" and rule.include_input and run.input:
        message = Message("user", (Text(input_text(run.input)),))
        row = Row(NodeType.CONTEXT_INJECTION, message=message, phase=phase, turn=0)
        item = record.add(replace(row, details=FromSource("input", "input")))
        before = (Entry(item, item.message, "the cascade's input"),)
    if not rule.sources:
        return Gathered(before)
    places = _ended(run)
    if run.above is not None:
        above = _ended(run.above)
        places = {f"{PARENT}{name}": place for name, place in above.items()} | places
    gathering = _Gathering(run, phase, system_anywhere, *held_by(shown))
    gathering.with_results = rule.mode != "snowball"  # which shows the calls themselves
    asked = list(zip(rule.sources, conditions, strict=True))
    for source, is_wanted in asked:
        if is_wanted and "messages" in source.include and source.messages_filter in _WITH_CALLS:
            gathering.replayed.add(source.phase)
    for source, is_wanted in asked:
        if not is_wanted:
            gathering.skip(source, f"its condition {source.condition!r} is false")
        elif source.phase not in places:
            gathering.skip(source, "the phase did not run")
        else:
            gathering.take(source, places[source.phase])
    for place, why in gathering.skipped:
        run.tell(phase, why, SourceSkipped(place))
    return Gathered(before, tuple(gathering.entries), frozenset(gathering.told))


def _ended(run: CascadeRun) -> dict[str, EndedVisit]:
    """The last visit of each phase that ran, or of the one that stands for it, by each name."""
    record, edits = run.record, run.session.edits
    own = [
        EndedVisit(tuple(filter(None, (each.phase, each.stands_for))), each, record, edits)
        for each in run.session.ran
    ]
    return {name: each for each in (*run.session.below, *own) for name in each.names}


@dataclass(slots=True)
class _Gathering:
    """The work in hand: one phase's sources, in order.

    `pictures` and `calls` are those that the window holds so far. Of phases that are `replayed`,
    results come with their calls; `told` are those that came with an output.
    """

    run: CascadeRun
    phase: str
    system_anywhere: bool
    pictures: set[str]
    calls: set[str]
    entries: list[Entry] = field(default_factory=list[Entry])
    skipped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    with_results: bool = True
    replayed: set[str] = field(default_factory=set[str])
    told: set[str] = field(default_factory=set[str])

    def skip(self, source: PhaseSource, why: str) -> None:
        self.skipped.append((source.place, f"source {source.phase!r} skipped: {why}"))

    def inject(self, source: PhaseSource, what: str, *parts: Part, headed: bool = True) -> None:
        """Append one injected message. Headed text takes the source's role; pictures do not."""
        role: Role = "user"
        as_role = None
        if headed and source.as_role == "system":
            if self.system_anywhere:
                role = "system"
            else:
                # The provider takes a system prompt only in the first place.
                as_role = "system, sent as user"
        message = Message(role, parts)
        details = FromSource(source.phase, what, place=source.place, as_role=as_role)
        row = Row(NodeType.CONTEXT_INJECTION, message=message, phase=self.phase, turn=0)
        item = self.run.record.add(replace(row, details=details))
        self.entries.append(Entry(item, item.message, f"{what} of {source.phase}"))

    def take(self, source: PhaseSource, ended: EndedVisit) -> None:
        """Inject what the source includes, in its order."""
        items = ended.items
        for what in source.include:
            match what:
                case "images":
                    self._take_images(source, items)
                case "output":
                    self._take_output(source, items, ended)
                case "messages":
                    self._take_messages(source, items, ended)
                case "state":
                    self._take_state(source, ended)

    def _take_images(self, source: PhaseSource, items: Sequence[Item]) -> None:
        by_key: dict[str, Picture] = {}
        for item in items:
            for picture in item.message.pictures:
                by_key.setdefault(picture.sha256 or picture.url, picture)
        count = {"all": len(by_key), "last": 1, "last_n": source.images_count}
        pictures = list(by_key.values())[-count[source.images_filter] :]
        if not pictures:
            return  # a phase without pictures is the usual case of the default include
        fresh = [picture for picture in pictures if picture.sha256 not in self.pictures]
        if not fresh:
            self.skip(source, "its pictures are in this window already")
            return
        self.pictures.update(picture.sha256 for picture in fresh)
        self.inject(source, "images", Text(images_header(source.phase)), *fresh, headed=False)

    def _take_output(self, source: PhaseSource, items: Sequence[Item], ended: EndedVisit) -> None:
        output = last_said(items)
        if output is None:
            self.skip(source, "the phase said no text")
            return
        of_text = ended.visit.hidden or source.phase in self.replayed or source.is_minimal
        results = last_results(items) if self.with_results and not of_text else ()
        self.told |= {result.id for result, _ in results}
        told = [_result_text(result, call, ended.edits) for result, call in results]
        text = output_text(source.phase, output.message.text, ended.visit.status, told)
        self.inject(source, "output", Text(text))

    def _take_messages(self, source: PhaseSource, items: Sequence[Item], ended: EndedVisit) -> None:
        reason = f"conversation of {source.phase} ({source.messages_filter})"
        if ended.visit.hidden:
            entries = output_only(items, reason)
        else:
            entries = without_repeats(
                replay(items, source.messages_filter, reason=reason), self.pictures, self.calls
            )
        if not entries:
            self.skip(source, "the phase has no messages to replay")
            return
        self.inject(source, "conversation", Text(conversation_header(source.phase)))
        if ended.record is not self.run.record:
            entries = tuple(self._copied(source, entry) for entry in entries)
        self.entries.extend(entries)
        pictures, calls = held_by(entries)
        self.pictures |= pictures
        self.calls |= calls

    def _copied(self, source: PhaseSource, entry: Entry) -> Entry:
        """A message of another session, recorded in this one: what a call saw stands in its own."""
        of = entry.item
        details = FromSource(source.phase, "message", of.id, source.place)
        item = self.run.record.add(
            Row(
                NodeType.CONTEXT_INJECTION,
                message=entry.message,
                phase=source.phase,  # as said there: a phase lets what it says itself expire
                turn=of.turn,
                attempt=of.attempt,
                details=details,
            )
        )
        return Entry(item, item.message, entry.reason)

    def _take_state(self, source: PhaseSource, ended: EndedVisit) -> None:
        record = ended.record
        values: Mapping[str, Any] = {
            change.key: change.value
            for change in record.store.state(record.session_id)
            if change.phase == ended.visit.phase
        }
        if not values:
            self.skip(source, "the phase set no state")
            return
        self.inject(source, "state", Text(state_text(source.phase, values)))


def last_said(items: Sequence[Item]) -> Item | None:
    """Return a phase's output: its last assistant message that has text (None: it said nothing).

    That of a phase which runs a tool is the result.
    """
    for item in reversed(items):
        message = item.message
        if message.is_uncalled or (message.role == "assistant" and message.text.strip()):
            return item
    return None


def last_results(items: Sequence[Item]) -> list[tuple[Item, ToolCall]]:
    """Return the results of a phase's last turn, where that ended with tools, each with its call.

    That is the turn of its last reply, or the turn that this reply answers.
    """
    replies = [at for at, item in enumerate(items) if item.message.role == "assistant"]
    if not replies:
        return []
    asked = replies.pop()
    not_run = [item for item in items[asked + 1 :] if item.message.text == NOT_RUN_TEXT]
    if not_run or not items[asked].message.tool_calls:
        between = items[replies[-1] + 1 : asked] if replies else ()
        if not between or any(item.message.role != "tool" for item in between):
            return []
        asked = replies[-1]
    calls = {call.id: call for call in items[asked].message.tool_calls}
    answers = takewhile(lambda item: item.message.role == "tool", items[asked + 1 :])
    called = [(item, calls.get(item.message.tool_call_id or "")) for item in answers]
    return [(item, call) for item, call in called if call is not None and _tells(item, call)]


def _tells(result: Item, call: ToolCall) -> bool:
    """Return whether a result says something beside what is shown otherwise: pictures are."""
    text, pictures = result.message.text.strip(), result.message.pictures
    named = (f"picture {each.describe()}" for each in pictures)
    return call.name not in _OF_THE_RUN and bool(text) and text not in named


def _result_text(result: Item, call: ToolCall, edits: Mapping[str, Edit]) -> str:
    """Return a result with its call, as the windows of its phase showed it last."""
    arguments: Mapping[str, Any] = {}
    with suppress(ValueError):
        arguments = call.parsed()
    edit = edits.get(result.id)
    shown = edit.replacement if isinstance(edit, Replace) else result.message
    return result_text(call.name, arguments, shown.text, failed=result.message.failed)


def output_only(items: Sequence[Item], reason: str) -> tuple[Entry, ...]:
    """Return the output alone, of a phase whose `context_retention` is `output_only`."""
    output = last_said(items)
    if output is None:
        return ()
    return (text_only(Entry(output, output.message, reason), "retention"),)


def snowball_of(record: Recorder, edits: Mapping[str, Edit]) -> tuple[Entry, ...]:
    """All that was said in earlier phases, less what their retention hides, under these edits."""
    hidden = {o.phase for o in record.store.outcomes(record.session_id) if o.hidden}
    entries: list[Entry] = []
    visits: list[list[Item]] = []
    for item in record.items():
        asks = item.node == NodeType.USER and not item.turn  # so a visit begins
        if asks or not visits or visits[-1][0].phase != item.phase:
            visits.append([])
        visits[-1].append(item)
    for items in visits:
        name = items[0].phase or ""
        reason = f"snowball: said in {name}"
        entries += output_only(items, reason) if name in hidden else show(items, reason)
    return apply(entries, edits)
