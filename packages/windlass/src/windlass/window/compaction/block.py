"""The text of a compaction: its parts, within a number of characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from windlass.messages import Message, Text
from windlass.text.prompts import (
    COMPACTION_CONCLUSIONS,
    COMPACTION_LOG,
    COMPACTION_NAMES,
    COMPACTION_PIECES,
    COMPACTION_PLAN,
    COMPACTION_USER,
    compaction_head,
)
from windlass.window._pending import PendingEdits
from windlass.window._survive import flat, outcome
from windlass.window.compaction._chunks import (
    HEADER_CHARS,
    CallTexts,
    Chunk,
    chunks_of,
    plan_state,
    read_call,
)
from windlass.window.digests import has_failed
from windlass.window.kinds import arguments_of
from windlass.window.names import names_in, names_said, whole_names

_CONCLUSIONS: Final = 0.12
_LOG: Final = 0.07
_CHUNKS: Final = 0.88
_NAMES: Final = 0.12
_MOST_NAMES: Final = 0.18
"""Shares of the block: conclusions, the log of calls, all before the names, the names."""
_WHOLE: Final = (2, 4_800)
"""The newest conclusions stay whole, up to so many characters."""
_CUT: Final = (6, 2_800, 1_200)
"""The next ones, up to this number of them, keep this much of their head and their tail."""
_OLDER: Final = 960
_SAME_FORM: Final = 0.5
"""The share of the lines of a subagent's result that others say, too, where it reports nothing."""
_LOG_CHARS: Final = (160, 80)
"""Characters of a call in the log: the newest, and those of more than `_LOG_NEW` calls ago."""
_LOG_NEW: Final = 40
_OUTCOME_CHARS: Final = 100
_NAME_CHARS: Final = (4, 80)
_MARKED: Final = ("/", ".", "_")
_GAP: Final = "…"


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction: the message, and what it keeps.

    `pieces` are the pieces that stand in it, `names` how many names of what is left out.
    """

    message: Message
    pieces: int
    names: int


def write_compaction(
    step: PendingEdits, places: Sequence[int], upto: int, chars: int
) -> Compaction:
    """Return what stands in the place of the messages at `places`, in about `chars` characters.

    The user's words stay whatever room they take. `upto` is the position behind all that was said;
    what stands between `places` and it is shown as it is.
    """
    users = _user_words(step, places)
    parts = [compaction_head(step.turn), *_section(COMPACTION_USER, users)]
    replies = [at for at in places if step.original(at).role == "assistant"]
    parts += _section(COMPACTION_PLAN, plan_state(step, replies))
    parts += _section(COMPACTION_CONCLUSIONS, _conclusions(step, places, int(_CONCLUSIONS * chars)))
    parts += _section(COMPACTION_LOG, _log(step, replies, int(_LOG * chars)))
    room = int(_CHUNKS * chars) - sum(map(len, parts))
    chosen = _choose(chunks_of(step, places, upto), room)
    parts += _section(COMPACTION_PIECES, _written(step, chosen))
    text = "\n".join(parts)
    room = min(max(int(_NAMES * chars), chars - len(text)), int(_MOST_NAMES * chars))
    lines, count = _names(step, places, text, room)
    parts += _section(COMPACTION_NAMES, lines)
    return Compaction(Message("user", (Text("\n".join(parts)),)), len(chosen), count)


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *lines] if lines else []


def _user_words(step: PendingEdits, places: Sequence[int]) -> list[str]:
    """Return what users said, each text once, with a line for each picture."""
    said: dict[str, None] = {}
    for at in places:
        message = step.original(at)
        if message.role != "user":
            continue
        pictures = [
            f"[picture {picture.describe()}; {step.recall_hint(at)}]"
            for picture in message.pictures
        ]
        said["\n".join([*filter(None, (message.text,)), *pictures])] = None
    return [f"[user]\n{text}" for text in said]


def _conclusions(step: PendingEdits, places: Sequence[int], room: int) -> list[str]:
    """Return what the model said right before a user spoke, and what subagents reported.

    The newest are chosen first, and stand in order.
    """
    reports = _reports(step, places)
    last: list[int] = []
    for at, after in zip(places, [*places[1:], None], strict=True):
        message = step.original(at)
        ends = after is None or step.original(after).role == "user"
        says = message.role == "assistant" and ends and not message.tool_calls
        if at in reports or (says and message.text.strip()):
            last.append(at)
    kept: list[str] = []
    for number, at in enumerate(reversed(last)):
        text = step.original(at).text.strip()
        whole, (until, head, tail) = number < _WHOLE[0] and len(text) <= _WHOLE[1], _CUT
        if not whole:
            head, tail = (head, tail) if number < until else (_OLDER, 0)
            if len(text) > head + tail:
                gap = f"[{len(text) - head - tail:,} characters; {step.recall_hint(at)}]"
                end = text[len(text) - tail :] if tail else ""
                text = "\n".join(filter(None, (text[:head], gap, end)))
        room -= len(text) + 1
        if room < 0:
            break
        kept.append(text)
    return [f"- {text}" for text in reversed(kept)]


def _reports(step: PendingEdits, places: Sequence[int]) -> set[int]:
    """Return the results of subagents that report something.

    What says mostly the same of several of them is a form, such as that each was begun.
    """
    lines: dict[int, list[str]] = {}
    for at in places:
        called = step.call(at) if step.original(at).role == "tool" else None
        if called is not None and read_call(step, called, at).deed == "agent":
            said = map(str.strip, step.original(at).text.splitlines())
            lines[at] = [line for line in said if line]
    count = Counter(line for each in lines.values() for line in set(each))
    return {
        at
        for at, each in lines.items()
        if each and sum(count[line] > 1 for line in each) < _SAME_FORM * len(each)
    }


def _log(step: PendingEdits, replies: Sequence[int], room: int) -> list[str]:
    """Return the calls with what came of them, a line each, the newest first chosen, in order.

    But for those that only wrote the plan.
    """
    lines: list[str] = []
    for at in reversed(replies):
        message = step.original(at)
        results = {step.original(one).tool_call_id: one for one in step.results(at)}
        most = _LOG_CHARS[step.seen(at) > _LOG_NEW]
        for call in reversed(message.tool_calls):
            place = results.get(call.id)
            done = read_call(step, call, place)
            if done.deed == "todo":
                continue
            about = _path(done.paths, most) or flat(" ".join(done.texts), most)
            line = f"- {call.name} {about} → {_outcome(step, done, place)}"
            room -= len(line) + 1
            if room < 0:
                return lines[::-1]
            lines.append(line)
    return lines[::-1]


def _path(paths: Sequence[str], chars: int) -> str:
    """The files of a call within so many characters; what is left out is where a path begins."""
    text = " ".join(paths)
    return text if len(text) <= chars else f"...{text[len(text) - chars + 3 :]}"


def _outcome(step: PendingEdits, done: CallTexts, place: int | None) -> str:
    """Return what came of a call, in a few words."""
    if place is None:
        return "no result"
    result = step.original(place)
    if has_failed(result):
        return flat(outcome(result), _OUTCOME_CHARS)
    if done.writes:
        return "ok"
    if done.deed in ("read", "search"):
        return f"{len(result.text.splitlines()):,} lines"
    lines = result.text.strip().splitlines() or ["no output"]
    return flat(lines[0 if done.deed == "agent" else -1], _OUTCOME_CHARS)


def _choose(chunks: Sequence[Chunk], room: int) -> list[Chunk]:
    """Return the pieces with the most points that fit, of equal ones the newest, in order."""
    ranked = sorted(range(len(chunks)), key=lambda at: (-chunks[at].points, -at))
    heads: set[tuple[int, int]] = set()
    kept: list[int] = []
    for at in ranked:
        chunk = chunks[at]
        source = chunk.at, chunk.part
        needed = chunk.chars + (0 if source in heads else HEADER_CHARS)
        if needed <= room:
            room -= needed
            heads.add(source)
            kept.append(at)
    return [chunks[at] for at in sorted(kept)]


def _written(step: PendingEdits, chosen: Sequence[Chunk]) -> list[str]:
    """The pieces in order, each text under a line that says what it is and how to get it whole."""
    lines: list[str] = []
    before: Chunk | None = None
    for chunk in chosen:
        follows = before is not None and (before.at, before.part) == (chunk.at, chunk.part)
        if not follows:
            lines.append(f"[{_about(step, chunk)}; {step.recall_hint(chunk.at)}]")
        elif before is not None and before.first + len(before.lines) != chunk.first:
            lines.append(f"{_GAP} line {chunk.first}")
        lines += chunk.lines
        before = chunk
    return lines


def _about(step: PendingEdits, chunk: Chunk) -> str:
    what = "result" if step.original(chunk.at).role == "tool" else "call" if chunk.part else "reply"
    return " ".join(filter(None, (what, chunk.about, f"from line {chunk.first}")))


def _names(
    step: PendingEdits, places: Sequence[int], text: str, room: int
) -> tuple[list[str], int]:
    """Get names that the block does not hold, behind the reference to the message that has them."""
    there = set(names_said(text)) | set(whole_names(text))
    lines: list[str] = []
    count = 0
    for at in reversed(places):
        message = step.original(at)
        if message.role == "user":
            continue
        keys = {key for call in message.tool_calls for key in arguments_of(call)}
        known = there | keys
        new = [name for name in _telling(names_in(message)) if name not in known]
        if not new:
            continue
        head = f"{step.recall_hint(at)}:"
        fits: list[str] = []
        room -= len(head) + 1
        for name in new:
            if room < len(name) + 1:
                break
            room -= len(name) + 1
            fits.append(name)
        if not fits:
            break
        there.update(fits)
        lines.append(" ".join((head, *fits)))
        count += len(fits)
    return lines[::-1], count


def _telling(names: Iterable[str]) -> Iterator[str]:
    least, most = _NAME_CHARS
    for name in names:
        marked = least <= len(name) <= most and any(mark in name for mark in _MARKED)
        if marked and not name.replace(".", "").replace("-", "").isdigit():
            yield name
