"""Inner tasks of a reduce on a Ray cluster: the same tasks, the same record, the same order.

A worker opens the session's store by its place, runs one inner task from its first call to its
last, and answers what a task that runs here would. So the store must be one that workers reach: a
folder that they share with this machine, or a ClickHouse server. Inputs travel as text.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from windlass.api.loading import load_program
from windlass.api.opening import open_resources
from windlass.caching.rates import override
from windlass.cascade.ready import ReadyCascade
from windlass.engine.cascade import add_server_tools, needed_servers
from windlass.engine.cascade_run import Access
from windlass.engine.opening import OpenSession
from windlass.engine.setup import prepare
from windlass.engine.tasks.frame import Assignment, Frame, Material
from windlass.engine.tasks.job import Done, Job
from windlass.engine.tasks.task_inputs import Given
from windlass.engine.tasks.task_runner import finished_before, run_one
from windlass.errors import UsageError, WindlassError, WorkerLost
from windlass.safety.imports import logging_unchanged
from windlass.tasks.parse import read_task
from windlass.wire.base import Usage

if TYPE_CHECKING:
    from windlass.providers.base import Provider

ADDRESS: Final = "RAY_ADDRESS"
"""The variable that names a cluster; without it Ray is started on this machine."""

_OURS: Final = "WINDLASS_"


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker needs for one inner task.

    `flags` are the settings of the command, with absolute paths, `environment` the variables of
    Windlass, `folder` where the file of settings lies.
    """

    folder: str
    flags: Mapping[str, Any]
    environment: Mapping[str, str]
    file: str
    raw: bytes
    session: str
    input: Mapping[str, Any]
    state: Mapping[str, Any]
    task: str
    frame: Frame
    path: str
    index: int
    item: Given


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """What a worker answers: what finished, or what failed; and what it used."""

    done: Done | None
    failure: WindlassError | None
    usage: Usage
    cost: float | None
    saved: int


@dataclass(frozen=True, slots=True)
class SharedObjects:
    """What is the same for all inner tasks, and sent once: the user's tools and providers."""

    tools: tuple[Callable[..., Any] | str, ...]
    providers: Mapping[str, Provider]
    auto: bool


class Cluster:
    """A Ray cluster while one task file runs on it; started on this machine where none is named.

    Args:
        flags: The settings of the command.
        shared: What every worker needs.

    Raises UsageError where Ray is not installed, or the named cluster is not there.
    """

    def __init__(self, flags: Mapping[str, Any], shared: SharedObjects) -> None:
        try:
            with logging_unchanged("ray"):
                import ray
        except ImportError as error:
            raise UsageError(
                "engine 'ray' needs Ray, which is not installed here: pip install 'windlass[ray]'"
                " (or leave it out: a reduce runs its inputs side by side without Ray, too)"
            ) from error
        self._ray = ray
        self._flags = dict(flags)
        self._shared = shared
        self._started = False
        self._remote: Any = None
        self._sent: Any = None

    def __enter__(self) -> Self:
        ray = self._ray
        if not ray.is_initialized():
            address = os.environ.get(ADDRESS)
            own = {} if address else {"include_dashboard": False, "num_cpus": os.cpu_count()}
            try:
                ray.init(address=address, log_to_driver=False, configure_logging=False, **own)
            except (ConnectionError, OSError, ValueError, RuntimeError) as error:
                reason = str(error).strip().partition("\n")[0]
                where = f"{ADDRESS} {address!r}" if address else "on this machine"
                raise UsageError(
                    f"Ray could not be reached or started ({where}): {reason}"
                ) from error
            self._started = True
        # Nothing is tried again by itself: an inner task may have been paid for.
        self._remote = ray.remote(max_retries=0, num_cpus=1)(run_inner_task)
        self._sent = ray.put(self._shared)
        return self

    def __exit__(self, *_: object) -> None:
        if self._started:
            self._ray.shutdown()

    async def __call__(self, job: Job, assigned: Assignment, index: int, item: Given) -> Done:
        """Run one inner task on a worker. Raises what the task raised, or WorkerLost."""
        run, path = job.run, f"{assigned.path}[{index}]"
        finished = finished_before(job, path, item)
        if finished is not None:
            return finished
        settings, source = run.settings, job.program.source
        place = settings.store
        flags = {
            **self._flags,
            "root": str(settings.root.resolve()),
            "store": str(place.absolute()) if isinstance(place, Path) else str(place),
        }
        order = Order(
            folder=str(settings.folder.absolute()),
            flags={name: value for name, value in flags.items() if value is not None},
            environment={k: v for k, v in os.environ.items() if k.startswith(_OURS)},
            file=source.file,
            raw=source.raw,
            session=run.record.session_id,
            input=run.input,
            state=run.session.state,
            task=assigned.task.path,
            frame=assigned.parent,
            path=assigned.path,
            index=index,
            item=item.whole(),
        )
        reply = await self._send(order, path)
        run.totals.add(reply.usage, reply.cost, reply.saved)
        if reply.failure is not None:
            raise reply.failure
        assert reply.done is not None
        return reply.done

    async def _send(self, order: Order, path: str) -> WorkerReply:
        try:
            reply: WorkerReply = await self._remote.remote(order, self._sent)
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise WorkerLost(f"the worker of {path!r} was lost: {reason}") from error
        return reply


def run_inner_task(order: Order, shared: SharedObjects) -> WorkerReply:
    """Run one inner task of a reduce; called in a process of a cluster."""
    os.environ.update(order.environment)
    with suppress(OSError):  # another machine may not have the folder, and needs it for names only
        os.chdir(order.folder)
    return asyncio.run(_run_inner_task(order, shared))


async def _run_inner_task(order: Order, shared: SharedObjects) -> WorkerReply:
    # Whoever gave the order trusts the folder, or it would not have begun.
    folder = Path(order.folder)
    opening = open_resources(order.flags, shared.providers, folder=folder, trust=True)
    async with opening as resources:
        settings, closing = resources.settings, resources.closing
        closing.enter_context(override(settings.prices))
        source = read_task(order.raw, order.file, name=Path(order.file).stem)
        program, registry = load_program(source, settings, shared.tools, auto=shared.auto)
        run = prepare(
            ReadyCascade(program.cascade, registry, {}),
            order.input,
            # Whoever gave the order holds the session until this is done.
            OpenSession(resources.store(existing=True), order.session, is_begun=True),
            settings=settings,
            access=Access(resources.providers.resolve),
        )
        run.session.state.update(order.state)
        servers = needed_servers(run)
        closing.push_async_callback(servers.stop)
        await add_server_tools(run, servers)
        job = Job(program, run, Material(run))
        closing.callback(job.material.close)
        task = next(task for task in program.task.walk() if task.path == order.task)
        done: Done | None = None
        failure: WindlassError | None = None
        assigned = Assignment(task, order.path, order.frame)
        try:
            done = await run_one(job, assigned, order.index, order.item)
        except WindlassError as error:
            failure = error
        totals = run.totals
        return WorkerReply(done, failure, totals.usage, totals.cost, totals.saved_tokens)
