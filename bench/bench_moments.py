"""Compactions of a client's conversation, and tools that wait, on sessions of people at work.

Run: `python -m bench.bench_moments [--least TOKENS] [--show FOLDER] [--session NAME ...]`, with
WINDLASS_DATA naming the folder that holds `raw/agent_sessions` (default `../shared/data`).

The first table compacts each long session of Claude Code several times, each time as the client
would hand over what the last compaction left and what came since. It checks that the rows are legal
and that each reference in them brings an original back, and counts what later calls took out of
what went: values and lines of their arguments that only messages before the compaction held
("at stake"), and of all that they needed. `--show` writes each compaction as text, to be read.

The second takes the sessions in the order of time: for each the tools are decided on by those
before it. It tells the tokens of the head that are saved, how often a tool that waits was needed,
and what the head's tools cost beside all of them in front.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.windows.recordings import SESSIONS, Chat, Recording, data_folder, load

from windlass.caching.prices import Prices
from windlass.replays.measure import NeededText, needs_and_own
from windlass.replays.numbered import argument_texts
from windlass_agents.compaction_moments import SessionCalls, next_moment
from windlass_agents.conversation_compaction import CompactionRequest, compact_rows
from windlass_agents.deferred_tools import costs, decide
from windlass_agents.kept_originals import find_original, open_folder, original_text
from windlass_agents.tool_uses import SessionTools, read_session

SOURCE: Final = "sessions_claude"
AGENT: Final = "claude-code"
MODEL: Final = "anthropic/claude-opus-4-6"
APART: Final = 25_000
"""Characters / 4 that come between two compactions."""
LEAST: Final = 40_000
ANNOUNCED: Final = ("skill_listing", "agent_listing_delta", "mcp_instructions_delta")
"""What the client announces again behind a compaction, by the types of its records."""
SOON: Final = 10
"""The calls behind a compaction that are counted by themselves."""
REFERENCE: Final = re.compile(r"windlass recall (result_[0-9a-f]{8})")
HEAD: Final = {
    "Workflow": 1_570, "Agent": 1_450, "ScheduleWakeup": 1_360, "ReportFindings": 690,
    "ListAgents": 550, "Skill": 500, "Bash": 1_070, "Grep": 700, "Glob": 350, "Read": 530,
    "ToolSearch": 400, "Edit": 270, "Write": 180,
}  # fmt: skip
"""Tokens of the definitions of the tools that the client has in front."""
READS: Final = (0.1, 0.05)


@dataclass(slots=True)
class Share:
    """How many of some texts are in view."""

    seen: int = 0
    every: int = 0

    def add(self, *, seen: bool) -> None:
        """Count one more."""
        self.seen += seen
        self.every += 1

    def plus(self, other: Share) -> Share:
        """Return both together."""
        return Share(self.seen + other.seen, self.every + other.every)

    def __str__(self) -> str:
        return f"{100 * self.seen / self.every:.0f}" if self.every else "-"


@dataclass(slots=True)
class Compacted:
    """What the compactions of one session came to."""

    times: int = 0
    before: int = 0
    after: int = 0
    ms: list[float] = field(default_factory=list[float])
    faults: int = 0
    references: int = 0
    dead: int = 0
    shares: dict[tuple[str, str, str], Share] = field(
        default_factory=dict[tuple[str, str, str], Share]
    )
    """By kind, by what counts (`at stake`, `all`), and by when (`soon`, `later`)."""

    def share(self, *key: str) -> Share:
        """Return one of the shares."""
        kind, counts, when = key
        return self.shares.setdefault((kind, counts, when), Share())

    def plus(self, other: Compacted) -> Compacted:
        """Return both together."""
        keys = {**self.shares, **other.shares}
        return Compacted(
            self.times + other.times,
            self.before + other.before,
            self.after + other.after,
            [*self.ms, *other.ms],
            self.faults + other.faults,
            self.references + other.references,
            self.dead + other.dead,
            {key: self.share(*key).plus(other.share(*key)) for key in keys},
        )


@dataclass(slots=True)
class Compactor:
    """One session, compacted again and again."""

    recording: Recording
    least: int
    """Tokens of a conversation, by characters / 4, before its first compaction."""
    show: Path | None
    """Where each compaction is written as text (None: nowhere)."""
    told: Compacted = field(default_factory=Compacted)
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What the model sees, as the client tells it."""
    text: str = ""
    """What the last compaction left."""
    begun: int = 0
    """The call before which that was made."""

    def run(self) -> Compacted:
        """Compact the session, and count what its calls see."""
        recording, since = self.recording, 0
        needs, own = needs_and_own(recording)
        announced = announcements(recording.id)
        calls = set(recording.calls)
        with tempfile.TemporaryDirectory() as folder:
            for at, chat in enumerate(recording.messages):
                if at in calls and self.told.times:
                    self.count([*needs.get(at, ()), *own.get(at, ())], at)
                is_due = since >= (APART if self.told.times else self.least)
                if at in calls and is_due and self.compact(Path(folder) / ".windlass", at):
                    since = 0
                if str(chat.get("content")) not in announced:
                    self.rows += rows_of_chat(chat)
                    since += len(json.dumps(chat)) // 4
        return self.told

    def compact(self, store: Path, at: int) -> bool:
        """Compact before a call, and check what comes of it; whether it was done."""
        session = self.recording.id
        asked = CompactionRequest(
            rows=self.rows, trigger="manual", agent=AGENT, session=session, model=MODEL
        )
        begun = time.perf_counter()
        answer = compact_rows(asked, store, "windlass recall", 0.0)
        if answer.rows is None:
            return False
        told, text = self.told, text_of_rows(answer.rows)
        told.ms.append(1_000 * (time.perf_counter() - begun))
        told.times += 1
        told.before += answer.tokens_before
        told.after += answer.tokens_after
        told.faults += count_faults(answer.rows)
        references = set(REFERENCE.findall(text))
        told.references += len(references)
        told.dead += sum(not is_alive(store, ref) for ref in references)
        if self.show is not None:
            self.show.mkdir(parents=True, exist_ok=True)
            name = f"{session.partition('.')[0]}-{at}.txt"
            (self.show / name).write_text(as_page(answer.rows), encoding="utf-8")
        self.rows, self.text, self.begun = answer.rows, text, at
        return True

    def count(self, needs: Sequence[NeededText], at: int) -> None:
        """Count what a call needed, and what of it is in view behind the last compaction."""
        behind = sum(self.begun <= call < at for call in self.recording.calls)
        for need in needs:
            kind = need.kind if need.results else f"own {need.kind}"
            is_new = any(place >= self.begun for place in need.holders)
            seen = is_new or need.text in self.text
            for when in ("soon", "later") if behind < SOON else ("later",):
                self.told.share(kind, "all", when).add(seen=seen)
                if not is_new:
                    self.told.share(kind, "at stake", when).add(seen=seen)


