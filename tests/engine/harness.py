"""Run a cascade with a scripted model in a store of its own, and look at what was sent.

A phase made by `phase("a")` asks "Do a."; a script is a function of the request, or
a dict from a phase's name to its replies, one for each of its calls (the last is
said again and again, `ok <name>` where there is none).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import windlass
from windlass.cascade.model import Cascade
from windlass.engine.events import Event, PhaseStarted
from windlass.engine.result import Result
from windlass.history.base import CallRecord, NodeType, StoredRow
from windlass.history.row_details import STEPS, json_of
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message, ToolCall, assistant
from windlass.providers.scripted import Script, Scripted
from windlass.report.call_views import view_session
from windlass.report.calls import Call
from windlass.wire.base import Request
from windlass.wire.openai import to_openai

Said: TypeAlias = Message | str
Replies: TypeAlias = Script | Mapping[str, Sequence[Any]]


def phase(name: str, **keys: Any) -> dict[str, Any]:
    """A phase that asks "Do <name>."."""
    return {"name": name, "instructions": f"Do {name}.", **keys}


def cascade(*phases: Any, **keys: Any) -> dict[str, Any]:
    """A cascade of these phases."""
    return {"cascade_id": "test", "phases": list(phases), **keys}


_numbers = iter(range(1, 1_000_000))


def call(name: str, arguments: str = "{}", *, id_: str | None = None) -> ToolCall:
    """A call of the tool, with an id that no other call has."""
    return ToolCall(id_ or f"call_{next(_numbers)}", name, arguments)


def calls(*wanted: ToolCall, text: str = "") -> Message:
    """A reply that calls these tools."""
    return assistant(text, calls=wanted)


_ASKS = re.compile(r"(?:\[Original Task\]\s*)?Do ([\w-]+)\.")


def asked_by(request: Request) -> str:
    """The phase that a request belongs to: the last that asks something in it."""
    for message in reversed(request.messages):
        if message.role == "user" and (found := _ASKS.match(message.text)):
            return found[1]
    return "-"


def by_phase(replies: Mapping[str, Sequence[Any]]) -> Script:
    """A script that gives each phase its own replies."""
    given: dict[str, int] = {}

    def script(request: Request) -> Said:
        name = asked_by(request)
        said: Sequence[Said] = replies.get(name, [f"ok {name}"])
        at = given[name] = given.get(name, 0) + 1
        return said[min(at, len(said)) - 1]

    return script


@dataclass
class Ran:
    """A run that is over: its result, what the model was sent, and the store."""

    result: Result
    model: Scripted
    store: SqliteStore
    events: list[Event] = field(default_factory=list)

    @property
    def session(self) -> str:
        return self.result.session_id

    def requests(self, phase: str) -> list[Request]:
        """The requests of one phase, in order."""
        return [request for request in self.model.requests if asked_by(request) == phase]

    def request(self, phase: str, number: int = 1) -> Request:
        """The phase's request of that number, from 1; -1 is the last."""
        return self.requests(phase)[number - 1 if number > 0 else number]

    def chat(self, phase: str, number: int = 1) -> list[dict[str, Any]]:
        """The messages of a request as OpenAI chat dicts, pictures as data URLs."""
        sent = self.request(phase, number).messages
        return [to_openai(message, self.store.picture) for message in sent]

    def seen(self, phase: str, number: int = 1) -> list[tuple[str, str]]:
        """The messages of a request as (role, text)."""
        return [(m.role, m.text) for m in self.request(phase, number).messages]

    def rows(self, *nodes: NodeType, phase: str | None = None) -> list[StoredRow]:
        """The record's rows of these kinds, without those that only say that a call was sent."""
        found = without_steps(self.store.rows(self.session, phase=phase))
        return [stored for stored in found if not nodes or stored.row.node_type in nodes]

    def decisions(self, kind: str) -> list[Mapping[str, Any]]:
        """The metadata of the decisions of one kind."""
        rows = (stored.row for stored in self.store.rows(self.session))
        told = (json_of(row) for row in rows if row.node_type == NodeType.DECISION)
        return [metadata for metadata in told if metadata.get("kind") == kind]

    def calls(self) -> list[CallRecord]:
        return list(self.store.calls(self.session))

    def views(self, phase: str) -> list[Call]:
        """What `windlass show` knows of the phase's calls."""
        return [
            view for view in view_session(self.store, self.session).calls if view.phase == phase
        ]

    def has_no_damage(self) -> bool:
        """Whether `verify` proves the store."""
        return not [found for found in self.store.verify() if found.severity == "damage"]


def without_steps(rows: Iterable[StoredRow]) -> list[StoredRow]:
    """The rows without those of the journal."""
    return [stored for stored in rows if json_of(stored.row).get("kind") not in STEPS]


class House:
    """Runs cascades in one store and keeps it open for the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.opened: list[SqliteStore] = []
        self.tools: Sequence[Callable[..., Any] | str] = ()

    def open_store(self) -> SqliteStore:
        """The store as another process would open it."""
        self.opened.append(SqliteStore.open_existing(self.store, busy_s=5.0))
        return self.opened[-1]

    async def run(
        self,
        cascade: Cascade | Mapping[str, Any] | Path,
        script: Replies | None = None,
        given: Mapping[str, Any] | None = None,
        *,
        tools: Sequence[Callable[..., Any] | str] = (),
        before: Mapping[str, Callable[[], None]] | None = None,
        model: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Ran:
        """Run a cascade on the input `given`.

        `before` holds what is done before a phase, `model` the scripted model's limits.
        """
        replies: Replies = {} if script is None else script
        scripted = Scripted(
            by_phase(replies) if isinstance(replies, Mapping) else replies, **(model or {})
        )
        events: list[Event] = []

        def watch(event: Event) -> None:
            events.append(event)
            if isinstance(event, PhaseStarted) and before and event.phase in before:
                before[event.phase]()

        result = await windlass.run(
            cascade,
            given,
            model="scripted/x",
            store=self.store,
            root=self.folder,
            tools=(*self.tools, *tools),
            providers={"scripted": scripted},
            on_event=watch,
            **options,
        )
        return Ran(result, scripted, self.open_store(), events)

    def close(self) -> None:
        for store in self.opened:
            store.close()
