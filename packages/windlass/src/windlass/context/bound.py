"""`bound`: the whole list in, the window of the next call out.

It is `Context` handed one message after the other, and a memo of recent lists, so that the
next call of the same loop costs what is new in it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Unpack

from windlass.context.context import Context, ContextOptions
from windlass.context.lists import Chat, Memo, copied
from windlass.context.window import ChatWindow
from windlass.errors import UsageError
from windlass.window.options import Policy
from windlass.wire.forms import as_json, form_of_list, has_objects


def bound(
    messages: Sequence[Chat],
    model: str | None = None,
    policy: str | Mapping[str, Any] | Policy | None = "default",
    **options: Unpack[ContextOptions],
) -> ChatWindow:
    """Return what the next call should see of `messages`; the options are `ContextOptions`.

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
    pins = frozenset(pin_list)
    kept = _MEMO.take(lambda one: one.begins(settings, pins, messages))
    if kept is None and any(map(has_objects, messages)):
        messages = plain = [as_json(one) for one in messages]
        kept = _MEMO.take(lambda one: one.begins(settings, pins, plain))
    if kept is None:
        context = Context(model, policy, **options)
        if form := form_of_list(messages):
            context.listed.use_form(form)
        kept = _Kept(copy.deepcopy(settings), [], context)
    else:
        kept.context.pins = pins
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

    @property
    def count(self) -> int:
        """Return how many messages it was given."""
        return len(self.copies)

    def begins(
        self, settings: Mapping[str, Any], pins: frozenset[str | int], messages: Sequence[Chat]
    ) -> bool:
        """Whether it was given the beginning of these messages, to the byte, and as pinned here."""
        given, count = self.copies, self.count
        return (
            count <= len(messages)
            and self.settings == settings
            and given == list(messages[:count])
            and all(repr(copied(messages[at])) == text for at, text in self.exact.items())
            and self.context.pinned_by(pins)
            and self.context.listed.goes_on_with(messages[count : count + 1])
        )


def _has_numbers(value: object) -> bool:
    """Return whether JSON data holds a number, true or false."""
    if isinstance(value, Mapping):
        return any(map(_has_numbers, value.values()))
    if isinstance(value, list):
        return any(map(_has_numbers, value))
    return isinstance(value, int | float)


_MEMO: Final = Memo[_Kept](8)


def forget() -> None:
    """Forget what the memo holds: the next call of every loop starts anew."""
    _MEMO.forget()
