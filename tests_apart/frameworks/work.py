"""Work that agents of a framework do: they read twelve logs, one a turn, and then say so.

make frameworks    does all of it with wrapped clients and without, and prints the bills
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, TypeAlias

import pytest
from tests.context.loops import SYSTEM, TASK
from tests.providers.model_server import log, reads_logs
from tests.providers.thinking_server import Body, Say

from tests_apart.frameworks.vendors import Vendors, vendors
from windlass.api.wrapping import wrap as windlass_wrap
from windlass.context.wrapped_calls import WrapReport

__all__ = ["SYSTEM", "TASK"]

TURNS: Final = 12
Wrap: TypeAlias = Callable[[Any], Any]
"""What a client is handed to before a framework takes it."""
MODES: Final = ("sync", "stream", "async", "async stream")
_RUNNER: Final = asyncio.Runner()


def read_log(number: int) -> str:
    """Read a log.

    Args:
        number: Which one, from 0.
    """
    return log(number)


def wait(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in the loop that all use: frameworks keep connections between runs."""
    return _RUNNER.run(coroutine)


@dataclass(frozen=True)
class Work:
    """One kind of work: in a framework (a package), through an SDK, in one of its ways.

    `saves`: results are sent as such, so that they can be shortened.
    """

    framework: str
    sdk: str
    way: str
    run: Callable[[Wrap], object]
    script: Callable[[int], Callable[[Body], Say]] = reads_logs
    saves: bool = True

    def __str__(self) -> str:
        return f"{self.framework} {self.sdk} {self.way}"


@dataclass
class Done:
    """What a server billed for a piece of work, and what wrapped clients say of it."""

    server: Vendors
    reports: list[WrapReport] = field(default_factory=list[WrapReport])

    @property
    def bill(self) -> float:
        """US dollars of the input."""
        return self.server.bill


def measure(run: Callable[[Wrap], object], script: Callable[[Body], Say], *, wrapped: bool) -> Done:
    """Do the work against the servers, which answer by a script."""
    with pytest.MonkeyPatch.context() as patch, vendors(script) as server:
        server.lead(patch)
        done = Done(server)

        def wrap(client: Any) -> Any:
            if not wrapped:
                return client
            made: Any = windlass_wrap(client)
            done.reports.append(made.windlass)
            return made

        run(wrap)
        return done


def in_modes(
    framework: str, sdk: str, run: Callable[[Wrap, str], object], modes: Mapping[str, str]
) -> list[Work]:
    """The work in each of the modes; `modes` has what each is called."""

    def one(mode: str) -> Callable[[Wrap], object]:
        return lambda wrap: run(wrap, mode)

    return [Work(framework, sdk, name, one(mode)) for mode, name in modes.items()]


HEADER: Final = (
    f"{'framework':35}{'SDK':22}{'way':36}{'plain':>9}{'wrapped':>9}{'share':>7}{'refused':>9}"
)


def row(work: Work, plain: Done, wrapped: Done) -> str:
    """A line of the table of bills, in US dollars."""
    names = (f"{name} {version(name)}" for name in (work.framework, work.sdk))
    refused = len(plain.server.refused) + len(wrapped.server.refused)
    return (
        f"{next(names):35}{next(names):22}{work.way:36}{plain.bill:>9.4f}"
        f"{wrapped.bill:>9.4f}{wrapped.bill / plain.bill:>7.0%}{refused:>9}"
    )


def numbers(arguments: str) -> str:
    """The result of a call whose arguments are JSON."""
    return read_log(json.loads(arguments)["number"])
