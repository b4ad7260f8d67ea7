"""What Windlass would have saved or cost on recorded sessions, before anything is installed.

Each lever by itself, and all together. Nothing is sent: the bill is that of a replay, at the
model's own cache prices, with what later calls needed and would have missed fetched again.

The sessions that it is tried on: transcripts of agents on this machine, or named ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Final

from windlass.public import (
    OUTPUT_PRICE,
    OWN,
    SIDE_CHAIN,
    FreeMoments,
    FreeMomentsOptions,
    Head,
    Policy,
    PolicyCost,
    Recording,
    RecordingReplay,
    Replay,
    ReplayPolicy,
    Span,
    Text,
    UsageError,
    agent_folders,
    find_agent_session,
    find_prices,
    many,
    money,
    neutral_scale,
    policy_of,
    recordings,
    replay_all,
    totals_of,
)
from windlass_agents.compaction_moments import ASKED_WITHIN_TURNS
from windlass_agents.deferred_tools import SEARCH_TOKENS
from windlass_agents.numbered_lines import NUMBERED, NumberedLines
from windlass_agents.shapes import SHAPES
from windlass_agents.tried_transcripts import (
    NOT_IN_SUBAGENTS,
    ClientCompaction,
    TriedTranscript,
    tried_transcripts,
)

RESULTS: Final = "results"
TOOLS: Final = "tools that wait"
MOMENTS: Final = "free moments"
ALL: Final = "all together"
_WAY_BACK: Final = "windlass recall"
_BEST: Final = 10
_CHARS: Final = 4
_LITTLE: Final = 0.01
"""A difference of less than this share of the bill is none worth an installation."""
_MOST_REPEATED: Final = 20_000
"""The most tokens that a client is taken to announce again behind a compaction."""
_AGENT: Final = "claude-code"


@dataclass(frozen=True, slots=True)
class ShortenedResult:
    """A result that would have been shortened, and what that saves."""

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
class TriedSession:
    """A session with its subagents and branches, with all levers together."""

    title: str
    calls: int
    ratio: Span
    """What it would have cost, divided by what it did."""
    dollars: Span | None
    """US dollars that it would have cost (None: no price is known)."""
    everything_dollars: Span | None
    """US dollars that it cost."""

    @property
    def is_dearer(self) -> bool:
        """Return whether it might have been dearer, by more than a little."""
        return self.ratio.high >= 1 + _LITTLE


@dataclass(frozen=True, slots=True)
class TriedLever:
    """One lever on all sessions."""

    name: str
    cost: PolicyCost
    saved: Span
    """The share of the bill that it would have saved; below 0: it would have cost more."""
    dearer: int
    """How many sessions it might have made dearer, by more than a little."""
    tools: int
    """The definitions that would have waited at most, counted in each session."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Recorded sessions as they were, and with each lever."""

    replay: Replay
    levers: tuple[TriedLever, ...]
    """Those that reach these sessions; the last is all of them together."""
    sessions: tuple[TriedSession, ...]
    """With all levers, the worst first."""
    best: tuple[ShortenedResult, ...]
    """The results that pay most, by what they pay."""

    @property
    def cost(self) -> PolicyCost:
        """Return what all of it costs with all levers."""
        return self.levers[-1].cost

    @property
    def before(self) -> TriedLever:
        """Return the sessions as they were, beside the levers."""
        cost = self.replay.totals[0]
        return TriedLever(cost.policy, cost, Span(0.0, 0.0), 0, 0)

    @property
    def agent(self) -> str:
        """Return the agent whose sessions these are, as the commands name it."""
        forms = [one.format for one in self.replay.recordings]
        return next((name for name in ("codex", "opencode") if forms[0].startswith(name)), _AGENT)

    @property
    def dearer(self) -> tuple[TriedSession, ...]:
        """Return the sessions that might have been dearer, the worst first."""
        return tuple(one for one in self.sessions if one.is_dearer)

    @property
    def verdict(self) -> str:
        """Return whether it pays, in a sentence."""
        cost = self.cost
        which = (
            "this session" if len(self.sessions) == 1 else f"these {len(self.sessions)} sessions"
        )
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
    recordings: Iterable[Recording],
    policy: str | None,
    workers: int,
    skipped: list[str],
    transcripts: Mapping[str, TriedTranscript] | None = None,
    *,
    within_turns: int | None = ASKED_WITHIN_TURNS,
) -> Proof:
    """Return what each lever would have done to recordings.

    `transcripts` is what else is known of sessions, by name. `skipped` gets a sentence for each
    recording that is left out. `within_turns` are the tokens of a call above which the client asks
    for a compaction in the middle of a turn, too. Raises UsageError where none is left.
    """
    chosen = Policy() if policy is None else policy_of(policy).policy
    moments = FreeMomentsOptions(within_turns=within_turns)
    policies = _policies(chosen.at_birth(), moments, transcripts or {})
    replay = replay_all(map(_as_told, recordings), policies, (OWN,), workers, skipped)
    names = [one.name for one in policies[1:]]
    if not any(_is_claude(one.format) for one in replay.recordings):
        names = names[:1]
    sessions = {name: _sessions(replay, name) for name in names}
    tools = sum(
        len(names)
        for each in replay.recordings
        if _is_claude(each.format) and each.kind == "session"
        for names in _of_recording(transcripts or {}, each).perhaps
    )
    levers = tuple(
        TriedLever(
            cost.policy,
            cost,
            Span.of(1 - one for one in cost.ratio),
            sum(one.is_dearer for one in sessions[cost.policy]),
            tools if cost.policy in (TOOLS, ALL) else 0,
        )
        for cost in replay.totals
        if cost.policy in names
    )
    results = [one for each in replay.recordings for one in _results(each)]
    # Models differ in their prices, so that tokens alone say nothing.
    results.sort(key=lambda one: (one.dollars or 0.0, one.saved), reverse=True)
    return Proof(replay, levers, tuple(sessions[names[-1]]), tuple(results[:_BEST]))


