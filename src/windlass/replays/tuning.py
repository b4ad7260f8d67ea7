"""Settings that serve one's own recordings best, and what they are worth on others.

Few settings are tried, each on all sessions. What is chosen keeps needed values and lines in view
first, and costs least then. Its figure is that of sessions it was not chosen by: these are
divided, and each part is billed by what the other parts choose.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from windlass.caching.rates import many
from windlass.errors import UsageError
from windlass.importing.recording import Recording
from windlass.replays.named_policies import ReplayPolicy, policies_of
from windlass.replays.outcomes import RecordingReplay, Replay, Span
from windlass.replays.pricing import PricesName
from windlass.replays.running import replay_all

FEWEST_SESSIONS: Final = 10
"""With fewer, what is left out says nothing of the others."""
PARTS: Final = 5
"""Into which the sessions are divided."""
WORTH: Final = 0.005
"""Settings are better than the default's from so much less of its bill on."""
LINES_IN_VIEW: Final = 0.985
VALUES_IN_VIEW: Final = 0.996
"""The shares in view that settings should keep, as far as they can be had."""
_DIGITS: Final = 3
"""Of what falls short of them: less than that is chance."""

DEFAULT: Final = "default"
CANDIDATES: Final[Mapping[str, Mapping[str, Any]]] = {
    DEFAULT: {},
    "careful": {"profile": "careful"},
    **{
        ",".join(f"{name}={value}" for name, value in options.items()): options
        for options in (
            {"see_results": 2},
            {"see_reads": 6},
            {"see_reads": 20},
            {"see_shell_reads": 1},
            {"see_shell_reads": 6},
            {"see_crowded": 2},
            {"see_crowded": 8},
            {"see_reads": 20, "see_shell_reads": 8, "see_crowded": 8},
            {"see_results": 3, "see_reads": 24, "see_shell_reads": 12, "see_crowded": 12},
        )
    },
}
"""The settings that are tried, by what they are called: how long results stay in sight."""


