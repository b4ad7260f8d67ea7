"""From the options of a policy to the policies that a conversation asks, in their order.

What no call has seen yet comes first, because there an edit costs nothing; then what ages;
then what the whole window may hold. Each works on what those before it left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from windlass.caching.prices import Prices
from windlass.window._pending import WindowPolicy
from windlass.window.entries import Item
from windlass.window.options import Policy
from windlass.window.planner import Planner
from windlass.window.policies.budget import SUMMARY_TOKENS, OnExceed, TokenBudget
from windlass.window.policies.compress import Compress
from windlass.window.policies.cuts import Cuts
from windlass.window.policies.digest import Digest
from windlass.window.policies.free_moments import FreeMoments, WhileSmall
from windlass.window.policies.images import Images
from windlass.window.policies.loops import Loops
from windlass.window.policies.lossless import Lossless
from windlass.window.policies.rare import Arguments, Decay, Folding, Masking, Subtasks
from windlass.window.policies.reasoning import Reasoning
from windlass.window.policies.repeats import Repeats
from windlass.window.policies.rewrites import Rewrites
from windlass.window.policies.sliding import Sliding
from windlass.wire.thinking import thinking_rules


def steps(
    policy: Policy,
    *,
    prices: Prices | None = None,
    window_tokens: int = 0,
    listed_window: int = 0,
    limit: int | None = None,
    on_exceed: OnExceed = "prune",
    summary_tokens: int = SUMMARY_TOKENS,
    where: Callable[[Item, int], str | None] | None = None,
) -> tuple[WindowPolicy, ...]:
    """Return what a conversation with this policy asks at each call, in order.

    Args:
        policy: The options. Where it is not `enabled`, only what the user keeps and limits
            stands: the newest turns, the newest pictures, the tokens of a call.
        prices: What the model's cache charges (None: not known, so there are no free moments).
        window_tokens: Tokens of the model's window, which the thresholds of `compress` adapt to
            (0: they stay).
        listed_window: The same where a table has it, and nobody guessed it (0: none has).
        limit: Tokens that the messages of a call may have, in the place of the policy's
            `max_input_tokens` (which also pays for the tools).
        on_exceed: What is done above the limit.
        summary_tokens: The most tokens of a summary that is put in the place of what is above it.
        where: The path of the file of a picture, by its message and its number in it.
    """
    most = policy.max_input_tokens if limit is None else limit
    moments = None if prices is None or not policy.enabled else policy.free_moments
    later: Callable[[WindowPolicy], WindowPolicy] = _as_it_is if moments is None else WhileSmall
    policies: list[WindowPolicy] = []
    if policy.enabled:
        policies += [*_at_birth(policy, window_tokens), *map(later, _later(policy))]
        policies += _asked_for(policy)
    after, keep = policy.images_after if policy.enabled else None, policy.keep_recent_images
    images = Images(images_after=after, keep_recent_images=keep, where=where)
    if keep:
        policies.append(images)
    elif after is not None:
        policies.append(later(images))
    if policy.keep_recent_turns:
        policies.append(Sliding(keep_recent_turns=policy.keep_recent_turns))
    if moments is not None and prices is not None:
        policies.append(FreeMoments(moments, prices, most, listed_window, policy.guard))
    if most is not None:
        errors = policy.kept_error_chars
        budget = TokenBudget(most, on_exceed, summary_tokens=summary_tokens, error_chars=errors)
        policies.append(budget)
    return tuple(policies)


def _as_it_is(policy: WindowPolicy) -> WindowPolicy:
    return policy


def _at_birth(policy: Policy, window_tokens: int) -> Iterator[WindowPolicy]:
    """Yield what is asked about what is new."""
    errors = policy.kept_error_chars
    if policy.compress_loops:
        yield Loops(
            loop_history_limit=policy.loop_history_limit,
            attempt_chars=policy.attempt_chars,
            error_chars=errors,
        )
    if policy.lossless is not None:
        yield Lossless(lossless=policy.lossless)
    if policy.repeats:
        yield Repeats()
    if policy.cuts is not None:
        yield Cuts(cuts=policy.cuts)
    if policy.compress is not None:
        tokens = window_tokens if policy.compress.adapt else 0
        yield Compress(options=policy.compress, window_tokens=tokens, error_chars=errors)


def _later(policy: Policy) -> Iterator[WindowPolicy]:
    """Yield what is asked about what calls have seen."""
    if policy.supersede_writes:
        yield Rewrites()
    if policy.see_results is not None:
        yield Digest(
            see_results=policy.see_results,
            see_reads=policy.see_reads,
            most_text=policy.most_text,
            error_chars=policy.kept_error_chars,
        )
    chars = policy.reasoning_max_chars if policy.preserve_reasoning else policy.min_masked_chars
    if chars is not None:
        yield Reasoning(window=policy.window, reasoning_max_chars=chars)


def _asked_for(policy: Policy) -> Iterator[WindowPolicy]:
    """Yield what is off in every profile but `spec`."""
    errors = policy.kept_error_chars
    if policy.mask_observations_after is not None:
        yield Masking(
            mask_observations_after=policy.mask_observations_after,
            min_masked_chars=policy.min_masked_chars,
            error_chars=errors,
        )
    if policy.fold_after is not None:
        yield Folding(fold_after=policy.fold_after, error_chars=errors)
    if policy.decay is not None:
        yield Decay(options=policy.decay, error_chars=errors)
    if policy.fold_subtasks:
        yield Subtasks(error_chars=errors)
    if policy.shorten_arguments:
        yield Arguments(window=policy.window)


def holds_thinking(policy: Policy, model: str) -> bool:
    """Whether what was sent stays in front of signed thinking: the model binds it, and it is kept.

    What the user has edited at once is edited there, too.
    """
    keeps = policy.thinking == "keep" and policy.commit == "priced"
    return keeps and thinking_rules(model).bound


def planner_of(
    policy: Policy, prices: Prices, *, sure: int = 0, tells: bool = False
) -> Planner | None:
    """Return who decides when the edits of this policy are made.

    None: each as soon as it is proposed.

    Where nothing is cached there is nothing to decide. `sure` calls follow what the policy
    shortens in any case. `tells`: whether its decisions list what waits.
    """
    if policy.commit == "at_once" or not policy.enabled or not prices.caches:
        return None
    return Planner(prices, guard=policy.guard, sure=sure, tells=tells)