# ---- levers --------------------------------------------------------------------------


def _policies(
    births: Policy, moments: FreeMomentsOptions, transcripts: Mapping[str, TriedTranscript]
) -> tuple[ReplayPolicy, ...]:
    """Return the sessions as they were, each lever, and all of them."""
    nothing = replace(
        births, cuts=None, compress=None, lossless=None, repeats=False, preserve_errors=False
    )
    heads = partial(_heads, transcripts)
    return (
        ReplayPolicy("as it was", Policy(enabled=False)),
        ReplayPolicy(RESULTS, births, left_alone, _WAY_BACK),
        ReplayPolicy(TOOLS, Policy(enabled=False), heads=partial(heads, compacts=False)),
        ReplayPolicy(
            MOMENTS,
            replace(nothing, free_moments=moments),
            partial(_not_compacted, only=True),
            _WAY_BACK,
            partial(heads, waits=False),
        ),
        ReplayPolicy(ALL, replace(births, free_moments=moments), _not_compacted, _WAY_BACK, heads),
    )


def _as_told(recording: Recording) -> Recording:
    """Return a recording with files as rules see them: the numbers of their lines stay as they are.

    So these count among what is sent besides messages.
    """
    if not _is_claude(recording.format):
        return recording
    reads = {
        call.id
        for message in recording.messages
        for call in message.tool_calls
        if call.name == NUMBERED
    }
    messages = [
        message.with_parts(Text(file.text))
        if message.tool_call_id in reads
        and not message.pictures
        and (file := NumberedLines.read(message.text)) is not None
        else message
        for message in recording.messages
    ]
    return replace(recording, messages=tuple(messages))


def left_alone(recording: Recording) -> frozenset[int]:
    """Get the places of results that cannot be shortened.

    Claude Code's mod reaches all that are text. Hooks of others reach no failed ones, and only
    tools whose shape is known.
    """
    is_claude = _is_claude(recording.format)
    names = {call.id: call.name for message in recording.messages for call in message.tool_calls}
    return frozenset(
        at
        for at, message in enumerate(recording.messages)
        if message.role == "tool"
        and (
            message.pictures
            or (
                not is_claude
                and (
                    message.failed
                    or not any(
                        s.has_tool(names.get(message.tool_call_id or "", "")) for s in SHAPES
                    )
                )
            )
        )
    )


def _not_compacted(recording: Recording, *, only: bool = False) -> frozenset[int]:
    """Get the places of messages that stay; `only`: where nothing but compactions are made.

    Only Claude Code lets others compact.
    """
    left = frozenset[int]() if only else left_alone(recording)
    if _is_claude(recording.format):
        return left
    places = enumerate(recording.messages)
    return left | frozenset(at for at, one in places if only or one.role != "tool")


def _heads(
    transcripts: Mapping[str, TriedTranscript],
    recording: Recording,
    *,
    waits: bool = True,
    compacts: bool = True,
) -> Sequence[Head]:
    """Return the bounds of what stands in front of the messages.

    `waits`: with tools that wait; `compacts`: with compactions in the place of the client's.
    """
    if not _is_claude(recording.format):
        return [Head()]
    told = _of_recording(transcripts, recording)
    head = Head(search=SEARCH_TOKENS)
    if compacts:
        head = replace(head, repeated=_repeated(recording))
        if recording.kind == "after compaction":
            head = _compacted(head, told.compactions, recording)
    return [replace(head, waiting=one) for one in (told.surely, told.perhaps) if waits] or [head]


