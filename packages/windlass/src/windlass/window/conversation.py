"""A growing list of messages and the edits decided so far: what each call sees of it.

A call is a function of the messages before it and of nothing else: the conversation steps once
for every assistant message, whether windows were asked for or not, so that handing over a
whole list and handing over one message at a time give the same bytes. A step looks at what
is new, and at what its policies asked to look at again; its cost does not grow with the
length of the conversation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from windlass.caching.pauses import Pauses
from windlass.messages import Message, Text
from windlass.window._decision import Decision, Ledger
from windlass.window._pending import (
    Moment,
    PendingEdits,
    Proposal,
    WindowPolicy,
)
from windlass.window._references import is_marked
from windlass.window._standing import CallEdits, Notes, ShownNames, Standing
from windlass.window._transcript import Transcript
from windlass.window.blocks import NOTHING
from windlass.window.entries import Edit, Entry, Item, Want, changed, targets
from windlass.window.originals import RECALL
from windlass.window.planner import LastRequest, Planner, Planning, WindowPlan, carry_out
from windlass.window.window_rules import WindowRules
from windlass.wire.editing import holds_compaction

_ASKED_FOR: Final = frozenset({"arguments", "decay", "folding", "masking", "subtasks"})
"""Policies that no profile but `spec` has."""


@dataclass(frozen=True, slots=True)
class Window:
    """What one call sees: the entries in order, and the edits decided for it.

    `turn` is the number of the call. `edits` were decided at this call, in this order. `wants` are
    texts that would make it shorter. `decision` says what became of edits that are not free (None:
    there were none, or no planner).
    """

    turn: int
    entries: tuple[Entry, ...]
    edits: tuple[Edit, ...] = ()
    wants: tuple[Want, ...] = ()
    decision: Decision | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the messages as they are sent."""
        return tuple(entry.message for entry in self.entries)


