"""One conversation and its next call: what a loop's `Context` and a cascade's phase both drive.

A `Driver` holds a conversation, the blocks at the end of its messages and what is known of its
model's prompt cache. It takes new messages, plans by what the provider reported, and determines
what the next call shows with its blocks, and its cache marks. The caller sends the call, and
reports that it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from windlass.caching.breakpoints import Outlook, Place
from windlass.caching.meter import Clearing
from windlass.caching.model_cache import CacheState, SentRequest
from windlass.caching.pauses import Lifetime
from windlass.messages import Message, ToolSpec
from windlass.window._cleared import cleared_note, unsaid
from windlass.window.blocks import (
    NOTHING,
    Attachment,
    BlockTokens,
    WithBlocks,
    let_go,
    takes_blocks,
    with_blocks,
    with_own_block,
)
from windlass.window.conversation import Conversation
from windlass.window.entries import Entry, Item, Replace
from windlass.window.planner import Planner
from windlass.window.policies.budget import TokenBudget
from windlass.window.policies.free_moments import FreeMoments
from windlass.window.thoughts import Thinking, Thoughts
from windlass.wire.thinking import BOUND, thinking_rules, thinks

_BOUND: Final = "thinking is bound to all that stood before it"
AHEAD: Final = 3
"""For how many calls ahead cache marks are set; a request has four of them."""


@dataclass(frozen=True, slots=True)
class NextRequest:
    """A request that is ready to be sent.

    `with_blocks` is what it shows; `gone_because` says why older blocks were taken away (None: none
    was). `sent` are its messages with their marks, `lifetime` how long its head is kept. `cleared`
    are the results that its last message says of that the provider cleared them.
    """

    with_blocks: WithBlocks
    gone_because: str | None
    sent: SentRequest
    lifetime: Lifetime
    cleared: tuple[Item, ...] = ()

    @property
    def note(self) -> str:
        """Return the note about cleared results in its last message (empty: none)."""
        last = self.entries[-1].item.id if self.cleared else ""
        return self.with_blocks.attached[last].note if self.cleared else ""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return what is shown, in order."""
        return self.with_blocks.entries


@dataclass(frozen=True, slots=True)
class RequestNeeds:
    """What the caller needs the next request to show."""

    entries: Sequence[Entry]
    """What it shows without blocks; one at least."""
    tools: Sequence[ToolSpec]
    """The tools of the request."""
    gap: float | None
    """Seconds since the last call was begun (None: not known)."""
    block: str = ""
    """What is said at the end of its last message, for this call."""
    lasting: str = ""
    """What is said there for good."""
    cut_point: int = 0
    """How many messages the head and the user context are (0: there is none)."""
    unmarked: int = 0
    """How many messages at the end take no mark, because they will be others."""
    last: bool = False
    """Whether no call follows. Only its head is worth writing, for other runs."""
    own_marks: Sequence[Place] = ()
    """The cache marks that the caller set, by entry and part."""
    marks_until: Place | None = None
    """The first place at which no other mark may stand (None: there is none)."""


