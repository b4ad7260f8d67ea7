"""Whole sessions of people at work under policies: the bill in dollars, and what stays in view.

Run: `python -m bench.bench_sessions [--policy NAME ...] [--prices NAME ...] [--only TEXT]`, with
WINDLASS_DATA naming the folder that holds `raw/agent_sessions` (default `../shared/data`). Dollars
are those of `windlass replay`, fetching again included; where prices are no model's, units of a
fresh input token. `worst` is the dearest session beside sending everything, `dearer` how many cost
1 % more.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from pathlib import Path

from bench.windows.recordings import data_folder

from windlass.importing.streams import recordings
from windlass.replays.named_policies import policies_of
from windlass.replays.outcomes import Outlay, RecordingReplay
from windlass.replays.running import replay_all

AGENTS = ("claude", "codex")
BIRTHS = (
    "see_results=null,mask_observations_after=null,reasoning_max_chars=null,images_after=null,"
    "compress_loops=false,supersede_writes=false,without_cache=null"
)
"""The options of a policy that only shortens what no call has seen."""
POLICIES = {
    "default": "default",
    "births": f"{BIRTHS},free_moments=null",
    "births, cold": f'{BIRTHS},free_moments={{"priced":null}}',
    "births, moments": BIRTHS,
    "lean": "lean",
}


def unpack(agent: str, only: str, folder: Path) -> Path:
    """The sessions of an agent as plain files in a folder."""
    target = folder / agent
    target.mkdir()
    for packed in sorted((data_folder() / "raw" / "agent_sessions").glob(f"*__{agent}__*.gz")):
        if only in packed.name:
            with gzip.open(packed, "rb") as stream:
                (target / packed.stem).write_bytes(stream.read())
    return target


def ratio(outlay: Outlay) -> float:
    """What a policy costs beside sending everything."""
    mine, all_ = outlay.dollars, outlay.everything_dollars
    if mine is None or all_ is None:
        again = (outlay.again.low + outlay.again.high) / 2
        return ((outlay.bill.low + outlay.bill.high) / 2 + again) / outlay.everything.low
    return (mine.low + mine.high) / (all_.low + all_.high)


def row(name: str, prices: str, replayed: list[RecordingReplay]) -> str:
    """One line of the table: a policy at its prices over all sessions."""
    outlays = [one for each in replayed for one in each.outlays if one.prices == prices and one.policy == name]
    ratios = [ratio(one) for one in outlays]
    weights = [
        one.everything.low if one.everything_dollars is None else one.everything_dollars.low
        for one in outlays
    ]
    pooled = sum(r * w for r, w in zip(ratios, weights, strict=True)) / sum(weights)
    values = sum(one.values_seen for one in outlays) / max(1, sum(one.values for one in outlays))
    lines = sum(one.lines_seen for one in outlays) / max(1, sum(one.lines for one in outlays))
    dearer = sum(each > 1.01 for each in ratios)
    return (
        f"{pooled:>7.3f} {sum(ratios) / len(ratios):>6.3f} {max(ratios):>6.3f} {dearer:>6}"
        f" {values:>7.4f} {lines:>7.4f} {sum(one.misses for one in outlays):>7}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", nargs="+", default=[*POLICIES])
    parser.add_argument("--prices", nargs="+", default=["own", "0.05,1.25"])
    parser.add_argument("--agents", nargs="+", default=AGENTS)
    parser.add_argument("--only", default="")
    parser.add_argument("--each", action="store_true", help="print each session")
    asked = parser.parse_args()
    if not (data_folder() / "raw" / "agent_sessions").is_dir():
        print(f"no sessions in '{data_folder()}/raw/agent_sessions'; set WINDLASS_DATA")
        return 0
    named = {name: POLICIES.get(name, name) for name in asked.policy}
    policies = policies_of(["everything", *named.values()])
    print(f"{'agent':7} {'prices':10} {'policy':22} pooled   mean  worst dearer  values   lines misses")
    with tempfile.TemporaryDirectory() as folder:
        for agent in asked.agents:
            sessions = recordings(unpack(agent, asked.only, Path(folder)))
            replayed = [*replay_all(sessions, policies, asked.prices).recordings]
            for prices in dict.fromkeys(one.prices for each in replayed for one in each.outlays):
                for name, policy in zip(named, policies[1:], strict=True):
                    print(f"{agent:7} {prices:10.10} {name:22.22}", row(policy.name, prices, replayed))
                    for each in replayed if asked.each else ():
                        print(f"        {Path(each.source).name[:40]:40} {each.call_count:4}", row(policy.name, prices, [each]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
