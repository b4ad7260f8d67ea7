"""Lists in another form than OpenAI's chat: objects of a form in, the same objects out.

One object may be several messages (a user's turn with results), several objects one message (the
items of a response). An object stands in a window as the caller gave it, as long as all that it is
stands there as it was said; else the turn that it belongs to is written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from typing import Any, cast

from windlass.context.window import Chat
from windlass.messages import Message
from windlass.window.entries import Entry
from windlass.window.intake import Intake, Taken
from windlass.wire.editing import is_compaction
from windlass.wire.forms import LIST_MODULES, FormName, ListForm, ListReading
from windlass.wire.openai_responses import joined


@dataclass(frozen=True, slots=True)
class _Origin:
    """Objects of the caller's that are the same as some occurrences: the positions, and the ids."""

    first: int
    behind: int
    idents: tuple[str, ...]


class FormList:
    """The objects of one list in a form, and what they are inside.

    Args:
        name: The form's.
        intake: Who mends what was read.
        appended: What was appended, the caller's own objects; it grows.
    """

    def __init__(self, name: FormName, intake: Intake, appended: list[Chat]) -> None:
        self.name = name
        self._form = cast("ListForm", import_module(LIST_MODULES[name]))
        self._reader = self._form.list_reader()
        self._intake = intake
        self._appended = appended
        self._origins: dict[str, _Origin] = {}
        """By the first occurrence that they are; only those that stand as they came."""
        self._held: tuple[Message, int, int, list[str]] | None = None
        """A response whose items are yet to come, its positions and what was mended."""
        self.cut = False
        """Whether the last response was taken while more of it could come."""

    def read(self, given: Mapping[str, Any], position: int) -> ListReading:
        """What the next object is. Raises SequenceError for what the provider refuses."""
        where = f"message {position}"
        self._intake.check(given, where)
        reader = copy(self._reader)  # what is refused leaves no trace
        reading = reader.read(given, where)
        for message in reading.messages:
            self._intake.check_rules(message, where)
        self._reader = reader
        return reading

    def take(self, reading: ListReading, given: Mapping[str, Any], position: int) -> list[Taken]:
        """The next object, as what goes on."""
        mended, self.cut = list(reading.mended), False
        held = self._held
        if reading.joins:
            message, first = reading.messages[0], position
            if held is not None:
                message, first = joined(held[0], message), held[1]
                mended = [*held[3], *mended]
            self._held = message, first, position + 1, mended
            return []
        taken = self.flush()
        self.cut = False
        ident = given.get("id") if "id" in self._form.NOT_SENT else None
        named = ident if isinstance(ident, str) and ident else None
        return [*taken, *self._take(reading.messages, position, position + 1, mended, named)]

    def flush(self) -> list[Taken]:
        """The response whose items were held back, as what goes on."""
        if self._held is None:
            return []
        message, first, behind, mended = self._held
        taken = self._take((message,), first, behind, mended)
        self._held, self.cut = None, True
        return taken

    def joins(self, given: Mapping[str, Any]) -> bool:
        """Whether an object may be more of a response that was taken already."""
        return self.cut and given.get("role", "assistant") == "assistant" and "type" in given

    def _take(
        self,
        messages: Sequence[Message],
        first: int,
        behind: int,
        mended: list[str],
        ident: str | None = None,
    ) -> list[Taken]:
        taken: list[Taken] = []
        for message in messages:
            name = ident if message is messages[-1] else None
            taken += self._intake.take_message(message, first, name, mended.copy())
        own = [one for one in (*taken, *self._intake.late) if one.source == first]
        same = len(own) == len(messages) and not any(one.repair or one.left_out for one in own)
        if same:
            idents = tuple(one.item.id for one in own)
            self._origins[idents[0]] = _Origin(first, behind, idents)
        return taken

    def own(self, ident: str, position: int) -> None:
        """Note that the object at a position is one occurrence, as it came."""
        self._origins[ident] = _Origin(position, position + 1, (ident,))

    def opening(self) -> list[dict[str, Any]]:
        """What the user says where the provider wants a word of theirs."""
        return self._form.opening()

    def written(self, entries: Iterable[Entry]) -> list[dict[str, Any]]:
        """The entries in the form; the caller's own objects where nothing changed."""
        listed: list[dict[str, Any]] = []
        sides = (
            (self._form.side(entry.message) or f"{at}", entry) for at, entry in enumerate(entries)
        )
        opened = False
        caller: Message | None = None
        for side, grouped in groupby(sides, key=lambda pair: pair[0]):
            group = [entry for _, entry in grouped]
            objects = self._own(group)
            if objects is None:
                objects = self._form.write([entry.message for entry in group], caller)
            if objects and not opened and side != "system":
                opened = True
                # A compaction stands for what users said, and is the first thing by itself.
                begins = not is_compaction(next(iter(group[0].message.parts), None))
                if begins and side in ("assistant", "model"):
                    listed += self._form.opening()
            listed += objects
            if group[-1].message.role == "assistant":
                caller = group[-1].message
        return listed

    def _own(self, group: Sequence[Entry]) -> list[dict[str, Any]] | None:
        """The caller's objects that are these entries, if these are all that they are."""
        origin = self._origins.get(group[0].item.id)
        if (
            origin is None
            or len(origin.idents) != len(group)
            or any(entry.message is not entry.item.message for entry in group)
            or origin.idents != tuple(entry.item.id for entry in group)
        ):
            return None
        return [self._sent(given) for given in self._appended[origin.first : origin.behind]]

    def _sent(self, given: Chat) -> Any:
        """The object without the keys that are not sent."""
        unsent = self._form.NOT_SENT
        if unsent.isdisjoint(given):
            return given
        return {key: value for key, value in given.items() if key not in unsent}
