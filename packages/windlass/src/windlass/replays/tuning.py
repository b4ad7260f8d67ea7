"""The settings that serve a user's own recordings best, and what they save on unseen ones.

A few settings are tried, each on all sessions. The choice keeps needed values and lines in view
first, and costs least second. Its figure comes from sessions that had no part in the choice: the
sessions are divided into parts, and each part is billed by what the other parts choose.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from windlass.caching.rates import many
from windlass.errors import UsageError
from windlass.importing.recording import Recording
from windlass.replays.named_policies import policies_of
from windlass.replays.outcomes import RecordingReplay, Replay
from windlass.replays.pricing import PricesName
from windlass.replays.running import replay_all

FEWEST_SESSIONS: Final = 10
"""With fewer sessions, one part says nothing about the others."""
PARTS: Final = 5
"""The number of parts into which the sessions are divided."""
WORTH: Final = 0.005
"""Settings are better than the default where they save at least this share of its bill."""
LINES_IN_VIEW: Final = 0.985
VALUES_IN_VIEW: Final = 0.996
"""The shares that settings should keep in view, if any of them can."""
_DIGITS: Final = 3
"""Decimal places of a shortfall: a smaller difference is chance."""

DEFAULT: Final = "default"


def _title(options: Mapping[str, Any]) -> str:
    """Return options as `--policy` takes them."""
    return ",".join(f"{name}={json.dumps(value)}" for name, value in options.items())


CANDIDATES: Final[Mapping[str, Mapping[str, Any]]] = {
    DEFAULT: {},
    "careful": {"profile": "careful"},
    **{
        _title(options): options
        for options in (
            {"see_results": 2},
            {"see_reads": 6},
            {"see_reads": 40},
            {"see_results": 3, "see_reads": 40},
            {"free_moments": {"priced": 4}},
            {"free_moments": {"priced": False}},
            {"free_moments": {"keep": {"share": 0.5}}},
            {"free_moments": {"keep": {"share": 0.5}}, "see_results": 3, "see_reads": 40},
        )
    },
}
"""The settings that are tried, by name: they differ in what stays in view, and for how long."""


@dataclass(frozen=True, slots=True)
class TunedFigure:
    """What settings cost, and keep in view, on some sessions."""

    settings: str
    ratio: float
    """The bill, what is fetched again included, divided by that of sending everything."""
    values: float
    """The share of needed values in view."""
    lines: float
    """The share of needed lines in view."""

    @property
    def short(self) -> float:
        """Return how far values and lines in view fall short of what they should be."""
        values, lines = VALUES_IN_VIEW - self.values, LINES_IN_VIEW - self.lines
        return round(max(0.0, values) + max(0.0, lines), _DIGITS)


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of tuning: settings by name, and their figures."""

    sessions: int
    calls: int
    chosen: str
    """The settings that serve all sessions best."""
    auto_context: Mapping[str, Any]
    """The chosen settings for a cascade (empty: nothing better than the default was found)."""
    unseen: TunedFigure
    """The figure of such a choice on sessions that had no part in it."""
    default: TunedFigure
    """The figure of the default on the same sessions."""
    figures: tuple[TunedFigure, ...]
    """The figure of each of the settings on all sessions."""
    choices: Mapping[str, int]
    """How many parts chose which settings."""
    skipped: tuple[str, ...]
    assumed: tuple[str, ...]

    @property
    def is_better(self) -> bool:
        """Return whether something better than the default was found."""
        return bool(self.auto_context)

    def yaml(self) -> str:
        """Return the settings as a piece of a cascade; `windlass replay` takes it from a file."""
        return yaml.safe_dump({"auto_context": dict(self.auto_context)}, sort_keys=False)


def tune_on(
    recordings: Iterable[Recording], prices: PricesName, workers: int, skipped: list[str]
) -> Tuning:
    """Try the settings on the recordings, and choose.

    Raises UsageError where too few sessions can be replayed.
    """
    kept = list[Recording]()
    for recording in recordings:
        if any(message.role == "tool" for message in recording.messages):
            kept.append(recording)
        else:
            skipped.append(f"{recording.name!r} has no result of a tool: there is nothing to tune")
    _check_count(len(_group_by_session(kept)))
    replay = replay_all(kept, policies_of(CANDIDATES), (prices,), workers, skipped)
    sessions = _sessions(replay, kept)
    _check_count(len(sessions))
    return _choose(replay, sessions)