def announcements(name: str) -> frozenset[str]:
    """Return the texts in a session that the client announces by itself."""
    path = data_folder() / "raw/agent_sessions" / f"{name.rpartition(' ')[0]}.gz"
    texts: set[str] = set()
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        for line in file:
            with suppress(ValueError):
                told = json.loads(line).get("attachment") or {}
                if told.get("type") in ANNOUNCED and isinstance(told.get("content"), str):
                    texts.add(told["content"])
    return frozenset(texts)


# ---- rows ---------------------------------------------------------------------------


def rows_of_chat(chat: Chat) -> Iterator[dict[str, Any]]:
    """Yield the rows in which the client tells a message, one a block, each with a handle."""
    content = chat.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [part.get("text", "") if isinstance(part, Mapping) else str(part) for part in parts]
    if chat["role"] == "tool":
        told = {
            "tool_use_id": chat["tool_call_id"],
            "text": "\n".join(texts),
            "isError": bool(chat.get("failed")),
        }
        yield {"role": "user", "text": "", "toolUses": [], "toolResults": [told], "handle": "r"}
        return
    role = "assistant" if chat["role"] == "assistant" else "user"
    for text in texts if content else ():
        yield {"role": role, "text": text, "toolUses": [], "handle": "t"}
    for call in chat.get("tool_calls") or ():
        arguments = call["function"]["arguments"]
        use = {
            "tool_use_id": call["id"],
            "tool": call["function"]["name"],
            "input": json.loads(arguments or "{}"),
        }
        yield {"role": role, "text": "", "toolUses": [use], "handle": "u"}


