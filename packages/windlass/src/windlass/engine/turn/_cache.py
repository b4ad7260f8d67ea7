"""The prompt cache of a model at each call: what it should give, and what it gave.

Before a call: how long its head is to be cached, and whether anything is counted on. After it:
the tokens that should have been read beside those that were, what the windows saved in the
money of that cache, and what was assumed where something is not known or makes no sense.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from windlass.caching.meter import Bill, Clearing, Segments, pieces, weigh
from windlass.caching.model_cache import Trust
from windlass.engine._phase_run import PhaseRun
from windlass.engine._session_state import ModelCache
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.turn._plan import Plan
from windlass.history.decisions import CacheTrust
from windlass.history.details import CacheDetails, CallDetails, MarkDetails, TierDetails
from windlass.text.tokens import Reading
from windlass.window.blocks import Blocks, assemble
from windlass.window.driver import NextRequest
from windlass.window.entries import show
from windlass.wire.base import Reply
from windlass.wire.editing import cleared
from windlass.wire.usage import contradiction, possible


def take_report(
    run: CascadeRun, phase_run: PhaseRun, plan: Plan, reply: Reply, at: float
) -> tuple[Reply, CallDetails]:
    """Compare what a call's cache gave with what it should have; it was sent at `at` seconds.

    Returns the reply, with a usage that is possible, and all that the record says of the call.
    """
    cache, driver = run.caches.of(phase_run.info), phase_run.window.driver
    run.totals.calls += 1
    cache.pauses.note(at, answer=False)
    driver.call_made(plan.call)
    trust = cache.trust if driver.planner is not None else None  # else nothing is counted on
    assumed = [cache.assumed, cache.pauses.assumed] if phase_run.rule.policy is not None else []
    if wrong := contradiction(reply.usage):
        usage = possible(reply.usage)
        assumed.append(
            f"the usage that was reported contradicts itself: {wrong}; counted as"
            f" {usage.tokens_in:,} in, {usage.tokens_cached:,} of them cached"
        )
        reply = replace(reply, usage=usage)

    # What should have been read, and what was.
    counter = phase_run.info.counter
    sent = pieces(counter, plan.messages, plan.tools, plan.weighed)
    cache.cleared = _cleared(phase_run, reply)
    sent = cache.cleared.left(sent, plan.messages)
    answer = counter.reply(reply.message) if isinstance(counter, Reading) else ()
    written = plan.call.sent.written
    billed = cache.meter.bill(
        sent,
        at,
        [(str(token), 1) for token in answer],
        None if written is None else written + 1,  # its tools stand in front of them
    )
    expected = min(billed.cached, billed.tokens - 1)  # the last token is always read anew
    assumed.append(trust.assumed if trust else "")
    # What a compaction took is in the usage, and says nothing of the call's own cache.
    if not wrong and "iterations" not in reply.provider_edits:
        _update_trust(run, phase_run, cache, reply, expected=expected, billed=billed)
    whole = cache.whole.bill(_weigh_whole(phase_run, plan), at)
    cache.spent += billed.units
    cache.spent_whole += whole.units
    if cache.paid is not None and _saves_money(run, phase_run):
        run.totals.net.calls += 1
        report = None if wrong or reply.estimated else reply.usage
        run.totals.net.saved += cache.saved(billed, whole, report)
        run.totals.net.needed = run.totals.net.needed or _needs_window(phase_run, whole.tokens)

    cache.pauses.note(run.record.clock(), answer=True)
    planned_as = None if trust is None else _planned_as(trust)
    gave = CacheDetails(expected, reply.usage.tokens_cached, planned_as)
    return reply, replace(
        plan.details,
        assumed=tuple(filter(None, assumed)) or None,
        cache=gave if cache.prices.caches else None,
        provider_edits=reply.provider_edits or None,
        marks=_marks(phase_run, plan.call),
    )


def _cleared(phase_run: PhaseRun, reply: Reply) -> Clearing:
    """Return the tool uses of a call that the provider cleared."""
    asked = phase_run.server_clear
    if asked is None:
        return Clearing()
    uses = cleared(reply.provider_edits, "cleared_tool_uses")
    return Clearing(uses, frozenset(asked.exclude_tools))


def _saves_money(run: CascadeRun, phase_run: PhaseRun) -> bool:
    """Whether the phase leaves anything out to save money, and not only to keep to limits."""
    policy = phase_run.rule.policy
    shortens = policy is not None and policy.enabled
    return (shortens or phase_run.choice.whole is not None) and not run.settings.tripped


def _needs_window(phase_run: PhaseRun, whole: int) -> bool:
    """Return whether sending everything, `whole` tokens, was not open to the phase.

    The model takes less, or the user's limits do, or the user had messages leave by themselves.
    """
    policy, budget = phase_run.rule.policy, phase_run.rule.budget
    most = [phase_run.room]
    most += [policy.max_input_tokens] if policy and policy.max_input_tokens else []
    most += [budget.limit] if budget.limit and budget.on_exceed != "warn" else []
    edits = [*phase_run.window.edits.values(), *phase_run.conversation.pending.edits.values()]
    leave = {"expire"}
    if policy and (policy.keep_recent_turns or policy.keep_recent_images):
        leave.add("prune")
    return whole > min(most) or any(edit.because in leave for edit in edits)


def _planned_as(trust: Trust) -> str:
    return "without a cache" if trust.absent else "cold" if trust.cold else "warm"


def _update_trust(
    run: CascadeRun,
    phase_run: PhaseRun,
    cache: ModelCache,
    reply: Reply,
    *,
    expected: int,
    billed: Bill,
) -> None:
    """Change what is counted on from now on, and tell where that is another thing."""
    before = cache.trust
    cache.trust = before.heard(
        run.totals.call_number,
        expected=expected,
        total=billed.tokens,
        cached=reply.usage.tokens_cached,
        tokens_in=reply.usage.tokens_in,
        goes_on=billed.goes_on,
    )
    cache.note_writes(reply.usage.tokens_written, reply.usage.tokens_written_long)
    was, now = _planned_as(before), _planned_as(cache.trust)
    if was == now or phase_run.window.driver.planner is None:
        return
    name = phase_run.phase.name
    text = cache.trust.assumed or "the cache holds again, and is counted on"
    notice = f"phase {name!r}: {phase_run.info.name}: {text}"
    run.tell(name, notice, CacheTrust(phase_run.now.turn, now), detail=True)


def _weigh_whole(phase_run: PhaseRun, plan: Plan) -> Segments:
    """Return the call as it would have been without a window."""
    if phase_run.rule.policy is None and phase_run.choice.whole is None:
        return plan.weighed
    blocks = (
        phase_run.messages.blocks
        if phase_run.choice.whole is None
        else Blocks(phase_run.messages.blocks.system)
    )
    entries = assemble(blocks, (*(phase_run.choice.whole or ()), *show(phase_run.messages.own, "")))
    messages = [entry.item.message for entry in entries]
    first = phase_run.info.tools_first
    return weigh(phase_run.info.counter, messages, plan.tools, tools_first=first)


def _tiers(phase_run: PhaseRun, call: NextRequest) -> Mapping[str, TierDetails]:
    """Return how each tier of the injectors is cached: the place of its mark, and for how long."""
    marks, count = call.sent.marks, len(phase_run.messages.blocks.system)
    head = next((place for place in marks.places if place[0] < count), None)
    kept = "long" if marks.long else "short"
    return {
        "STABLE": TierDetails(head, kept if head else None),
        "SESSION": TierDetails(marks.cut_point, "short" if marks.cut_point else None),
        "DYNAMIC": TierDetails(),
    }


def _marks(phase_run: PhaseRun, call: NextRequest) -> MarkDetails | None:
    """Return the places of the request's cache marks, and why its head is kept so long."""
    marks = call.sent.marks
    if not marks.places:
        return None
    tiers = None if phase_run.injection is None else _tiers(phase_run, call)
    return MarkDetails(marks.places, marks.long, call.lifetime, tiers)