def _check_count(count: int) -> None:
    if count < FEWEST_SESSIONS:
        raise UsageError(
            f"found {many(count, 'session')} with results of tools; at least"
            f" {FEWEST_SESSIONS} are needed to tell what serves others. windlass replay compares"
            " policies on fewer"
        )


# ---- sessions -------------------------------------------------------------------------------

_Session = Sequence[RecordingReplay]
"""A session with its side chains and branches."""


def _group_by_session(recordings: Iterable[Recording]) -> dict[str, list[Recording]]:
    """Return recordings by the session that they belong to."""
    parents: dict[str, str] = {}
    groups: dict[str, list[Recording]] = {}
    for recording in recordings:
        root = recording.name
        if recording.parent is not None:
            root = parents.get(recording.parent, recording.parent)
        parents[recording.name] = root
        groups.setdefault(root, []).append(recording)
    return groups


def _sessions(replay: Replay, recordings: Sequence[Recording]) -> list[_Session]:
    """Give the replays of each session, in an order that has nothing to do with names or times."""
    by_name: dict[str, list[RecordingReplay]] = {}
    for one in replay.recordings:
        by_name.setdefault(one.name, []).append(one)
    sessions: dict[str, list[RecordingReplay]] = {}
    for root, group in _group_by_session(recordings).items():
        names = dict.fromkeys(recording.name for recording in group)
        members = [one for name in names for one in by_name.get(name, ())]
        if members:
            sessions[root] = members
    order = sorted(sessions, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return [sessions[name] for name in order]


# ---- choosing -------------------------------------------------------------------------------


def _choose(replay: Replay, sessions: Sequence[_Session]) -> Tuning:
    choices: Counter[str] = Counter()
    unseen: list[tuple[str, _Session]] = []
    for part in range(PARTS):
        others = [one for at, one in enumerate(sessions) if at % PARTS != part]
        choice = _best(_figures(others)).settings
        choices[choice] += 1
        unseen += [(choice, one) for one in sessions[part::PARTS]]
    figures = _figures(sessions)
    best = _best(figures)
    on_unseen = _figure("what the other parts choose", unseen)
    default = _figure(DEFAULT, [(DEFAULT, session) for session in sessions])
    is_better = best.settings != DEFAULT and _beats(on_unseen, default) and _beats(best, default)
    return Tuning(
        sessions=len(sessions),
        calls=sum(one.call_count for session in sessions for one in session),
        chosen=best.settings if is_better else DEFAULT,
        auto_context=_auto_context(best.settings) if is_better else {},
        unseen=on_unseen,
        default=default,
        figures=tuple(figures),
        choices=dict(choices),
        skipped=replay.skipped,
        assumed=replay.assumed,
    )


def _auto_context(settings: str) -> dict[str, Any]:
    options = dict(CANDIDATES[settings])
    profile = options.pop("profile", DEFAULT)
    return {"profile": profile, **({"intra_phase": options} if options else {})}


def _figures(sessions: Sequence[_Session]) -> list[TunedFigure]:
    return [_figure(name, [(name, session) for session in sessions]) for name in CANDIDATES]


def _figure(name: str, chosen: Sequence[tuple[str, _Session]]) -> TunedFigure:
    """Return the figure of sessions, each under the settings that belong to it."""
    outlays = [
        next(cost for cost in recording.outlays if cost.policy == settings)
        for settings, session in chosen
        for recording in session
    ]
    whole = sum(cost.everything.middle for cost in outlays)
    paid = sum(cost.bill.middle + cost.again.middle for cost in outlays)
    return TunedFigure(
        name,
        paid / whole if whole else 1.0,
        _share(sum(one.values_seen for one in outlays), sum(one.values for one in outlays)),
        _share(sum(one.lines_seen for one in outlays), sum(one.lines for one in outlays)),
    )


def _share(seen: int, needed: int) -> float:
    return seen / needed if needed else 1.0


def _best(figures: Sequence[TunedFigure]) -> TunedFigure:
    """The cheapest of those that fall short the least; the default, where that gains nothing."""
    least = min(figure.short for figure in figures)
    candidates = [figure for figure in figures if figure.short == least]
    best = min(candidates, key=lambda figure: figure.ratio)
    default = next((figure for figure in candidates if figure.settings == DEFAULT), None)
    return best if default is None or _beats(best, default) else default


def _beats(one: TunedFigure, other: TunedFigure) -> bool:
    if one.short != other.short:
        return one.short < other.short
    return one.ratio <= other.ratio * (1 - WORTH)
