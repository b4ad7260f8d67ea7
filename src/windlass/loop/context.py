"""A conversation as it grows: `Context`.

Takes chat dicts, has them mended, hands them to a `Course`, and turns what the course shows
into chat dicts again. What is shown is kept up to date message by message, so that a window
costs what is new in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import is_not
from typing import Any, Final, cast

from windlass.economics import UNCACHED, prices_of
from windlass.errors import SequenceError, UsageError
from windlass.loop.window import Chat, ChatWindow, Made, ref_of, spec
from windlass.messages import Message, ToolCall, tool
from windlass.prices import Prices
from windlass.tokens import FamilyCounter, request_tokens
from windlass.window.course import Course, inserted
from windlass.window.entries import Entry, Item
from windlass.window.intake import NO_RESULT, OWN_KEYS, Intake, Taken, said_at
from windlass.window.marks import MarkRules, Marks, Place, Shown, Tools, mark_rules, marks
from windlass.window.options import Policy
from windlass.window.originals import RECALL, REF, part_of
from windlass.window.size import size
from windlass.window.steps import planner_of, steps
from windlass.wire.base import Usage
from windlass.wire.openai import to_openai

_FLAT: Final = frozenset({"role", "content", "tool_call_id", "name"})
"""Keys of a chat dict that hold text, `content` at least mostly."""
_AHEAD: Final = 3
"""For how many calls ahead cache marks are set; a request has four of them."""
_NO_MODEL: Final = "openai/gpt-4o"
"""Whose tokens are counted where no model is named."""


class Context:
    """A conversation as it grows, and what each call sees of it.

    Args:
        model: `provider/model`, for counting tokens.
        policy: A profile's name, a dict of options, or a `Policy`.
        prices: What the model's prompt cache charges; default those of `model`, and no cache
            where none is named.
        tools: The caller's tools in OpenAI's form; the window's list is theirs.
        max_input_tokens: Most tokens of a window (None: no limit).
        recall: Whether the loop offers the tool `recall`; placeholders name it then.
        calibration: What the model's own count is divided by ours; see `report`.
        supplied: Texts that were asked for before, by key.
        pins: Messages to keep as they are said; see `pin`. They may be yet to come.
    """

    def __init__(
        self,
        model: str | None = None,
        policy: str | Mapping[str, Any] | Policy | None = "default",
        *,
        prices: Prices | None = None,
        tools: Sequence[Chat] | None = None,
        max_input_tokens: int | None = None,
        recall: bool = False,
        calibration: float | None = None,
        supplied: Mapping[str, str] | None = None,
        pins: Iterable[str | int] = (),
    ) -> None:
        self.model = model or _NO_MODEL
        self.calibration = calibration or 1.0
        self.tools = [dict(one) for one in tools or () if spec(one)]
        if recall and not any(spec(one).name == RECALL.name for one in self.tools):
            self.tools.append(RECALL.to_openai())
        chosen = Policy.of(policy)
        if max_input_tokens is not None:
            chosen = replace(chosen, max_input_tokens=max_input_tokens)
        self.policy = chosen
        self.taken: list[Taken] = []
        self.said: list[Chat] = []
        """What was appended, the caller's own objects."""
        self.pins = frozenset(map(_as_pin, pins))
        self._places: dict[str | int, str] = {}
        self._counter = FamilyCounter(self.model)
        self._intake = Intake()
        self._own: dict[str, int] = {}
        self._shown: list[dict[str, Any] | None] = []
        self._made: dict[int, bool] = {}
        """Where what is shown is not the caller's own object, and whether it is flat."""
        self._told = 0
        self._last: ChatWindow | None = None
        self.keyed = self.model.startswith("openai/") and model is not None
        """Whether requests share a key for the cache."""
        self._rules, self._marks = marking(model), Marks()
        self._marked_for = 0, Marks()
        self._weight = Tools.of([spec(one) for one in self.tools]) if self._rules else None
        most = chosen.max_input_tokens
        if most is not None:
            most = max(1, most - self.corrected(self.counted(())))  # the tools are paid first
        self.course = Course(
            policies=steps(chosen, limit=most),
            # Counting takes longer than deciding: only a limit needs the model's own count.
            count=self.tokens_of if chosen.max_input_tokens else size,
            back=_recall_call if recall else _reference,
            planner=planner_of(chosen, prices or _prices_of(model)),
        )
        self.course.supplied.update(supplied or {})

    def append(self, message: Chat) -> None:
        """Add the next message, in OpenAI's chat form; it is not changed, nor copied.

        Two keys are for Windlass alone and are not sent: `id`, what the occurrence is to be
        called, and `at`, when it was said, in seconds from any moment: after a gap longer than
        the provider's cache lives, edits are free.

        Raises SequenceError, naming the position and the rule, for what no provider takes
        and whose meaning is not clear; it counts as not appended then. The rest is mended
        and told in `entries`.
        """
        position = len(self.said)
        at = said_at(message, f"message {position}") if isinstance(message, Mapping) else None
        for taken in self._intake.take(message):
            ident = taken.item.id
            self.taken.append(taken)
            if taken.source is not None:
                self._places[taken.source] = ident
            self._places[ident] = ident
            if taken.left_out:
                continue
            if taken.repair is None and taken.source == position and not OWN_KEYS & message.keys():
                self._own[ident] = position
            if taken.item.message.role == "assistant":
                self._marks = self._next_marks()  # the call was made
            self.course.append(taken.item, taken.repair or "said before", at=at)
            if self.pins and (ident in self.pins or taken.source in self.pins):
                self.course.pin(ident)
        self.said.append(message)
        self._last = None

    def window(self) -> ChatWindow:
        """What the next call should see. Asking again changes nothing.

        Raises SequenceError where nothing was said yet: no provider takes an empty list.
        """
        if self._last is None:
            self._last = self._window()
        return self._last

    def pin(self, which: str | int) -> None:
        """Keep a message as it is shown now: by its id in `entries`, or its position.

        A message that was shortened before stays as it is. Raises UsageError for an unknown
        one.
        """
        ident = self._places.get(_as_pin(which))
        if ident is None:
            raise UsageError(
                f"no message {which!r} to pin; there are {len(self.said)} messages, and ids"
                " stand in the window's entries"
            )
        self.pins |= {which}
        self.course.pin(ident)
        self._last = None

    def report(self, usage: Usage | Mapping[str, Any], window: ChatWindow | None = None) -> None:
        """Tell what the provider counted: what is counted from now on is corrected by it.

        `usage` is the provider's, in OpenAI's, Anthropic's or Gemini's words; `window` is
        the one that was sent (None: the latest). Raises UsageError for a usage without a
        number of input tokens.
        """
        said = usage.tokens_in if isinstance(usage, Usage) else _tokens_in(usage)
        ours = (window or self.window()).counted
        if said > 0 and ours > 0:
            self.calibration = said / ours
            self.course.recount()
            self._last = None

    def supply(self, key: str, text: str) -> None:
        """Answer a want of a window; the text is used from the next window on."""
        self.course.supply(key, text)
        self._last = None

    def recall(self, ref: str, grep: str = "", lines: str = "", path: str = "") -> str:
        """The original behind a reference; see `ChatWindow.recall`."""
        wanted = ref.removeprefix(REF)
        for taken in self.taken:
            if taken.item.message.content_hash == wanted:
                try:
                    return part_of(taken.item.message.text, grep=grep, lines=lines, path=path)
                except ValueError as error:
                    raise UsageError(str(error)) from error
        results = [t.item.message for t in self.taken if t.item.message.role == "tool"]
        known = ", ".join(map(ref_of, results[-10:])) or "none yet"
        raise UsageError(f"no message here has the reference {ref!r}; known: {known}")

    # ---- for windows and the memo -------------------------------------------------------

    def counted(self, messages: Sequence[Message]) -> int:
        """Tokens of a request of these messages and the tools, before any correction."""
        return request_tokens(self._counter, messages, [spec(one) for one in self.tools])

    def corrected(self, tokens: int) -> int:
        """A count corrected by what the provider reported."""
        return round(tokens * self.calibration)

    def tokens_of(self, message: Message) -> int:
        """Tokens of one message, by the corrected count."""
        return round(self._counter.message(message) * self.calibration)

    def pinned_by(self, pins: frozenset[str | int]) -> bool:
        """Whether `pins` would have pinned the same of what was appended so far."""
        mine = {pin for pin in self.pins if pin in self._places}
        return mine == {pin for pin in pins if pin in self._places}

    def unknown_pins(self) -> list[str | int]:
        """The pins that no message was found for."""
        return sorted((pin for pin in self.pins if pin not in self._places), key=str)

    def now_said(self, messages: Sequence[Chat]) -> None:
        """Let windows show these objects, equal to those that were appended."""
        if any(map(is_not, self.said, messages)):
            self.said = list(messages[: len(self.said)])
            self._shown, self._told, self._last = [], 0, None
            self._made.clear()

    def _window(self) -> ChatWindow:
        step = self.course.window()
        late = self._intake.late
        loose = [_unanswered(call) for call in self._intake.open_calls]
        loose += [Entry(one.item, one.item.message, one.repair or "", "repair") for one in late]
        entries = (*step.entries, *loose)
        if not entries:
            raise SequenceError("the list of messages is empty, or none of them says anything")
        made = Made(
            entries,
            (*self.taken, *late),
            {**self.course.edits, **self.course.pending},
            step.wants,
            self._break_places(),
        )
        return ChatWindow(self, made, self._messages((*map(inserted, step.inserts), *loose)))

    def _marked(self) -> Marks:
        """The marks of the next call; those of the calls before are in `_marks`."""
        course, before = self.course, self._marks
        if self._rules is None or not course.items:
            return before
        pending = course.pending_entries
        behind = course.pending_inserts
        count = len(course.entries)

        def shown(at: int) -> Message | None:
            if at >= count:
                return behind[at - count].item.message
            entry = pending[at] if at in pending else course.entries[at]
            return None if entry is None else entry.message

        return marks(
            Shown(shown, count + len(behind)),
            self._rules,
            before,
            shared=min((before.count, *pending)),
            tools=self._weight,
            soon=course.edited_soon(_AHEAD),
        )

    def _next_marks(self) -> Marks:
        """The same, without another look where the window that was asked for still holds."""
        count, found = self._marked_for
        held = self._last is not None and count == len(self.course.items)
        return found if held else self._marked()

    def _break_places(self) -> tuple[Place, ...]:
        """The marks of the next call, by what stands in its list."""
        self._marked_for = len(self.course.items), self._marked()
        places = self._marked_for[1].places
        if not places:
            return ()
        course, pending = self.course, self.course.pending_entries
        gone = [at for at, entry in enumerate(course.entries) if pending.get(at, entry) is None]
        return tuple((at - bisect_left(gone, at), part) for at, part in places)

    def _messages(self, behind: Iterable[Entry]) -> list[dict[str, Any]]:
        """What is shown, as chat dicts; only what is new since the last window is made."""
        course, shown = self.course, self._shown
        for at in course.changes[self._told :]:
            if at < len(shown):
                shown[at] = self._chat(at, course.entries[at])
        self._told = len(course.changes)
        for at in range(len(shown), len(course.entries)):
            shown.append(self._chat(at, course.entries[at]))
        now = shown.copy()
        for at, flat in self._made.items():
            now[at] = shown[at].copy() if flat else copied(shown[at])  # type: ignore[union-attr]
        for at, entry in course.pending_entries.items():
            now[at] = self._chat(at, entry, for_good=False)
        messages = [chat for chat in now if chat is not None]
        messages += [to_openai(entry.message) for entry in behind]
        return messages

    def _chat(
        self, at: int, entry: Entry | None, *, for_good: bool = True
    ) -> dict[str, Any] | None:
        """The entry as a chat dict: the caller's own object where nothing was changed."""
        if entry is None:
            chat, made = None, False
        elif entry.message is entry.item.message and entry.item.id in self._own:
            chat = cast("dict[str, Any]", self.said[self._own[entry.item.id]])
            made = False
        else:
            chat, made = to_openai(entry.message), True
        if for_good:
            self._made.pop(at, None)
            if chat is not None and made:
                self._made[at] = chat.keys() <= _FLAT and type(chat["content"]) is str
        return chat


