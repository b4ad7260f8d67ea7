"""A list of messages that only grows: its objects, their form, and the messages that they are.

One object may be several messages (a user's turn with results), several objects one message (the
items of a response). An object stands in a window as the caller gave it, as long as all that it is
stands there as it was said; else the turn that it belongs to is written anew, once, and is the same
object in the windows that follow, until it changes.

The cache marks that a caller set in a list: where they stand among the entries of a window.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from itertools import compress, groupby, islice
from operator import attrgetter, is_, is_not, itemgetter
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from windlass.caching.breakpoints import Place
from windlass.errors import SequenceError
from windlass.messages import Message
from windlass.window.entries import Entry
from windlass.window.intake import Intake, IntakeMessage
from windlass.wire.editing import is_compaction
from windlass.wire.forms import LIST_MODULES, TITLES, FormName, ListForm, ListReading, form_of
from windlass.wire.marks import block_parts, content_parts
from windlass.wire.openai_responses import joined

Chat: TypeAlias = Mapping[str, Any]
"""A message or a tool in one of the forms."""


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


@dataclass(frozen=True, slots=True)
class _Written:
    """Objects that were written of some messages, and copies of them that nobody else has."""

    messages: tuple[Message, ...]
    caller: Message | None
    objects: list[dict[str, Any]]
    copies: list[dict[str, Any]]

    @property
    def is_unchanged(self) -> bool:
        """Return whether nobody put anything into the objects."""
        return self.objects == self.copies


class _Turn(NamedTuple):
    """A turn that was written: where it ends among the entries, and among the objects.

    `opened`: somebody else than the system has spoken by then. `caller` is the last reply.
    """

    end: int
    objects: int
    opened: bool
    caller: Message | None


_NO_TURN: Final = _Turn(0, 0, opened=False, caller=None)


class FollowedList:
    """The objects of a list in the order of appending, and what was taken of each.

    Args:
        intake: Who mends what was read.
        whole: Whether objects of the caller's keep the keys that are not sent.
    """

    def __init__(self, intake: Intake, *, whole: bool = False) -> None:
        self.intake = intake
        self._whole = whole
        self.objects: list[Chat] = []
        """The caller's own objects."""
        self.taken: list[IntakeMessage] = []
        """The messages that they are, those that were mended or left out included."""
        self.places: dict[str | int, str] = {}
        """The id of each message, by its id and by the position of its object."""
        self.sources: dict[str, int] = {}
        """The position of the object that a message is, by its id."""
        self.form: FormName | None = None
        """The form of the list (None: all so far looks the same in several)."""
        self._apart = False
        self._told_form = False
        """Whether the object that was read last told the form."""
        self._use_module("openai")
        self._origins: dict[str, _Origin] = {}
        """By occurrence; only those that stand as they came."""
        self._held: tuple[Message, int, int, list[str]] | None = None
        """A response whose items are yet to come, its positions and what was mended."""
        self._cut = False
        """Whether the last response was taken while more of it could come."""
        self._written: dict[str, _Written] = {}
        """What was written anew, by the first occurrence."""
        self._bare: dict[int, dict[str, Any]] = {}
        """Objects without the keys that are not sent, by position."""
        self._entries: Sequence[Entry] = ()
        self._objects: list[WrittenObject] = []
        """What was written last, its turns and its objects."""

    def _use_module(self, form: FormName) -> None:
        self._module = cast("ListForm", import_module(LIST_MODULES[form]))
        self._reader = self._module.list_reader()
        self._turns: list[_Turn] = []

    @property
    def position(self) -> int:
        """Return the position of the next object."""
        return len(self.objects)

    def use_form(self, form: FormName, *, apart: bool = False) -> None:
        """Read the list in this form from here on; what came before looks the same in it.

        `apart`: neighbours of one side stay apart where the caller gave them so. Vendors take that
        and gateways refuse it.
        """
        self.form, self._apart = form, apart
        self._use_module(form)

    # ---- what is appended ---------------------------------------------------------------

    def read(self, given: Chat) -> ListReading | None:
        """Return what the next object of the list is; None for one in OpenAI's chat form.

        Raises SequenceError, and nothing has changed then, for what the provider refuses.
        """
        form, self._told_form = self.form, False
        try:
            return self._read(given)
        except SequenceError:
            self._forget_form(form)
            raise

    def _read(self, given: Chat) -> ListReading | None:
        where = f"message {self.position}"
        is_object = isinstance(given, Mapping)
        form = form_of(given) if is_object and self.form != "openai" else None
        if form is not None and self.form is None:
            self._told_form = True
            self.use_form(form)
        if self.form in (None, "openai"):
            return None
        if not is_object:
            raise SequenceError(f"{where}: is {type(given).__name__}, not an object")
        if form not in (None, self.form):
            raise SequenceError(f"{where}: is in {TITLES[form]}, and the list in {self._title}")
        self.intake.check(given, where)
        reader = copy(self._reader)  # what is refused leaves no trace
        reading = reader.read(given, where)
        for message in reading.messages:
            self.intake.check_rules(message, where)
        self._reader = reader
        return reading

    @property
    def _title(self) -> str:
        return TITLES[self.form or "openai"]

    def _forget_form(self, form: FormName | None) -> None:
        if self._told_form:
            self._use_module("openai")
            self.form = form

    def take(self, given: Chat, reading: ListReading | None) -> list[IntakeMessage]:
        """Return the messages that the next object is, as it was read, and those that it completes.

        Raises SequenceError for what no provider takes; it counts as not appended then.
        """
        position = self.position
        if reading is None:
            try:
                taken = self.intake.take(given)
            except SequenceError:
                self._forget_form(None)
                raise
            self._note_origin(taken, 1, position, position + 1)
            return taken
        mended, self._cut = list(reading.mended), False
        held = self._held
        if reading.joins:
            message, first = reading.messages[0], position
            if held is not None:
                message, first = joined(held[0], message), held[1]
                mended = [*held[3], *mended]
            self._held = message, first, position + 1, mended
            return []
        completed = self.flush()
        self._cut = False
        ident = given.get("id") if "id" in self._module.NOT_SENT else None
        named = ident if isinstance(ident, str) and ident else None
        new = self._take(reading.messages, position, position + 1, mended, named)
        return [*completed, *new]

    def flush(self) -> list[IntakeMessage]:
        """Return the response whose items were held back, as what goes on."""
        if self._held is None:
            return []
        message, first, behind, mended = self._held
        taken = self._take((message,), first, behind, mended)
        self._held, self._cut = None, True
        return taken

    def goes_on_with(self, messages: Sequence[Chat]) -> bool:
        """Say whether the list can go on with these: not with more of a response that was taken."""
        if not self._cut or not messages:
            return True
        return messages[0].get("role", "assistant") != "assistant" or "type" not in messages[0]

    def _take(
        self,
        messages: Sequence[Message],
        first: int,
        behind: int,
        mended: list[str],
        ident: str | None = None,
    ) -> list[IntakeMessage]:
        taken: list[IntakeMessage] = []
        for message in messages:
            name = ident if message is messages[-1] else None
            taken += self.intake.take_message(message, first, name, mended.copy())
        self._note_origin(taken, len(messages), first, behind)
        return taken

    def _note_origin(
        self, taken: Sequence[IntakeMessage], count: int, first: int, behind: int
    ) -> None:
        """Note the messages that objects are, if they are all of it as it came."""
        own = [one for one in (*taken, *self.intake.late) if one.source == first]
        if len(own) == count and not any(one.repair or one.left_out for one in own):
            idents = tuple(one.item.id for one in own)
            self._origins |= dict.fromkeys(idents, _Origin(first, behind, idents))

    def note(self, taken: IntakeMessage) -> None:
        """Note a message that was taken."""
        self.taken.append(taken)
        if taken.source is not None:
            self.places[taken.source] = taken.item.id
            self.sources[taken.item.id] = taken.source
        self.places[taken.item.id] = taken.item.id

    # ---- what is shown ------------------------------------------------------------------

    def now_said(self, messages: Sequence[Chat]) -> bool:
        """Show these objects, equal to those appended, and all else as it was written.

        Whether anything is another object than before: the caller's, or one that was changed
        since a window handed it out.
        """
        same = all(map(is_, self.objects, messages))
        self.objects[:] = messages[: len(self.objects)]
        if same and all(one.is_unchanged for one in self._written.values()):
            return False
        self._turns = []
        return True

    def written(self, entries: Sequence[Entry]) -> Sequence[WrittenObject]:
        """Give the entries in the form of the list; the caller's own objects where nothing changed.

        Turns that stand as they stood the last time, and all before them, too, are not looked at.
        """
        changed = map(is_not, entries, self._entries)
        same = next(compress(itertools.count(), changed), min(len(entries), len(self._entries)))
        # The last of them may be longer now.
        del self._turns[max(0, bisect_left(self._turns, same, key=attrgetter("end"))) :]
        turn = self._turns[-1] if self._turns else _NO_TURN
        del self._objects[turn.objects :]
        side = self._module.side
        sides = (
            (side(entry.message) or f"{at}", entry)
            for at, entry in enumerate(islice(entries, turn.end, None))
        )
        for name, grouped in groupby(sides, key=itemgetter(0)):
            group = [entry for _, entry in grouped]
            turn = self._write(name, group, turn)
            self._turns.append(turn)
        self._entries = entries
        return self._objects

    def _write(self, side: str, group: Sequence[Entry], before: _Turn) -> _Turn:
        """Write the next turn."""
        opened = before.opened
        for run in self._runs(group):
            objects = self._own(run)
            if objects is None:
                objects = self._anew(run, before.caller)
            if objects and not opened and side != "system":
                opened = True
                # A compaction stands for what users said, and is the first thing by itself.
                begins = not is_compaction(next(iter(run[0].message.parts), None))
                if begins and side in ("assistant", "model"):
                    self._objects += self.opening()
            self._objects += [WrittenObject(one, tuple(run)) for one in objects]
        last = group[-1].message
        caller = last if last.role == "assistant" else before.caller
        return _Turn(before.end + len(group), len(self._objects), opened, caller)

    def opening(self) -> list[WrittenObject]:
        """Return what the user says where the provider wants a word of theirs."""
        return [WrittenObject(one, ()) for one in self._module.opening()]

    def _anew(self, run: Sequence[Entry], caller: Message | None) -> list[dict[str, Any]]:
        """Give the entries of a side, written; the same objects as before where nothing changed."""
        ident, messages = run[0].item.id, tuple(entry.message for entry in run)
        known = self._written.get(ident)
        unchanged = known is not None and known.is_unchanged
        if known is None or not unchanged or (known.messages, known.caller) != (messages, caller):
            objects = self._module.write(messages, caller)
            if known is not None and unchanged and known.copies == objects:
                objects = known.objects
            self._written[ident] = known = _Written(messages, caller, objects, copied(objects))
        return known.objects

    def _runs(self, group: Sequence[Entry]) -> list[list[Entry]]:
        """Return the entries of one side, in the runs that are written as an object each.

        What became neighbours by an edit is one object, and so are the results of one turn.
        """
        if not self._apart or len(group) == 1:
            return [list(group)]
        runs: list[list[Entry]] = []
        behind = -1
        for entry in group:
            origin = self._origins.get(entry.item.id)
            begins = origin is not None and entry.item.id == origin.idents[0]
            apart = begins and origin is not None and origin.first == behind
            if runs and not (apart and entry.message.role != "tool"):
                runs[-1].append(entry)
            else:
                runs.append([entry])
            behind = -1 if origin is None else origin.behind
        return runs

    def _own(self, run: Sequence[Entry]) -> list[dict[str, Any]] | None:
        """Return the caller's objects that are these entries, if these are all that they are."""
        origin = self._origins.get(run[0].item.id)
        if (
            origin is None
            or any(entry.message is not entry.item.message for entry in run)
            or origin.idents != tuple(entry.item.id for entry in run)
        ):
            return None
        return [self._sent(at) for at in range(origin.first, origin.behind)]

    def _sent(self, at: int) -> Any:
        """Return the object at a position without the keys that are not sent, made once."""
        given, unsent = self.objects[at], self._module.NOT_SENT
        if self._whole or unsent.isdisjoint(given):
            return given
        bare = {key: value for key, value in given.items() if key not in unsent}
        if self._bare.get(at) != bare:
            self._bare[at] = bare
        return self._bare[at]


