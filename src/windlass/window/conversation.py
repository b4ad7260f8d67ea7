"""A growing list of messages and the edits decided so far: what each call sees of it.

A call is a function of the messages before it and of nothing else: the conversation steps once
for every assistant message, whether windows were asked for or not, so that handing over a
whole list and handing over one message at a time give the same bytes. A step looks at what
is new, and at what its policies asked to look at again; its cost does not grow with the
length of the conversation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from windlass.caching.pauses import Pauses
from windlass.messages import Message
from windlass.window._decision import Decision, Ledger
from windlass.window._identifiers import ShownNames
from windlass.window._pending import NextStep, PendingEdits, Proposal
from windlass.window._transcript import Transcript
from windlass.window.blocks import NOTHING, BlockTokens
from windlass.window.entries import Edit, Entry, Insert, Item, changed, targets
from windlass.window.planner import Planner, Planning, carry_out
from windlass.window.proposals import Want


class WindowPolicy(Protocol):
    """Proposes what the next call should see differently. Pure: it keeps nothing."""

    @property
    def name(self) -> str:
        """What it is called in records; unique among the policies of a conversation."""
        ...

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """What it would change at the call that `pending` plans, in the order of importance.

        Each proposal is decided before the next is asked for, so that a policy sees in the
        pending what became of those before.
        """
        ...


@dataclass(frozen=True, slots=True)
class Window:
    """What one call sees: the entries in order, and the edits decided for it.

    `turn` is the number of the call. `edits` were decided at this call, in this order;
    `inserts` were shown for the first time. `wants` are texts that would make it shorter.
    `decision` says what became of edits that are not free (None: there were none, or no
    planner).
    """

    turn: int
    entries: tuple[Entry, ...]
    edits: tuple[Edit, ...] = ()
    inserts: tuple[Insert, ...] = ()
    wants: tuple[Want, ...] = ()
    decision: Decision | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages as they are sent."""
        return tuple(entry.message for entry in self.entries)


