"""A conversation as it grows: `Context`.

Takes chat dicts, or objects in another provider's form, has them mended, hands them to a
`Conversation`, and turns what the conversation shows into the same form again. What is shown is
kept up to date message by message, so that a window
costs what is new in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypedDict, Unpack

from windlass.caching.breakpoints import Outlook, Place
from windlass.caching.meter import Clearing
from windlass.caching.model_cache import CacheState
from windlass.caching.prices import Prices
from windlass.caching.rates import listed_window, window_tokens
from windlass.context._reports import Reports, prices_for
from windlass.context.lists import CallerMarks, Chat, FollowedList
from windlass.context.recall import OfferedTools, answer_call, recalled
from windlass.context.window import ChatWindow, WindowParts, list_repairs, repaired_ends
from windlass.errors import SequenceError, UsageError
from windlass.messages import Message, ToolSpec, user
from windlass.text.tokens import FamilyCounter, neutral_scale, request_tokens, size
from windlass.window.conversation import Conversation
from windlass.window.driver import Driver, NextRequest, RequestNeeds
from windlass.window.entries import Drop, Entry, Replace
from windlass.window.intake import Intake, IntakeMessage, said_at
from windlass.window.options import Policy, ServerClearOptions
from windlass.window.originals import RECALL, is_whole, matching, reference
from windlass.window.reruns import Reruns
from windlass.window.steps import holds_thinking, planner_of, steps
from windlass.window.window_rules import WindowRules
from windlass.wire.base import Usage
from windlass.wire.calls import ANSWERED
from windlass.wire.editing import cleared, read_edits
from windlass.wire.forms import FormName, as_json, has_objects
from windlass.wire.inner_calls import Revision

_NO_MODEL: Final = "openai/gpt-4o"
"""The model by which tokens are counted when none is named."""
_NO_VIDEO: Final = ("openai/", "anthropic/")
_VIDEO: Final = ("video", "video_url")
"""Parts in chat form that routers hand to some models, and these providers refuse."""


class ContextOptions(TypedDict, total=False):
    """What `Context` and `bound` may be told besides the model and the policy."""

    prices: Prices | None
    """What the model's prompt cache charges; default those of the model, and no cache where none
    is named."""
    tools: Sequence[Chat] | None
    """The caller's tools in OpenAI's, Anthropic's or Gemini's form; the window's list has them."""
    max_input_tokens: int | None
    """Most tokens of a window (None: no limit)."""
    recall: bool
    """Whether the loop offers the tool `recall`, beside `tools` or among them; notes name it."""
    way_back: str | None
    """What a note says before a reference, where something else than the tool `recall` gets an
    original back: a command such as `windlass recall`; empty: the reference says enough. None:
    nothing does, and only what a tool gives again is shortened."""
    calibration: float | None
    """What the model's own count is divided by ours; see `Context.report`."""
    supplied: Mapping[str, str] | None
    """Texts that were asked for before, by key."""
    pins: Iterable[str | int]
    """Messages to keep as they are said; see `Context.pin`. They may be yet to come."""