def count_faults(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return how often rows break what the client and its provider ask of them."""
    found = 0
    for at, row in enumerate(rows):
        results = [one["tool_use_id"] for one in row.get("toolResults", ())]
        called = [use["tool_use_id"] for use in rows[at - 1]["toolUses"]] if at else []
        found += row["role"] != ("assistant" if at % 2 else "user")
        found += bool(set(row) - {"role", "text", "toolUses", "toolResults"})
        found += sorted(called) != sorted(results)
        found += not (row["text"].strip() or row["toolUses"] or results)
    return found + bool(rows and rows[-1]["toolUses"])


def text_of_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return all text of rows, arguments as tools get them."""
    texts: list[str] = []
    for row in rows:
        texts.append(row["text"])
        for use in row["toolUses"]:
            arguments = json.dumps(use["input"], ensure_ascii=False)
            texts += argument_texts({"function": {"arguments": arguments}})
        texts += [one["text"] for one in row.get("toolResults", ())]
    return "\n".join(texts)


# ---- compactions ---------------------------------------------------------------------


def is_alive(store: Path, ref: str) -> bool:
    """Return whether a reference brings an original back."""
    opening = partial(open_folder, store, reading=True)
    return bool(original_text(find_original(store, ref, opening)))


def as_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as they are read."""
    lines: list[str] = []
    for row in rows:
        lines.append(f"######## {row['role']}\n{row['text']}")
        lines += [f">>>> {use['tool']} {json.dumps(use['input'])}" for use in row["toolUses"]]
        lines += [f"<<<< {one['text']}" for one in row.get("toolResults", ())]
    return "\n".join(lines)


def print_compactions(sessions: Sequence[str], least: int, show: Path | None) -> None:
    """Print the first table."""
    print("compactions: tokens are the model's, shares in percent (next 10 calls | all)")
    heads = ("times", "before", "after", "ms", "illegal", "refs", "dead")
    print(f"{'session':34}" + "".join(f"{head:>9}" for head in heads) + "  in view")
    total = Compacted()
    for recording in load(data_folder(), (SOURCE,)):
        name, _, number = recording.id.rpartition(" ")
        if number != "0" or (sessions and not any(each in name for each in sessions)):
            continue
        told = Compactor(recording, least, show).run()
        if told.times:
            print_line(name.removesuffix(".jsonl"), told)
            total = total.plus(told)
    print_line("all", total)


def print_line(name: str, told: Compacted) -> None:
    """Print one line of the first table."""
    middle = sorted(told.ms)[len(told.ms) // 2] if told.ms else 0.0
    cells = (
        told.times, told.before // max(1, told.times), told.after // max(1, told.times),
        round(middle), told.faults, told.references, told.dead,
    )  # fmt: skip
    kinds = ("value", "line", "own value", "own line")
    shares = [
        f"{counts}: "
        + " ".join(
            f"{kind} {told.share(kind, counts, 'soon')}|{told.share(kind, counts, 'later')}"
            for kind in kinds
        )
        for counts in ("at stake", "all")
    ]
    print(f"{name:34}" + "".join(f"{cell:>9,}" for cell in cells) + "  " + "; ".join(shares))


# ---- tools ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Session:
    """A recorded session, with when it began and what it was billed in fresh tokens."""

    begun: float
    tools: SessionTools
    bill: Mapping[float, float]
    moment: str


def read_all() -> list[Session]:
    """Return the sessions of Claude Code in the order of time."""
    read: list[Session] = []
    with tempfile.TemporaryDirectory() as folder:
        for packed in sorted((data_folder() / "raw/agent_sessions").glob(SESSIONS[SOURCE])):
            path = Path(folder) / packed.stem
            path.write_bytes(gzip.decompress(packed.read_bytes()))
            tools, calls = read_session(path), SessionCalls(path)
            calls.read()
            if tools is None or not calls.calls:
                continue
            begun = calls.calls[0].begun or 0.0
            bill = {share: bill_of(calls, share) for share in READS}
            last = calls.calls[-1].begun or 0.0
            due = next_moment(calls, last + 30).seconds
            when = "never: short" if due is None else "now: paid" if due == 0 else "by the timer"
            read.append(Session(begun, replace(tools, changed=begun), bill, when))
    return sorted(read, key=lambda one: one.begun)


def bill_of(calls: SessionCalls, read: float) -> float:
    """Return what a session cost, in fresh input tokens."""
    total = 0.0
    for call in calls.calls:
        usage = call.usage
        short = usage.tokens_written - usage.tokens_written_long
        fresh = usage.tokens_in - usage.tokens_cached - usage.tokens_written
        total += fresh + 1.25 * short + 2 * usage.tokens_written_long
        total += read * usage.tokens_cached + 5 * usage.tokens_out
    return total


def print_tools() -> None:
    """Print the second table."""
    sessions = read_all()
    print(f"\ntools that wait: {len(sessions)} sessions, each decided by those before it")
    heads = ("read", "head", "saved", "waiting", "needed", "in front", "decided", "of the bills")
    print("".join(f"{head:>14}" for head in heads))
    for read in READS:
        saved = waiting = needed = 0
        front = paid = bills = 0.0
        names = Counter[str]()
        for number, session in enumerate(sessions):
            known = [one.tools for one in sessions[:number]]
            mine = [session.tools]
            write = 2.0 if session.tools.long else 1.25
            prices = Prices(read=read, write=write, minimum=0, step=1, ttl_s=300)
            bills += session.bill[read]
            for tool, tokens in HEAD.items():
                project = session.tools.project
                decision = decide(tool, tokens, known, project=project, prices=prices)
                is_used = bool({tool, *(("Task",) if tool == "Agent" else ())} & {*mine[0].tools})
                whole, behind = costs(tokens, float(is_used), mine, prices)
                front += whole
                paid += behind if decision.deferred else whole
                saved += tokens * decision.deferred
                waiting += decision.deferred
                needed += decision.deferred and is_used
                names[tool] += decision.deferred
        count = len(sessions)
        cells = (
            f"{read:.2f}", f"{sum(HEAD.values()):,}", f"{saved / count:,.0f}",
            f"{waiting / count:.1f}", f"{needed}", f"{front / count:,.0f}", f"{paid / count:,.0f}",
            f"-{100 * (front - paid) / bills:.1f} %",
        )  # fmt: skip
        print("".join(f"{cell:>14}" for cell in cells))
        print("  waits in so many sessions:", ", ".join(f"{n} {c}" for n, c in names.items() if c))
    due = Counter(one.moment for one in sessions)
    print("half a minute behind the last call a compaction is due:", dict(due))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", type=Path)
    parser.add_argument("--least", type=int, default=LEAST)
    parser.add_argument("--session", action="append", default=[])
    asked = parser.parse_args()
    print_compactions(asked.session, asked.least, asked.show)
    print_tools()


if __name__ == "__main__":
    main()