class Conversation:
    """Messages as they come, and what each call sees of them.

    `transcript` holds them as they came, `standing` what stands for each by the calls so far,
    `ledger` what was decided and what it cost.

    Args:
        policies: The policies that propose edits, in order.
        planner: Decides when edits are made (None: each as soon as it is proposed).
        rules: What holds for every window.
    """

    def __init__(
        self,
        policies: Sequence[WindowPolicy] = (),
        planner: Planner | None = None,
        rules: WindowRules | None = None,
    ) -> None:
        self.policies = policies
        self.planner = planner
        self.rules = WindowRules() if rules is None else rules
        self.transcript = Transcript()
        self.standing = Standing(self.rules.count)
        self.ledger = Ledger()
        self.block_tokens = NOTHING
        """The blocks in the last request; to be set anew for each call."""
        self._notes = Notes()
        self._plan: WindowPlan | None = None
        self._cooled = False
        self._pauses = Pauses()
        self._writes: int | None = None
        """The position up to which the next call is written to the cache (None: all of it)."""
        self._written: int | None = None
        """The same of the last call."""
        self._windows: list[int] = []
        """Tokens of each call since the last compaction, without system messages."""
        self._compacted_at = -1
        """The position behind what was said when that was made."""

    @property
    def items(self) -> Sequence[Item]:
        """Return the messages as they occurred, in order."""
        return self.transcript.items

    @property
    def entries(self) -> Sequence[Entry | None]:
        """Return what stands for each message by the calls so far; None: it is not shown."""
        return self.standing.entries

    @property
    def calls(self) -> int:
        """Return how many calls were made."""
        return self.transcript.calls

    @property
    def sent(self) -> int:
        """Return the position of the first message that no call has seen."""
        return self.transcript.sent

    @property
    def step(self) -> PendingEdits:
        """Return what the next call would see; read-only."""
        return self._planned().step

    @property
    def pending(self) -> CallEdits:
        """Return the changes of the next call, which are not final yet; read-only."""
        return self._planned().step.made

    @property
    def edits(self) -> Mapping[int, Edit]:
        """Return the latest edit of each message, by position, including those of the next call."""
        return {**self.standing.edits, **self.pending.edits}

    def edited_soon(self, calls: int) -> list[int]:
        """Return the places at which later calls may begin to differ, as far as is known.

        They are places among the entries of the next call, the soonest first, followed by the first
        waiting edit.
        """
        plan, transcript = self._planned(), self.transcript
        step, made = plan.step, plan.step.made
        looks: dict[int, list[int]] = {
            turn: [at for places in self._notes.looks.get(turn, {}).values() for at in places]
            for turn in range(step.turn + 1, step.turn + calls + 1)
        }
        for _, at, turn in made.looks:
            if turn in looks:
                looks[turn].append(at)
        looks = {turn: [*filter(step.gives_again, places)] for turn, places in looks.items()}
        soon = [min(places) for places in looks.values() if places]
        soon[1:1] = [offer.first for offer in plan.ledger.waiting[:1]]
        if self._holds_thinking:
            return []  # what was sent stands, but for a few calls
        if made.entries and not soon:  # what is edited at an age is edited turn by turn
            turn = transcript.births[min(made.entries)]
            later = (transcript.results_in(turn + ahead) for ahead in range(1, calls + 1))
            soon += [results.start for results in later if any(map(step.gives_again, results))]
        gone = self._gone_by_now(step)
        return [at - bisect_left(gone, at) for at in soon]

    def worth_writing(self) -> int | None:
        """Return how many of the next call's entries are worth writing to a cache (None: all).

        Later entries will differ at the call after it: the policies are going to shorten the first
        of them, and the bill is lower if it was not written.
        """
        plan = self._planned()
        if self._holds_thinking:
            return None
        then = plan.step.following()
        proposals = (
            each
            for policy in self.policies
            for each in filter(then.has_way_back, policy.propose(then))
        )
        fresh = plan.step.fresh
        new = [(each, each.message(then)) for each in proposals if min(each.span) in fresh]
        first = plan.unwritten_from(new)
        return None if first is None else first - bisect_left(self._gone_by_now(plan.step), first)

    def write_until(self, entries: int | None) -> None:
        """Set how many of its entries the next call writes to a cache (None: all)."""
        self._writes = entries
        for gone in self._gone_by_now(self.step):
            if self._writes is None or gone > self._writes:
                break
            self._writes += 1

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
        self._add(entry)

    def pin(self, ident: str, until: float = float("inf")) -> None:
        """Keep the message with this id as it was said, up to and with the call `until`."""
        for at, item in enumerate(self.items):
            if item.id == ident:
                self.standing.pin(at, until)
        self._plan = None

    def settle(self, edit: Edit) -> None:
        """Make an edit that was decided elsewhere, for good: what the user's settings ask for."""
        edited, standing = set(targets(edit)), self.standing
        for at, item in enumerate(self.items):
            entry = self.entries[at]
            if item.id in edited and entry is not None:
                after = changed(entry, edit)
                left = self.rules.count(after.message) if after else 0
                standing.tokens.saved += self.rules.count(entry.message) - left
                standing.change(at, after, edit)
                if at in standing.names:
                    standing.names.put({at: ShownNames(after.message if after else None)})
        self._plan = None

    def strip(self, found: Mapping[str, Message], reason: str) -> None:
        """From the next call on, show these replies without their thinking."""
        places = {at: self.items[at].id for at in self.standing.thinking}
        stripped = {at: found[ident] for at, ident in places.items() if ident in found}
        self._plan = self._planned().without_thinking(stripped, reason)

    def scale(self, scale: float) -> None:
        """Set how many tokens of the model one is that is counted, from the next call on."""
        if scale != self.rules.scale:
            self.rules, self._plan = replace(self.rules, scale=scale), None

    def recount(self) -> None:
        """Recount everything, because tokens are counted differently from now on."""
        self.standing.recount()
        self._plan = None

    def cool(self) -> None:
        """Mark the cache as useless for the next call, because the head of the request differs.

        This happens when a phase begins with other tools or another system prompt.
        """
        self._cooled = True
        self._plan = None

    def answered(self, at: float | None) -> None:
        """Set the time of the last answer in seconds, if its message has none."""
        self._pauses.answered_at(at)
        self._plan = None

    def supply(self, key: str, text: str) -> None:
        """Supply a wanted text; it is used from the next window on."""
        self._notes.supplied[key] = text
        self._plan = None

    def window(self) -> Window:
        """Return what the next call sees. Asking again changes nothing."""
        plan = self._planned()
        made = plan.step.made
        entries = self.standing.entries.copy()
        for at, entry in made.entries.items():
            entries[at] = entry
        shown = [entry for entry in entries if entry is not None]
        in_force = {id(edit) for edit in made.edits.values()}
        edits = [edit for edit in made.decided if id(edit) in in_force]
        return Window(
            plan.step.turn,
            tuple(shown),
            tuple(edits),
            tuple(made.wants),
            plan.decision,
        )

    @property
    def _holds_thinking(self) -> bool:
        """Return whether any bound thinking is shown in front of which nothing changes."""
        return bool(self.rules.holds and self.standing.thinking)

    def _planned(self) -> WindowPlan:
        """Return the plan of the next call, made now if it was not made yet."""
        if self._plan is None:
            self._plan = self._decide()
        return self._plan

    def _decide(self) -> WindowPlan:
        step = PendingEdits(
            self.rules, self.transcript, self.standing, self._notes, moment=self._moment()
        )
        planning = self._planning(step)
        for policy in self.policies:
            for proposal in _proposals(policy, step):
                first = min(proposal.span)
                if first < step.standing.settled and not proposal.must:
                    continue
                if planning is not None:
                    planning.take(proposal)
                elif proposal.must or not step.holds(first):
                    carry_out(step, proposal)
        return WindowPlan(step, self.ledger) if planning is None else planning.decide()

    @property
    def _gap(self) -> float | None:
        """Return seconds since the last call was begun; infinite: what was cached is of no use."""
        return float("inf") if self._cooled else self._pauses.gap

    def _moment(self) -> Moment:
        """Return what is known of the moment of the next call."""
        gap, ledger = self._gap, self.ledger
        cold = self.planner is not None and self.planner.is_cold(gap)
        return Moment(cold, self._windows, self._compacted_at, ledger.bill, ledger.everything)

    def _planning(self, step: PendingEdits) -> Planning | None:
        """Return the planning of one call, with the tokens of all that was sent."""
        if self.planner is None:
            return None
        sizes = self.standing.sizes(self.sent)
        last = LastRequest(sizes, self.block_tokens, self._written)
        gap = self._gap
        return self.planner.plan(step, self.ledger, last, self.standing.tokens.came(), gap)

    def _gone_by_now(self, step: PendingEdits) -> Sequence[int]:
        """Return the positions of messages that the next call does not show, in order."""
        gone = self.standing.gone
        now = {at for at, entry in step.made.entries.items() if entry is None}
        return sorted({*gone, *now}) if now else gone

    def _add(self, entry: Entry) -> None:
        """Add a message that is shown as `entry` says; the next call is planned anew."""
        message = entry.message
        at = self.transcript.add(entry.item, message)
        self.standing.add(entry)
        call = self.transcript.call_of.get(at)
        asked_back = call is not None and call.name == RECALL.name  # it is not taken away again
        if entry.item.id in self.rules.kept or asked_back or holds_compaction(message):
            self.standing.pin(at, float("inf"))
        if self.rules.settles and _is_shortened(message):
            self.standing.settled = at + 1
            # What the window cost that was handed back is not known: nothing is left to risk.
            self.ledger = replace(self.ledger, bill=0.0, everything=0.0)
        self._plan = None

    def _call_made(self) -> None:
        """Make the edits of the next call permanent, because it has been answered."""
        plan, standing, notes = self._planned(), self.standing, self._notes
        made = plan.step.made
        self._windows.append(plan.step.conversation_tokens)
        if any(edit.because == "compact" for edit in made.decided):
            self._windows, self._compacted_at = [], len(self.items)
        self.ledger = plan.ledger
        self._cooled = False
        self.block_tokens = NOTHING
        self._writes, self._written = None, self._writes
        for at, entry in made.entries.items():
            standing.change(at, entry, made.edits[at])
        for at, until in made.pins.items():
            standing.pin(at, until)
        notes.looks.pop(plan.step.turn, None)  # they were taken
        for policy, at, turn in made.looks:
            notes.looks.setdefault(turn, {}).setdefault(policy, []).append(at)
        standing.names.put(made.names)
        standing.tokens.saved += made.saved
        self.transcript.call_made()


def _proposals(policy: WindowPolicy, step: PendingEdits) -> Iterable[Proposal]:
    """Return what a policy proposes; where nothing gets originals back, of what can be had again.

    What is off unless a user asks for it is done as it was asked for.
    """
    proposals = policy.propose(step)
    return proposals if policy.name in _ASKED_FOR else filter(step.has_way_back, proposals)


def _is_shortened(message: Message) -> bool:
    """Return whether a window showed this message in place of a longer one."""
    words = message.role == "assistant"
    return any(
        is_marked(part.text, words=words) for part in message.parts if isinstance(part, Text)
    ) or any(is_marked(call.arguments, words=True) for call in message.tool_calls)
