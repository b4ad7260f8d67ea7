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


@dataclass(frozen=True, slots=True)
class WrittenObject:
    """An object of a list as it is sent, and the entries that it is (of a response: some of)."""

    sent: dict[str, Any]
    entries: tuple[Entry, ...]


class FormList:
    """The objects of one list in a form, and what they are inside.

    Args:
        name: The form's.
        intake: Who mends what was read.
        appended: What was appended, the caller's own objects; it grows.
        apart: Whether neighbours of one side stay apart where the caller gave them so. Vendors
            take that and gateways refuse it.
    """

    def __init__(
        self, name: FormName, intake: Intake, appended: list[Chat], *, apart: bool = False
    ) -> None:
        self.name = name
        self._apart = apart
        self._form = cast("ListForm", import_module(LIST_MODULES[name]))
        self._reader = self._form.list_reader()
        self._intake = intake
        self._appended = appended
        self._origin_of: dict[str, _Origin] = {}
        """By occurrence; only those that stand as they came."""
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
            self._origin_of |= dict.fromkeys(idents, _Origin(first, behind, idents))
        return taken

    def own(self, ident: str, position: int) -> None:
        """Note that the object at a position is one occurrence, as it came."""
        self._origin_of[ident] = _Origin(position, position + 1, (ident,))

    def opening(self) -> list[dict[str, Any]]:
        """What the user says where the provider wants a word of theirs."""
        return self._form.opening()

    def written(self, entries: Iterable[Entry]) -> list[WrittenObject]:
        """The entries in the form; the caller's own objects where nothing changed."""
        written: list[WrittenObject] = []
        sides = (
            (self._form.side(entry.message) or f"{at}", entry) for at, entry in enumerate(entries)
        )
        opened = False
        caller: Message | None = None
        for side, grouped in groupby(sides, key=lambda pair: pair[0]):
            group = [entry for _, entry in grouped]
            for run in self._runs(group):
                objects = self._own(run)
                if objects is None:
                    objects = self._form.write([entry.message for entry in run], caller)
                if objects and not opened and side != "system":
                    opened = True
                    # A compaction stands for what users said, and is the first thing by itself.
                    begins = not is_compaction(next(iter(run[0].message.parts), None))
                    if begins and side in ("assistant", "model"):
                        written += [WrittenObject(one, ()) for one in self._form.opening()]
                written += [WrittenObject(one, tuple(run)) for one in objects]
            if group[-1].message.role == "assistant":
                caller = group[-1].message
        return written

    def _runs(self, group: Sequence[Entry]) -> list[list[Entry]]:
        """The entries of one side, in the runs that are written as an object each.

        What became neighbours by an edit is one object, and so are the results of one turn.
        """
        if not self._apart:
            return [list(group)]
        runs: list[list[Entry]] = []
        behind = -1
        for entry in group:
            origin = self._origin_of.get(entry.item.id)
            begins = origin is not None and entry.item.id == origin.idents[0]
            apart = begins and origin is not None and origin.first == behind
            if runs and not (apart and entry.message.role != "tool"):
                runs[-1].append(entry)
            else:
                runs.append([entry])
            behind = -1 if origin is None else origin.behind
        return runs

    def _own(self, run: Sequence[Entry]) -> list[dict[str, Any]] | None:
        """The caller's objects that are these entries, if these are all that they are."""
        origin = self._origin_of.get(run[0].item.id)
        if (
            origin is None
            or any(entry.message is not entry.item.message for entry in run)
            or origin.idents != tuple(entry.item.id for entry in run)
        ):
            return None
        return [self._sent(given) for given in self._appended[origin.first : origin.behind]]

    def _sent(self, given: Chat) -> Any:
        """The object without the keys that are not sent."""
        unsent = self._form.NOT_SENT
        if unsent.isdisjoint(given):
            return given
        return {key: value for key, value in given.items() if key not in unsent}
