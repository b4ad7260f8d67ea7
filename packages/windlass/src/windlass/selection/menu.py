"""Menus: a list of summaries that a model chooses from, and the reading of its answer.

The answer is checked: what it names must be on the menu, and what it leaves out is filled up
by score, so that a careless model loses little. Where it answers no list at all, the scores
choose, and the reason is recorded. Nobody is asked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from windlass.safety.foreign import parse_json
from windlass.selection.rank import ChosenUnits
from windlass.selection.scoring import Picked, Scored, SelectionRequest
from windlass.text.prompts import selector_text

MENU_LINES: Final = 100
POOL: Final = 2
"""What `hybrid` lets a model choose from holds so many budgets."""
LINE_CHARS: Final = 200
TASK_CHARS: Final = 1_000
_SHORT: Final = 8
_TRUSTED: Final = 2
"""Where a model names what is not on its menu, its other picks that the scores would not have
chosen get one part in so many of the budget: who reads one line wrong reads others wrong."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Menu:
    """Units by the short names under which a model is asked for them.

    `alone`: the model was asked for by name (strategy `llm`), not as a part of `hybrid`.
    """

    scored: Scored
    units: Mapping[str, int]
    alone: bool

    @property
    def question(self) -> str:
        """What the model is asked."""
        request = self.scored.request
        lines = [_line(request, at, name) for name, at in self.units.items()]
        return selector_text(request.task.text[:TASK_CHARS], lines, request.options.max_tokens)

    def pick(self, answer: Any) -> Picked:
        """Return what is chosen by the model's answer, and by score where it holds no list."""
        found = self.scored
        read = read_answer(answer, self.units)
        if isinstance(read, str):
            return replace(found.pick(), note=f"{read}; chosen by score alone")
        choice = _combined(found, read)
        return Picked(
            found,
            choice,
            "llm" if self.alone else f"{found.strategy}+llm",
            _told(read, found.note),
            frozenset(read.units) & frozenset(choice.chosen),
            read.reasoning,
            read.refused,
        )


def menu_of(found: Scored, *, alone: bool) -> Menu | None:
    """Return what a model may choose from; None: nothing is left to choose.

    The best 100 by score where it is asked `alone`, else what fits twice the budget.
    """
    order = found.order()
    if not alone:
        inside = frozenset(found.fill(POOL * found.request.options.max_tokens).chosen)
        order = (at for at in order if at in inside)
    menu = list(islice(order, MENU_LINES))
    units = {name: at for at, name in _names(found.request, menu).items()}
    return Menu(found, units, alone) if menu else None


@dataclass(frozen=True, slots=True)
class MenuAnswer:
    """What a model answered: the units it picked, what it named beside the menu, its reasons."""

    units: tuple[int, ...]
    refused: tuple[str, ...]
    reasoning: str


def read_answer(answer: Any, menu: Mapping[str, int]) -> MenuAnswer | str:
    """Return a model's answer, checked against the menu (from a name to its unit).

    Names may stand in brackets, and a full hash for a short one. Where the answer holds no
    list of names, a sentence that says so.
    """
    if not isinstance(answer, str):
        return f"the selector answered {type(answer).__name__} where a text was asked"
    try:
        told = parse_json(answer[answer.find("{") : answer.rfind("}") + 1])
    except ValueError:
        told = None
    named = told.get("selected") if isinstance(told, Mapping) else None
    if not isinstance(told, Mapping) or not isinstance(named, list):
        start = " ".join(answer.split())[:60]
        return f"the selector answered {start!r} where a JSON object with 'selected' was asked"
    units: dict[int, None] = {}
    refused: list[str] = []
    for one in named:
        name = one.strip().strip("[]").strip().lower() if isinstance(one, str) else ""
        at = menu.get(name)
        if at is None and len(name) > _SHORT:
            at = menu.get(name[:_SHORT])
        if at is None:
            refused.append(str(one)[:40])
        else:
            units[at] = None
    reasoning = told.get("reasoning")
    return MenuAnswer(tuple(units), tuple(refused), reasoning if isinstance(reasoning, str) else "")


def _combined(found: Scored, read: MenuAnswer) -> ChosenUnits:
    """Return the picks first, of doubtful ones a part; then the rest by score."""
    request = found.request
    options, units = request.options, request.index.units
    ranked = sorted(read.units, key=lambda at: -float(found.by_unit[at]))
    if not read.refused:
        first = _filling(ranked, [units[at].tokens for at in ranked], options.max_tokens)
        return found.fill(options.max_tokens, options.max_messages, first)
    by_score = frozenset(found.fill(options.max_tokens, options.max_messages).chosen)
    first = [at for at in ranked if at in by_score]
    room = options.max_tokens // _TRUSTED
    for at in ranked:
        if at not in by_score and units[at].tokens <= room:
            room -= units[at].tokens
            first.append(at)
    return found.fill(options.max_tokens, options.max_messages, first)


def _filling(picks: Sequence[int], tokens: Sequence[int], room: int) -> list[int]:
    """Those of the picks that together come nearest to the room: the first, as far as that goes.

    A subset sum: bit `n` of a number says that some of the picks so far have `n` tokens.
    """
    if sum(tokens) <= room:
        return list(picks)
    within = (1 << (room + 1)) - 1
    sums = [1 & within]
    for size in tokens:
        sums.append((sums[-1] | sums[-1] << size) & within)
    left = sums[-1].bit_length() - 1
    chosen: list[int] = []
    for at in reversed(range(len(picks))):
        if not sums[at] >> left & 1:
            chosen.append(picks[at])
            left -= tokens[at]
    return chosen[::-1]


def _names(request: SelectionRequest, menu: Sequence[int]) -> dict[int, str]:
    """Return a short name for each unit of a menu, no two alike: the head of its content hash."""
    met: dict[str, int] = {}
    names: dict[int, str] = {}
    for at in menu:
        short = request.index.card(request.index.units[at].first).content_hash[:_SHORT]
        met[short] = met.get(short, 0) + 1
        names[at] = short if met[short] == 1 else f"{short}.{met[short]}"
    return names


def _line(request: SelectionRequest, at: int, name: str) -> str:
    unit = request.index.units[at]
    cards = [request.index.card(place) for place in unit.places]
    told = " -> ".join(" ".join(card.summary.split()) for card in cards)
    where = f"{cards[0].phase}, " if cards[0].phase else ""
    return f"[{name}] {cards[0].role} ({where}~{unit.tokens} tok): {told[:LINE_CHARS]}"


def _told(read: MenuAnswer, note: str) -> str:
    said = [note] if note else []
    if read.refused:
        shown = ", ".join(map(repr, read.refused[:_SHOWN]))
        said.append(f"the selector named what is not on the menu: {shown}")
    if not read.units:
        said.append("the selector chose nothing")
    return "; ".join(said)
