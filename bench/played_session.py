"""A session of Claude Code played to the doors of Windlass, and billed another way than a replay.

Each record is written to a transcript that grows: a result as the mod's adapter is answered, the
rows of a compaction in the place of what they stand for, and the usage that the provider would have
told. See `bench_try`.
"""

from __future__ import annotations

import contextlib
import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from windlass.caching.rates import Rate, rate
from windlass_agents.agent_events import AgentPlace
from windlass_agents.compaction_moments import CompactionDoor
from windlass_agents.handler import HookHandler, HookRequest

AGENT: Final = "claude-code"
SEARCH: Final = 140
FETCH_OUTPUT: Final = 60
ANNOUNCED: Final = re.compile(r"deferred_tools|skill_listing|agent_listing|mcp_instructions")
VALUE: Final = re.compile(r"[\w./@#-]{4,}")
MARKED: Final = re.compile(r"[0-9_/@#.]")
LINE: Final = 24
WARM: Final = 0.5
"""The share of the last request that a warm cache holds at least."""
MOST_AGAIN: Final = 20_000


@dataclass(slots=True)
class Call:
    """A call as the provider counted it."""

    read: int
    written: int
    long: int
    fresh: int
    out: float
    model: str

    @property
    def whole(self) -> int:
        """All tokens of its input."""
        return self.read + self.written + self.fresh

    def dollars(self, read: float, written: float, extra: float = 0.0) -> float:
        """What it costs with other tokens; `extra` are fresh ones."""
        prices = rate(self.model) or Rate("", 5, 25, 0.5, 6.25, None, 10.0)
        share = self.long / self.written if self.written else 1.0
        long = prices.cache_write if prices.cache_write_long is None else prices.cache_write_long
        write = share * long + (1 - share) * prices.cache_write
        paid = read * prices.cache_read + written * write + (self.fresh + extra) * prices.input
        return (paid + self.out * prices.output) / 1e6


@dataclass(slots=True)
class Bill:
    """What a session cost, and what it would have."""

    name: str = ""
    was: float = 0.0
    now: float = 0.0
    shortened: int = 0
    compactions: int = 0
    misses: int = 0


@dataclass(slots=True)
class Lane:
    """One conversation of a session: its own, or a subagent's."""

    path: Path
    thread: str
    waiting: dict[tuple[str, ...], float]
    less: float = 0.0
    """Tokens of definitions that its first call does not send."""
    loaded: float = 0.0
    gone: float = 0.0
    """Tokens of the conversation that the next call does not send."""
    gone_before: float = 0.0
    """The same of the last call."""
    call: str = ""
    last: Call | None = None
    first: Call | None = None
    system: float = 0.0
    again: float = 0.0
    time: float = 0.0
    ended: float | None = None
    """When the model answered without a call (None: it goes on)."""
    compacted: float | None = None
    """Characters that stand in the place of the conversation since the last call."""
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    hidden: list[str] = field(default_factory=list[str])
    fresh: float = 0.0
    """Characters that came since the last call."""
    names: dict[str, tuple[str, Any]] = field(default_factory=dict[str, tuple[str, Any]])


