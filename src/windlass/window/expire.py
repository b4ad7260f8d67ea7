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

BECAUSE: Final = "expire"


@dataclass(frozen=True, slots=True)
class Expiry:
    """Turns within the phase after which messages of a kind are masked (None: never)."""

    tool_results: int | None = None
    images: int | None = None
    assistant: int | None = None
    user: int | None = None


def reference(message: Message) -> str:
    """The name by which an original is asked for: `result_` and its content hash."""
    return f"result_{message.content_hash}"


def expired(
    items: Iterable[Item],
    expiry: Expiry,
    *,
    turn: int,
    instructions: str,
    committed: Mapping[str, Edit],
    can_recall: bool,
) -> list[Replace]:
    """The edits that fall due at the call of `turn`, for the phase's own and injected `items`.

    `instructions` is the id of the phase's instructions; `committed` the edits so far,
    by id; `can_recall` says whether placeholders may name the tool `recall`.
    """
    due: list[Replace] = []
    for item in items:
        if item.id == instructions:
            continue
        age = turn - (item.turn or 0)
        before = committed.get(item.id)
        if isinstance(before, Fold | Drop):
            continue  # it is not shown any more
        now = before.replacement if isinstance(before, Replace) else item.message
        after = _masked(item.message, now, expiry, age, can_recall=can_recall)
        if after != now:
            due.append(
                Replace(item.id, after, BECAUSE, f"{_kind(item.message)} older than its time")
            )
    return due


def _kind(message: Message) -> str:
    return "tool result" if message.role == "tool" else f"{message.role} message"


def _masked(
    original: Message, now: Message, expiry: Expiry, age: int, *, can_recall: bool
) -> Message:
    by_role = {"tool": expiry.tool_results, "assistant": expiry.assistant, "user": expiry.user}
    after = by_role.get(original.role)
    if after is not None and age > after:
        placeholder = _placeholder(original, age_limit=after, can_recall=can_recall)
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


def _placeholder(original: Message, *, age_limit: int, can_recall: bool) -> str:
    told = f"{len(original.text):,} characters"
    if original.pictures:
        told += "; " + "; ".join(picture.describe() for picture in original.pictures)
    ref = reference(original)
    back = f'; original: recall("{ref}")' if can_recall else f"; reference {ref}"
    name = f"{original.name} result" if original.role == "tool" else f"{original.role} message"
    return f"[{name} expired after {age_limit} turns: {told}{back}]"
