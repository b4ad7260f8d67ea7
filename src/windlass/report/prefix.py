"""What each call shares with the one before it, and what broke the rest: the prefix report.

A provider's cache holds beginnings of requests. Where a request differs from the one before,
at a message and a character, all behind it is read anew; here stands where, and because of what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.history.base import Keeper
from windlass.messages import Message, Text
from windlass.report.show import CallView, Seen, view_session
from windlass.window.blocks import BECAUSE

_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Prefix:
    """One call: its prefix, and what broke it.

    `sent` and `shared` are tokens by the engine's count, `shared` those that stand as in the call
    before; `predicted` is what should have been read from the cache (None: the model has none
    that is known), `reported` what the provider said. `message` is the first that differs, from 0
    (None: nothing differs, or the tools do), `character` where in it, `injector` whose block
    stands there; `broken_by` says it in a clause (empty: the call only goes on).
    """

    call: int
    phase: str | None
    turn: int | None
    sent: int
    shared: int
    predicted: int | None
    reported: int
    message: int | None = None
    character: int | None = None
    injector: str | None = None
    broken_by: str = ""


def prefix_of(keeper: Keeper, session_id: str) -> tuple[Prefix, ...]:
    """The prefix of each call of a session, in order. Raises UsageError for an unknown session."""
    calls = view_session(keeper, session_id).calls
    return tuple(_prefix(call, before) for call, before in zip(calls, (None, *calls), strict=False))


def _prefix(call: CallView, before: CallView | None) -> Prefix:
    told: Mapping[str, Any] = call.details.get("prefix", {})
    cache: Mapping[str, Any] = call.details.get("cache", {})
    place, where, injector, why = _broken(call, before, told.get("broken_by"))
    return Prefix(
        call=call.number,
        phase=call.phase,
        turn=call.turn,
        sent=call.sent_tokens,
        shared=int(told.get("shared_tokens", 0)),
        predicted=cache.get("expected"),
        reported=call.tokens_cached,
        message=place,
        character=where,
        injector=injector,
        broken_by=why,
    )


def _broken(
    call: CallView, before: CallView | None, by: str | None
) -> tuple[int | None, int | None, str | None, str]:
    if before is None or by is None:
        return None, None, None, ""
    if by == "tools":
        mine, theirs = call.tools, before.tools
        changed = [name for name in (*mine, *theirs) if (name in mine) != (name in theirs)]
        named = f": {', '.join(dict.fromkeys(changed))}" if changed else ""
        return None, None, None, f"other tools{named}"
    at = int(by.removeprefix("message "))
    if at >= len(call.seen):
        return at, None, None, f"the call before had {len(before.seen) - at} messages more"
    now, was = call.seen[at], before.seen[at]
    where = _first_difference(now.message, was.message)
    injector = _injector_at(call, at, now.message, where) or _injector_at(
        before, at, was.message, where
    )
    return at, where, injector, _why(now, was, where, injector)


def _why(now: Seen, was: Seen, where: int, injector: str | None) -> str:
    text = now.message.text[where : where + _SHOWN]
    shown = f" ({' '.join(text.split())!r})" if text.strip() else ""
    if now.message_id != was.message_id and not now.message.is_system:
        return f"another message stands there: {now.reason}"
    because = (now.because or "").removesuffix(BECAUSE).rstrip(", ")
    if because and because != (was.because or "").removesuffix(BECAUSE).rstrip(", "):
        return f"it was edited: {because}"
    if was.because and was.because.endswith(BECAUSE) and not now.because:
        return "the block at its end was taken away"
    if injector is not None:
        return f"the block of {injector} is another one{shown}"
    return f"{now.reason} is another one{shown}"


def _first_difference(now: Message, was: Message) -> int:
    """The first character at which the texts differ; 0 where something else does."""
    mine, theirs = now.text, was.text
    if now.role != was.role or mine == theirs:
        return 0
    same = (at for at, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other)
    return next(same, min(len(mine), len(theirs)))


def _injector_at(call: CallView, at: int, message: Message, where: int) -> str | None:
    """The injector whose block holds a character of a message."""
    blocks: Sequence[Mapping[str, Any]] = (call.details.get("injectors") or {}).get("blocks", ())
    here = [one for one in blocks if one.get("message") == at]
    start = 0
    for number, part in enumerate(message.parts):
        if not isinstance(part, Text):
            continue
        end = start + len(part.text)
        if start <= where <= end:
            found = [one["injector"] for one in here if one.get("part") == number]
            if found:
                return " or ".join(found)
        start = end + 1
    return None
