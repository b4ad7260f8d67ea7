"""Going on with a session that was broken off: what it ran, and whether that is the same now."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from windlass.cascade.compile import compile_rule
from windlass.cascade.model import Cascade, judges_of, tool_names
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.journal import read_journal
from windlass.engine.record import Recorded
from windlass.errors import UsageError
from windlass.history.base import SessionStart, Store
from windlass.history.packing import path_part
from windlass.messages import canonical_json
from windlass.operators.model import OPERATORS

RAN: Final = "$run"
"""In the definition that a session begins with: what a resumed run needs beside it."""


def definition_of(cascade: Cascade) -> dict[str, Any]:
    """A cascade as JSON, as its user wrote it."""
    return cascade.model_dump(mode="json", by_alias=True, exclude_unset=True)


def has_begun(store: Store, session_id: str) -> bool:
    """Whether a store has a session of just this name."""
    try:
        store.start(session_id)
    except UsageError:
        return False
    return True


def begun_as(run: CascadeRun, definition: Mapping[str, Any]) -> dict[str, Any]:
    """What a session's start says of its run: file, root, model, and what its steps depend on."""
    flag = run.settings.layers["flags"].get("model")
    return {
        "file": run.cascade.file,
        "root": str(run.settings.root.resolve()),
        "model": flag.value if flag else None,
        "depends_on": _depends_on(run, definition),
    }


def _depends_on(run: CascadeRun, definition: Mapping[str, Any]) -> dict[str, str]:
    """Digests of what decides what the steps of a run are, by what it is called."""
    cascade = run.cascade
    rules = [compile_rule(cascade, phase, run.settings) for phase in cascade.phases]
    models = [run.generation_of(phase).model for phase in cascade.phases]
    named = {name for phase in cascade.phases for name in _tackle(phase.tackle)}
    named |= {name.rpartition(":")[2] for name in judges_of(cascade)}
    return {
        "the cascade": _digest(definition),
        "the input": _digest(run.input),
        "the model": _digest(models),
        "the policy": _digest(repr(rules)),
        **{
            f"the tool {name!r}": _digest(_source_of(run, name))
            for name in sorted(named & {*run.registry.names()})
        },
    }


def _tackle(tackle: Any) -> Iterable[str]:
    return () if tackle == "manifest" else tool_names(tackle)


def _source_of(run: CascadeRun, name: str) -> Any:
    tool = run.registry.get(name)
    try:
        return inspect.getsource(tool.function)
    except (OSError, TypeError):
        return tool.spec.to_openai()


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()[:16]


def taken_up(run: CascadeRun, definition: Mapping[str, Any], again: Iterable[str]) -> CascadeRun:
    """The run with what the record of its session knows of its steps."""
    recorded = Recorded(run.record.store, run.record.session_id)
    start = run.record.store.start(run.record.session_id)
    before = start.cascade.get(RAN, {}).get("depends_on", {})
    now = _depends_on(run, definition)
    changed = [name for name in dict.fromkeys([*before, *now]) if before.get(name) != now.get(name)]
    if "the cascade" in changed:  # it says the others, too
        changed = [name for name in changed if name not in ("the model", "the policy")]
    run.record.recorded = recorded
    run.record.pass_to(start.timestamp)
    journal = read_journal(recorded.rows, changed, again)
    return replace(run, journal=replace(journal, holds_back=run.is_sounding))


def what_ran(store: Store, session_id: str) -> SessionStart:
    """How a session of a cascade began. Raises UsageError where there is nothing to go on with."""
    start = store.start(session_id)
    if OPERATORS in start.cascade:
        raise UsageError(
            f"session {session_id!r} ran a task file: windlass evaluate --resume {session_id}"
        )
    if start.parent_id is not None:
        raise UsageError(
            f"session {session_id!r} is part of another: windlass run --resume {start.parent_id}"
        )
    if RAN not in start.cascade:
        raise UsageError(f"session {session_id!r} was recorded before runs could be resumed")
    ended = [outcome for outcome in store.outcomes(session_id) if outcome.phase is None]
    if ended and ended[-1].status == "completed":
        raise UsageError(
            f"session {session_id!r} completed; there is nothing to resume."
            f" What it did: windlass show {session_id}"
        )
    return start


@contextmanager
def alone(store: Store, session_id: str) -> Iterator[None]:
    """Let no other process of this machine run a session meanwhile. Raises UsageError."""
    try:
        import fcntl
    except ImportError:  # another system: two runs at once are not told apart there
        yield
        return
    folder = store.folder / "running"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / path_part(session_id)
    with file.open("a+", encoding="utf-8") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            held.seek(0)
            by = held.read().strip()
            raise UsageError(
                f"session {session_id!r} is running{f' in process {by}' if by else ''};"
                " wait for it, or stop it first"
            ) from error
        held.truncate(0)
        held.write(_process())
        held.flush()
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def _process() -> str:
    import os

    return str(os.getpid())
