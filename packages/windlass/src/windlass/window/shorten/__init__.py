"""Long results cut to what is surprising, what failed and what was asked for.

What is alike is counted: marks name the lines that are left out, and say where they are like those
above. A list or a diff that can be said shorter is, before lines are left out. Pure functions of
texts: they know neither windows nor when a cut is worthwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from windlass.window._references import may_refer
from windlass.window.kinds import Kind
from windlass.window.shorten._asked import RequestTexts, named_places
from windlass.window.shorten._choice import Manner, choose, marked
from windlass.window.shorten._diffs import has_hunks, with_context
from windlass.window.shorten._forms import Form, by_file, by_folder
from windlass.window.shorten._scores import new_lines, scores_of
from windlass.window.shorten._segments import Segments
from windlass.window.shorten._templates import Templates

__all__ = [
    "CUT",
    "PROGRAMS",
    "RequestTexts",
    "ShortText",
    "alike_lines",
    "shorten",
    "telling_lines",
]

PROGRAMS: Final[frozenset[Kind]] = frozenset({"command", "test", "build", "log"})
"""Kinds that programs write."""
CUT: Final = "Cut"
"""What is told of a text that was not said otherwise before lines were left out."""
_FORM: Final = 1.6
"""A form is shown whole up to so many times the room."""
_NAMED: Final = 8
"""A listing of up to so many times the room leaves out no path: those of lines that are left out
are told behind it, whole."""
_TELLING: Final = 4.0
"""What a line is worth that is told where others are only counted."""
_CONTEXTS: Final = (1, 0)
"""Unchanged lines around the changes of a diff, the first that fits."""


@dataclass(frozen=True, slots=True)
class ShortText:
    """A text as it is shown.

    `left` are the lines that are left out and not plain, `told` what became of the text.
    """

    text: str
    left: str = ""
    told: str = CUT


def shorten(
    text: str,
    room: int,
    asked: RequestTexts,
    *,
    kind: Kind = "text",
    starts: Sequence[int] | None = None,
    before: Sequence[str] = (),
) -> ShortText:
    """Return the text in about `room` characters.

    Args:
        text: The text.
        room: Characters to keep; what loses nothing may have more.
        asked: What it was asked for with.
        kind: What it is.
        starts: At which line of the original each of its lines begins: by these numbers those are
            told that are left out (None: they are counted).
        before: The lines that the same command printed the last time.
    """
    form: Form | None = None
    for form in _forms(text, kind, room):
        whole = "\n".join(form.lines)
        if len(whole) <= _FORM * room:
            return ShortText(whole, told=form.told)
    if form is not None:
        text = "\n".join(form.lines)
        starts = form.starts and [starts[at] if starts else at + 1 for at in form.starts]
    segments = Segments(text)
    templates = Templates(segments.texts)
    output = kind in PROGRAMS
    scores = scores_of(
        segments,
        templates,
        asked,
        worth=_at_segments(segments, form.worth) if form else None,
        share=form.share if form else 1.0,
        news=new_lines(segments.texts, before) if before else (),
    )
    heads = _heads(segments, form)
    manner = Manner(output=output, heads=heads)
    lengths = [*map(len, segments.texts)]
    chosen = choose(lengths, room, scores, manner)
    shown, left = marked(segments, chosen, templates, scores.odd, starts)
    rest = "".join([segments.texts[at] for at in left if at not in scores.plain])
    told = f"{form.told.removesuffix(', made')}, cut" if form else CUT
    return ShortText(shown.removesuffix("\n"), rest, told)


def alike_lines(text: str, asked: RequestTexts) -> frozenset[int]:
    """Return the numbers, from 0, of the lines of frequent forms in which nothing is odd.

    None of them reports a failure, or holds an identifier of what was asked for that few have.
    """
    segments = Segments(text)
    templates = Templates(segments.texts)
    scores = scores_of(segments, templates, RequestTexts())
    odd = {at for at in scores.odd if scores.own[at] >= _TELLING}
    alike = {at for rows in templates.rows.values() for at in rows} - odd - segments.skipped
    named = named_places(templates, asked)
    whole = [at for at in alike - named if segments.ends(at) and segments.ends(at - 1)]
    return frozenset(
        number for at in whole for number in range(segments.firsts[at], segments.lasts[at] + 1)
    )


def telling_lines(text: str, room: int) -> str:
    """Return the lines of a program's output that a cut would show first, in order, each once.

    Those that report a failure or are like no others, within `room` characters; a line that is too
    long for it is left out.
    """
    segments = Segments(text)
    scores = scores_of(segments, Templates(segments.texts), RequestTexts())
    ranked = sorted(scores.odd, key=lambda at: (-scores.own[at], at))
    kept: dict[int, str] = {}
    for at in ranked:
        line = segments.texts[at].strip()
        if scores.own[at] >= _TELLING and len(line) < room and line not in kept.values():
            kept[at] = line
            room -= len(line) + 1
    return "\n".join([kept[at] for at in sorted(kept)])


def _forms(text: str, kind: Kind, room: int) -> Iterator[Form]:
    """Yield the shorter ways to say a text without loss, the first that fits is taken."""
    if may_refer(text):
        return  # what a reference stands for is no line of a hunk
    if has_hunks(text):
        for most in _CONTEXTS:
            form = with_context(text, most)
            if form is not None:
                yield form
        return
    is_long = kind != "listing" or len(text) > _NAMED * room
    form = by_folder(text) if kind != "file" and is_long else None
    form = form or by_file(text)
    if form is not None:
        yield form


def _at_segments(segments: Segments, worth: Mapping[int, float]) -> dict[int, float]:
    """Return what lines are worth, by the segments that begin them."""
    return {at: worth[line] for at, line in enumerate(segments.firsts) if line in worth}


def _heads(segments: Segments, form: Form | None) -> dict[int, int]:
    if form is None or not form.heads:
        return {}
    first = {line: at for at, line in reversed([*enumerate(segments.firsts)])}
    return {
        at: first[form.heads[line]] for at, line in enumerate(segments.firsts) if line in form.heads
    }
