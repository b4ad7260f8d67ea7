"""What the next call would see while its edits are being decided.

A `PendingEdits` overlays the parts of a conversation and holds what this call changes, so that
looking at the next window changes nothing until the call is made. Policies read it and make
proposals. Proposals are carried out here, and refused if they would break what every window
promises: messages keep their role and their ties to tool calls, pairs stay together, nothing pinned
changes, nothing grows, and signed parts stay whole.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, cast

from windlass.messages import Message, Opaque, ToolCall
from windlass.window._standing import NONE, CallEdits, Notes, ShownNames, Standing
from windlass.window._transcript import Transcript
from windlass.window.entries import (
    Because,
    Drop,
    Edit,
    Entry,
    Fold,
    Item,
    Replace,
    Want,
    changed,
)
from windlass.window.kinds import FileAccess, Kind, file_access, kind_of
from windlass.window.reruns import Span
from windlass.window.window_rules import WindowRules
from windlass.wire.responses_calls import is_keys, shows_screen


class MessageIndex(Protocol):
    """What a policy works out of messages that calls have seen, one of each kind a conversation.

    It may hold nothing that cannot be worked out again.
    """

    def add(self, pending: PendingEdits, at: int) -> None:
        """Take in the next message, as it is shown."""
        ...


_Index = TypeVar("_Index", bound=MessageIndex)
_PLACEHOLDER = re.compile(r"\[[^\]\n]{0,300}\bresult_[0-9a-f]{8,16}\b")
_PLACEHOLDER_CHARS = 1 + 300 + len("result_")
"""The reference of a placeholder begins within this many characters."""
_KEEPING = frozenset({"encode", "repeat", "repair", "strip"})
"""Edits after which everything that was said is still in view."""
_OWN_WORDS = frozenset({"truncate", "supersede"})
"""Edits of the arguments of calls, which no tool gives again."""
_THINKING = ("part:thinking", "part:redacted_thinking")
"""Anthropic's thinking blocks, in a chat message that has them among its parts."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of the moment of a call.

    `cold`: nothing of the last request is cached. `windows` are the tokens of each call since the
    last compaction, without system messages; `compacted_at` is the position behind all that was
    said when that was made (-1: none was). `bill` and `everything` are what the windows cost so
    far and what sending everything would have, in fresh tokens.
    """

    cold: bool = False
    windows: Sequence[int] = ()
    compacted_at: int = -1
    bill: float = 0.0
    everything: float = 0.0


class PendingEdits:
    """What the next call would see. Positions count the messages of the conversation from 0.

    `transcript` has the messages as they came, `standing` what stands for each by the calls so far.
    `turn` is the number of the planned call, from 1. `fresh` are the positions of messages that no
    call has seen yet.

    Args:
        rules: The rules of every window.
        transcript: The messages as they came.
        standing: What stands for each of them by the calls so far.
        notes: What policies kept at earlier calls.
        made: What the call changes (None: nothing yet).
        ahead: How many calls without new messages come before it.
        promised: The looks at this call that those calls ask for.
        moment: What is known of the moment of the call.
    """

    def __init__(
        self,
        rules: WindowRules,
        transcript: Transcript,
        standing: Standing,
        notes: Notes,
        made: CallEdits | None = None,
        *,
        ahead: int = 0,
        promised: Sequence[tuple[str, int, int]] = (),
        moment: Moment | None = None,
    ) -> None:
        self._rules = rules
        self.moment = Moment() if moment is None else moment
        self.transcript = transcript
        self.standing = standing
        self._notes = notes
        self._promised = promised
        self._calls = transcript.calls + ahead
        self.turn = self._calls + 1
        # What policies derive of messages that calls have seen ends where it does at this call.
        self.fresh = range(transcript.sent, transcript.sent if ahead else len(transcript.items))
        self.made = CallEdits() if made is None else made
        if made is None:
            for at in self.fresh:
                self._note_names(at, standing.entries[at])

    def following(self) -> PendingEdits:
        """Return what the call after this one would see if nothing were said in between; read-only.

        Policies that go by age already make the proposals they will make then; policies for new
        messages make none.
        """
        made = self.made
        return PendingEdits(
            self._rules,
            self.transcript,
            self.standing,
            self._notes,
            replace(made, looks=[], wants=[], pins=dict(made.pins)),
            ahead=1,
            promised=made.looks,
        )

    def without_thinking(self, found: Mapping[int, Message], reason: str) -> PendingEdits:
        """Return the same edits, with useless thinking left out of these replies."""
        copied = PendingEdits(
            self._rules, self.transcript, self.standing, self._notes, self.made.copy()
        )
        for at, message in found.items():
            entry = self.entry(at)
            assert entry is not None
            less = self.size(entry.message) - self.size(message)
            copied._commit(Replace(entry.item.id, message, "strip", reason), (at,), less)
        return copied

    # ---- reading -------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.transcript.items)

    def item(self, at: int) -> Item:
        """Return the occurrence of a message."""
        return self.transcript.items[at]

    def original(self, at: int) -> Message:
        """Return the message as it occurred."""
        return self.transcript.items[at].message

    def shown(self, at: int) -> Message:
        """Return the message as it is currently shown, if it is."""
        entry = self.entry(at)
        assert entry is not None
        return entry.message

    def entry(self, at: int) -> Entry | None:
        """Return its current entry; None if it is not shown, or is part of an earlier fold."""
        entries = self.made.entries
        return entries[at] if at in entries else self.standing.entries[at]

    def untouched(self, at: int) -> bool:
        """Return whether it is shown as it was said."""
        entry = self.entry(at)
        return entry is not None and entry.because is None

    def edit(self, at: int) -> Edit | None:
        """Return its latest edit."""
        return self.made.edits.get(at) or self.standing.edits.get(at)

    def seen(self, at: int) -> int:
        """Return how many calls have seen it, in any form; 0 if it was never sent."""
        return self._calls - self.transcript.births[at]

    def born(self, seen: int) -> range:
        """Return the positions of messages that exactly `seen` calls have seen."""
        return self.transcript.born(self._calls - seen)

    def call(self, at: int) -> ToolCall | None:
        """Return the tool call that the result at this position answers."""
        return self.transcript.call_of.get(at)

    def caller(self, at: int) -> int | None:
        """Return the position of the assistant message whose call the result answers."""
        return self.transcript.caller_of.get(at)

    def results(self, at: int) -> Sequence[int]:
        """Return the positions of the results of the calls that the assistant message makes."""
        return self.transcript.results_of.get(at, ())

    def size(self, message: Message) -> int:
        """Return tokens of a message, by the conversation's count."""
        return self._rules.count(message)

    def pinned(self, at: int) -> bool:
        """Return whether it must stay as it is at this call."""
        return self.pinned_until(at) >= self.turn

    def pinned_until(self, at: int) -> float:
        """Return the last call at which it must stay as it is; 0: it need not."""
        return max(self.made.pins.get(at, 0), self.standing.pins.get(at, 0))

    def exchange(self, at: int) -> tuple[int, ...]:
        """Return the positions of an assistant message and of the results of its calls.

        Also those of the messages in which its calls to a provider's tools go on.
        """
        places = self.transcript.tied.get(at)
        if places is None:
            return (at, *self.results(at))
        return tuple(sorted({one for each in places for one in (each, *self.results(each))}))

    def is_whole(self, at: int) -> bool:
        """Say whether an assistant message is shown with its calls, and every call has its result.

        Also, whether no other message holds a part of it.
        """
        entry = self.entry(at)
        if entry is None or not entry.message.tool_calls or at in self.transcript.tied:
            return False
        return len(self.results(at)) == len(entry.message.tool_calls)

    def due(self, policy: str) -> Sequence[int]:
        """Return the positions that `policy` wanted to look at again at this call."""
        asked = self._notes.looks.get(self.turn, {}).get(policy, ())
        now = [at for name, at, turn in self._promised if (name, turn) == (policy, self.turn)]
        return (*asked, *now)

    def aged(self, policy: str, calls: int) -> Sequence[int]:
        """Return the due positions, then those that this many calls have seen."""
        return (*self.due(policy), *self.born(calls))

    def kind(self, at: int, text: str) -> Kind:
        """Return the kind of a text in the result at this position."""
        call = self.call(at)
        return kind_of(call, text, self._rules.facts.get(call.name) if call else None)

    def file_access(self, at: int) -> FileAccess:
        """Return what the call behind the result at this position read and wrote."""
        call = self.call(at)
        return file_access(call, self._rules.facts.get(call.name) if call else None)

    def names_held_only(self, span: Collection[int], names: Iterable[str]) -> list[str]:
        """Return the names that only the span holds among what is shown, in order."""
        holders = self.standing.names.holders(names, self.made.names, span)
        return [name for name in names if holders[name] <= 0]

    def fixed(self, at: int) -> bool:
        """Return whether it must not change now.

        It is pinned, or signed in a loop that is still open.
        """
        return self.pinned(at) or (self._in_open_loop(at) and _has_signature(self.original(at)))

    def holds(self, at: int, end: int | None = None) -> bool:
        """Return whether thinking shown from `at` up to `end` forbids a change there.

        Edits that the user's settings ask for are still made, and the thinking is left out.
        """
        if not self._rules.holds:
            return False
        thinking = self.standing.thinking
        last = bisect_left(thinking, len(self) if end is None else end)
        return last > bisect_left(thinking, at)

    def names(self, at: int) -> AbstractSet[str]:
        """Return the names in what is shown of the message, which no call has seen yet."""
        return self.made.names[at].names if at in self.made.names else NONE

    @property
    def tokens(self) -> int:
        """Return tokens of everything currently shown, by the conversation's count."""
        tokens = self.standing.tokens
        return tokens.came() - tokens.saved - self.made.saved

    @property
    def scale(self) -> float:
        """Return tokens of the model for one of `size`."""
        return self._rules.scale

    @property
    def conversation_tokens(self) -> int:
        """Return tokens of everything shown but system messages, by the conversation's count."""
        systems = map(self.entry, self.transcript.systems)
        return self.tokens - sum(self.size(one.message) for one in systems if one is not None)

    def recall_hint(
        self, at: int, *, part: bool = False, lines: Callable[[], Span | None] = lambda: None
    ) -> str:
        """Return how to get the original back, for a placeholder: its reference, or a path.

        Where nothing does, how to call the tool again: `part` says that a part of its result is
        shown, `lines` gives the lines that are not, where they are known.
        """
        original = self.original(at)
        hint, call, reruns = self._rules.recall_hint(original), self.call(at), self._rules.reruns
        if reruns is None or call is None or not self.gives_again(at):
            return hint
        text = original.text
        again = reruns.hint(call, self.kind(at, text), text, part=part, lines=lines())
        return f"{again}, {hint}"

    def gives_again(self, at: int) -> bool:
        """Return whether what the message said can be had again, by whatever way."""
        reruns = self._rules.reruns
        return reruns is None or reruns.give_again(self.call(at))

    def asked_again(self, at: int) -> bool:
        """Return whether it answers a call that is repeated because its result is not shown whole.

        Only where nothing but the tool gives it again.
        """
        before = None if self._rules.reruns is None else self.same_call_before(at)
        edit = None if before is None else self.edit(before)
        return edit is not None and edit.because not in _KEEPING

    def same_call_before(self, at: int) -> int | None:
        """Return the position of the last result that calls have seen of the same call."""
        call = self.call(at)
        if call is None:
            return None
        return self.index(_LastResults).places.get((call.name, call.canonical_arguments))

    def index(self, kind: type[_Index]) -> _Index:
        """Return what a policy derives from the messages that calls have seen, kept for speed."""
        index, upto = self._notes.indexes.get(kind) or (kind(), 0)
        for at in range(upto, self.fresh.start):
            index.add(self, at)
        self._notes.indexes[kind] = index, self.fresh.start
        return cast("_Index", index)

    # ---- asking --------------------------------------------------------------------

    def again(self, policy: str, at: int, turn: int) -> None:
        """Have `policy` look at the position once more at the call `turn`."""
        self.made.looks.append((policy, at, turn))

    def put_off(self, policy: str, at: int, calls: int, span: Sequence[int] = ()) -> bool:
        """Say whether the span or message must stay now; if so, it is looked at `calls` later."""
        if not any(map(self.fixed, span or (at,))):
            return False
        self.again(policy, at, self.turn + max(1, calls))
        return True

    def pin(self, at: int, until: float) -> None:
        """Keep the message as it is shown, up to and including the call `until`."""
        self.made.pins[at] = max(self.made.pins.get(at, 0), until)

    def want(self, want: Want) -> str | None:
        """Return the wanted text, if somebody supplied it; else ask for it now."""
        text = self._notes.supplied.get(want.key)
        if text is None:
            self.made.wants.append(want)
        return text

    def replace(self, at: int, message: Message, because: Because, reason: str) -> bool:
        """Show `message` instead, from now on. False: this is not allowed, and nothing changes."""
        entry = self.entry(at)
        if entry is None or self.pinned(at) or isinstance(self.edit(at), Fold):
            return False  # a fold stands for other messages, too
        now = entry.message
        less = self.size(now) - self.size(message)
        if less <= 0 or not _stands_for(message, now):
            return False
        if _is_placeholder(self.original(at).text):
            return False  # a window that is handed back: its original is not here to refer to
        if _signed(now) != _signed(message) and (_signed(message) or self._in_open_loop(at)):
            return False
        if _signed(now) != _signed(message) and at in self.transcript.tied:
            return False  # another message needs them
        if _signed(now) and self._in_open_loop(at):
            return False
        self._commit(Replace(entry.item.id, message, because, reason), (at,), less)
        return True

    def fold(
        self,
        span: Sequence[int],
        text: Message,
        because: Because,
        reason: str,
        *,
        closes: bool = False,
    ) -> bool:
        """Show one message for a whole span. False: this is not allowed, and nothing changes.

        A span holds whole exchanges: with an assistant message all results of its calls, and no
        result without its call. It may include messages that are no longer shown. `closes`: the
        message is a user's, so that a loop of calls begins anew behind it and what was signed
        before may go.
        """
        shown = self._removable(span, closes=closes)
        before = sum(self.size(entry.message) for _, entry in shown)
        plain = bool(text.parts) and text.role != "tool" and not text.tool_calls
        if not shown or not plain or self.size(text) >= before:
            return False
        places = tuple(at for at, _ in shown)
        ids = tuple(self.item(at).id for at in places)
        self._commit(Fold(ids, text, because, reason), places, before - self.size(text))
        return True

    def drop(self, span: Sequence[int], because: Because, reason: str) -> bool:
        """Stop showing the span, under the conditions of a fold."""
        shown = self._removable(span)
        for at, entry in shown:
            self._commit(Drop(entry.item.id, because, reason), (at,), self.size(entry.message))
        return bool(shown)

    def has_way_back(self, proposal: Proposal) -> bool:
        """Return whether what a proposal hides can be had again.

        It is no matter where settings ask it.
        """
        if self._rules.reruns is None or proposal.must or proposal.because in _KEEPING:
            return True
        return all(self._can_be_had(at, proposal.because) for at in proposal.span)

    def can_go(self, at: int) -> bool:
        """Whether a message may be told in other words: a user's, or one that can be had again."""
        is_users = self.original(at).role == "user"
        return is_users or self._rules.reruns is None or self._can_be_had(at, "compact")

    def _can_be_had(self, at: int, because: Because) -> bool:
        """Say whether a tool gives what an edit hides of a message; of a call nothing is hidden."""
        message = self.original(at)
        if message.role == "tool":
            return self.gives_again(at)
        return message.role == "assistant" and not message.text and because not in _OWN_WORDS

    # ---- what every edit must keep -----------------------------------------------------

    def _removable(self, span: Sequence[int], *, closes: bool = False) -> list[tuple[int, Entry]]:
        """Return the shown messages of the span, if all of it may be removed; else none."""
        inside = set(span)
        shown: list[tuple[int, Entry]] = []
        for at in span:
            entry = self.entry(at)
            if entry is None:
                continue
            caller = self.caller(at)
            others = [*([] if caller is None else [caller]), *self.transcript.tied.get(at, ())]
            torn = any(
                other not in inside and self.entry(other) is not None for other in others
            ) or any(result not in inside for result in self.results(at))
            open_call = len(self.results(at)) < len(entry.message.tool_calls)
            signed = not closes and _has_signature(entry.message) and self._in_open_loop(at)
            pinned = self.pinned_until(at) == math.inf if closes else self.pinned(at)
            if torn or open_call or signed or pinned:
                return []
            shown.append((at, entry))
        return shown

    def _in_open_loop(self, at: int) -> bool:
        """Say whether no user has spoken since: signed thinking must come back unchanged there."""
        return at > self.transcript.last_user

    def _commit(self, edit: Edit, places: Sequence[int], less: int) -> None:
        """Make an edit that makes the window `less` tokens shorter."""
        self.made.decided.append(edit)
        self.made.saved += less
        for at in places:
            entry = self.entry(at)
            assert entry is not None
            after = changed(entry, edit)
            self.made.entries[at] = after
            self.made.edits[at] = edit
            self._note_names(at, after)

    def _note_names(self, at: int, entry: Entry | None) -> None:
        if self._rules.uses_names:
            self.made.names[at] = ShownNames(entry.message if entry else None)