def copied(value: Any) -> Any:
    """A copy of JSON data: whoever has the original may put marks into it."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: copied(one) for key, one in value.items()}
    return [copied(one) for one in value] if isinstance(value, list | tuple) else value


def _unanswered(call: ToolCall) -> Entry:
    """What stands for the result of a call that the list ends with."""
    message = tool(call, NO_RESULT)
    item = Item(f"open:{call.id}", message, message.role)
    return Entry(item, message, "a call without a result", "repair")


def marking(model: str | None) -> MarkRules | None:
    """The rules for cache marks; where no model is named those of Anthropic, the strictest."""
    provider, _, name = (model or "anthropic/claude").partition("/")
    return mark_rules(provider, name)


def _as_pin(which: object) -> str | int:
    if isinstance(which, str) or (
        isinstance(which, int) and not isinstance(which, bool) and which >= 0
    ):
        return which
    raise UsageError(f"a pin is an id or a position from 0, not {which!r}")


def _reference(message: Message) -> str:
    """For a placeholder, where the loop offers no `recall`: it must name no tool."""
    return f"reference {ref_of(message)}"


def _recall_call(message: Message) -> str:
    return f'original: recall("{ref_of(message)}")'


def _tokens_in(usage: Mapping[str, Any]) -> int:
    """Input tokens out of a provider's usage, cached and written ones included."""
    for key in ("prompt_tokens", "promptTokenCount"):
        if key in usage:
            return int(usage[key] or 0)
    if "input_tokens" not in usage:
        raise UsageError(
            "a usage has prompt_tokens, input_tokens or promptTokenCount;"
            f" this one has {', '.join(map(str, usage)) or 'nothing'}"
        )
    keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(int(usage.get(key) or 0) for key in keys)


def _prices_of(model: str | None) -> Prices:
    """The prices of a model; where none is named, those of one without a prompt cache."""
    return UNCACHED if model is None else prices_of(model)
