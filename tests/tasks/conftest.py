"""A house for each test: a folder, a store in it, and a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import windlass
from windlass.engine.events import Event
from windlass.engine.result import Result
from windlass.history.sqlite import SqliteStore
from windlass.memory.banks import Banks
from windlass.messages import Message
from windlass.providers.scripted import Scripted
from windlass.report.call_views import view_session
from windlass.report.calls import Call
from windlass.wire.base import Request


def asked(request: Request) -> str:
    """What the last message of the user asks, without its heading: `Do a.`."""
    said = [message.text for message in request.messages if message.role == "user"][-1]
    return said.split("\n")[2]


@dataclass
class Ran:
    """A run that is over: its result, what the model was sent, the store, the events."""

    result: Result
    model: Scripted
    store: SqliteStore
    events: list[Event]

    @property
    def calls(self) -> tuple[Call, ...]:
        return view_session(self.store, self.result.session_id).calls

    def seen(self, phase: str) -> list[str]:
        """The texts of the messages of a task's first call."""
        return [one.message.text for one in self.view(phase).seen]

    def view(self, phase: str) -> Call:
        """A task's first call, as `show` has it."""
        return next(call for call in self.calls if call.phase == phase)

    def section(self, phase: str, heading: str) -> str:
        """The text of a section of a task's first call; empty where it has none."""
        found = [text for text in self.seen(phase) if text.startswith(f"{heading}\n")]
        assert len(found) <= 1
        return found[0] if found else ""

    def notes(self) -> list[str]:
        return [event.text for event in self.events if hasattr(event, "text")]


@dataclass
class TaskHouse:
    """Runs task files in one store."""

    folder: Path
    opened: list[SqliteStore] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def open_store(self) -> SqliteStore:
        self.opened.append(SqliteStore(self.store))
        return self.opened[-1]

    def remember(self, bank: str, **texts: str) -> None:
        numbers = iter(range(10_000))
        with SqliteStore(self.store) as store:
            banks = Banks(store, lambda: 1_000.0, lambda: f"trace-{bank}-{next(numbers)}")
            for key, text in texts.items():
                banks.remember(bank, text, key=key)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.folder / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".md").write_text(text)

    async def run(
        self,
        xml: str,
        script: Callable[[Request], Any] | Mapping[str, Any] | None = None,
        given: Mapping[str, Any] | None = None,
        *,
        model: Mapping[str, Any] | None = None,
        task: str | Path = "write",
        resume: str | None = None,
        **options: Any,
    ) -> Ran:
        """Run a text; a script is a function, or replies by what is asked (`Do a.`)."""
        file = self.folder / "task.xml"
        file.write_text(xml)
        replies = script if isinstance(script, Mapping) else {}

        def by_task(request: Request) -> Message | str:
            said = asked(request)
            answer = replies.get(said, f"answer to {said}")
            if isinstance(answer, Exception):
                raise answer
            said_now: Message | str = answer(request) if callable(answer) else answer
            return said_now

        scripted = Scripted(script if callable(script) else by_task, **(model or {}))
        events: list[Event] = []
        options |= {"model": "scripted/x", "store": self.store, "root": self.folder}
        options |= {"providers": {"scripted": scripted}, "on_event": events.append}
        if resume is not None:
            named = None if task == "write" else task
            result = await windlass.resume_task(resume, named, **options)
        else:
            named = file if task == "write" else task
            result = await windlass.evaluate(named, given, **options)
        return Ran(result, scripted, self.open_store(), events)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskHouse]:
    monkeypatch.chdir(tmp_path)
    made = TaskHouse(tmp_path)
    yield made
    for store in made.opened:
        store.close()


def inputs(*texts: str) -> str:
    return "".join(f'<input name="{text}">{text}</input>' for text in texts)


__all__: Sequence[str] = ["Ran", "TaskHouse", "asked", "inputs"]
