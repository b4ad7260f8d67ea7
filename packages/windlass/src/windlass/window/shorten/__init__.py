"""Long results cut to what is surprising, what failed and what was asked for.

What is alike is counted: marks name the lines that are left out, and say where they are like those
above. A list or a diff that can be said shorter is, before lines are left out. Pure functions of
texts: they know neither windows nor when a cut is worthwhile.

Which segments of a text stay in sight, and the marks for what is left out between them.

The room is never filled up with what is plain. A mark names the lines by their numbers in the
original. It says that they have the form of the lines above where all of them do and none of them
is odd.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from windlass.window._references import may_refer
from windlass.window.kinds import Kind
from windlass.window.shorten._diffs import Form, by_file, by_folder, has_hunks, with_context
from windlass.window.shorten._scores import RequestTexts, Scores, named_places, new_lines, scores_of
from windlass.window.shorten._segments import Segments, Templates

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


_TOP: Final = 0.08
_END: Final = 0.12
"""Shares of the room for the first and for the last segments."""
_LEAST: Final = 1.2
"""What a segment is worth that is chosen for itself."""
_LONG: Final = 0.004
"""What each character of a segment takes from its worth, where the best are chosen first."""
_MARK: Final = 34
"""Characters of the mark that a segment alone costs."""
_PLAIN_OUTPUT: Final = 0.1
_PLAIN: Final = 0.2
"""Shares of the room for what is plain, in output of programs and elsewhere."""
_AROUND: Final = 3
_GAP_SEGMENTS: Final = 2
_GAP_CHARS: Final = 70
"""A gap of so little is shown."""
_ABOVE: Final = 3
"""Lines above a mark that it may speak of."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How segments of a kind of text are chosen.

    `output`: a program wrote it. `heads`: without which segment another says nothing.
    """

    output: bool = False
    heads: Mapping[int, int] | None = None


def choose(lengths: Sequence[int], room: int, scores: Scores, manner: Manner) -> set[int]:
    """Return the segments that stay, within `room` characters."""
    choice = _Choice(lengths, room, scores.plain, manner)
    number = len(lengths)
    for places, share in ((range(number), _TOP), (range(number - 1, -1, -1), _END)):
        choice.run(places, share)
    ranked = [at for at, score in enumerate(scores.all) if score >= _LEAST]
    ranked.sort(key=lambda at: (_LONG * lengths[at] - scores.all[at], at))
    choice.fill(ranked)
    centres = [at for at in ranked if at in choice.chosen]
    for distance in range(1, _AROUND + 1):
        choice.fill(at + way for at in centres for way in (-distance, distance))
    choice.fill(range(number))
    choice.close()
    return choice.chosen


class _Choice:
    def __init__(
        self, lengths: Sequence[int], room: int, plain: frozenset[int], manner: Manner
    ) -> None:
        self.chosen: set[int] = set()
        self._lengths = lengths
        self._room = self._left = room
        self._plain = plain
        self._plain_left = room * (_PLAIN_OUTPUT if manner.output else _PLAIN)
        self._heads = manner.heads or {}

    def run(self, places: Iterable[int], share: float) -> None:
        """Take the places in their order, until one does not fit into this share of the room."""
        floor = self._left - int(self._room * share)
        for at in places:
            if at not in self.chosen and not self._take(at, floor, mark=0):
                break

    def fill(self, places: Iterable[int]) -> None:
        """Take those of the places that fit, in their order."""
        for at in places:
            if self._left <= 0:
                break
            if 0 <= at < len(self._lengths) and at not in self.chosen:
                beside = at - 1 in self.chosen or at + 1 in self.chosen
                self._take(at, 0, mark=0 if beside else _MARK)

    def _take(self, at: int, floor: int, mark: int) -> bool:
        head = self._heads.get(at, at)
        length = self._lengths[at] + (head not in self.chosen and head != at) * self._lengths[head]
        if self._left - length - mark < floor:
            return False
        if at in self._plain:
            if self._plain_left < length:
                return False
            self._plain_left -= length
        self.chosen |= {at, head}
        self._left -= length + mark
        return True

    def close(self) -> None:
        """Show what is shorter than the mark that would stand in its place."""
        last = -1
        for at in [*sorted(self.chosen), len(self._lengths)]:
            gap = range(last + 1, at)
            if (
                0 < len(gap) <= _GAP_SEGMENTS
                and sum([self._lengths[place] for place in gap]) <= _GAP_CHARS
            ):
                self.chosen.update(gap)
            last = at


def marked(
    segments: Segments,
    chosen: Container[int],
    templates: Templates,
    odd: Container[int],
    starts: Sequence[int] | None,
) -> tuple[str, list[int]]:
    """Return the text with its marks, and the segments that are left out.

    Args:
        segments: The segments of the text.
        chosen: Those that are shown. Others are, too, where a mark would be longer.
        templates: Their forms.
        odd: Segments of which none says that they are like others.
        starts: At which line of the original each line of the text begins (None: lines are
            counted).
    """
    said: list[str] = []
    left: list[int] = []
    above = 0
    """Shown segments right above, with nothing left out between them."""
    for stays, group in groupby(range(len(segments.texts)), key=chosen.__contains__):
        places = list(group)
        for part in [places] if stays else _by_lines(segments, places):
            text = "".join([segments.texts[at] for at in part])
            if not stays:
                mark = _mark_of(
                    segments, part, starts, _like(segments, part, above, templates, odd)
                )
                if len(mark) < len(text):
                    said.append(mark)
                    left += part
                    above = 0
                    continue
            said.append(text)
            above += len(part)
    return "".join(said), left


def _by_lines(segments: Segments, places: Sequence[int]) -> list[Sequence[int]]:
    """Get the places that are left out: the end of a line, whole lines, the beginning of a line."""
    first, last = 0, len(places)
    if not segments.ends(places[0] - 1):
        first = next((n for n, at in enumerate(places, 1) if segments.ends(at)), last)
    while last > first and not segments.ends(places[last - 1]):
        last -= 1
    return [part for part in (places[:first], places[first:last], places[last:]) if part]


def _like(
    segments: Segments, places: Sequence[int], above: int, templates: Templates, odd: Container[int]
) -> str:
    """Return what is said of lines that are all like the lines shown right above them."""
    first = places[0]
    if above and segments.equal.issuperset(places):
        return ", equal to the line above"
    left = {templates.keys[at] for at in places}
    if (
        not left <= templates.rows.keys()
        or not segments.skipped.isdisjoint(places)
        or any(at in odd for at in places)
    ):
        return ""
    met: set[str] = set()
    for number in range(1, min(above, _ABOVE) + 1):
        met.add(templates.keys[first - number])
        if left <= met:
            which = "form as above" if number == 1 else f"forms as the {number} lines above"
            return f", same {which}"
    return ""


def _mark_of(
    segments: Segments, places: Sequence[int], starts: Sequence[int] | None, like: str
) -> str:
    """Return the mark for segments that are left out, which are whole lines or part of one."""
    first, last = places[0], places[-1]
    if not (segments.ends(first - 1) and segments.ends(last)):
        end = segments.ends(last)
        chars = sum([len(segments.texts[at]) for at in places]) - end
        return f"[... {chars:,} characters ...]" + "\n" * end
    above, line = segments.firsts[first], segments.lasts[last]
    if starts is None:
        return f"[... {line - above + 1:,} line{'s' * (line > above)}{like} ...]\n"
    low = starts[above]
    high = starts[line + 1] - 1 if line + 1 < len(starts) else starts[line]
    which = f"lines {low}-{high}" if high > low else f"line {low}"
    return f"[... {which}{like} ...]\n"