@dataclass
class Conversation(Transcript):
    """Messages as they come, and what each call sees of them.

    Args:
        policies: Who proposes edits, in order.
        kept: Ids of messages that stay as they come, in every window.
        planner: Who decides when edits are made (None: each as soon as it is proposed).
        block_tokens: The blocks in the last request; to be set anew for each call.
    """

    policies: Sequence[WindowPolicy] = ()
    kept: Container[str] = ()
    planner: Planner | None = None
    block_tokens: BlockTokens = NOTHING

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ledger = Ledger()
        self._pending: PendingEdits | None = None
        self._plan: Planning | None = None
        self._sizes: list[int] = []
        self._cooled = False
        self._pauses = Pauses()
        self._resized = 0
        self._writes: int | None = None
        self._written: int | None = None

    @property
    def step(self) -> PendingEdits:
        """What the next call would see; to be read only."""
        return self._step()

    @property
    def pending(self) -> Mapping[int, Edit]:
        """The edits that the next call would see, by position, and that are not yet for good."""
        return self._step().edits

    @property
    def pending_entries(self) -> Mapping[int, Entry | None]:
        """What the next call would see differently, by position, and what is not yet for good."""
        return self._step().entries

    @property
    def pending_wants(self) -> Sequence[Want]:
        """The texts that would make the next call's window shorter."""
        return self._step().wants

    @property
    def pending_inserts(self) -> Sequence[Insert]:
        """What the next call would be shown behind all that was said."""
        return self._step().inserts

    def edited_soon(self, calls: int) -> list[int]:
        """Where each of so many calls after the next may begin to differ, as far as is known.

        Places among the entries of the next call, the soonest first, and behind it the first edit
        that waits.
        """
        pending = self._step()
        looks: dict[int, list[int]] = {
            turn: [at for places in self.looks.get(turn, {}).values() for at in places]
            for turn in range(pending.turn + 1, pending.turn + calls + 1)
        }
        for _, at, turn in pending.looks:
            if turn in looks:
                looks[turn].append(at)
        waiting = self.ledger.waiting if self._plan is None else self._plan.ledger.waiting
        soon = [min(places) for places in looks.values() if places]
        soon[1:1] = [offer.first for offer in waiting[:1]]
        if self.bound and self.thinking:
            return []  # what was sent stands, but for a few calls
        if pending.entries and not soon:  # what is edited at an age is edited turn by turn
            turn = self.births[min(pending.entries)]
            later = (self.results_in(turn + ahead) for ahead in range(1, calls + 1))
            soon += [results.start for results in later if results]
        gone = self._gone_by_now(pending)
        return [at - bisect_left(gone, at) for at in soon]

    def worth_writing(self) -> int | None:
        """How many of the next call's entries are worth writing to a cache (None: all).

        Those behind them will be others at the call after it: the policies are going to shorten
        the first of them, and the bill is lower if it was not written.
        """
        pending = self._step()
        if self.bound and self.thinking:
            return None
        step = NextStep(pending)
        proposals = (each for policy in self.policies for each in policy.propose(step))
        new = [(each, each.message(step)) for each in proposals if min(each.span) in pending.fresh]
        if self._plan is not None:
            first = self._plan.unwritten_from(new)
        else:
            first = min((min(each.span) for each, message in new if message), default=None)
        return None if first is None else first - bisect_left(self._gone_by_now(pending), first)

    def write_until(self, entries: int | None) -> None:
        """Say that the call to be made writes so many of its entries to a cache (None: all)."""
        self._writes = entries
        for gone in self._gone_by_now(self._step()):
            if self._writes is None or gone > self._writes:
                break
            self._writes += 1

    def place(self, entry: Entry) -> None:
        """Add a message that is shown as `entry` says; the next call is planned anew."""
        if entry.item.id in self.kept:
            self.pins[len(self.items)] = float("inf")
        settled = self.settled
        super().place(entry)
        if self.settled > settled:
            # What the window cost that was handed back is not known: nothing is left to risk.
            self.ledger = replace(self.ledger, bill=0.0, everything=0.0)
        self._pending = None

    def append(self, item: Item, reason: str = "said before", *, at: float | None = None) -> None:
        """Add the next message, said at `at` seconds (None: it is not known when).

        An assistant message means that the call was made.
        """
        self.append_entry(Entry(item, item.message, reason), at=at)

    def append_entry(self, entry: Entry, *, at: float | None = None) -> None:
        """Add a message that is shown from the start as `entry` says."""
        message = entry.message
        if message.role == "assistant":
            self._call_made()
        self._pauses.note(at, answer=message.role == "assistant")
        self.place(entry)

    def pin(self, ident: str, until: float = float("inf")) -> None:
        """Keep the message with this id as it was said, up to and with the call `until`."""
        for at, item in enumerate(self.items):
            if item.id == ident:
                self.pins[at] = max(self.pins.get(at, 0), until)
        self._pending = None

    def settle(self, edit: Edit) -> None:
        """Make an edit that was decided elsewhere, for good: what the user's settings ask for."""
        edited = set(targets(edit))
        for at, item in enumerate(self.items):
            entry = self.entries[at]
            if item.id in edited and entry is not None:
                after = changed(entry, edit)
                left = self.count(after.message) if after else 0
                self.saved += self.count(entry.message) - left
                self.change(at, after, edit)
                if at in self.names:
                    self.names.put({at: ShownNames(after.message if after else None)})
        self._pending = None

    def strip(self, found: Mapping[str, Message], reason: str) -> None:
        """Have the next call show replies without their thinking, by occurrence, for good."""
        pending = self._step()
        less = 0
        for at in self.thinking:
            message = found.get(self.items[at].id)
            if message is not None:
                less += pending.strip(at, message, reason)
        if self._plan is not None:
            self._plan.ledger = replace(self._plan.ledger, window=self._plan.ledger.window - less)

    def recount(self) -> None:
        """Count all anew: tokens are counted differently from now on."""
        self.forget_counts()
        shown = [entry.message for entry in self.entries if entry is not None]
        self.saved = self.came_tokens() - sum(map(self.count, shown))
        self._pending = None

    def cool(self) -> None:
        """Say that what was cached is of no use to the next call: the head of the request differs.

        So it is where a phase begins with other tools or another system prompt.
        """
        self._cooled = True
        self._pending = None

    def answered(self, at: float | None) -> None:
        """Say when the last call was answered, in seconds, where its answer did not."""
        self._pauses.answered_at(at)
        self._pending = None

    def supply(self, key: str, text: str) -> None:
        """Answer a want; the text is used from the next window on."""
        self.supplied[key] = text
        self._pending = None

    def window(self) -> Window:
        """What the next call sees. Asking again changes nothing."""
        pending = self._step()
        entries = self.entries.copy()
        for at, entry in pending.entries.items():
            entries[at] = entry
        shown = [entry for entry in entries if entry is not None]
        shown += [insert.entry for insert in pending.inserts]
        in_force = {id(edit) for edit in pending.edits.values()}
        edits = [edit for edit in pending.decided if id(edit) in in_force]
        return Window(
            pending.turn,
            tuple(shown),
            tuple(edits),
            tuple(pending.inserts),
            tuple(pending.wants),
            None if self._plan is None else self._plan.decision,
        )

    def _step(self) -> PendingEdits:
        if self._pending is None:
            self._pending = pending = PendingEdits(self)
            self._plan = plan = self._planning(pending)
            for policy in self.policies:
                for proposal in policy.propose(pending):
                    if min(proposal.span) < self.settled and not proposal.must:
                        continue
                    if plan is not None:
                        plan.take(proposal)
                    elif proposal.must or not pending.holds(min(proposal.span)):
                        carry_out(pending, proposal)
            if plan is not None:
                plan.decide()
        return self._pending

    def _gone_by_now(self, pending: PendingEdits) -> Sequence[int]:
        """The positions of what the next call does not show, in order."""
        now = {at for at, entry in pending.entries.items() if entry is None}
        return sorted({*self.gone, *now}) if now else self.gone

    def _planning(self, pending: PendingEdits) -> Planning | None:
        """The plan of one call, with the tokens of all that was sent, kept up to date."""
        if self.planner is None:
            return None
        for entry in self.entries[len(self._sizes) : self.sent]:
            self._sizes.append(self.count(entry.message) if entry else 0)
        for at in self.changes[self._resized :]:
            if at < len(self._sizes):
                entry = self.entries[at]
                self._sizes[at] = self.count(entry.message) if entry else 0
        self._resized = len(self.changes)
        gap = float("inf") if self._cooled else self._pauses.gap
        whole = self.came_tokens()
        return self.planner.plan(
            pending,
            self.ledger,
            self._sizes,
            whole,
            gap,
            block_tokens=self.block_tokens,
            written=self._written,
        )

    def _call_made(self) -> None:
        """Make the step for good: the call that it was for has been answered."""
        pending = self._step()
        if self._plan is not None:
            self.ledger = self._plan.ledger
            self._cooled = False
        self.block_tokens = NOTHING
        self._writes, self._written = None, self._writes
        for at, entry in pending.entries.items():
            self.change(at, entry, pending.edits[at])
        for at, until in pending.pins.items():
            self.pins[at] = max(self.pins.get(at, 0), until)
        self.looks.pop(pending.turn, None)  # they were taken
        for policy, at, turn in pending.looks:
            self.looks.setdefault(turn, {}).setdefault(policy, []).append(at)
        self.names.put(pending.shown_names)
        self.saved += pending.saved
        spoke = self.first_user, self.last_user
        for one in pending.inserts:
            self.place(one.entry)
            self.first_user, self.last_user = spoke  # nobody said it
            if self.uses_names:
                self.names.put({len(self.items) - 1: ShownNames(one.item.message)})
        self.calls += 1
        self._starts.append(len(self.items))
