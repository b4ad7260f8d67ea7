"""What a hook would have saved or cost on recorded sessions, before one is installed.

Nothing is sent. The bill is that of a replay: at the model's own cache prices, with what later
calls needed and would have missed fetched again.

The sessions that a hook is tried on: transcripts of agents on this machine, or named ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windlass.public import (
    OWN,
    Policy,
    PolicyCost,
    Recording,
    RecordingReplay,
    Replay,
    ReplayPolicy,
    UsageError,
    agent_folders,
    find_agent_session,
    find_prices,
    many,
    money,
    policy_of,
    recordings,
    replay_all,
)
from windlass_agents.shapes import CLAUDE_CODE, SHAPES

HOOK: Final = "with the hook"
_WAY_BACK: Final = "windlass recall"
_BEST: Final = 10
_LITTLE: Final = 0.01
"""A difference of less than this share of the bill is none worth an installation."""


@dataclass(frozen=True, slots=True)
class ShortenedResult:
    """A result that a hook would have shortened, and what that saves."""

    session: str
    tool: str
    calls: int
    """The calls that it was sent in."""
    tokens_before: int
    tokens_after: int
    saved: float
    """Fresh input tokens."""
    dollars: float | None
    """US dollars (None: no price is known)."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Recorded sessions as they were, and with a hook."""

    replay: Replay
    best: tuple[ShortenedResult, ...]
    """The results that pay most, by what they pay."""

    @property
    def cost(self) -> PolicyCost:
        """Return what all of it costs with the hook."""
        return next(one for one in self.replay.totals if one.policy == HOOK)

    @property
    def verdict(self) -> str:
        """Return whether it pays, in a sentence."""
        cost = self.cost
        which = "this session" if cost.recordings == 1 else f"these {cost.recordings} sessions"
        low, high = cost.ratio
        if self.pays:
            part = _between(1 - high, 1 - low)
            return f"on {which} it would have saved {part} of the bill{_saved(cost)}"
        if low - 1 >= _LITTLE:
            part = _between(low - 1, high - 1)
            return f"on {which} it would have cost {part} more: do not install it"
        part = f"{low - 1:+.1%} to {high - 1:+.1%}"
        return f"on {which} it would have changed the bill by {part}: it hardly pays"

    @property
    def pays(self) -> bool:
        """Return whether the bill would have been lower, by more than a little."""
        return 1 - self.cost.ratio.high >= _LITTLE

    @property
    def missed(self) -> str:
        """Return what later calls would have missed, in a sentence."""
        cost = self.cost
        needed = f"{cost.values + cost.lines:,} values and lines that later calls needed"
        missed = cost.values + cost.lines - cost.values_seen - cost.lines_seen
        if not missed:
            return f"all {needed} would have been in view"
        again = many(cost.misses, "result")
        return f"of {needed}, {missed:,} would have been out of view: {again} to fetch again"


def prove(
    recordings: Iterable[Recording], policy: str | None, workers: int, skipped: list[str]
) -> Proof:
    """Return what a hook would have done to recordings.

    `skipped` gets a sentence for each that is left out. Raises UsageError where none is left.
    """
    chosen = Policy() if policy is None else policy_of(policy).policy
    hook = ReplayPolicy(HOOK, chosen.at_birth(), left_alone, _WAY_BACK)
    everything = ReplayPolicy("as it was", Policy(enabled=False))
    replay = replay_all(recordings, (everything, hook), (OWN,), workers, skipped)
    results = [one for each in replay.recordings for one in _results(each)]
    # Models differ in their prices, so that tokens alone say nothing.
    results.sort(key=lambda one: (one.dollars or 0.0, one.saved), reverse=True)
    return Proof(replay, tuple(results[:_BEST]))


def left_alone(recording: Recording) -> frozenset[int]:
    """Get the places of messages that a hook cannot shorten: no results, failed, of other tools."""
    shapes = CLAUDE_CODE if recording.format.startswith("claude-code") else SHAPES
    names = {call.id: call.name for message in recording.messages for call in message.tool_calls}
    return frozenset(
        at
        for at, message in enumerate(recording.messages)
        if message.role == "tool"
        and (
            message.failed
            or message.pictures
            or not any(s.has_tool(names.get(message.tool_call_id or "", "")) for s in shapes)
        )
    )


def _results(replayed: RecordingReplay) -> Iterator[ShortenedResult]:
    prices = find_prices(OWN, replayed.model)
    cost = next(one for one in replayed.outlays if one.policy == HOOK)
    for hidden in cost.hidden:
        saved = prices.carried_units(hidden.tokens_before - hidden.tokens_after, hidden.calls)
        yield ShortenedResult(
            replayed.title,
            hidden.tool,
            hidden.calls,
            hidden.tokens_before,
            hidden.tokens_after,
            saved,
            prices.dollars(saved),
        )


def _saved(cost: PolicyCost) -> str:
    """Return US dollars, where a price is known."""
    if cost.dollars is None or cost.everything_dollars is None:
        return ""
    pairs = list(zip(cost.everything_dollars, cost.dollars, strict=True))
    amounts = dict.fromkeys(money(saved) for saved in sorted(whole - one for whole, one in pairs))
    return f", {' to '.join(amounts)}"


def _between(low: float, high: float) -> str:
    texts = f"{low:.0%}", f"{high:.0%}"
    return texts[0] if texts[0] == texts[1] else f"{low:.0%} to {high:.0%}"


_AGENT = "claude-code"


def recordings_named(name: str | None, on_skip: Callable[[str], None]) -> Iterator[Recording]:
    """Yield the recordings of a file, a folder or an agent's session (None: all of Claude Code).

    `on_skip` gets a sentence for each file of a folder that is not read. Raises UsageError where
    there is none.
    """
    if name is not None:
        path: Path | None = Path(name)
        if not Path(name).exists():
            path = find_agent_session(name)
        if path is None:
            raise UsageError(
                f"there is no file, folder or session of an agent {name!r};"
                " `windlass replay` lists the newest sessions"
            )
        yield from recordings(path, on_skip=on_skip if path.is_dir() else None)
        return
    folders = [folder for folder in agent_folders() if folder.program == _AGENT]
    if not folders:
        raise UsageError(
            "no folder of Claude Code is on this machine: name a file or folder of transcripts"
        )
    for path in sorted(path for folder in folders for path in folder.files()):
        try:
            yield from recordings(path)
        except UsageError as error:
            on_skip(str(error))
