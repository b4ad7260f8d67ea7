"""What attempts cost, made comparable for whoever picks among them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from windlass.cascade.evaluators import CostAware, Normalization
from windlass.engine._session_state import SessionTotals


def cost_texts(
    totals: Mapping[int, SessionTotals], wanted: CostAware | None
) -> tuple[str, dict[int, str]]:
    """How much cost counts, in a sentence, and what each attempt cost; nothing where none asks.

    Attempts are known by their index. Dollars are compared where all are known, else tokens.
    """
    if wanted is None or not totals:
        return "", {}
    dollars = [each.cost for each in totals.values()]
    tokens = [each.usage.tokens_in + each.usage.tokens_out for each in totals.values()]
    priced = [each for each in dollars if each is not None]
    compared = priced if len(priced) == len(dollars) and any(priced) else list(map(float, tokens))
    relative = normalized(compared, wanted.cost_normalization)
    texts = {
        index: ", ".join(
            [
                *([] if cost is None else [f"${cost:.4f}"]),
                f"{count:,} tokens",
                f"relative cost {value:.2f}",
            ]
        )
        for index, cost, count, value in zip(totals, dollars, tokens, relative, strict=True)
    }
    weights = f"{wanted.quality_weight:g} to {wanted.cost_weight:g}"
    weighing = f"Weigh quality against cost {weights}; a lower relative cost is better."
    return weighing, texts


def normalized(costs: Sequence[float], how: Normalization) -> list[float]:
    """Costs on one scale, lower for what is cheaper; all 0 where they are equal.

    >>> normalized([1.0, 2.0, 5.0], "min_max")
    [0.0, 0.25, 1.0]
    >>> normalized([1.0, 3.0], "z_score")
    [-1.0, 1.0]
    >>> normalized([0.0, 9.0, 99.0], "log_scale")
    [0.0, 0.5, 1.0]
    """
    if min(costs) == max(costs):
        return [0.0] * len(costs)
    if how == "z_score":
        mean, deviation = fmean(costs), pstdev(costs)
        return [(each - mean) / deviation for each in costs]
    scaled = [math.log1p(each) for each in costs] if how == "log_scale" else list(costs)
    least, most = min(scaled), max(scaled)
    return [(each - least) / (most - least) for each in scaled]
