"""Who in view holds a name: asked of what a shortened message held, before it goes.

Most messages are shortened a call or two after they came, and few names are ever asked for.
So the newest messages are looked into one by one, as sets, and only what stays is counted;
names are worked out when the first question comes. This module knows positions and messages;
it does not know why one is shown, or for how long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import filterfalse
from typing import Final

from windlass.messages import Message
from windlass.window.names import names_in

_YOUNG: Final = 8
"""Messages looked into one by one: those of the last three or four turns."""

NONE: Final[frozenset[str]] = frozenset()


class ShownNames:
    """The names of one message as it is shown, worked out when they are asked for."""

    def __init__(self, message: Message | None) -> None:
        self._message = message
        self._names: AbstractSet[str] | None = None

    @property
    def names(self) -> AbstractSet[str]:
        """The names in it; none where nothing is shown."""
        if self._names is None:  # `cached_property` takes a lock
            self._names = NONE if self._message is None else names_in(self._message)
        return self._names


class IdentifierIndex:
    """The names in what is shown, by position."""

    def __init__(self) -> None:
        self._said: dict[int, ShownNames] = {}
        self._young: dict[int, ShownNames] = {}
        self._counts: Counter[str] = Counter()
        """How many of the messages that are not young hold a name; no zeros."""

    def put(self, shown: Mapping[int, ShownNames]) -> None:
        """Show these from now on, in the place of what was shown there."""
        for at, new in shown.items():
            old = self._said.get(at)
            self._said[at] = new
            if old is None or at in self._young:
                self._young[at] = new
            elif old is not new:
                self._recount(old.names, new.names)
        while len(self._young) > _YOUNG:
            oldest = next(iter(self._young))
            self._counts.update(self._young.pop(oldest).names)

    def _recount(self, old: AbstractSet[str], new: AbstractSet[str]) -> None:
        counts = self._counts
        for name in old - new:
            left = counts.pop(name) - 1  # deleting from a `Counter` takes four times as long
            if left:
                counts[name] = left
        counts.update(new - old)

    def __contains__(self, at: int) -> bool:
        return at in self._said

    def among(
        self, names: Iterable[str], instead: Mapping[int, ShownNames], but: Collection[int] = ()
    ) -> Counter[str]:
        """How many messages hold each of the names; those that none holds are left out.

        `instead` is shown in the place of what stands here; the positions `but` do not count.
        """
        searched = frozenset(names)
        counts = Counter({name: self._counts[name] for name in self._counts.keys() & searched})
        for at in {*instead, *but}:
            if at in self._said and at not in self._young:
                counts.subtract(searched.intersection(self._said[at].names))
        for at, shown in {**self._young, **instead}.items():
            if at not in but:
                counts.update(searched.intersection(shown.names))
        return counts

    def left(self, names: Iterable[str], instead: Mapping[int, ShownNames], but: int) -> list[str]:
        """Those of the names that nothing shown holds but the message at `but`, in their order."""
        counts = self._counts
        gone = [
            self._said[at].names
            for at in {*instead, but}
            if at in self._said and at not in self._young
        ]
        if not gone:
            left = dict.fromkeys(filterfalse(counts.__contains__, names))
        elif len(gone) == 1:
            (lost,) = gone
            left = {name: None for name in names if counts.get(name, 0) == (name in lost)}
        else:  # no generator to sum: speed
            left = {
                name: None
                for name in names
                if counts.get(name, 0) == sum([name in lost for lost in gone])
            }
        for at, shown in {**self._young, **instead}.items():
            if at != but:
                for name in shown.names & left.keys():
                    del left[name]
        return list(left)
