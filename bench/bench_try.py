"""What `windlass agent try` foretells beside the same sessions priced again, another way.

Run: `python -m bench.bench_try [--lever NAME] [--within TOKENS] [--only TEXT]`,
with WINDLASS_DATA naming the folder that holds `raw/agent_sessions` (default `../shared/data`).

Each session of Claude Code is played to the doors themselves, record by record, in a transcript
that grows: the mod's adapter shortens a result before it is written, and the door of compactions is
asked at the end of each turn, and by its timer. A call is then billed by arithmetic on what the
provider counted for it: what was taken out of its prefix is read less, what was taken out of what
is new is written less, and behind a compaction all but system prompt and tools is written. Nothing
of the replay is used but its tables of prices; the definitions of tools that wait are a low and a
high list, and the figure is the middle of both, as `try` tells it.

`--within`: also ask the door before calls of more tokens in the middle of a turn, which the client
does not do by itself. Text becomes tokens by how the provider's count grew with the session's own
results. A call that names a value or line that only texts out of view hold pays for a request that
fetches it again.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.played_session import Bill, Player
from bench.windows.recordings import data_folder

from windlass.importing.streams import recordings
from windlass_agents.compaction_moments import ASKED_WITHIN_TURNS
from windlass_agents.trial import ALL, MOMENTS, RESULTS, TOOLS, prove
from windlass_agents.tried_transcripts import TriedTranscript, tried_transcripts

LEVERS: Final = {"results": RESULTS, "tools": TOOLS, "moments": MOMENTS}


@dataclass(frozen=True, slots=True)
class Line:
    """One session: what it was billed, what was foretold, and what it costs priced again."""

    name: str
    played: Bill
    again: float
    was: float
    """The bill that the foretold ones are compared with."""
    low: float
    high: float

    def __str__(self) -> str:
        low, high, again = self.low / self.was, self.high / self.was, self.again / self.played.was
        return (
            f"{self.name:36} {self.was:8.2f} {low:8.3f} -{high:6.3f} {again:8.3f}"
            f" {again - (low + high) / 2:+9.3f} {self.played.shortened:6}"
            f" {self.played.compactions:7}"
        )


def play(
    path: Path, folder: Path, levers: Sequence[str], transcript: TriedTranscript, within: int | None
) -> tuple[Bill, float]:
    """What became of a session, and what it costs in the middle of the range."""
    played: list[Bill] = []
    for number, waiting in enumerate((transcript.surely, transcript.perhaps)):
        where = folder / f"{path.stem} {number}"
        where.mkdir()
        played.append(Player(path, where, levers, waiting, within).play())
    return played[0], statistics.fmean(one.now for one in played)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lever", choices=[*LEVERS])
    parser.add_argument("--within", type=int, default=ASKED_WITHIN_TURNS)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    packed = sorted((data_folder() / "raw" / "agent_sessions").glob("*__claude__*.gz"))
    if not packed:
        print(f"no sessions in '{data_folder()}/raw/agent_sessions'; set WINDLASS_DATA")
        return 0
    levers, policy = ([asked.lever], LEVERS[asked.lever]) if asked.lever else ([*LEVERS], ALL)
    heads = f"{'billed':>8} {'foretold':>16} {'again':>8} {'differs':>9}  short compact"
    print(f"{'session':36} {heads}")
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "sessions"
        place.mkdir()
        for one in packed:
            if asked.only in one.name:
                (place / one.stem).write_bytes(gzip.decompress(one.read_bytes()))
        told = tried_transcripts(place.iterdir())
        proof = prove(recordings(place), None, 1, [], told, within_turns=asked.within)
        for path in sorted(place.iterdir()):
            replayed = [one for one in proof.replay.recordings if Path(one.source) == path]
            name = next(one.name for one in replayed if one.kind == "session")
            costs = [each for one in replayed for each in one.outlays if each.policy == policy]
            low, high = (sum(one.dollars[end] for one in costs if one.dollars) for end in (0, 1))
            was = sum(one.everything_dollars.low for one in costs if one.everything_dollars)
            transcript = told.get(name, TriedTranscript({}, {}))
            played, again = play(path, Path(folder), levers, transcript, asked.within)
            lines.append(Line(path.stem, played, again, was, low, high))
            print(lines[-1])
    foretold = sum(one.low + one.high for one in lines) / 2 / sum(one.was for one in lines)
    billed = sum(one.played.was for one in lines)
    worst = max((one.again / one.played.was, one.name) for one in lines)
    dearer = sum(one.again / one.played.was > 1.01 for one in lines)
    print(
        f"\npooled, middle of the range: foretold {foretold:.3f}, priced again"
        f" {sum(one.again for one in lines) / billed:.3f} of ${billed:.2f}; worst {worst[0]:.3f}"
        f" {worst[1]}, dearer {dearer}; {sum(one.played.misses for one in lines)} fetched again"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
