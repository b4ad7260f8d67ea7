"""What one call of a loop should see, and what became of each message.

Knows the context it was made by, for counts and originals; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from windlass.caching.breakpoints import Place, cache_key
from windlass.errors import UsageError, did_you_mean
from windlass.loop.reports import PlannedCall
from windlass.messages import Message, ToolSpec
from windlass.window.assemble import tools_needed
from windlass.window.blocks import BECAUSE
from windlass.window.entries import Edit, Entry, Fold
from windlass.window.entry_log import EntryLog, Moment
from windlass.window.intake import Taken
from windlass.window.originals import reference
from windlass.window.proposals import Want
from windlass.wire.base import Format, Request
from windlass.wire.marks import in_chat

Chat: TypeAlias = Mapping[str, Any]
"""A message, or a tool, in OpenAI's chat form."""

Provider: TypeAlias = Literal["openai", "anthropic", "gemini"]

_FORMATS: Final = {
    "openai": "windlass.wire.openai_chat",
    "anthropic": "windlass.wire.anthropic",
    "gemini": "windlass.wire.gemini",
}
_CONTEXT_KEYS: Final = (
    *("system", "messages", "systemInstruction", "contents", "tools"),
    *("prompt_cache_key", "prompt_cache_options"),
)
"""What of a request's body is its context and its cache, in the words of the three providers."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What became of one message of the list.

    `action` is `shown`, `replaced`, `folded`, `dropped`, `inserted` (nobody said it here) or
    `repaired`; `because` and `reason` say why. `reference` is what `recall` takes. `position`
    is the place in the caller's list (None: it stands in none). Tokens by the model's count.
    """

    id: str
    position: int | None
    action: str
    because: str | None
    reason: str
    reference: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True)
class WindowParts:
    """What a window is made of: its entries, what was taken by then, the edits in force.

    What stands for good is told by the conversation as of a `moment`, when somebody asks; `ahead`
    and
    `edits_ahead` are what this call sees differently, by position in the conversation, and `behind`
    what stands after all of it. Of `taken_in`, which grows, the first `took` were there, and
    `late` waited. The marks stand by the position in the list. The first `shared` entries
    should be cached; `goes_on`: all that the call before was sent stands yet. `call` is its
    number; `long` are the marks to be kept for the longer time. `with_blocks` are the entries with
    the blocks at their ends (None: no call has any).
    """

    entry_log: EntryLog
    moment: Moment
    ahead: Mapping[int, Entry | None]
    edits_ahead: Mapping[int, Edit]
    behind: tuple[Entry, ...]
    taken_in: Sequence[Taken]
    took: int
    late: tuple[Taken, ...]
    wants: tuple[Want, ...]
    places: tuple[Place, ...] = ()
    shared: int = 0
    goes_on: bool = False
    call: int = 1
    long: tuple[Place, ...] = ()
    assumed: tuple[str, ...] = ()
    with_blocks: tuple[Entry, ...] | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What is shown, in order."""
        return self.bare if self.with_blocks is None else self.with_blocks

    @cached_property
    def bare(self) -> tuple[Entry, ...]:
        """The same without the blocks at their ends."""
        return (*self.entry_log.entries_at(self.moment, self.ahead), *self.behind)

    @property
    def taken(self) -> tuple[Taken, ...]:
        """All that was taken by then."""
        return (*self.taken_in[: self.took], *self.late)

    @property
    def edits(self) -> Mapping[int, Edit]:
        """The edits in force, by the position in the conversation."""
        return self.entry_log.edits_at(self.moment, self.edits_ahead)


class Counts(Protocol):
    """What a window asks of the context that made it."""

    model: str
    tools: list[dict[str, Any]]
    keyed: bool

    def counted(self, messages: Sequence[Message]) -> int:
        """Tokens of a request of these messages and the tools, before any correction."""
        ...

    def corrected(self, tokens: int) -> int:
        """A count corrected by what the provider reported."""
        ...

    def tokens_of(self, message: Message) -> int:
        """Tokens of one message, by the corrected count."""
        ...

    def ident_at(self, position: int) -> str:
        """The id of the message at a position of the conversation."""
        ...

    def recall(
        self, ref: str, grep: str = "", lines: str = "", path: str = "", part: str = ""
    ) -> str:
        """The original behind a reference, or the part of it that is asked for."""
        ...


class ChatWindow:
    """What the next call should see. `messages` and `tools` go to the provider as they are."""

    def __init__(self, context: Counts, made: WindowParts, messages: list[dict[str, Any]]) -> None:
        self._context = context
        self._made = made
        self.messages = messages
        """The messages to send: valid for the provider, without cache marks.

        Messages that stand as they were said are the caller's own objects, and shortened ones
        those of the window before, until they change: put nothing into them.
        """
        self.tools: list[dict[str, Any]] = list(context.tools)
        """The caller's tools, and `recall` where it was asked for."""

    @property
    def wants(self) -> tuple[Want, ...]:
        """Texts that would make the window shorter; answer with `Context.supply`."""
        return self._made.wants

    @property
    def assumed(self) -> tuple[str, ...]:
        """What was assumed for this window where something is not known or makes no sense.

        A model without prices, times that run backwards, a usage that was left aside, a cache
        that did not hold what it should; a sentence each, empty where there is nothing to tell.
        """
        return self._made.assumed

    @cached_property
    def asked(self) -> PlannedCall:
        """The call that this window is for, as a report of it is compared."""
        made, counted = self._made, self._context.counted
        shared = [entry.message for entry in made.entries[: made.shared]]
        expected = counted(shared) if shared else 0
        return PlannedCall(made.call, self.counted, expected, made.goes_on)

    @property
    def long_breakpoints(self) -> tuple[Place, ...]:
        """Those of the breakpoints that `wire` marks for the longer time: an hour at Anthropic.

        The end of tools and system prompt, where pauses are to be expected in which the
        provider would forget it otherwise.
        """
        shown = self._made.entries
        return tuple(
            (at, part if at < 0 else in_chat(shown[at].message, part))
            for at, part in self._made.long
        )

    @property
    def breakpoints(self) -> tuple[Place, ...]:
        """Where cache marks belong, for a model that wants them: message and part, from 0.

        Parts are those of the content (a text is one), then the tool calls; a tool's message
        is marked as a whole. Message -1 is the list of tools. `wire` sets these marks.
        """
        shown = self._made.entries
        return tuple(
            (at, part if at < 0 else in_chat(shown[at].message, part))
            for at, part in self._made.places
        )

    @cached_property
    def entries(self) -> tuple[Shown, ...]:
        """What became of each message, in order."""
        return tuple(_told(self._context, self._made))

    @cached_property
    def counted(self) -> int:
        """Tokens of the window with its tools, by the model's count before any correction."""
        return self._context.counted([entry.message for entry in self._made.entries])

    @cached_property
    def tokens(self) -> int:
        """Tokens of the window with its tools, by the model's count, corrected by reports."""
        return self._context.corrected(self.counted)

    @cached_property
    def saved_tokens(self) -> int:
        """Tokens that sending everything would take more; blocks are left out of account."""
        whole = [taken.item.message for taken in self._made.taken if not taken.left_out]
        made, counted = self._made, self._context.counted
        blocks = made.with_blocks is not None
        bare = counted([entry.message for entry in made.bare]) if blocks else self.counted
        return self._context.corrected(counted(whole) - bare)

    def wire(self, provider: Provider) -> dict[str, Any]:
        """The window in a provider's own form: its messages, system prompt and tools.

        Cache marks stand in it where the model wants them. A tool that was called and is not
        among the tools gets a bare definition, without which providers refuse the call.
        Raises UsageError for a provider that is none of the three.
        """
        if provider not in _FORMATS:
            raise UsageError(f"unknown provider {provider!r}; {did_you_mean(provider, _FORMATS)}")
        messages = tuple(entry.message for entry in self._made.entries)
        # Of all that was said, so that a tool stays defined when its last call is folded.
        said = [taken.item.message for taken in self._made.taken]
        tools = tools_needed(tuple(map(spec, self.tools)), said, {})
        model = self._context.model
        body = cast("Format", import_module(_FORMATS[provider])).body(
            Request(
                model=model.partition("/")[2] or model,
                messages=messages,
                max_output_tokens=1,
                tools=tools,
                breakpoints=self._made.places,
                long_breakpoints=self._made.long,
                cache_key=cache_key(messages, tools) if self._context.keyed else None,
            )
        )
        return {key: body[key] for key in _CONTEXT_KEYS if key in body}

    def recall(
        self, ref: str, grep: str = "", lines: str = "", path: str = "", part: str = ""
    ) -> str:
        """The original behind a reference, or the part of it that is asked for.

        `grep` is a regular expression, `lines` a range such as `10-40`, `path` a place in a
        JSON text; `part` is one of them, or several, in one text, as the tool `recall` takes it.
        Raises UsageError for an unknown reference, naming known ones.
        """
        return self._context.recall(ref, grep, lines, path, part)


