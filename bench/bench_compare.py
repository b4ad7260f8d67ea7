"""What `windlass compare` says where the truth is known: python -m bench.bench_compare.

A scripted workflow reads a log and answers two calls later; the policy `masked` hides the log by
then. Of the inputs so many need the log. Money is at the prices of a model with an automatic cache.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.compared_pair import CASCADE, MASKED, log, note, right, rows, script

import windlass
from windlass.api.comparing.comparison import Comparison
from windlass.providers.base import ModelInfo
from windlass.providers.scripted import Scripted

CASES: Final = (("a known difference", 40, 12), ("none", 40, 0), ("too few", 6, 2))
"""What each case is called, how many inputs there are, and how many need the log."""
POLICIES: Final[Mapping[str, Any]] = {"everything": False, "masked": MASKED, "default": {}}
MODEL: Final = "openai/gpt-4.1"


class Paid(Scripted):
    """The scripted model under a name that has a price."""

    def model(self, name: str) -> ModelInfo:
        """The one model."""
        return dataclasses.replace(super().model(name), name=MODEL, free=False)


def compared(count: int, needing: int, folder: Path) -> Comparison:
    """What a comparison of so many inputs comes to, of which so many need the log."""
    return windlass.compare_sync(
        CASCADE,
        rows(count, needing),
        POLICIES,
        out=folder / "runs.jsonl",
        judge=right,
        tools=[log, note],
        model=MODEL,
        store=folder / "store",
        providers={"openai": Paid(script)},
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    heads = ["case", "inputs", "policy", "success", "95 %", "cost a run", "better", "worse", "p"]
    print("| " + " | ".join([*heads, "p (Holm)", "cost", "verdict", "would do"]) + " |")
    print("|" + "---|" * (len(heads) + 4))
    for name, count, needing in CASES:
        with tempfile.TemporaryDirectory() as temporary:
            done = compared(count, needing, Path(temporary))
        beside = {each.policy: each for each in done.differences}
        for each in done.policies:
            cells = [name, f"{count}", each.policy, f"{each.rate:.0%}"]
            cells += [f"{each.low:.0%} to {each.high:.0%}", f"${each.cost:.4f}"]
            if (other := beside.get(each.policy)) is not None:
                cells += [f"{other.better}", f"{other.worse}", f"{other.p:.4f}"]
                cells += [f"{other.p_holm:.4f}", f"{other.cost_change:+.0%}", other.verdict]
                cells.append(f"{other.inputs_needed or ''}")
            else:
                cells += [""] * 7
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
