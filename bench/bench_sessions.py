"""Whole sessions of people at work under policies: the bill in dollars, and what stays in view.

Run: `python -m bench.bench_sessions [--policy NAME ...] [--read SHARE ...] [--only TEXT]`, with
WINDLASS_DATA naming the folder that holds `raw/agent_sessions` (default `../shared/data`). Dollars
are those of `windlass replay` at the prices of the recorded model, fetching again included; `read`
is what a cached token costs of a fresh one (0: what the model charges). `worst` is the dearest
session beside sending everything, `dearer` how many cost 1 % more.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.windows.recordings import data_folder

from windlass.caching.rates import override, rate
from windlass.importing.streams import recordings
from windlass.replays.named_policies import policies_of
from windlass.replays.outcomes import PolicyCost, RecordingReplay
from windlass.replays.running import replay_all
from windlass.settings.fields import PriceSettings

AGENTS = ("claude", "codex")
BIRTHS = (
    "see_results=null,mask_observations_after=null,reasoning_max_chars=null,images_after=null,"
    "compress_loops=false,supersede_writes=false"
)
"""The options of a policy that only shortens what no call has seen."""
POLICIES = {
    "default": "default",
    "later edits": "free_moments=null",
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


def ratio(outlay: PolicyCost) -> float:
    """What a policy costs beside sending everything."""
    mine, all_ = outlay.dollars, outlay.everything_dollars
    if mine is None or all_ is None:
        again = (outlay.again.low + outlay.again.high) / 2
        return ((outlay.bill.low + outlay.bill.high) / 2 + again) / outlay.everything.low
    return (mine.low + mine.high) / (all_.low + all_.high)


@contextmanager
def reading_at(share: float, models: Iterable[str]) -> Iterator[None]:
    """Within the context a cached token of these models costs `share` of a fresh one (0: as is)."""
    listed = {model: rate(model) for model in models} if share else {}
    own = {
        model: PriceSettings(
            input=one.input,
            output=one.output,
            cache_read=share * one.input,
            cache_write=one.cache_write,
            cache_write_long=one.cache_write_long,
        )
        for model, one in listed.items()
        if one is not None
    }
    with override(own):
        yield


def row(name: str, replayed: Sequence[RecordingReplay]) -> str:
    """One line of the table: a policy over all sessions."""
    outlays = [one for each in replayed for one in each.outlays if one.policy == name]
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
    parser.add_argument("--read", nargs="+", type=float, default=[0.0, 0.05])
    parser.add_argument("--agents", nargs="+", default=AGENTS)
    parser.add_argument("--only", default="")
    parser.add_argument("--each", action="store_true", help="print each session")
    asked = parser.parse_args()
    if not (data_folder() / "raw" / "agent_sessions").is_dir():
        print(f"no sessions in '{data_folder()}/raw/agent_sessions'; set WINDLASS_DATA")
        return 0
    named = {name: POLICIES.get(name, name) for name in asked.policy}
    policies = policies_of(["everything", *named.values()])
    print(
        f"{'agent':7} {'read':5} {'policy':22} pooled   mean  worst dearer  values   lines misses"
    )
    with tempfile.TemporaryDirectory() as folder:
        for agent in asked.agents:
            sessions = [*recordings(unpack(agent, asked.only, Path(folder)))]
            models = {call.model for each in sessions for call in each.calls}
            for share in asked.read:
                with reading_at(share, models):
                    replayed = replay_all(sessions, policies, ("own",)).recordings
                for name, policy in zip(named, policies[1:], strict=True):
                    print(f"{agent:7} {share:5} {name:22.22}", row(policy.name, replayed))
                    for each in replayed if asked.each else ():
                        session = f"{Path(each.source).name[:40]:40} {each.call_count:4}"
                        print(f"        {session}", row(policy.name, [each]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
