"""The forms of coroutines for code that is not async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from windlass.errors import UsageError

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def in_new_loop(work: Callable[[], Coroutine[Any, Any, _Answer]], name: str) -> _Answer:
    """Return what a coroutine comes to, in an event loop of its own.

    Raises UsageError inside a running event loop, naming the public coroutine `windlass.name`.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    raise UsageError(
        f"{name}_sync cannot be called inside a running event loop; write:"
        f" await windlass.{name}(...)"
    )


def sync_form(
    function: Callable[_Given, Coroutine[Any, Any, _Answer]],
) -> Callable[_Given, _Answer]:
    """Return the same function for code that is not async."""
    name = function.__name__

    @wraps(function)
    def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        return in_new_loop(lambda: function(*args, **kwargs), name)

    call.__name__ = call.__qualname__ = f"{name}_sync"
    call.__doc__ = (
        f"`{name}` for code that is not async; it takes the same arguments.\n\n"
        f"Raises UsageError inside a running event loop; there, `await windlass.{name}(...)`."
    )
    return call
