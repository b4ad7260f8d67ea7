"""Which messages in view hold a name, asked before a message is shortened.

Most messages are shortened a call or two after they arrive, and few names are ever asked for. So
the newest messages are searched one by one, as sets, and only those that stay are indexed; names
are extracted at the first question. This module knows positions and messages, but not why one is
shown, or for how long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Final

from windlass.messages import Message
from windlass.window.names import names_in

_YOUNG: Final = 8
"""Messages searched one by one: those of the last three or four turns."""

NONE: Final[frozenset[str]] = frozenset()


class ShownNames:
    """The names of one message as it is shown, extracted when first needed."""

    def __init__(self, message: Message | None) -> None:
        self._message = message

    @cached_property
    def names(self) -> AbstractSet[str]:
        """The names in it; none if it is not shown."""
        return NONE if self._message is None else names_in(self._message)


class IdentifierIndex:
    """The names in what is shown, by position."""

    def __init__(self) -> None:
        self._shown: dict[int, ShownNames] = {}
        self._young: dict[int, ShownNames] = {}
        self._counts: Counter[str] = Counter()
        """How many of the messages that are not young hold a name."""

    def put(self, shown: Mapping[int, ShownNames]) -> None:
        """Show these messages from now on, in place of the earlier ones."""
        for at, new in shown.items():
            old = self._shown.get(at)
            self._shown[at] = new
            if old is None or at in self._young:
                self._young[at] = new
            else:
                self._counts.subtract(old.names - new.names)
                self._counts.update(new.names - old.names)
        while len(self._young) > _YOUNG:
            oldest = next(iter(self._young))
            self._counts.update(self._young.pop(oldest).names)

    def __contains__(self, at: int) -> bool:
        return at in self._shown

    def holders(
        self, names: Iterable[str], instead: Mapping[int, ShownNames], but: Collection[int] = ()
    ) -> Counter[str]:
        """Return how many messages contain each of the names.

        `instead` replaces the messages at its positions; the positions `but` do not count.
        """
        searched = frozenset(names)
        counts = Counter({name: self._counts[name] for name in self._counts.keys() & searched})
        for at in {*instead, *but}:
            if at in self._shown and at not in self._young:
                counts.subtract(searched.intersection(self._shown[at].names))
        for at, shown in {**self._young, **instead}.items():
            if at not in but:
                counts.update(searched.intersection(shown.names))
        return counts
