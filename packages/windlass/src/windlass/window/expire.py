"""`context_ttl`: messages of a kind are masked some turns after they were said.

Expiry counts turns within the phase, is committed at once because the user asked
for it, and is sticky. The phase's instructions never expire: without them the
model would not know its task. Nothing grows: a message shorter than its
placeholder stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from windlass.messages import Message, Picture, Text
from windlass.window.entries import Drop, Edit, Fold, Item, Replace
from windlass.window.originals import reference
from windlass.wire.editing import holds_compaction

BECAUSE: Final = "expire"


@dataclass(frozen=True, slots=True)
class Expiry:
    """Turns within the phase after which messages of a kind are masked (None: never)."""

    tool_results: int | None = None
    images: int | None = None
    assistant: int | None = None
    user: int | None = None


def expired(
    items: Iterable[Item],
    expiry: Expiry,
    *,
    turn: int,
    instructions: str,
    committed: Mapping[str, Edit],
) -> list[Replace]:
    """Give the edits that fall due at the call of `turn`, for the phase's own and injected `items`.

    `instructions` is the id of the phase's instructions; `committed` the edits so far,
    by id.
    """
    due: list[Replace] = []
    for item in items:
        if item.id == instructions or holds_compaction(item.message):
            continue
        age = turn - (item.turn or 0)
        before = committed.get(item.id)
        if isinstance(before, Fold | Drop):
            continue  # it is not shown any more
        now = before.replacement if isinstance(before, Replace) else item.message
        after = _masked(item.message, now, expiry, age)
        if after != now:
            due.append(
                Replace(item.id, after, BECAUSE, f"{_kind(item.message)} older than its time")
            )
    return due


def _kind(message: Message) -> str:
    return "tool result" if message.role == "tool" else f"{message.role} message"


def _masked(original: Message, now: Message, expiry: Expiry, age: int) -> Message:
    by_role = {"tool": expiry.tool_results, "assistant": expiry.assistant, "user": expiry.user}
    after = by_role.get(original.role)
    if after is not None and age > after:
        placeholder = _placeholder(original, age_limit=after)
        if original.pictures or len(placeholder) < len(original.text):
            return original.with_parts(Text(placeholder))
    if expiry.images is not None and age > expiry.images and now.pictures:
        parts = tuple(
            Text(f"[Image expired after {expiry.images} turns: {part.describe()}]")
            if isinstance(part, Picture)
            else part
            for part in now.parts
        )
        return now.with_parts(*parts)
    return now


def _placeholder(original: Message, *, age_limit: int) -> str:
    size = f"{len(original.text):,} characters"
    if original.pictures:
        size += "; " + "; ".join(picture.describe() for picture in original.pictures)
    name = f"{original.name} result" if original.role == "tool" else f"{original.role} message"
    return f"[{name} expired after {age_limit} turns: {size}; {reference(original)}]"
