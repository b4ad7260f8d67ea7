"""What one call of a loop should see, and what became of each message.

Knows the context it was made by, for counts and originals; decides nothing.

What was repaired in a caller's list, as sentences: for a whole list, and for each entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias, cast

from windlass.caching.breakpoints import Place, cache_key
from windlass.caching.model_cache import SentRequest
from windlass.context._reports import Expectation
from windlass.context.lists import WrittenObject
from windlass.context.recall import Originals, answer_call
from windlass.errors import UsageError, did_you_mean
from windlass.messages import Message, Opaque, ToolSpec, tool, user
from windlass.window.blocks import tools_needed
from windlass.window.driver import NextRequest
from windlass.window.entries import INJECT, Edit, Entry, Fold, Want
from windlass.window.intake import Intake, IntakeMessage
from windlass.window.originals import reference
from windlass.wire.base import Format, Request
from windlass.wire.calls import ANSWERED, GO_ON, NO_RESULT, OPENED
from windlass.wire.forms import MODULES, TITLES, FormName, aside, check_places
from windlass.wire.marks import block_parts, content_parts, in_chat
from windlass.wire.repairs import bare_name, form_for, is_taken, repairs

Provider: TypeAlias = FormName

_CONTEXT_KEYS: Final = (
    *("system", "messages", "systemInstruction", "contents", "input", "tools"),
    *("prompt_cache_key", "prompt_cache_options"),
)
"""What of a request's body is its context and its cache, in the words of the four forms."""


@dataclass(frozen=True, slots=True)
class ShownEntry:
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


@dataclass(frozen=True, slots=True)
class WindowParts:
    """What a window is made of.

    `next_call` is what it shows and marks, `bare` the same entries without blocks. `taken` are the
    messages that were taken in, `edits` those in force by position in the conversation. The first
    `cached` entries should be cached; `number` is the call's.
    """

    next_call: NextRequest
    bare: tuple[Entry, ...]
    taken: tuple[IntakeMessage, ...]
    edits: Mapping[int, Edit]
    wants: tuple[Want, ...]
    cached: int
    number: int
    assumed: tuple[str, ...] = ()
    own_marks: tuple[Place | None, ...] = ()
    """The caller's own marks by entry and part, as they were given (None: it is not shown)."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return what is shown, in order."""
        return self.next_call.entries


class Counts(Originals, Protocol):
    """What a window asks of the context that made it."""

    model: str

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the definitions of the caller's tools, and of `recall` if it is offered."""
        ...

    @property
    def keyed(self) -> bool:
        """Return whether requests share a key for the cache."""
        ...

    def tools_in(self, form: FormName) -> list[dict[str, Any]]:
        """The caller's tools, in a form where none were given, and `recall` if it is offered."""
        ...

    def counted(self, messages: Sequence[Message]) -> int:
        """Return tokens of a request of these messages and the tools, before any correction."""
        ...

    def corrected(self, tokens: int) -> int:
        """Return a count corrected by what the provider reported."""
        ...

    def tokens_of(self, message: Message) -> int:
        """Return tokens of one message, by the corrected count."""
        ...

    def ident_at(self, position: int) -> str:
        """Return the id of the message at a position of the conversation."""
        ...


