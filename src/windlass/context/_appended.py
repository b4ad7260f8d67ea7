"""The list that a caller appends to: its objects, their form, and the messages that they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.context._lists import FormList, WrittenObject
from windlass.context._repairs import repaired_ends
from windlass.context.window import Chat
from windlass.errors import SequenceError
from windlass.window.entries import Entry
from windlass.window.intake import Intake, Taken
from windlass.wire.calls import ANSWERED
from windlass.wire.forms import TITLES, FormName, ListReading, form_of


class AppendedList:
    """The objects of a list in the order of appending, and what was taken of each.

    Args:
        intake: Who mends what was read.
    """

    def __init__(self, intake: Intake) -> None:
        self.intake = intake
        self.objects: list[Chat] = []
        """The caller's own objects."""
        self.taken: list[Taken] = []
        """The messages that they are, those that were mended or left out included."""
        self.places: dict[str | int, str] = {}
        """The id of each message, by its id and by the position of its object."""
        self.sources: dict[str, int] = {}
        """The position of the object that a message is, by its id."""
        self._form: str | None = None
        """The form of the list (None: all so far looks the same in several)."""
        self._list: FormList | None = None
        """The list in its form, where that is not OpenAI's chat form."""
        self._told_form = False
        """Whether the object that was read last told the form."""

    @property
    def form(self) -> str | None:
        """The form of the list (None: all so far looks the same in several)."""
        return self._form

    @property
    def in_chat_form(self) -> bool:
        """Whether the list is read as OpenAI's chat."""
        return self._list is None

    @property
    def position(self) -> int:
        """The position of the next object."""
        return len(self.objects)

    def use_form(self, form: FormName, *, apart: bool = False) -> None:
        """Read the list in this form from here on; what came before looks the same in it.

        `apart`: neighbours of one side stay apart where the caller gave them so.
        """
        self._form = form
        if form == "openai":
            return
        self._list = FormList(form, self.intake, self.objects, apart=apart)
        for taken in self.taken:
            if taken.source is not None and taken.repair is None and not taken.left_out:
                self._list.own(taken.item.id, taken.source)

    def read(self, message: Chat) -> ListReading | None:
        """What the next object of the list is; None for one in OpenAI's chat form.

        Raises SequenceError, and nothing has changed then, for what the provider refuses.
        """
        known = self._form, self._list
        self._told_form = self._form is None
        try:
            return self._read(message)
        except SequenceError:
            self._form, self._list = known
            raise

    def _read(self, message: Chat) -> ListReading | None:
        position = self.position
        if self._form == "openai" or not isinstance(message, Mapping):
            form = None
        else:
            form = form_of(message)
        if form is not None and self._form is None:
            self.use_form(form)
        if self._list is None:
            return None
        if not isinstance(message, Mapping):
            raise SequenceError(f"message {position}: is {type(message).__name__}, not an object")
        if form is not None and form != self._form:
            raise SequenceError(
                f"message {position}: is in {TITLES[form]}, and the list in"
                f" {TITLES[self._list.name]}"
            )
        return self._list.read(message, position)

    def take(self, message: Chat, reading: ListReading | None) -> Sequence[Taken]:
        """The messages that the next object is, as it was read, and those that it completes.

        Raises SequenceError for what no provider takes; it counts as not appended then.
        """
        if self._list is not None and reading is not None:
            return self._list.take(reading, message, self.position)
        try:
            return self.intake.take(message)
        except SequenceError:
            if self._told_form:
                self._form = None
            raise

    def note(self, taken: Taken) -> None:
        """Note a message that was taken."""
        self.taken.append(taken)
        if taken.source is not None:
            self.places[taken.source] = taken.item.id
            self.sources[taken.item.id] = taken.source
        self.places[taken.item.id] = taken.item.id

    def flush(self) -> list[Taken]:
        """The response whose items were held back, as what goes on."""
        return self._list.flush() if self._list is not None else []

    def goes_on_with(self, messages: Sequence[Chat]) -> bool:
        """Whether the list can go on with these: not with more of a response that was taken."""
        return self._list is None or not messages or not self._list.joins(messages[0])

    def written(
        self, entries: Sequence[Entry], model: str
    ) -> tuple[list[WrittenObject], str] | None:
        """Entries in the form of the list, and its name; None where that is OpenAI's chat form.

        The end is one that `provider/model` takes.
        """
        if self._list is None:
            return None
        objects, form = self._list.written(entries), self._list.name
        messages = [entry.message for entry in entries]
        if ANSWERED in repaired_ends(form, messages, model, system_anywhere=True):
            objects += [WrittenObject(one, ()) for one in self._list.opening()]
        return objects, form
