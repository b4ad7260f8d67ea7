"""From the options of a policy to the policies that a course asks, in their order.

What no call has seen yet comes first, because there an edit costs nothing; then what ages;
then what the whole window may hold. Each works on what those before it left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from windlass.caching.prices import Prices
from windlass.window import course
from windlass.window.entries import Item
from windlass.window.options import Policy, plain
from windlass.window.planner import Planner
from windlass.window.policies.arguments import Arguments
from windlass.window.policies.budget import OnExceed, TokenBudget
from windlass.window.policies.compress import Compress
from windlass.window.policies.decay import Decay
from windlass.window.policies.digest import Digest
from windlass.window.policies.expand import Expand
from windlass.window.policies.folding import Folding
from windlass.window.policies.images import Images
from windlass.window.policies.listed import Listed
from windlass.window.policies.loops import Loops
from windlass.window.policies.lossless import Lossless
from windlass.window.policies.masking import Masking
from windlass.window.policies.reasoning import Reasoning
from windlass.window.policies.repeats import Repeats
from windlass.window.policies.rewrites import Rewrites
from windlass.window.policies.sliding import Sliding
from windlass.window.policies.subtasks import Subtasks
from windlass.window.policies.supersede import Supersede


def steps(
    policy: Policy,
    *,
    caches: bool = True,
    window_tokens: int = 0,
    limit: int | None = None,
    on_exceed: OnExceed = "prune",
    where: Callable[[Item, int], str | None] | None = None,
) -> tuple[course.Policy, ...]:
    """What a course with this policy asks at each call, in order.

    Args:
        policy: The options. Where it is not `enabled`, only what the user keeps and limits
            stands: the newest turns, the newest pictures, the tokens of a call.
        caches: Whether the prices have a cache; without one what is seen stays longer.
        window_tokens: Tokens of the model's window, which the thresholds of `compress` adapt to
            (0: they stay).
        limit: Tokens that the messages of a call may have, in the place of the policy's
            `max_input_tokens` (which also pays for the tools).
        on_exceed: What is done above the limit.
        where: The path of the file of a picture, by its message and its number in it.
    """
    policy = policy if caches else policy.uncached()
    shortened = (*_fresh(policy, window_tokens), *_aged(policy)) if policy.enabled else ()
    if policy.enabled and policy.repeats and not caches:
        shortened += (Listed(),)
    return (*shortened, *_whole(policy, limit, on_exceed, where))


def _fresh(policy: Policy, window_tokens: int) -> Iterator[course.Policy]:
    """What looks at messages before they are first sent."""
    if policy.compress_loops:
        yield Loops(limit=policy.loop_history_limit, attempt_chars=policy.attempt_chars)
    if policy.lossless is not None:
        yield Lossless(min_chars=policy.lossless)
    if policy.repeats:
        yield Repeats()
    if policy.compress is not None:
        options = plain(policy.compress)
        adapts = options.pop("adapt")
        yield Compress(**options, window_tokens=window_tokens if adapts else 0)
    if policy.supersede:
        yield Supersede()  # after what cuts: a read that was cut supersedes nothing
    if policy.supersede_writes:
        yield Rewrites()


def _aged(policy: Policy) -> Iterator[course.Policy]:
    """What looks at messages that calls have seen."""
    if policy.see_results is not None:
        yield Digest(
            after=policy.see_results,
            reads_after=policy.see_reads,
            shell_reads_after=policy.see_shell_reads,
            crowded_after=policy.see_crowded,
            named_within=policy.see_named,
            most_waiting=policy.most_waiting,
            most_crowded=policy.most_crowded,
            min_chars=policy.digest_above_chars,
            share_records=policy.share_records,
            most_records=policy.most_records,
            share_text=policy.share_text,
            most_text=policy.most_text,
            keep_errors=policy.preserve_errors,
            error_chars=policy.error_chars,
        )
    if policy.mask_observations_after is not None:
        yield Masking(
            after=policy.mask_observations_after,
            min_chars=policy.min_masked_chars,
            keep_errors=policy.preserve_errors,
            error_chars=policy.error_chars,
        )
    kept = policy.reasoning_max_chars if policy.preserve_reasoning else policy.min_masked_chars
    if kept is not None:
        yield Reasoning(after=policy.window, max_chars=kept)
    if policy.fold_after is not None:
        yield Folding(after=policy.fold_after)
    if policy.decay is not None:
        yield Decay(full=policy.decay.full, fold=policy.decay.fold)
    if policy.fold_subtasks:
        yield Subtasks()
    if policy.shorten_arguments:
        yield Arguments(after=policy.window)


def _whole(
    policy: Policy,
    limit: int | None,
    on_exceed: OnExceed,
    where: Callable[[Item, int], str | None] | None,
) -> Iterator[course.Policy]:
    """What looks at the window as a whole; what the user keeps and limits holds always."""
    images_after = policy.images_after if policy.enabled else None
    if images_after is not None or policy.keep_recent_images:
        yield Images(after=images_after, keep=policy.keep_recent_images or None, where=where)
    if policy.keep_recent_turns:
        yield Sliding(turns=policy.keep_recent_turns)
    most = policy.max_input_tokens if limit is None else limit
    if most is not None:
        yield TokenBudget(limit=most, on_exceed=on_exceed)
    if policy.enabled and policy.expand:
        yield Expand()


def planner_of(policy: Policy, prices: Prices, *, tells: bool = False) -> Planner | None:
    """Who decides when the edits of this policy are made; None: each as soon as it is proposed.

    Where nothing is cached there is nothing to decide. `tells`: whether its decisions list what
    waits.
    """
    if policy.commit == "at_once" or not policy.enabled or not prices.caches:
        return None
    return Planner(prices, guard=policy.guard, tells=tells)