class ChatWindow:
    """What the next call should see. `messages` and `tools` go to the provider as they are."""

    def __init__(
        self,
        context: Counts,
        parts: WindowParts,
        objects: Sequence[WrittenObject],
        form: FormName,
    ) -> None:
        self._context = context
        self._parts = parts
        self._form = form
        self._objects = objects
        self.messages = [one.sent for one in objects]
        """The messages to send, in the form that they came in: valid for the provider, without
        cache marks.

        Messages that stand as they were said are the caller's own objects, and shortened ones
        those of the window before, until they change: put nothing into them.
        """
        self.tools: list[dict[str, Any]] = context.tools_in(form)
        """The caller's tools in their form, and `recall` where it was asked for.

        Where no tools were given, it is in the form of the messages.
        """

    @property
    def next_call(self) -> NextRequest:
        """Return what it shows and marks."""
        return self._parts.next_call

    def marked(self, sent: SentRequest, own_marks: tuple[Place | None, ...]) -> ChatWindow:
        """Return the same window with other cache marks."""
        call = replace(self._parts.next_call, sent=sent)
        parts = replace(self._parts, next_call=call, own_marks=own_marks)
        return ChatWindow(self._context, parts, self._objects, self._form)

    def begins_with(self, count: int) -> bool:
        """Return whether the first so many of the messages are a system message each."""
        entries = self._parts.entries[:count]
        alone = [one.entries for one in self._objects[:count]] == [(one,) for one in entries]
        return alone and len(entries) == count and all(one.message.is_system for one in entries)

    @property
    def edits(self) -> Mapping[int, Edit]:
        """Return the edits in force, by position in the conversation."""
        return self._parts.edits

    @property
    def taken(self) -> tuple[IntakeMessage, ...]:
        """Return the messages that were taken in, those that wait for results included."""
        return self._parts.taken

    def as_said(self, at: int) -> tuple[Message, int | None]:
        """Get the message at a position of the conversation, and its place in the caller's list."""
        ident = self._context.ident_at(at)
        taken = next(one for one in self._parts.taken if one.item.id == ident)
        return taken.item.message, taken.source

    @property
    def wants(self) -> tuple[Want, ...]:
        """Return texts that would make the window shorter; answer with `Context.supply`."""
        return self._parts.wants

    @property
    def assumed(self) -> tuple[str, ...]:
        """Return what was assumed for this window where something is not known or makes no sense.

        A model without prices, times that run backwards, a usage that was left aside, a cache
        that did not hold what it should; a sentence each, empty where there is nothing to tell.
        """
        return self._parts.assumed

    @cached_property
    def planned(self) -> Expectation:
        """Return the call that this window is for, as a report of it is compared."""
        parts, counted = self._parts, self._context.counted
        cached = [entry.message for entry in parts.entries[: parts.cached]]
        expected = counted(cached) if cached else 0
        return Expectation(parts.number, self.counted, expected, parts.next_call.sent.goes_on)

    @property
    def long_breakpoints(self) -> tuple[Place, ...]:
        """Get those of the breakpoints that `wire` marks for the longer time: an hour at Anthropic.

        The end of tools and system prompt, where pauses are to be expected in which the
        provider would forget it otherwise.
        """
        return self._marked(self._parts.next_call.sent.marks.long)

    @property
    def breakpoints(self) -> tuple[Place, ...]:
        """Where cache marks belong, for a model that wants them: message and part, from 0.

        Parts are those of the content (a text is one), then the tool calls; a tool's message
        is marked as a whole. Message -1 is the list of tools. `wire` sets these marks. In
        Anthropic's form parts are blocks; Gemini's takes no marks.
        """
        return self._marked(self._parts.next_call.sent.places)

    @property
    def own_breakpoints(self) -> tuple[Place | None, ...]:
        """Where the caller's own marks stand in `messages`, as `Context.use_marks` was told them.

        None: what was marked is not shown.
        """
        return tuple(place and self._placed(place) for place in self._parts.own_marks)

    def _marked(self, places: Sequence[Place]) -> tuple[Place, ...]:
        """Return the places in `messages`."""
        return tuple(filter(None, map(self._placed, places)))

    def _placed(self, place: Place) -> Place | None:
        """Return a place among the entries as one in `messages`; None where that takes no mark."""
        at, part = place
        if at < 0:
            return place
        if self._form == "openai":
            return at, in_chat(self._parts.entries[at].message, part)
        return self._in_blocks.get(place) if self._form in ("anthropic", "responses") else None

    @cached_property
    def _in_blocks(self) -> Mapping[Place, Place]:
        """Return the places of all blocks that take marks, by entry and part."""
        positions = {entry.item.id: at for at, entry in enumerate(self._parts.entries)}
        places: dict[Place, Place] = {}
        for number, written in enumerate(self._objects):
            block = 0
            for entry in written.entries:
                message = entry.message
                if self._form == "anthropic":
                    parts = block_parts(message)
                else:  # what models said takes no marks, and is several items
                    parts = [] if message.role == "assistant" else content_parts(message)
                for part in parts:
                    places[positions[entry.item.id], part] = number, block
                    block += 1
        return places

    @cached_property
    def entries(self) -> tuple[ShownEntry, ...]:
        """Return what became of each message, in order."""
        return tuple(_became(self._context, self._parts, self._form))

    @cached_property
    def counted(self) -> int:
        """Give tokens of the window with its tools, by the model's count before any correction."""
        return self._context.counted([entry.message for entry in self._parts.entries])

    @cached_property
    def tokens(self) -> int:
        """Give tokens of the window with its tools, by the model's count, corrected by reports."""
        return self._context.corrected(self.counted)

    @cached_property
    def saved_tokens(self) -> int:
        """Return tokens that sending everything would take more; blocks are left out of account."""
        whole = [taken.item.message for taken in self._parts.taken if not taken.left_out]
        parts, counted = self._parts, self._context.counted
        bare = counted([entry.message for entry in parts.bare])
        return self._context.corrected(counted(whole) - bare)

    def wire(self, provider: Provider) -> dict[str, Any]:
        """Return the window in a provider's own form: its messages, system prompt and tools.

        Cache marks stand in it where the model wants them. A tool that was called and is not
        among the tools gets a bare definition, without which providers refuse the call.
        Raises UsageError for a provider that is none of the four; SequenceError, naming message
        and part, for what its form has no place for (audio, files, documents). What a model
        signed for itself (thinking, reasoning) is left out of other forms; `entries` say so.
        """
        if provider not in MODULES:
            raise UsageError(f"unknown provider {provider!r}; {did_you_mean(provider, MODULES)}")
        self._check_places(provider)
        messages = tuple(entry.message for entry in self._parts.entries)
        # Of all that was said, so that a tool stays defined when its last call is folded.
        taken = [taken.item.message for taken in self._parts.taken]
        tools = tools_needed(self._context.specs, taken, {})
        model = self._context.model
        # A list in Anthropic's form has system messages only where its model takes them.
        late = {"system_anywhere": True} if provider == self._form == "anthropic" else {}
        body = cast("Format", import_module(MODULES[provider])).body(
            Request(
                model=model.partition("/")[2] or model,
                messages=messages,
                max_output_tokens=1,
                tools=tools,
                breakpoints=self._parts.next_call.sent.places,
                long_breakpoints=self._parts.next_call.sent.marks.long,
                cache_key=cache_key(messages, tools) if self._context.keyed else None,
            ),
            **late,
        )
        return {key: body[key] for key in _CONTEXT_KEYS if key in body}

    def _check_places(self, target: str) -> None:
        """Refuse what is shown and has no place in a form, by its place in the caller's list."""
        firsts: dict[int, int] = {}
        places: dict[str, tuple[int | None, int]] = {}
        for taken in self._parts.taken:
            source = taken.source
            first = firsts.get(source, 0) if source is not None else 0
            if source is not None and self._form != "openai":
                firsts[source] = first + 1  # results stand before the user's words, one each
            places[taken.item.id] = source, first
        for entry in self._parts.entries:
            if any(isinstance(part, Opaque) for part in entry.message.parts):
                source, first = places.get(entry.item.id, (None, 0))
                where = f"message {source}" if source is not None else f"message {entry.item.id}"
                check_places(entry.message, target, where, first)

    def recall(
        self, ref: str, grep: str = "", lines: str = "", path: str = "", part: str = ""
    ) -> str:
        """Return the original behind a reference, or the part of it that is asked for.

        `grep` is a regular expression, `lines` a range such as `10-40`, `path` a place in a
        JSON text; `part` is one of them, or several, in one text, as the tool `recall` takes it.
        What a model may get wrong (a reference that nothing has, a pattern, a range) is answered
        with a sentence for it. Raises UsageError where an argument is not what JSON can hold.
        """
        return self._context.recall(ref, grep, lines, path, part)

    def answer(self, block: Any) -> Any:
        """Return the result of a model's call of `recall`, in the form of the call, to be appended.

        `block` is the call as its client or its JSON has it: a block `tool_use` of Anthropic's, a
        tool call of a chat completion, an item `function_call` of OpenAI's Responses, a
        `FunctionCall` of Gemini's or the part that holds it. None for anything else, such as a
        call of another tool, which is yours to answer. Raises UsageError for a list or a text.
        """
        return answer_call(block, self._context)