@dataclass(frozen=True, slots=True)
class TunedFigure:
    """What settings come to on some sessions.

    `ratio` is the bill, what is fetched again included, divided by sending everything.
    """

    settings: str
    ratio: float
    values: float
    lines: float

    @property
    def short(self) -> float:
        """How far values and lines in view fall short of what they should be."""
        values, lines = VALUES_IN_VIEW - self.values, LINES_IN_VIEW - self.lines
        return round(max(0.0, values) + max(0.0, lines), _DIGITS)


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was found: settings by name, and their figures.

    `chosen` are those that serve all sessions best; `auto_context` is what a cascade takes (empty:
    nothing better than the default was found). `unseen` is the figure of choosing so, on sessions
    not tuned on, and `default` that of the default on the same ones. `figures` are those of
    each of the settings on all sessions; `choices` says how often the parts chose which.
    """

    sessions: int
    calls: int
    chosen: str
    auto_context: Mapping[str, Any]
    unseen: TunedFigure
    default: TunedFigure
    figures: tuple[TunedFigure, ...]
    choices: Mapping[str, int]
    skipped: tuple[str, ...]
    assumed: tuple[str, ...]

    @property
    def is_better(self) -> bool:
        """Whether something better than the default was found."""
        return bool(self.auto_context)

    def yaml(self) -> str:
        """The piece that a cascade takes; a file of it is a policy of `windlass replay`."""
        return yaml.safe_dump({"auto_context": dict(self.auto_context)}, sort_keys=False)


def tune_on(
    recordings: Iterable[Recording], prices: PricesName, workers: int, skipped: list[str]
) -> Tuning:
    """Try the settings on the recordings, and choose.

    Raises UsageError where there are too few sessions, or none that can be replayed.
    """
    kept = list[Recording]()
    for recording in recordings:
        if any(message.role == "tool" for message in recording.messages):
            kept.append(recording)
        else:
            skipped.append(f"{recording.name!r} has no result of a tool, so nothing is to be tuned")
    _check_count(len(_grouped(kept)))
    replayed = replay_all(kept, _candidates(), (prices,), workers, skipped)
    sessions = _sessions(replayed, kept)
    _check_count(len(sessions))
    return _tuned(replayed, sessions)


def _candidates() -> tuple[ReplayPolicy, ...]:
    return policies_of(CANDIDATES)


def _check_count(count: int) -> None:
    if count < FEWEST_SESSIONS:
        raise UsageError(
            f"{many(count, 'session')} with results of tools, and at least"
            f" {FEWEST_SESSIONS} are needed to tell what serves others; windlass replay compares"
            " policies on what there is"
        )


# ---- sessions -------------------------------------------------------------------------------

_Session = Sequence[RecordingReplay]
"""A session with its side chains and branches."""


def _grouped(recordings: Iterable[Recording]) -> dict[str, list[Recording]]:
    """Recordings by the session that they belong to."""
    parents: dict[str, str] = {}
    groups: dict[str, list[Recording]] = {}
    for recording in recordings:
        root = recording.name
        if recording.parent is not None:
            root = parents.get(recording.parent, recording.parent)
        parents[recording.name] = root
        groups.setdefault(root, []).append(recording)
    return groups


def _sessions(replayed: Replay, recordings: Sequence[Recording]) -> list[_Session]:
    """What was replayed by session, in an order that has nothing to do with names or times."""
    found: dict[str, list[RecordingReplay]] = {}
    for one in replayed.recordings:
        found.setdefault(one.name, []).append(one)
    sessions: dict[str, list[RecordingReplay]] = {}
    for root, group in _grouped(recordings).items():
        names = dict.fromkeys(recording.name for recording in group)
        members = [one for name in names for one in found.get(name, ())]
        if members:
            sessions[root] = members
    order = sorted(sessions, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return [sessions[name] for name in order]


# ---- choosing -------------------------------------------------------------------------------


def _tuned(replayed: Replay, sessions: Sequence[_Session]) -> Tuning:
    choices: Counter[str] = Counter()
    unseen: list[tuple[str, _Session]] = []
    for part in range(PARTS):
        others = [one for at, one in enumerate(sessions) if at % PARTS != part]
        chosen = _chosen(_figures(others)).settings
        choices[chosen] += 1
        unseen += [(chosen, one) for one in sessions[part::PARTS]]
    figures = _figures(sessions)
    best = _chosen(figures)
    found = _figure("what the other parts choose", unseen)
    default = _figure(DEFAULT, [(DEFAULT, session) for session in sessions])
    is_better = best.settings != DEFAULT and _beats(found, default) and _beats(best, default)
    return Tuning(
        sessions=len(sessions),
        calls=sum(one.call_count for session in sessions for one in session),
        chosen=best.settings if is_better else DEFAULT,
        auto_context=_auto_context(best.settings) if is_better else {},
        unseen=found,
        default=default,
        figures=tuple(figures),
        choices=dict(choices),
        skipped=replayed.skipped,
        assumed=replayed.assumed,
    )


def _auto_context(settings: str) -> dict[str, Any]:
    options = dict(CANDIDATES[settings])
    profile = options.pop("profile", DEFAULT)
    return {"profile": profile, **({"intra_phase": options} if options else {})}


def _figures(sessions: Sequence[_Session]) -> list[TunedFigure]:
    return [_figure(name, [(name, session) for session in sessions]) for name in CANDIDATES]


def _figure(name: str, chosen: Sequence[tuple[str, _Session]]) -> TunedFigure:
    """The figure of sessions, each under the settings that were chosen for it."""
    outlays = [
        next(outlay for outlay in recording.outlays if outlay.policy == settings)
        for settings, session in chosen
        for recording in session
    ]
    whole = sum(outlay.everything.middle for outlay in outlays)
    paid = sum(_paid(outlay.bill, outlay.again) for outlay in outlays)
    values, lines = (
        (sum(outlay.values_seen for outlay in outlays), sum(outlay.values for outlay in outlays)),
        (sum(outlay.lines_seen for outlay in outlays), sum(outlay.lines for outlay in outlays)),
    )
    return TunedFigure(name, paid / whole if whole else 1.0, _share(*values), _share(*lines))


def _paid(bill: Span, again: Span) -> float:
    return bill.middle + again.middle


def _share(seen: int, needed: int) -> float:
    return seen / needed if needed else 1.0


def _chosen(figures: Sequence[TunedFigure]) -> TunedFigure:
    """What falls short the least, and costs least then; the default where the gain is nothing."""
    least = min(figure.short for figure in figures)
    seeing = [figure for figure in figures if figure.short == least]
    best = min(seeing, key=lambda figure: figure.ratio)
    default = next((figure for figure in seeing if figure.settings == DEFAULT), None)
    return best if default is None or _beats(best, default) else default


def _beats(one: TunedFigure, other: TunedFigure) -> bool:
    if one.short != other.short:
        return one.short < other.short
    return one.ratio <= other.ratio * (1 - WORTH)
