"""A property that is worked out once: `functools.cached_property` without its lock.

For values that never change: of two threads that ask at the same time both may work it out, and
find the same. The lock takes longer than most of what is found. Knows nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Found = TypeVar("Found")


class once(Generic[Found]):  # noqa: N801 - a decorator, as `property` is
    """What `find` says of a value, kept in its `__dict__` under the name of the property."""

    def __init__(self, find: Callable[[Any], Found]) -> None:
        self._find = find
        self._name = find.__name__
        self.__doc__ = find.__doc__

    @overload
    def __get__(self, value: None, owner: type) -> Self: ...
    @overload
    def __get__(self, value: object, owner: type) -> Found: ...
    def __get__(self, value: object | None, owner: type) -> Self | Found:
        """Asked for once: from then on what was found hides the property."""
        if value is None:
            return self
        found = value.__dict__[self._name] = self._find(value)
        return found