def _became(context: Counts, parts: WindowParts, form: str) -> Iterator[ShownEntry]:
    """Yield what became of each message: those of the list, then those that nobody said."""
    shown = {entry.item.id: entry for entry in parts.entries}
    edits = {context.ident_at(at): edit for at, edit in parts.edits.items()}
    written, added = entry_repairs(parts.entries, form, context.model, context.specs)
    if OPENED in added:
        yield _added(context, "opening", OPENED)
    for taken in parts.taken:
        ident, message = taken.item.id, taken.item.message
        entry, edit = shown.pop(ident, None), edits.get(ident)
        before = context.tokens_of(message)
        after = context.tokens_of(entry.message) if entry else 0
        because: str | None
        if edit is not None:
            action = "folded" if isinstance(edit, Fold) else "replaced" if entry else "dropped"
            because, reason = edit.because, "; ".join(filter(None, [edit.reason, taken.repair]))
        elif taken.repair is not None:
            action, because = "dropped" if taken.left_out else "repaired", "repair"
            reason = taken.repair
        else:
            action, because, reason = "shown", None, "as it was said"
            if entry is not None and entry.block:
                noted = parts.next_call.with_blocks.attached[ident].note
                what = "a note of what the provider cleared" if noted else "a block"
                because, reason = INJECT, f"as it was said, with {what} at its end"
            if left := aside(message):
                reason += f"; {', '.join(left)} only in {TITLES[form]}"
        if entry is not None and (sentences := written[ident]):
            if action == "shown" and form_for(form, context.model) == form:
                action, because = "repaired", because or "repair"
                reason = reason.removeprefix("as it was said").removeprefix("; ")
            reason = "; ".join(filter(None, [reason, *sentences]))
        yield ShownEntry(
            ident, taken.source, action, because, reason, reference(message), before, after
        )
    for ident, entry in shown.items():
        after = context.tokens_of(entry.message)
        ref = reference(entry.message)
        yield ShownEntry(ident, None, "inserted", entry.because, entry.reason, ref, 0, after)
    if ANSWERED in added:
        yield _added(context, "ending", ANSWERED)