class Player:
    """Plays a session to the doors."""

    def __init__(
        self,
        path: Path,
        folder: Path,
        levers: Sequence[str],
        waiting: Mapping[tuple[str, ...], float],
        within: int | None,
    ) -> None:
        self.records = [one for line in path.open("rb") for one in parsed(line)]
        self.levers, self.within, self.folder = levers, within, folder
        self.session = next((r["sessionId"] for r in self.records if r.get("sessionId")), path.stem)
        self.calls = calls_of(self.records)
        self.chars = chars_a_token(self.records, self.calls)
        self.now = 0.0
        self.door, self.handler = CompactionDoor(lambda: self.now), HookHandler(lambda: self.now)
        self.bill = Bill(path.stem)
        self.waiting = dict(waiting) if "tools" in levers else {}
        self.lanes: dict[str, Lane] = {}

    def play(self) -> Bill:
        """Play all of it, and return the bill."""
        for outer in self.records:
            agent, record = inner(outer)
            kind = record.get("type")
            message = record.get("message")
            lane = self.lane(agent)
            time = seconds(outer.get("timestamp"))
            if kind == "assistant" and isinstance(message, Mapping):
                self.take_answer(lane, message)
            elif kind == "user" and isinstance(message, Mapping):
                record = self.take_user(lane, record, message, time)
            elif kind == "attachment":
                told = record.get("attachment") or {}
                text = told.get("content")
                lane.fresh += len(text) if isinstance(text, str) else 0
                if isinstance(text, str) and not ANNOUNCED.match(str(told.get("type"))):
                    lane.rows.append(row("user", text))
            else:
                continue
            self.now = lane.time = max(lane.time, time or 0.0)
            if kind == "assistant" and isinstance(message, Mapping):
                uses = any(one.get("type") == "tool_use" for one in blocks_of(message))
                lane.ended = None if uses else self.now
                record = {**record, "message": {**message, "usage": self.usage_of(lane)}}
            self.write(lane, record)
        return self.bill

    def lane(self, agent: str) -> Lane:
        """The conversation of a subagent; empty: the session's own."""
        if agent not in self.lanes:
            path = self.folder / f"{self.session}.jsonl"
            if agent:
                path = path.with_suffix("") / "subagents" / f"agent-{agent}.jsonl"
                path.parent.mkdir(parents=True, exist_ok=True)
            waiting = {} if agent else dict(self.waiting)
            self.lanes[agent] = Lane(path, agent, waiting, sum(waiting.values()))
        return self.lanes[agent]

    def place(self, lane: Lane) -> AgentPlace:
        """Where the doors are told that it happens."""
        return AgentPlace(
            agent=AGENT,
            session=self.session,
            thread=lane.thread,
            folder=self.folder,
            transcript=lane.path,
        )

    def write(self, lane: Lane, record: Mapping[str, Any]) -> None:
        """Append a record to the transcript that the doors read: the newest is the last."""
        told = {name: each for name, each in record.items() if name != "parentUuid"}
        with lane.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")

    # ---- results ---------------------------------------------------------------------

    def take_user(
        self, lane: Lane, record: dict[str, Any], message: Mapping[str, Any], time: float | None
    ) -> dict[str, Any]:
        """Take in words and results; the record as the client would have kept it."""
        content = message.get("content")
        if isinstance(content, str):
            lane.rows.append(row("user", content))
            lane.fresh += len(content)
            return record
        self.now = max(lane.time, time or 0.0)
        kept: list[Any] = []
        is_changed = False
        for block in blocks_of(message):
            if block.get("type") != "tool_result":
                text = str(block.get("text") or "")
                lane.rows.append(row("user", text))
                lane.fresh += len(text)
                kept.append(block)
                continue
            short = self.shortened(lane, block) if "results" in self.levers else None
            before = text_of(block.get("content"))
            shown = before if short is None else short
            if short is not None:
                is_changed = True
                self.bill.shortened += 1
                lane.gone += (len(before) - len(short)) / self.chars
                lane.hidden.append(before)
            lane.fresh += len(shown)
            told = {
                "tool_use_id": block.get("tool_use_id"),
                "text": shown,
                "isError": bool(block.get("is_error")),
            }
            lane.rows.append({**row("user", ""), "toolResults": [told]})
            kept.append(block if short is None else {**block, "content": short})
        if not is_changed:
            return record
        return {
            **record,
            "message": {**message, "content": kept},
            "toolResultRewritten": True,
        }

    def shortened(self, lane: Lane, block: Mapping[str, Any]) -> str | None:
        """What the mod is answered of a result (None: it stays)."""
        tool, given = lane.names.get(str(block.get("tool_use_id")), ("", {}))
        content = block.get("content")
        if not isinstance(content, str) and len(blocks_of({"content": content})) != 1:
            return None
        event = {
            "session_id": self.session,
            "transcript_path": str(self.lanes[""].path if lane.thread else lane.path),
            "agent_id": lane.thread or None,
            "cwd": str(self.folder),
            "tool_use_id": block.get("tool_use_id"),
            "tool_name": tool,
            "tool_input": given,
            "content": content,
        }
        return str(told) if (told := self.ask(event).get("text")) is not None else None

    def ask(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """What the server answers the mod."""
        answer = self.handler.answer(
            HookRequest(self.folder, {}, (AGENT,), json.dumps(event).encode(), "mod")
        )
        answer.afterwards()
        told: dict[str, Any] = json.loads(answer.text or "{}")
        return told

    # ---- calls -----------------------------------------------------------------------

    def take_answer(self, lane: Lane, message: Mapping[str, Any]) -> None:
        """Take in an answer or a part of one; its first part is a call."""
        ident = str(message.get("id") or "")
        if ident in self.calls and ident != lane.call:
            lane.call = ident
            self.bill_call(lane, self.calls[ident])
        for block in blocks_of(message):
            if block.get("type") == "text":
                lane.rows.append(row("assistant", str(block.get("text") or "")))
            elif block.get("type") == "tool_use":
                name, given = str(block.get("name")), block.get("input") or {}
                lane.names[str(block.get("id"))] = name, given
                self.load(lane, name)
                self.miss(lane, given)
                use = {"tool_use_id": block.get("id"), "tool": name, "input": given}
                lane.rows.append({**row("assistant", ""), "toolUses": [use]})

    def bill_call(self, lane: Lane, call: Call) -> None:
        """Bill a call, and compact before it where the door says so."""
        if "moments" in self.levers and not lane.thread and lane.last is not None:
            self.compact_in_time(lane)
        self.bill.was += call.dollars(call.read, call.written)
        if lane.first is None:
            lane.first = call
            reads = [one.read for one in self.calls.values() if one.read]
            lane.system = call.read or (min(reads) if reads else 0.0)
            lane.again = min(max(0.0, call.whole - lane.system), MOST_AGAIN)
        before = lane.last
        is_warm = before is None or call.read >= WARM * before.whole
        front = lane.less
        if lane.compacted is None:
            whole = call.whole - front - lane.gone + lane.loaded
            went = lane.gone_before - lane.loaded if before is not None and is_warm else 0.0
            read = call.read - front - went
        else:
            whole = lane.system - front + lane.again + (lane.compacted + lane.fresh) / self.chars
            read = (lane.system if is_warm else min(call.read, lane.system)) - front
            lane.gone, lane.loaded = call.whole - front - whole, 0.0
        read = min(max(0.0, read), whole)
        written = max(0.0, whole - read - call.fresh)
        self.bill.now += call.dollars(read, written)
        lane.gone_before, lane.compacted, lane.fresh = lane.gone, None, 0.0
        lane.last = Call(round(read), round(written), 0, call.fresh, call.out, call.model)
        # What the recorded call sent is what tells whether the cache was warm.
        lane.last.read += call.whole - lane.last.whole
        lane.last.long = round(whole)

    def usage_of(self, lane: Lane) -> dict[str, Any]:
        """The usage that the provider would have told of the last call."""
        call = self.calls.get(lane.call)
        if call is None or lane.last is None:
            return {}
        return {
            "input_tokens": call.fresh,
            "cache_read_input_tokens": max(0, lane.last.long - call.fresh),
            "cache_creation_input_tokens": 1,
            "cache_creation": {"ephemeral_1h_input_tokens": 1 if call.long else 0},
            "output_tokens": round(call.out),
        }

    def load(self, lane: Lane, tool: str) -> None:
        """Find a definition that waited: one more request, and it is sent from then on."""
        for names in [names for names in lane.waiting if tool in names]:
            tokens = lane.waiting.pop(names) + SEARCH
            lane.loaded += tokens
            self.extra(lane, SEARCH)

    def extra(self, lane: Lane, out: float, result: float = 0.0) -> None:
        """Bill one more request of what the last call sent, with a result that is written."""
        call = self.calls[lane.call]
        prices = rate(call.model)
        if prices is not None and lane.last is not None:
            read = lane.last.long * prices.cache_read + out * prices.output
            written = result * (prices.cache_write_long or prices.cache_write)
            self.bill.now += (read + written) / 1e6

    def miss(self, lane: Lane, given: object) -> None:
        """Bill what an answer took out of texts that are out of view."""
        if not lane.hidden:
            return
        wanted = [one for text in leaves(given) for one in wanted_in(text)]
        shown = "\n".join(text_of_row(one) for one in lane.rows)
        for one in dict.fromkeys(wanted):
            if one not in shown and (found := [text for text in lane.hidden if one in text]):
                self.bill.misses += 1
                self.extra(lane, FETCH_OUTPUT, min(len(each) for each in found) / self.chars)
                lane.hidden = [text for text in lane.hidden if text not in found]

    # ---- compactions -----------------------------------------------------------------

    def compact_in_time(self, lane: Lane) -> None:
        """Ask the door as the mod does: at the end of a turn, and by its timer."""
        now = self.now
        if lane.ended is not None:
            self.now = lane.ended + 1
            due = self.door.moment(self.place(lane)).seconds
            if due is not None and self.now + due <= now:
                self.now += due
                self.compact(lane)
        elif self.within is not None and lane.last is not None and lane.last.long > self.within:
            self.compact(lane)  # the door looks at the moment again
        self.now = now

    def compact(self, lane: Lane) -> None:
        """Let the door compact; what it leaves takes the place of the conversation."""
        results = len(lane.rows)
        while results and lane.rows[results - 1]["role"] == "user":
            results -= 1
        rest = lane.rows[results:] if lane.ended is not None else []
        rows = lane.rows[: len(lane.rows) - len(rest)]
        told = {
            "trigger": "plugin",
            "own": True,
            "messages": [{**one, "handle": "h"} for one in rows],
        }
        store = self.folder / ".windlass"
        answer = self.door.compact(told, self.place(lane), store, "windlass recall")
        if answer.rows is None:
            return
        self.bill.compactions += 1
        lane.hidden += [text_of_row(one) for one in rows]
        lane.compacted = float(sum(len(text_of_row(one)) for one in answer.rows))
        if not rest:
            lane.fresh = 0.0
        lane.rows = [*answer.rows, *rest]
        self.write(lane, {"type": "system", "subtype": "compact_boundary"})
        for one in answer.rows:
            self.write(lane, record_of(one))
        for one in rest:
            self.write(lane, record_of(one))
        self.ask({"hook_event_name": "PostCompact", "session_id": self.session,
                  "transcript_path": str(lane.path), "cwd": str(self.folder)})  # fmt: skip


# ---- records ---------------------------------------------------------------------------


def parsed(line: bytes) -> Iterator[dict[str, Any]]:
    """The record of a line, if it is one."""
    with contextlib.suppress(ValueError):
        told = json.loads(line)
        if isinstance(told, dict):
            yield told


def inner(record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The subagent of a record (empty: the session itself), and its own record."""
    data = record.get("data") or {}
    if record.get("type") == "progress" and data.get("type") == "agent_progress":
        told = data.get("message") or {}
        return str(data.get("agentId") or "agent"), {**told, "sessionId": record.get("sessionId")}
    return "", record


def calls_of(records: Sequence[dict[str, Any]]) -> dict[str, Call]:
    """The calls by the provider's names of their answers; the usage told last is the whole one."""
    calls: dict[str, Call] = {}
    said: dict[str, float] = {}
    for outer in records:
        _, record = inner(outer)
        message = record.get("message")
        if record.get("type") != "assistant" or not isinstance(message, Mapping):
            continue
        usage, name = message.get("usage") or {}, str(message.get("id") or "")
        counts = [int(usage.get(f"{kind}input_tokens") or 0)
                  for kind in ("cache_read_", "cache_creation_", "")]  # fmt: skip
        if not name or not any(counts):
            continue
        said[name] = said.get(name, 0.0) + sum(
            len(str(one.get("text") or one.get("thinking") or "")) + len(json.dumps(one["input"]))
            if "input" in one
            else len(str(one.get("text") or one.get("thinking") or ""))
            for one in blocks_of(message)
        )
        long = int((usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0)
        read, written, fresh = counts
        out = max(float(usage.get("output_tokens") or 0), said[name] / 4)
        calls[name] = Call(read, written, long, fresh, out, f"anthropic/{message.get('model')}")
    return calls


def chars_a_token(records: Sequence[dict[str, Any]], calls: Mapping[str, Call]) -> float:
    """The characters of a token, by how the count grew with long results, or else with shorter."""
    found: list[tuple[int, float]] = []
    last, chars = "", 0
    for record in records:
        message = record.get("message")
        if not isinstance(message, Mapping):
            continue
        name = str(message.get("id") or "")
        if name in calls and name != last:
            grown = calls[name].whole - calls[last].whole - calls[last].out if last else 0
            found += [(chars, chars / grown)] if grown > 0 else []
            last, chars = name, 0
        if record.get("type") == "user":
            chars += sum(len(text_of(one.get("content"))) for one in blocks_of(message))
    longest = sorted(found, reverse=True)[:5]
    return min(max(statistics.median(each for _, each in longest), 2.0), 4.5) if longest else 3.0


def blocks_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [one for one in content or () if isinstance(one, dict)]


def text_of(content: object) -> str:
    """The text of a result."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(one["text"]) for one in blocks if isinstance(one, dict) and "text" in one)


def row(role: str, text: str) -> dict[str, Any]:
    """A row as the client tells one."""
    return {"role": role, "text": text, "toolUses": [], "toolResults": []}


def text_of_row(told: Mapping[str, Any]) -> str:
    """All that a row says, as the model reads it."""
    uses = [json.dumps(use["input"]) for use in told.get("toolUses") or ()]
    pieces = [piece for use in told.get("toolUses") or () for piece in leaves(use["input"])]
    results = [one["text"] for one in told.get("toolResults") or ()]
    return "\n".join([told["text"], *(pieces if "\\" in "".join(uses) else uses), *results])


def record_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """The record that the client keeps of a row behind a compaction."""
    content: list[dict[str, Any]] = [{"type": "text", "text": told["text"]}] if told["text"] else []
    content += [
        {"type": "tool_use", "id": use["tool_use_id"], "name": use["tool"], "input": use["input"]}
        for use in told.get("toolUses") or ()
    ]
    content += [
        {"type": "tool_result", "tool_use_id": one["tool_use_id"], "content": one["text"]}
        for one in told.get("toolResults") or ()
    ]
    message: dict[str, Any] = {"role": told["role"], "content": content}
    if told["role"] == "assistant":
        message["model"] = "<synthetic>"
    return {"type": told["role"], "message": message}


def leaves(value: object) -> Iterator[str]:
    """The texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from leaves(one)


def wanted_in(text: str) -> Iterator[str]:
    """The values and lines of a text that an earlier result may have held."""
    yield from (one for one in VALUE.findall(text) if MARKED.search(one))
    yield from (one for one in text.splitlines() if len(one.strip()) >= LINE)


def seconds(stamp: object) -> float | None:
    """Seconds since 1970 (None: not told)."""
    with contextlib.suppress(ValueError, TypeError):
        return datetime.fromisoformat(str(stamp)).timestamp()
    return None