def _compacted(head: Head, compactions: Sequence[ClientCompaction], recording: Recording) -> Head:
    """Return the head where our compaction stands in the place of the client's summary.

    It costs no request, and is longer.
    """
    started = recording.started
    before = [one for one in compactions if started is not None and one.time <= started]
    if not before:
        return head
    summary = sum(
        len(message.text) / _CHARS
        for message in takewhile(lambda one: one.role == "user", recording.messages)
    ) * neutral_scale(recording.model)
    prices, tokens = find_prices(OWN, recording.model).vector, before[-1].tokens
    left = FreeMoments(FreeMomentsOptions(), prices).left(max(0, tokens - _MOST_REPEATED))
    request = tokens * prices.read + OUTPUT_PRICE * summary
    return replace(head, more=max(0.0, left - summary), once=-request)


def _of_recording(
    transcripts: Mapping[str, TriedTranscript], recording: Recording | RecordingReplay
) -> TriedTranscript:
    """Return what is known of a session; a subagent has fewer tools, and nobody says which."""
    name = _session_of(recording.name, recording.kind)
    told = transcripts.get(name, TriedTranscript({}, {}))
    is_subagent = Path(recording.source).stem.startswith(SIDE_CHAIN)
    if recording.kind != "side chain" and not is_subagent:
        return told
    rest = {
        tools: size for tools, size in told.perhaps.items() if NOT_IN_SUBAGENTS.isdisjoint(tools)
    }
    return TriedTranscript({}, rest)


def _repeated(recording: Recording) -> float:
    """Return the tokens that a client says again behind a compaction: instructions and listings.

    They are what the first call sends besides the beginning that all sessions have in common.
    """
    usages = [call.usage for call in recording.calls if call.usage is not None]
    cached = [usage.tokens_cached for usage in usages if usage.tokens_cached]
    if not usages:
        return 0.0
    return float(min(max(0, usages[0].tokens_in - min(cached, default=0)), _MOST_REPEATED))


def _is_claude(form: str) -> bool:
    return form.startswith(_AGENT)


def _session_of(name: str, kind: str) -> str:
    """Return the session that a recording belongs to."""
    return name if kind == "session" else name.partition("/")[0]


# ---- figures -------------------------------------------------------------------------


def _sessions(replay: Replay, policy: str) -> list[TriedSession]:
    """Return each session with a policy, the worst first."""
    groups: dict[str, list[RecordingReplay]] = {}
    for each in replay.recordings:
        groups.setdefault(_session_of(each.name, each.kind), []).append(each)
    sessions: list[TriedSession] = []
    for group in groups.values():
        cost = next(one for one in totals_of(group) if one.policy == policy)
        first = next((one for one in group if one.kind == "session"), group[0])
        sessions.append(
            TriedSession(
                first.title,
                sum(each.call_count for each in group),
                cost.ratio,
                cost.dollars,
                cost.everything_dollars,
            )
        )
    return sorted(sessions, key=lambda one: one.ratio.high, reverse=True)


def _results(replayed: RecordingReplay) -> Iterator[ShortenedResult]:
    prices = find_prices(OWN, replayed.model)
    cost = next(one for one in replayed.outlays if one.policy == RESULTS)
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


# ---- sessions ------------------------------------------------------------------------


def recordings_named(name: str | None, on_skip: Callable[[str], None]) -> Iterator[Recording]:
    """Yield the recordings of a file, a folder or an agent's session (None: all of Claude Code).

    `on_skip` gets a sentence for each file of a folder that is not read. Raises UsageError where
    there is none.
    """
    path = _named(name)
    if path is not None:
        yield from recordings(path, on_skip=on_skip if path.is_dir() else None)
        return
    for one in sorted(_own_transcripts()):
        try:
            yield from recordings(one)
        except UsageError as error:
            on_skip(str(error))


def transcripts_named(name: str | None) -> dict[str, TriedTranscript]:
    """Return what else is known of the sessions that are named as recordings are.

    Those before a single file are the others of its folder. Raises UsageError where there
    is none.
    """
    path = _named(name)
    if path is None:
        return tried_transcripts(_own_transcripts())
    return tried_transcripts(
        path.rglob("*.jsonl") if path.is_dir() else path.parent.glob("*.jsonl")
    )


def _named(name: str | None) -> Path | None:
    if name is None:
        return None
    path = Path(name) if Path(name).exists() else find_agent_session(name)
    if path is None:
        raise UsageError(
            f"there is no file, folder or session of an agent {name!r};"
            " `windlass replay` lists the newest sessions"
        )
    return path


def _own_transcripts() -> list[Path]:
    folders = [folder for folder in agent_folders() if folder.program == _AGENT]
    if not folders:
        raise UsageError(
            "no folder of Claude Code is on this machine: name a file or folder of transcripts"
        )
    return [path for folder in folders for path in folder.files()]