def _added(context: Counts, ident: str, reason: str) -> ShownEntry:
    """Return what the request says for the user at one of its ends."""
    message = user(GO_ON)
    tokens = context.tokens_of(message)
    return ShownEntry(ident, None, "inserted", "repair", reason, reference(message), 0, tokens)


def repaired_ends(
    form: FormName, messages: Sequence[Message], model: str, *, system_anywhere: bool
) -> list[str]:
    """What is added or changed at the two ends of a list for `provider/model`, a sentence each."""
    written = cast("Format", import_module(MODULES[form]))
    return written.repaired_ends(messages, bare_name(model), system_anywhere=system_anywhere)


def list_repairs(
    own_form: str | None,
    taken_in: Sequence[IntakeMessage],
    intake: Intake,
    model: str,
    tools: Sequence[ToolSpec],
) -> Iterator[str]:
    """Yield what sending a list to a model changes in it that the provider would not have taken.

    `own_form` is the list's, `taken_in` are its messages, and `intake` is who took them.
    """
    form = form_for(own_form, model)
    sent: list[tuple[int | None, Message]] = []
    for taken in (*taken_in, *intake.late):
        if not taken.left_out:
            sent.append((taken.source, taken.item.message))
        for sentence in (taken.repair or "").split("; "):
            if sentence and not is_taken(sentence, form, model):
                yield _at(taken.source, sentence)
    behind = len(sent) - len(intake.late)
    for call in intake.open_calls:
        yield f"call {call.id!r} of {call.name} has no result"
        sent.insert(behind, (None, tool(call, NO_RESULT)))
        behind += 1
    messages = [message for _, message in sent]
    anywhere = form == own_form
    written = repairs(form, messages, model, tools, system_anywhere=anywhere)
    for (source, _), sentences in zip(sent, written, strict=True):
        for sentence in sentences:
            if not is_taken(sentence, form, model):
                yield _at(source, sentence)
    yield from repaired_ends(form, messages, model, system_anywhere=anywhere)


def _at(source: int | None, sentence: str) -> str:
    return sentence if source is None else f"message {source}: {sentence}"


def entry_repairs(
    entries: Sequence[Entry], form: str, model: str, tools: Sequence[ToolSpec]
) -> tuple[Mapping[str, list[str]], list[str]]:
    """Say what is written otherwise of the entries of a window: by occurrence, and at its two ends.

    Where the model's vendor has another form, all that is said of the entries.
    """
    target = form_for(form, model)
    where = "" if target == form else f"in {TITLES[target]} "
    messages = [entry.message for entry in entries]
    written = repairs(target, messages, model, tools, system_anywhere=target == form)
    told = {
        entry.item.id: [where + sentence for sentence in sentences]
        for entry, sentences in zip(entries, written, strict=True)
    }
    spoken = any(not message.is_system for message in messages)
    anywhere = target == form
    ends = repaired_ends(target, messages, model, system_anywhere=anywhere) if spoken else []
    added = [] if where else [sentence for sentence in ends if sentence in (OPENED, ANSWERED)]
    for sentence in ends:
        if sentence not in added:
            at = entries[0 if sentence == OPENED else -1].item.id
            told[at].append(where + sentence)
    return told, added
