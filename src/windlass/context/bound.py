"""`bound`: the whole list in, the window of the next call out.

It is `Context` handed one message after the other, and a memo of recent lists, so that the
next call of the same loop costs what is new in it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Unpack

from windlass.context._chats import copied
from windlass.context.context import Context, ContextOptions
from windlass.context.window import Chat, ChatWindow
from windlass.errors import UsageError
from windlass.window.options import Policy
from windlass.wire.forms import as_json, form_of_list, has_objects


def bound(
    messages: Sequence[Chat],
    model: str | None = None,
    policy: str | Mapping[str, Any] | Policy | None = "default",
    **options: Unpack[ContextOptions],
) -> ChatWindow:
    """What the next call should see of `messages`; the options are `ContextOptions`.

    The same list gives the same window, and a longer list begins as the shorter one did, so
    that a provider's prompt cache holds. The messages are not changed. Nothing is kept but
    a memo of recent lists, which makes the next call of the same loop cheap.

    Raises SequenceError, naming the position and the rule, for a list that no provider
    takes and whose meaning is not clear; UsageError for a wrong policy, tool or pin.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise UsageError(f"messages are a list of objects, not {type(messages).__name__}")
    options["pins"] = pin_list = list(options.get("pins", ()))
    others = {name: value for name, value in options.items() if name != "pins"}
    settings = {"model": model, "policy": policy, **others}
    kept = _MEMO.taken(settings, frozenset(pin_list), messages)
    if kept is None and any(map(has_objects, messages)):
        messages = [as_json(one) for one in messages]
        kept = _MEMO.taken(settings, frozenset(pin_list), messages)
    if kept is None:
        context = Context(model, policy, **options)
        if form := form_of_list(messages):
            context.use_form(form)
        kept = _Kept(copy.deepcopy(settings), [], context)
    else:
        kept.context.pins = frozenset(pin_list)
        kept.context.now_said(messages)
    try:
        for message in messages[len(kept.copies) :]:
            kept.context.append(message)
            kept.copies.append(copied(kept.context.appended[-1]))
            if _has_numbers(kept.copies[-1]):
                kept.exact[len(kept.copies) - 1] = repr(kept.copies[-1])
        if unknown := kept.context.unknown_pins():
            raise UsageError(
                f"no message {unknown[0]!r} to pin; there are {len(messages)} messages"
            )
        return kept.context.window()
    finally:
        _MEMO.keep(kept)  # the last thing: from here on another thread may have it


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """A context, its settings, and copies of what it was given.

    `exact` has the texts of those with numbers in them, by position: 1, 1.0 and true are equal.
    """

    settings: Mapping[str, Any]
    copies: list[Chat]
    context: Context
    exact: dict[int, str] = field(default_factory=dict[int, str])

    def was_given(self, messages: Sequence[Chat]) -> bool:
        """Whether it was given these messages, to the byte."""
        return self.copies == list(messages) and all(
            repr(copied(messages[at])) == text for at, text in self.exact.items()
        )


def _has_numbers(value: object) -> bool:
    """Whether JSON data holds a number, true or false."""
    if isinstance(value, Mapping):
        return any(map(_has_numbers, value.values()))
    if isinstance(value, list):
        return any(map(_has_numbers, value))
    return isinstance(value, int | float)


class _Memo:
    """The contexts of recent calls of `bound`; it is only speed.

    What was given is kept as a copy, so that a list that was changed in place is not taken
    for the old one. A context is taken out while it is in use: no two threads share one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[_Kept] = []
        self._lock = Lock()

    def taken(
        self, settings: Mapping[str, Any], pins: frozenset[str | int], messages: Sequence[Chat]
    ) -> _Kept | None:
        """A context that was given the beginning of `messages`, if there is one."""
        with self._lock:
            candidates = tuple(self._kept)
        for one in candidates:
            count = len(one.copies)
            if (
                count <= len(messages)
                and one.settings == settings
                and one.was_given(messages[:count])
                and one.context.pinned_by(pins)
                and one.context.goes_on_with(messages[count : count + 1])
                and self._take_out(one, count)
            ):
                return one
        return None

    def _take_out(self, kept: _Kept, count: int) -> bool:
        """Whether it was still there, with `count` messages; another thread may have used it."""
        with self._lock:
            if kept not in self._kept or len(kept.copies) != count:
                return False
            self._kept.remove(kept)
            return True

    def keep(self, kept: _Kept) -> None:
        """Keep a context for the next call; the one that was not used longest may go."""
        with self._lock:
            self._kept.insert(0, kept)
            del self._kept[self._most :]

    def forget(self) -> None:
        """Keep nothing any more."""
        with self._lock:
            self._kept.clear()


_MEMO: Final = _Memo(8)


def forget() -> None:
    """Forget what the memo holds: the next call of every loop starts anew."""
    _MEMO.forget()
