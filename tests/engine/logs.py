"""Phases that read long logs and draw, for tests of what its calls see of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.engine.harness import Ran, call, calls, phase
from tests.strategies import png
from windlass.history.base import NodeType
from windlass.history.row_details import json_of
from windlass.messages import Message
from windlass.wire.base import Request


def log(build: str = "4711") -> str:
    """A log with one id and one error in a lot of prose."""
    noise = [f"b{build}: step {number} went as it always goes here" for number in range(120)]
    noise.insert(60, f"ERROR: build {build} failed in module_{build}.py")
    return "\n".join(noise)


def logs() -> Callable[..., str]:
    """A tool that tells a long log; no name of a file's reader, which would be kept longer."""

    def build_log(build: str = "4711") -> str:
        """Read a log.

        Args:
            build: Which.
        """
        return log(build)

    return build_log


def asks(build: str) -> Message:
    """A reply that reads the log of a build."""
    return calls(call("build_log", json.dumps({"build": build})))


def reading(*builds: str, last: str = "done") -> dict[str, Sequence[Message | str]]:
    """The replies of a phase that reads logs, one a turn."""
    return {"a": [*(asks(build) for build in builds), last]}


def shown(ran: Ran, number: int, name: str = "a") -> list[str]:
    """The texts of the tool results that a request held."""
    return results_of(ran.request(name, number))


def selections(ran: Ran) -> list[Mapping[str, Any]]:
    """The metadata of the `context_selection` records."""
    return [json_of(stored.row) for stored in ran.rows(NodeType.CONTEXT_SELECTION)]


def lookup(**keys: Any) -> dict[str, Any]:
    """The phase that reads logs."""
    return phase("a", tackle=["build_log"], **keys)


def results_of(request: Request) -> list[str]:
    """The texts of the tool results that a request holds."""
    return [message.text for message in request.messages if message.role == "tool"]


def draw(number: int = 1) -> bytes:
    """Draw.

    Args:
        number: Which.
    """
    return png(number, number)


def draws(**keys: Any) -> dict[str, Any]:
    """The phase that draws."""
    return phase("a", tackle=["draw"], **keys)


def drawing(number: int = 1) -> Message:
    """A reply that draws a square with this side."""
    return calls(call("draw", json.dumps({"number": number})))