def copied(value: Any) -> Any:
    """Return a copy of JSON data."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, dict | Mapping):  # most are a dict, which is the sooner known
        return {key: copied(one) for key, one in value.items()}
    return [copied(one) for one in value] if isinstance(value, list | tuple) else value


class Follower(Protocol):
    """Something that followed a list."""

    @property
    def count(self) -> int:
        """Return how many objects of the list it was given."""
        ...


Kept = TypeVar("Kept", bound=Follower)


class Memo(Generic[Kept]):
    """What followed recent lists, so that the next call of the same loop costs what is new.

    It is only speed. What is in use is taken out: no two threads share one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[Kept] = []
        self._lock = Lock()

    def take(self, fits: Callable[[Kept], bool]) -> Kept | None:
        """Take out the first that fits; None: there is none."""
        with self._lock:
            candidates = [(one, one.count) for one in self._kept]
        for one, count in candidates:
            if fits(one) and self._take_out(one, count):
                return one
        return None

    def _take_out(self, kept: Kept, count: int) -> bool:
        """Return whether it was still there, as it was; another thread may have used it."""
        with self._lock:
            if kept not in self._kept or kept.count != count:
                return False
            self._kept.remove(kept)
            return True

    def keep(self, kept: Kept) -> None:
        """Keep one for the next call; the one that was not used longest may go."""
        with self._lock:
            self._kept.insert(0, kept)
            del self._kept[self._most :]

    def forget(self) -> None:
        """Keep nothing any more."""
        with self._lock:
            self._kept.clear()