def _told(context: Counts, made: WindowParts) -> Iterator[Shown]:
    """What became of each message: those of the list, then those that nobody said."""
    shown = {entry.item.id: entry for entry in made.entries}
    known = {context.ident_at(at): edit for at, edit in made.edits.items()}
    for taken in made.taken:
        ident, message = taken.item.id, taken.item.message
        entry, edit = shown.pop(ident, None), known.get(ident)
        before = context.tokens_of(message)
        after = context.tokens_of(entry.message) if entry else 0
        because: str | None
        if edit is not None:
            action = "folded" if isinstance(edit, Fold) else "replaced" if entry else "dropped"
            because, reason = edit.because, edit.reason
        elif taken.repair is not None:
            action, because = "dropped" if taken.left_out else "repaired", "repair"
            reason = taken.repair
        else:
            action, because, reason = "shown", None, "as it was said"
            if entry is not None and entry.because == BECAUSE:
                because, reason = BECAUSE, "as it was said, with a block at its end"
        yield Shown(ident, taken.source, action, because, reason, reference(message), before, after)
    for ident, entry in shown.items():
        after = context.tokens_of(entry.message)
        told = "inserted", entry.because, entry.reason, reference(entry.message), 0, after
        yield Shown(ident, None, *told)


def spec(one: Chat) -> ToolSpec:
    """A tool in OpenAI's form, as Windlass knows it. Raises UsageError where it is none."""
    function = one.get("function", one) if isinstance(one, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        raise UsageError(f"a tool is an object with a function and its name, not {one!r:.200}")
    parameters = function.get("parameters") or {"type": "object"}
    if not isinstance(parameters, Mapping):
        raise UsageError(f"tool {name!r}: its parameters are a JSON Schema, not {parameters!r:.80}")
    return ToolSpec(name, str(function.get("description") or ""), parameters)