class _LastResults:
    """Where the last result of each call stands."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, str], int] = {}

    def add(self, pending: PendingEdits, at: int) -> None:
        """Take in the next message, where it is a result."""
        if (call := pending.call(at)) is not None:
            self.places[call.name, call.canonical_arguments] = at


def _is_placeholder(text: str) -> bool:
    """Return whether a text begins like a placeholder for an original."""
    return text.find("result_", 0, _PLACEHOLDER_CHARS) > 0 and bool(_PLACEHOLDER.match(text))


def _stands_for(message: Message, now: Message) -> bool:
    """Say whether one message may replace the other: same role, same ties to calls, not empty."""
    if (message.role, message.tool_call_id, message.name) != (now.role, now.tool_call_id, now.name):
        return False
    calls = [(call.id, call.name) for call in message.tool_calls]
    if calls != [(call.id, call.name) for call in now.tool_calls]:
        return False
    if not message.parts and not message.tool_calls:
        return False
    if shows_screen(now) and not message.pictures:
        return False  # the output of a computer call is its picture
    for call, before in zip(message.tool_calls, now.tool_calls, strict=True):
        if call.arguments != before.arguments:
            try:
                json.loads(call.arguments)
            except ValueError:
                return False
    return True


def _signed(message: Message) -> tuple[Opaque, ...]:
    """The signed parts of the message, which its provider wants back unchanged or not at all."""
    return tuple(
        [
            part
            for part in message.parts
            if isinstance(part, Opaque)
            and (part.kind in _THINKING or not part.kind.startswith(("with", "part:")))
            and not (message.role == "tool" and is_keys(part))
        ]
    )


def _has_signature(message: Message) -> bool:
    """Whether a message has parts that its provider made, and not only places and keys of calls."""
    return any(
        part.kind != "call" and not part.kind.startswith("keys") for part in _signed(message)
    )


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change that a policy would make.

    `span` are positions: one, which `write` gives the new message of, or a span to fold into the
    message that `write` gives. `write` is that message, or is called when the change is made, with
    what is visible then; None: there is nothing left to gain. With `write` None the span is
    dropped. `must`: the user's settings ask for it, whatever it costs. `closes`: a fold into a
    user's message, behind which a loop of calls begins anew. Only a shown message can be rewritten.
    """

    span: tuple[int, ...]
    because: Because
    reason: str
    write: Message | Callable[[PendingEdits], Message | None] | None
    folds: bool = False
    must: bool = False
    closes: bool = False

    def message(self, pending: PendingEdits) -> Message | None:
        """Return the message that `write` gives now; None if there is nothing to gain."""
        if self.write is None or (not self.folds and pending.entry(self.span[0]) is None):
            return None
        return self.write if isinstance(self.write, Message) else self.write(pending)


class WindowPolicy(Protocol):
    """Proposes what the next call should see differently. Pure: it keeps no state."""

    @property
    def name(self) -> str:
        """Return its name in records; unique among the policies of a conversation."""
        ...

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the changes it would make at the call that `pending` plans, most important first.

        Each proposal is decided before the next is asked for, so that a policy sees in the
        pending what became of those before.
        """
        ...