@dataclass(frozen=True, slots=True)
class CallerMarks:
    """The caller's marks in a list, by message and by block of its content.

    `end`: the request as a whole has one, which stands at its end. `until` is the first place at
    which no other mark may stand (None: there is none).
    """

    listed: FollowedList
    own: tuple[Place, ...] = ()
    end: bool = False
    until: Place | None = None

    def among(self, entries: Sequence[Entry]) -> tuple[list[Place], Place | None]:
        """Return the marks by entry and part, and where none of ours stands from."""
        own = [place for place in self.places(entries) if place is not None]
        if self.end and entries:
            own.append((len(entries) - 1, self._parts_of(entries[-1].message)[-1]))
        return sorted(set(own)), self.until and self._first_place(entries, self.until)

    def places(self, entries: Sequence[Entry]) -> tuple[Place | None, ...]:
        """Return the marks by entry and part (None: what was marked is not shown)."""
        if not self.own:
            return ()
        shown = {entry.item.id: at for at, entry in enumerate(entries)}
        places: list[Place | None] = []
        for position, block in self.own:
            if position < 0:
                places.append((position, block))
                continue
            parts = [
                (taken.item, part)
                for taken in self.listed.taken
                if taken.source == position and not taken.left_out
                for part in self._parts_of(taken.item.message)
            ]
            item, part = parts[min(block, len(parts) - 1)] if parts else (None, 0)
            at = shown.get(item.id) if item is not None else None
            if at is None:
                places.append(None)
            else:
                now = self._parts_of(entries[at].message)
                places.append((at, part if part in now else now[-1]))
        return tuple(places)

    def _first_place(self, entries: Sequence[Entry], place: Place) -> Place:
        """The first place by entry and part of what stands at a place of the list or behind it."""
        if place[0] < 0:
            return place
        for at, entry in enumerate(entries):
            source = self.listed.sources.get(entry.item.id)
            if source is not None and source >= place[0]:
                parts = self._parts_of(entry.message)
                exact = source == place[0] and place[1] < len(parts)
                return at, parts[place[1]] if exact and place[1] else 0
        return len(entries), 0

    def _parts_of(self, message: Message) -> list[int]:
        """Return the parts of a message that are blocks of its content in the form of the list."""
        in_blocks = self.listed.form == "anthropic"
        parts = block_parts(message) if in_blocks else content_parts(message)
        return parts or [0]
