"""Sources to messages: what a phase takes from earlier phases, read from the record.

Each source becomes its own messages, in the order written. What cannot be taken
(the phase did not run, its condition is false, it has no text, all its pictures
are shown already) is skipped and recorded as a decision; it is never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.engine.record import Recorder
from windlass.history.base import NodeType, Outcome
from windlass.messages import Message, Part, Picture, Role, Text
from windlass.prompts import (
    conversation_header,
    images_header,
    input_text,
    output_text,
    state_text,
)
from windlass.rules import Include, PhaseSource, Rule
from windlass.window.entries import Entry, Item
from windlass.window.replay import held_by, replay, text_only, without_repeats


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a rule's sources came to, and what was skipped (source's place, reason)."""

    input: tuple[Entry, ...] = ()
    sources: tuple[Entry, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Gathering:
    """The work in hand: one phase's sources, in order.

    `seen` are the pictures, `calls` the tool calls that the window holds so far.
    """

    record: Recorder
    phase: str
    system_anywhere: bool
    seen: set[str]
    calls: set[str]
    outcomes: Mapping[str, Outcome]
    state: Mapping[str, Mapping[str, Any]]
    entries: list[Entry] = field(default_factory=list[Entry])
    skipped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def skip(self, source: PhaseSource, why: str) -> None:
        self.skipped.append((source.place, f"source {source.phase!r} skipped: {why}"))

    def inject(self, source: PhaseSource, what: str, *parts: Part, headed: bool) -> None:
        """Append one injected message. Headed text takes the source's role; pictures do not."""
        role: Role = "user"
        metadata: dict[str, Any] = {"source": source.phase, "what": what, "place": source.place}
        if headed and source.as_role == "system":
            if self.system_anywhere:
                role = "system"
            else:
                # The provider takes a system prompt only in the first place.
                metadata["as_role"] = "system, sent as user"
        message = Message(role, parts)
        row = self.record.row(
            NodeType.CONTEXT_INJECTION, message, phase=self.phase, turn=0, metadata=metadata
        )
        (item,) = self.record.append([row])
        self.entries.append(Entry(item, item.message, f"{what} of {source.phase}"))


def gather(
    record: Recorder,
    rule: Rule,
    *,
    phase: str,
    input: Mapping[str, Any],  # noqa: A002  (the DSL's word)
    wanted: Sequence[bool],
    shown: Sequence[Entry],
    system_anywhere: bool,
) -> Gathered:
    """The messages that `rule` brings into `phase`.

    `wanted` holds the outcome of each source's condition. `shown` is what the
    window holds before the sources: their pictures are not injected again, nor their tool calls.
    """
    before: tuple[Entry, ...] = ()
    if rule.mode == "selective" and rule.include_input:
        message = Message("user", (Text(input_text(input)),))
        told = {"source": "input", "what": "input"}
        row = record.row(NodeType.CONTEXT_INJECTION, message, phase=phase, turn=0, metadata=told)
        (item,) = record.append([row])
        before = (Entry(item, item.message, "the cascade's input"),)

    store, session = record.store, record.session_id
    pictures, calls = held_by(shown)
    work = _Gathering(
        record=record,
        phase=phase,
        system_anywhere=system_anywhere,
        seen=pictures,
        calls=calls,
        outcomes={o.phase: o for o in store.outcomes(session) if o.phase} if rule.sources else {},
        state=_state_by_phase(record) if rule.sources else {},
    )
    for source, is_wanted in zip(rule.sources, wanted, strict=True):
        if not is_wanted:
            work.skip(source, f"its condition {source.condition!r} is false")
        elif source.phase not in work.outcomes:
            work.skip(source, "the phase did not run")
        else:
            _take(work, source)
    for place, why in work.skipped:
        record.decide(phase, why, kind="source skipped", place=place)
    return Gathered(before, tuple(work.entries), tuple(work.skipped))


def _take(work: _Gathering, source: PhaseSource) -> None:
    items = work.record.items(source.phase)
    outcome = work.outcomes[source.phase]
    for what in source.include:
        _TAKERS[what](work, source, items, outcome)


def _take_images(
    work: _Gathering, source: PhaseSource, items: Sequence[Item], outcome: Outcome
) -> None:
    del outcome
    pictures: dict[str, Picture] = {}
    for item in items:
        for picture in item.message.pictures:
            pictures.setdefault(picture.sha256 or picture.url, picture)
    found = list(pictures.values())
    match source.images_filter:
        case "all":
            pass
        case "last":
            found = found[-1:]
        case "last_n":
            found = found[-source.images_count :]
    if not found:
        return  # a phase without pictures is the usual case of the default include
    fresh = [picture for picture in found if picture.sha256 not in work.seen]
    if not fresh:
        work.skip(source, "its pictures are in this window already")
        return
    work.seen.update(picture.sha256 for picture in fresh)
    header = Text(images_header(source.phase))
    work.inject(source, "images", header, *fresh, headed=False)


def _take_output(
    work: _Gathering, source: PhaseSource, items: Sequence[Item], outcome: Outcome
) -> None:
    output = last_said(items)
    if output is None:
        work.skip(source, "the phase said no text")
        return
    text = output_text(source.phase, output.message.text, outcome.status)
    work.inject(source, "output", Text(text), headed=True)


def _take_messages(
    work: _Gathering, source: PhaseSource, items: Sequence[Item], outcome: Outcome
) -> None:
    reason = f"conversation of {source.phase} ({source.messages_filter})"
    if outcome.hidden:
        entries = output_only(items, reason)
    else:
        entries = without_repeats(
            replay(items, source.messages_filter, reason=reason), work.seen, work.calls
        )
    if not entries:
        work.skip(source, "the phase has no messages to replay")
        return
    work.inject(source, "conversation", Text(conversation_header(source.phase)), headed=True)
    work.entries.extend(entries)
    pictures, calls = held_by(entries)
    work.seen |= pictures
    work.calls |= calls


def _take_state(
    work: _Gathering, source: PhaseSource, items: Sequence[Item], outcome: Outcome
) -> None:
    del items, outcome
    values = work.state.get(source.phase)
    if not values:
        work.skip(source, "the phase set no state")
        return
    work.inject(source, "state", Text(state_text(source.phase, values)), headed=True)


_TAKERS: dict[Include, Callable[[_Gathering, PhaseSource, Sequence[Item], Outcome], None]] = {
    "images": _take_images,
    "output": _take_output,
    "messages": _take_messages,
    "state": _take_state,
}


def last_said(items: Sequence[Item]) -> Item | None:
    """A phase's output: its last assistant message that has text (None: it said nothing)."""
    for item in reversed(items):
        if item.message.role == "assistant" and item.message.text.strip():
            return item
    return None


def output_only(items: Sequence[Item], reason: str) -> tuple[Entry, ...]:
    """What is left of a phase whose `context_retention` is `output_only`."""
    output = last_said(items)
    if output is None:
        return ()
    return (text_only(Entry(output, output.message, reason), "retention"),)


def _state_by_phase(record: Recorder) -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for change in record.store.state(record.session_id):
        found.setdefault(change.phase, {})[change.key] = change.value
    return found