class Context:
    """A conversation as it grows, and what each call sees of it.

    Args:
        model: `provider/model`, for counting tokens; thresholds adapt to its window (None, or
            one that is not known: to 128,000 tokens).
        policy: A profile's name, a dict of options, or a `Policy`.
        options: Those of `ContextOptions`.
    """

    def __init__(
        self,
        model: str | None = None,
        policy: str | Mapping[str, Any] | Policy | None = "default",
        **options: Unpack[ContextOptions],
    ) -> None:
        check_options(options)
        self.model = model or _NO_MODEL
        prices, assumed = prices_for(model, options.get("prices"))
        # Where prices are given without a model, marks are those of Anthropic, the strictest.
        self._cache = CacheState(model or "anthropic/claude", prices, assumed)
        self.reports = Reports(self._cache, options.get("calibration") or 1.0)
        tools = OfferedTools(options.get("tools") or (), recall=options.get("recall", False))
        self._tools = tools
        chosen = Policy.of(policy)
        if (limit := options.get("max_input_tokens")) is not None:
            chosen = replace(chosen, max_input_tokens=limit)
        self.policy = chosen
        way_back = options.get("way_back")
        if way_back is None and tools.recalls:
            way_back = RECALL.name
        if way_back is None and chosen.profile == "spec":
            way_back = ""  # it does what its document says, whatever the tools
        self.pins = frozenset(map(_as_pin, options.get("pins", ())))
        self._counter = FamilyCounter(self.model)
        self.listed = FollowedList(
            Intake(
                refused=_VIDEO if self.model.startswith(_NO_VIDEO) else (),
                pictures_of_users=self.model.startswith("openai/"),
            )
        )
        """The list that is appended to."""
        self._revised: list[str] = []
        """What became of messages because of what was said after them, as sentences."""
        self._last: ChatWindow | None = None
        self._marks = CallerMarks(self.listed)
        self._block = ""
        """What the next call is told at its end."""
        self._sent: ChatWindow | None = None
        most = chosen.max_input_tokens
        if most is not None:
            most = max(1, most - self.corrected(self.counted(())))  # the tools are paid first
        self._most = most
        self.conversation = Conversation(
            steps(
                chosen,
                prices=prices,
                window_tokens=window_tokens(model),
                listed_window=listed_window(model),
                limit=most,
            ),
            planner_of(chosen, prices),
            WindowRules(
                # Counting takes longer than deciding: only a limit needs the model's own count.
                count=self._weighed if chosen.max_input_tokens else size,
                scale=self._scale,
                recall_hint=_hint(way_back or ""),
                reruns=Reruns({one.name: one for one in tools.specs}) if way_back is None else None,
                settles=True,
                holds=holds_thinking(chosen, self._cache.model),
            ),
        )
        self._driver = Driver(
            self.conversation,
            self._cache,
            thinking=chosen.thinking,
            notes=self._server_clear is not None,
        )
        for key, text in (options.get("supplied") or {}).items():
            self.conversation.supply(key, text)

    def append(self, message: Chat) -> None:
        """Add the next message; it is not changed, nor copied.

        It is in OpenAI's chat form, OpenAI's Responses form, Anthropic's or Gemini's, or an
        object of their SDKs; all of a list are in one form, and windows come back in it.

        Three keys are for Windlass alone and are not sent: `id`, what the occurrence is to be
        called; `at`, when it was said, in seconds from any moment: after a gap longer than
        the provider's cache lives, edits are free; and `usage` of an answer, what the provider
        counted of its call, as `report` takes it. Where the policy has `server_clear`, the
        `context_management` of an answer of Anthropic's says what it cleared of the call: the next
        window then ends in a note of that.

        Raises SequenceError, naming the position and the rule, for what no provider takes
        and whose meaning is not clear; it counts as not appended then. The rest is mended
        and told in `entries`.
        """
        where = f"message {self.listed.position}"
        if has_objects(message):
            message = as_json(message)
        at = said_at(message, where) if isinstance(message, Mapping) else None
        reading = self.listed.read(message)
        before = self._before_answer(message)
        window = self._last  # what the call was sent, where it was asked for
        taken_in = self.listed.take(message, reading)
        if before is not None:
            self.report(message["usage"], before)
        self._take_in(taken_in, message, at, window)
        self.listed.objects.append(message)
        self._last = None

    def _take_in(
        self,
        taken_in: Sequence[IntakeMessage],
        message: Chat,
        at: float | None,
        window: ChatWindow | None,
    ) -> None:
        """Hand on what was taken, said at `at` seconds; `window` is what the call was sent."""
        for revised in self.listed.intake.revised():
            self._revise(revised)
        for taken in taken_in:
            ident, source = taken.item.id, taken.source
            self.listed.note(taken)
            if taken.left_out:
                continue
            answer = taken.item.message.role == "assistant"
            if answer:
                self._call_made(window)
                window = None
                at = self.reports.answered_at if at is None else at
                self._tools.note_calls(taken.item.message)
            self._cache.pauses.note(at, answer=answer)
            self.conversation.append(taken.item, taken.repair or "said before", at=at)
            if answer:
                self._driver.answered(taken.item)
                self._note_cleared(message)
                self._driver.count_blocks()
                self.reports.answered_at = None
                self._plan_by_reports()
            if self.pins and (ident in self.pins or source in self.pins):
                self.conversation.pin(ident)

    def _revise(self, revised: Revision) -> None:
        """Show an earlier message otherwise, because of what was said after it."""
        ident, message, reason = revised.ident, revised.message, revised.reason
        edit = Drop(ident, "repair", reason)
        self.conversation.settle(
            edit if message is None else Replace(ident, message, "repair", reason)
        )
        self._revised.append(f"message {self.listed.sources.get(ident)}: {reason}")

    def _note_cleared(self, answer: Chat) -> None:
        """Take in what the provider cleared of the call of this answer, if it says so."""
        clear = self._server_clear
        if clear is not None and self.listed.form == "anthropic":
            uses = cleared(read_edits(answer), "cleared_tool_uses")
            self._cache.cleared = Clearing(uses, frozenset(clear.exclude_tools))

    def window(self, block: str | None = None) -> ChatWindow:
        """Return what the next call should see. Asking again changes nothing.

        `block` is told at the end of its last message, if a user or a tool said that: a plan,
        a reminder, what changes from call to call (None: what was asked before for this call, or
        nothing). It stays there as history, and goes where that costs nothing.

        Raises SequenceError where nothing was said yet: no provider takes an empty list.
        """
        if block is not None and block != self._block:
            self._block, self._last = block, None
        self._flush()
        if self._most is not None:
            self._leave_room(self._most)
        if self.reports.unplanned:
            self._plan_by_reports()
        if self._last is None:
            self._last = self._window()
        self._sent = self._last
        return self._last

    def _flush(self) -> None:
        """Take in the response whose items were held back."""
        if held := self.listed.flush():
            self._take_in(held, {}, None, self._last)
            self._last = None

    def pin(self, which: str | int) -> None:
        """Keep a message as it is shown now: by its id in `entries`, or its position.

        A message that was shortened before stays as it is. Raises UsageError for an unknown
        one.
        """
        ident = self.listed.places.get(_as_pin(which))
        if ident is None and which in self._late():
            self.pins |= {which}  # it is pinned when the results before it are there
            return
        if ident is None:
            raise UsageError(
                f"no message {which!r} to pin; there are {self.listed.position} messages, and ids"
                " stand in the window's entries"
            )
        self.pins |= {which}
        self.conversation.pin(ident)
        self._last = None

    def report(
        self,
        usage: Usage | Mapping[str, Any],
        window: ChatWindow | None = None,
        *,
        at: float | None = None,
    ) -> None:
        """Tell what the provider counted of a call, before or after its answer is appended.

        Later counts are corrected by it. Where it read much less from its cache than should
        be there, the next call is planned as cold; after three such calls in a row none is
        counted on until one is read again. A usage that says nothing of the input or
        contradicts itself is left aside; `assumed` of the next windows tells of both.

        Args:
            usage: The provider's, in OpenAI's, Anthropic's or Gemini's words.
            window: The one that was sent (None: the latest that was asked for).
            at: When it was answered, in seconds, where the message does not say it.
        """
        sent = window or self._sent or self.window()
        if at is not None:
            self.reports.answered_at = said_at({"at": at}, "report")
        heard = self.reports.hear(usage, sent.planned)
        pending = sent.planned.call > self.conversation.calls
        self.reports.unplanned = self.reports.unplanned or heard
        self._last = None
        if not pending:
            self._plan_by_reports()
            if at is not None and sent.planned.call == self.conversation.calls:
                self._cache.pauses.answered_at(self.reports.answered_at)
                self.conversation.answered(self.reports.answered_at)
            self.reports.answered_at = None

    def _before_answer(self, message: Chat) -> ChatWindow | None:
        """The window of the call that this message is the answer of, if it comes with a usage."""
        if not isinstance(message, Mapping) or message.get("role") not in ("assistant", "model"):
            return None
        return (
            self.window() if message.get("usage") is not None and self.conversation.items else None
        )

    def _plan_by_reports(self) -> None:
        """Count, and count on the cache, by the reports so far; for the calls from here on."""
        if self.reports.unplanned and self.reports.scale != self.reports.calibration:
            self.reports.scale = self.reports.calibration
            self.conversation.recount()
        self.conversation.scale(self._scale)
        self.reports.unplanned = False
        self._driver.count_on_cache()
        self._last = None

    def supply(self, key: str, text: str) -> None:
        """Answer a want of a window; the text is used from the next window on."""
        self.conversation.supply(key, text)
        self._last = None

    @property
    def repairs(self) -> tuple[str, ...]:
        """Return what sending the list changes in it that its provider would not have taken.

        A sentence for each change, whether `append` makes it or the writing of the request: empty
        text, ids that do not fit, results without calls, calls without results, a reply at the
        beginning or the end where none may stand. Empty: the list can be sent as it came. What a
        policy shortens is none of it, nor what is only written in another way. Asked, as for a
        window, when all items of a response were appended.
        """
        self._flush()
        listed = self.listed
        told = list_repairs(listed.form, listed.taken, listed.intake, self.model, self.specs)
        return (*self._revised, *told)

    def use_marks(self, own: Sequence[Place], *, end: bool, until: Place | None) -> None:
        """Set what the next windows know of the caller's cache marks.

        Places are by message of the list, in the order of appending, and by block of its content;
        message -1 is the list of tools.

        Args:
            own: The caller's marks. `ChatWindow.own_breakpoints` says where they stand.
            end: Whether the request as a whole has one, which stands at its end.
            until: The first place at which no other mark may stand (None: there is none).
        """
        marks = CallerMarks(self.listed, tuple(own), end, until)
        if self._marks != marks:
            self._marks, self._last = marks, None

    def window_again(self, window: ChatWindow) -> ChatWindow:
        """Return a window that was handed out for the next call, with the marks of this time."""
        entries = window.next_call.entries
        own, until = self._marks.among(entries)
        outlook = Outlook(own=own, bound=until)
        messages = [entry.message for entry in entries]
        sent = self._cache.mark(messages, self._tools.needed, outlook)
        return window.marked(sent, self._marks.places(entries))

    def replace_head(self, position: int, message: Message) -> None:
        """Let a system message at a position of the list be another one from here on."""
        for at, taken in enumerate(self.listed.taken):
            if taken.source == position:
                item = replace(taken.item, message=message)
                self.listed.taken[at] = replace(taken, item=item)
                edit = Replace(item.id, message, "repair", "the caller changed it")
                self.conversation.settle(edit)
                self._last = None

    def thinking_refused(self) -> None:
        """The provider refused the thinking of the last window: no later one holds it."""
        self._driver.thinking_refused()
        self._last = None

    def knows(self, ref: str) -> bool:
        """Return whether a whole reference, not the beginning of one, means one of the messages."""
        return is_whole(ref) and self.original(ref) is not None

    def recall(
        self, ref: str, grep: str = "", lines: str = "", path: str = "", part: str = ""
    ) -> str:
        """Return the original behind a reference; see `ChatWindow.recall`."""
        asked = {"ref": ref, "grep": grep, "lines": lines, "path": path, "part": part}
        return recalled(self._originals, asked)

    def answer(self, block: Any) -> Any:
        """Get the result of a model's call of `recall`, to be appended; see `ChatWindow.answer`."""
        return answer_call(block, self)

    def original(self, ref: str) -> Message | None:
        """Return the message behind a reference (None: none, or several)."""
        originals = self._originals
        known = matching(ref, originals) if isinstance(ref, str) else []
        return originals[known[0]] if len(known) == 1 else None

    @property
    def _originals(self) -> dict[str, Message]:
        return {one.item.message.content_hash: one.item.message for one in self.listed.taken}

    # ---- for windows and the memo -------------------------------------------------------

    @property
    def appended(self) -> list[Chat]:
        """Return what was appended, the caller's own objects."""
        return self.listed.objects

    @property
    def taken(self) -> tuple[IntakeMessage, ...]:
        """Return the messages that were taken in, those that wait for results included."""
        return (*self.listed.taken, *self.listed.intake.late)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the definitions of the caller's tools, and of `recall` if it is offered."""
        return self._tools.specs

    @property
    def keyed(self) -> bool:
        """Return whether requests share a key for the cache."""
        return self._cache.model.startswith("openai/")

    @property
    def _server_clear(self) -> ServerClearOptions | None:
        """Return what the provider is asked to clear (None: nothing)."""
        return self.policy.server_clear if self.policy.enabled else None

    def tools_in(self, form: FormName) -> list[dict[str, Any]]:
        """The caller's tools, in `form` where none were given, and `recall` if it is offered."""
        return self._tools.in_form(form)

    def counted(self, messages: Sequence[Message]) -> int:
        """Return tokens of a request of these messages and the tools, before any correction."""
        return request_tokens(self._counter, messages, self._tools.needed)

    def corrected(self, tokens: int) -> int:
        """Return a count corrected by what the provider reported."""
        return round(tokens * self.reports.calibration)

    def tokens_of(self, message: Message) -> int:
        """Return tokens of one message, by the corrected count."""
        return round(self._counter.message(message) * self.reports.calibration)

    @property
    def _scale(self) -> float:
        """Return tokens of the model for one that the conversation counts, as far as is known."""
        if self.policy.max_input_tokens:
            return 1.0
        return neutral_scale(self.model) * self.reports.calibration

    def _weighed(self, message: Message) -> int:
        """Return the same by the count that the conversation plans with."""
        return round(self._counter.message(message) * self.reports.scale)

    def ident_at(self, position: int) -> str:
        """Return the id of the message at a position of the conversation."""
        return self.conversation.items[position].id

    def pinned_by(self, pins: frozenset[str | int]) -> bool:
        """Return whether `pins` would have pinned the same of what was appended so far."""
        places = self.listed.places.keys()
        return places & self.pins == places & pins

    def unknown_pins(self) -> list[str | int]:
        """Return the pins that no message was found for."""
        return sorted(self.pins.difference(self.listed.places, self._late()), key=str)

    def _late(self) -> set[str | int | None]:
        """Return the ids and positions of messages that wait for the results before them."""
        return {key for one in self.listed.intake.late for key in (one.item.id, one.source)}

    def now_said(self, messages: Sequence[Chat]) -> None:
        """Let windows show these objects, equal to those that were appended."""
        if self.listed.now_said(messages):
            self._last = None

    def _window(self) -> ChatWindow:
        conversation, intake = self.conversation, self.listed.intake
        loose = [
            Entry(one.item, one.item.message, one.repair or "said before", one.repair and "repair")
            for one in intake.unanswered()
        ]
        bare = (*conversation.window().entries, *loose)
        if not bare:
            raise SequenceError("the list of messages is empty, or none of them says anything")
        call = self._next_call(bare, loose=len(loose))
        lapsed = self._cache.prices.lapsed(self._cache.pauses.gap) or not self._cache.prices.caches
        parts = WindowParts(
            call,
            bare,
            self.taken,
            conversation.edits,
            tuple(conversation.pending.wants),
            cached=0 if lapsed else call.sent.held,
            number=conversation.calls + 1,
            assumed=self._assumed(),
            own_marks=self._marks.places(call.entries),
        )
        objects, form = [*self.listed.written(call.entries)], self.listed.form or "openai"
        if opening := self.listed.opening():
            said = [entry.message for entry in call.entries]
            if ANSWERED in repaired_ends(form, said, self.model, system_anywhere=True):
                objects += opening
        return ChatWindow(self, parts, objects, form)

    def _next_call(self, entries: tuple[Entry, ...], *, loose: int = 0) -> NextRequest:
        """The next call; the last `loose` of its entries will be others in the call after it."""
        most = self.policy.max_input_tokens

        def fits(messages: Sequence[Message]) -> bool:
            return most is None or self.corrected(self.counted(messages)) <= most

        own, until = self._marks.among(entries)
        return self._driver.next_call(
            RequestNeeds(
                entries,
                self._tools.needed,
                gap=self._cache.pauses.gap,
                block=self._block,
                unmarked=loose,
                own_marks=own,
                marks_until=until,
            ),
            size=lambda text: self.conversation.rules.count(user(text)) if text else 0,
            fits=fits,
        )

    def _call_made(self, window: ChatWindow | None) -> None:
        """The next call was made, by this window (None: by the one that it would have had)."""
        self._block = ""
        if window is not None:
            self._driver.call_made(window.next_call)
        else:
            self._driver.call_made(self._next_call(self.conversation.window().entries))

    def _leave_room(self, most: int) -> None:
        """Have the messages leave room for the block, where they may have `most` tokens."""
        block = self._block
        self._driver.limit(max(1, most - self._weighed(user(block)) if block else most))

    def _assumed(self) -> tuple[str, ...]:
        cache = self._cache
        trust = cache.trust.assumed if self._driver.planner else ""  # else nothing is counted on
        assumed = cache.assumed, cache.pauses.assumed, self.reports.ignored, trust
        return tuple(filter(None, assumed))


def _hint(way_back: str) -> Callable[[Message], str]:
    """Return what a placeholder says of how the original is got back."""
    if not way_back:
        return reference
    return lambda message: f"{way_back} {reference(message)}"


def check_options(options: Mapping[str, object]) -> None:
    """Raise TypeError for an option that there is not, as a call of any function does."""
    for name in options:
        if name not in ContextOptions.__annotations__:
            known = ", ".join(ContextOptions.__annotations__)
            raise TypeError(f"{name!r} is not an option of a context; known: {known}")


def _as_pin(which: object) -> str | int:
    if isinstance(which, str) or (
        isinstance(which, int) and not isinstance(which, bool) and which >= 0
    ):
        return which
    raise UsageError(f"a pin is an id or a position from 0, not {which!r}")
