"""Long results before and after they are cut, one of each kind, out of recorded agent runs.

Run: `python -m bench.bench_cuts [KIND ...] [--cuts mild|firm] [--lines N]`, with WINDLASS_DATA
naming the folder that holds `trajectories/*.jsonl.gz` (default `../shared/data`). Prints how many
results of each kind are cut and what is left of them, then of each kind the first one of middling
size as it came (its first lines) and as it is sent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.windows.recordings import SOURCES, data_folder, load

from windlass.context.context import Context
from windlass.window.kinds import file_access, kind_of
from windlass.window.policies.cuts import REASON

KINDS = (
    *("json", "api", "command", "log", "diff", "table", "text", "page"),
    *("search", "listing", "test", "build", "edit"),
)
MIDDLING = range(6_000, 16_000)
"""Characters of the results that are shown."""


class Cut(NamedTuple):
    """A result and what is sent of it."""

    recording: str
    call: str
    before: str
    after: str


@dataclass
class OfKind:
    """What became of the results of a kind."""

    results: int = 0
    cut: int = 0
    before: int = 0
    after: int = 0
    shown: list[Cut] = field(default_factory=list[Cut])


def cuts(mode: str) -> Iterator[tuple[str, Cut, bool]]:
    """Every recorded result with its kind, what is first sent of it, and whether it was cut."""
    policy = {"cuts": mode, "see_results": None}
    for recording in load(data_folder(), SOURCES, every=2):
        context = Context(policy=policy, model="anthropic/claude-opus-5-5", way_back="")
        for chat in recording.messages:
            context.append(chat)
        conversation = context.conversation
        for at, entry in enumerate(conversation.entries):
            call = conversation.transcript.call_of.get(at)
            if call is None or entry is None:
                continue
            before, edit = entry.item.message.text, conversation.standing.edits.get(at)
            writes = file_access(call).writes and not file_access(call).reads
            kind = "edit" if writes else kind_of(call, before)
            said = f"{call.name} {' '.join(call.arguments.split())[:160]}"
            cut = edit is not None and edit.reason == REASON
            yield kind, Cut(recording.id, said, before, entry.message.text), cut


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", default=KINDS, help=f"of {', '.join(KINDS)}")
    parser.add_argument("--cuts", choices=("mild", "firm"), default="mild")
    parser.add_argument("--lines", type=int, default=12, help="lines of each as it came")
    asked = parser.parse_args()
    if not (data_folder() / "trajectories").is_dir():
        print(f"no recordings in '{data_folder()}/trajectories'; set WINDLASS_DATA")
        return 0
    found: dict[str, OfKind] = {kind: OfKind() for kind in KINDS}
    for kind, one, is_cut in cuts(asked.cuts):
        if kind not in found:
            continue
        figures = found[kind]
        figures.results += 1
        if is_cut:
            figures.cut += 1
            figures.before += len(one.before)
            figures.after += len(one.after)
            if len(one.before) in MIDDLING:
                figures.shown.append(one)
    print(f"{'kind':10} {'results':>8} {'cut':>6} {'characters':>12} {'left':>12} {'share':>6}")
    for kind, figures in found.items():
        share = figures.after / figures.before if figures.before else 1.0
        print(
            f"{kind:10} {figures.results:8,} {figures.cut:6,} {figures.before:12,}"
            f" {figures.after:12,} {share:6.0%}"
        )
    for kind in asked.kinds:
        for one in found[kind].shown[:1]:
            head = "\n".join(one.before.split("\n")[: asked.lines])
            print(f"\n==== {kind}, {one.recording}: {one.call}")
            print(f"---- as it came, {len(one.before):,} characters\n{head}\n[and so on]")
            print(f"---- as it is sent, {len(one.after):,} characters\n{one.after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