class Driver:
    """Drives one conversation.

    Args:
        conversation: What is shown, and who decides on it.
        cache: The prompt cache of its model; conversations with one model share it.
        attached: The blocks at the end of messages, by occurrence; it changes with each call.
        thoughts: What stood before each reply; conversations of a session share it.
        thinking: What becomes of edits that make thinking invalid.
        notes: Whether a call says what the provider cleared of the call before.
    """

    def __init__(
        self,
        conversation: Conversation,
        cache: CacheState,
        attached: dict[str, Attachment] | None = None,
        thoughts: Thoughts | None = None,
        thinking: Thinking = "keep",
        *,
        notes: bool = False,
    ) -> None:
        self.conversation = conversation
        self.thoughts = Thoughts() if thoughts is None else thoughts
        self.thinking: Thinking = thinking
        self._notes = notes
        self._rules = BOUND if self.thoughts.refused else thinking_rules(cache.model)
        self._request: tuple[tuple[Message, ...], tuple[ToolSpec, ...]] = (), ()
        """The messages and tools of the last call that was made."""
        self.cache = cache
        self.attached = {} if attached is None else attached
        self.planner = conversation.planner
        """Who decides when edits are made while the cache is counted on (None: nobody)."""
        self._calls_to_come = (self.planner or Planner(cache.prices)).calls

    def count_on_cache(self) -> None:
        """From now on, plan by what the provider reports of its cache."""
        if self.planner is None:
            return
        trust = self.cache.trust
        planner = replace(self.planner, prices=self.cache.planned_prices)
        self.conversation.planner = planner.without_cache() if trust.absent else planner
        self.conversation.policies = tuple(
            replace(each, prices=planner.prices) if isinstance(each, FreeMoments) else each
            for each in self.conversation.policies
        )
        if trust.cold:
            self.conversation.cool()

    @property
    def drops_thinking(self) -> bool:
        """Return whether the provider is asked to drop thinking that a call makes invalid."""
        return self._rules.bound and self.thinking == "drop_block" and not self.thoughts.refused

    @property
    def most_tokens(self) -> int | None:
        """Return the most tokens that the messages of a call may have (None: there is no limit)."""
        limits = [
            each.limit for each in self.conversation.policies if isinstance(each, TokenBudget)
        ]
        return min(limits, default=None)

    def limit(self, tokens: int) -> None:
        """Set the most tokens of a call's messages, if they have a limit."""
        policies = tuple(
            replace(each, limit=tokens)
            if isinstance(each, TokenBudget)
            else replace(each, limit=tokens)
            if isinstance(each, FreeMoments) and each.limit is not None
            else each
            for each in self.conversation.policies
        )
        if policies != tuple(self.conversation.policies):
            self.conversation.policies = policies
            self.conversation.recount()

    def count_blocks(self) -> None:
        """Plan the next call with the blocks of the last request."""
        conversation, tokens = self.conversation, dict[int, int]()
        for at, entry in enumerate(
            conversation.entries[: conversation.sent] if self.attached else ()
        ):
            if entry is not None:
                block = self.attached.get(entry.item.id)
                if block is not None and block.stands_on(entry.message):
                    tokens[at] = block.tokens + block.lasting_tokens
        conversation.block_tokens = BlockTokens.of(tokens, conversation.sent) if tokens else NOTHING

    def with_older_blocks(
        self, entries: Sequence[Entry], tools: Sequence[ToolSpec], gap: float | None
    ) -> tuple[WithBlocks, int, str]:
        """Return the entries with those blocks of earlier calls that cost something to leave out.

        Also the position from which on all is written anew, and why.
        """
        before = with_blocks(entries, self.attached)
        messages = tuple([entry.message for entry in before.entries])
        start, why = self.cache.written_anew(messages, tools, gap)
        if self._rules.bound and not self.drops_thinking:
            start = max(start, self._held_until(before.entries, tools))
        return let_go(entries, before, start), start, why

    def _held_until(self, entries: Sequence[Entry], tools: Sequence[ToolSpec]) -> int:
        """Get the position behind the last entry whose thinking is still bound to all before it."""
        stale = self.thoughts.stale(entries, self.cache.model, tools, but=len(entries))
        valid = (at for at, e in enumerate(entries) if at not in stale and thinks(e.message))
        return max(valid, default=-1) + 1

    def strip_stale(self, tools: Sequence[ToolSpec]) -> None:
        """Remove thinking that does not match what the conversation begins with."""
        conversation = self.conversation
        shown = [entry for entry in conversation.entries if entry is not None]
        entries = with_blocks(shown, self.attached).entries
        for ident, message in self._stale(entries, tools).items():
            reason = f"{_BOUND}, and the phase does not go on from it"
            conversation.settle(Replace(ident, message, "strip", reason))

    def _stale(self, entries: Sequence[Entry], tools: Sequence[ToolSpec]) -> dict[str, Message]:
        """Give the replies whose thinking is of no use in a request, without it, by occurrence."""
        rules = self._rules
        if not (self.conversation.standing.thinking and (rules.bound or rules.read)):
            return {}
        if self.drops_thinking:
            return {}
        but = len(entries)
        if rules.open_round:
            users = (at for at, entry in enumerate(entries) if entry.message.role == "user")
            but = max(users, default=-1)
        stale = self.thoughts.stale(entries, self.cache.model, tools, but=but)
        return {entries[at].item.id: message for at, message in stale.items()}

    def _without_stale(self, blocks: WithBlocks, tools: Sequence[ToolSpec]) -> WithBlocks:
        """Return what a call shows, without thinking that is bound to messages no longer shown."""
        stale = self._stale(blocks.entries, tools)
        if not stale:
            return blocks
        messages = tuple([entry.message for entry in blocks.entries])
        at, why = self.cache.differs(messages, tools)
        because = blocks.entries[at].because if 0 < at < len(messages) else None
        reason = f"{_BOUND}, and {why or 'that is another one'}"
        self.conversation.strip(stale, f"{reason} ({because})" if because else reason)
        entries = [
            replace(entry, message=stale[entry.item.id], because="strip")
            if entry.item.id in stale
            else entry
            for entry in blocks.entries
        ]
        return replace(blocks, entries=tuple(entries))

    def _cleared_note(
        self, entries: Sequence[Entry], size: Callable[[str], int]
    ) -> tuple[str, tuple[Item, ...]]:
        """Return what the next call says of results that the provider cleared, and of which."""
        sent, cleared = self.cache.sent, self.cache.cleared
        if not (self._notes and cleared.uses and sent and entries):
            return "", ()
        if not takes_blocks(entries[-1].message):
            return "", ()
        calls = (sent.messages[at].tool_call_id for at in cleared.places(sent.messages))
        ids = frozenset(filter(None, calls))
        new, there = unsaid(with_blocks(entries, self.attached).entries, ids)
        if not new:
            return "", ()
        step, new_ids = self.conversation.step, {entry.item.id for entry in new}
        hidden = [
            at
            for at, item in enumerate(self.conversation.items)
            if item.message.tool_call_id in ids and step.entry(at) is not None
        ]
        places = [at for at in hidden if step.item(at).id in new_ids]
        text, about = cleared_note(step, places, hidden, size, there)
        return text, tuple(step.item(at) for at in about)

    def next_call(
        self,
        asked: RequestNeeds,
        *,
        size: Callable[[str], int],
        fits: Callable[[Sequence[Message]], bool],
    ) -> NextRequest:
        """Return what the next call shows with its blocks, and its cache marks.

        Nothing that was sent changes by it. Thinking that the call cannot show goes for good.

        Args:
            asked: What it is to show and to say.
            size: Tokens of a text.
            fits: Whether messages are short enough; else all older blocks go.
        """
        entries, tools, gap = asked.entries, asked.tools, asked.gap
        block, lasting, unmarked = asked.block, asked.lasting, asked.unmarked
        blocks, because = WithBlocks(tuple(entries), self.attached, {}), None
        note, cleared = self._cleared_note(entries, size)
        if entries and (self.attached or block or lasting or note):
            older, _, why = self.with_older_blocks(entries, tools, gap)
            blocks = with_own_block(older, block, lasting, size, note)
            if note and not fits([entry.message for entry in blocks.entries]):
                note, cleared = "", ()
                blocks = with_own_block(older, block, lasting, size)
            if older.older and not fits([entry.message for entry in blocks.entries]):
                older, why = let_go(entries, older, 0), "too long"
                blocks = with_own_block(older, block, lasting, size)
            because = why if blocks.gone else None
        blocks = self._without_stale(blocks, tools)
        marked = blocks.entries[:-unmarked] if unmarked else blocks.entries
        lifetime = self.cache.next_lifetime(gap, self._calls_to_come(self.cache.calls + 1))
        outlook = Outlook(
            soon=self.conversation.edited_soon(AHEAD) if self.cache.takes_marks else (),
            long=lifetime.long,
            cut_point=asked.cut_point,
            tail=bool(block) and blocks.own and not unmarked,
            until=self._worth_writing(marked, last=asked.last) if self.cache.takes_marks else None,
            own=asked.own_marks,
            bound=asked.marks_until,
        )
        sent = self.cache.mark(tuple([entry.message for entry in marked]), tools, outlook)
        return NextRequest(blocks, because, sent, lifetime, cleared)

    def _worth_writing(self, entries: Sequence[Entry], *, last: bool) -> int | None:
        """Return how many of the next call's entries are worth writing to the cache (None: all)."""
        if not last:
            return self.conversation.worth_writing()
        return next((at for at, entry in enumerate(entries) if not entry.message.is_system), 0)

    def call_made(self, call: NextRequest) -> None:
        """Note that the call was made, so that the next one continues from it."""
        if self.cache.takes_marks:
            self.conversation.write_until(call.sent.written)
        attached = dict(call.with_blocks.attached)
        self.attached.clear()
        self.attached.update(attached)
        self.cache.sent, self.cache.lifetime = call.sent, call.lifetime
        self.cache.cleared = Clearing()  # until the answer says otherwise
        self.cache.calls += 1
        self._request = tuple([entry.message for entry in call.entries]), call.sent.tools

    def answered(self, reply: Item, *, goes_on: str | None = None) -> None:
        """Note the reply to the last call.

        With the reply `goes_on` it is one, which stands in the place of that and has its thinking.
        """
        if not thinks(reply.message):
            return
        born = self.thoughts.born
        if goes_on in born:
            born[reply.id] = born.pop(goes_on)
        elif self._rules.bound or self._rules.read:
            messages, tools = self._request
            self.thoughts.came(reply.id, messages, self.cache.model, tools)

    def thinking_refused(self) -> None:
        """The provider refused thinking: all there is goes, and what comes is bound."""
        self._rules = BOUND
        self.thoughts.forget()
