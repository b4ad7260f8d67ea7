"""What windows on recorded calls cost and kept in view, whoever made the windows.

Money is in fresh input tokens. What a call needed and did not see counts as fetched again.

What calls took out of earlier tool results: values and whole lines of their arguments.

A *value* is text of 4 or more characters with a digit or one of `_ / @ # .`; a
*line* a whole line with 24 or more characters between its white space. Both count
only if an earlier tool result holds them and no system or user message did. Those that
only the assistant itself had written are its *own*: they are kept apart, and nothing
fetches them again. Where a recording names the values that calls used, those count
instead of the ones found here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from windlass.caching.meter import SharedPrefix
from windlass.caching.prices import fetch_cost
from windlass.context.lists import Chat
from windlass.replays.numbered import NumberedMessages, argument_texts, searchable_text
from windlass.replays.outcomes import Sight
from windlass.replays.pricing import Vector, measure_calls


class MeasuredRecording:
    """One recording, with all that does not depend on who decides what its calls see.

    `results_as_words` are as in `needs_and_own`.
    """

    def __init__(self, recording: CallsOnMessages, results_as_words: Collection[int] = ()) -> None:
        self.calls = recording.calls
        self.shown = NumberedMessages()
        self.originals = self.shown.numbers(recording.messages)
        self.needs, self.own = needs_and_own(recording, results_as_words)
        self.everything = [self.originals[:at] for at in self.calls]
        """The windows where every call is sent everything."""
        self.whole = measure_calls(self.everything, self.shown)

    def missed(
        self, windows: Sequence[Sequence[int]], needs: Mapping[int, Sequence[NeededText]]
    ) -> list[list[NeededText]]:
        """Return what each call needed and did not see."""
        originals = set(self.originals)
        missed: list[list[NeededText]] = []
        for at, window in zip(self.calls, windows, strict=True):
            needed = needs.get(at, ())
            seen = set(window) if needed else set[int]()
            edited = seen - originals
            missed.append(
                [
                    need
                    for need in needed
                    if not any(self.originals[place] in seen for place in need.holders)
                    and not any(self.shown.holds(number, need.text) for number in edited)
                ]
            )
        return missed

    def sight(self, missed: Iterable[Sequence[NeededText]]) -> Sight:
        """Return what all calls needed and saw; `missed` is what they needed and did not see."""
        kinds = Counter(need.kind for at in self.calls for need in self.needs.get(at, ()))
        lost, misses = Counter[str](), 0
        for needs in missed:
            lost.update(need.kind for need in needs)
            misses += len(results_to_fetch(needs))
        values, lines = kinds["value"], kinds["line"]
        return Sight(
            values=values,
            values_seen=values - lost["value"],
            lines=lines,
            lines_seen=lines - lost["line"],
            misses=misses,
        )

    def again(
        self,
        calls: Iterable[SharedPrefix],
        missed: Iterable[Sequence[NeededText]],
        vector: Vector,
    ) -> list[float]:
        """Return what each call pays to fetch again what it missed, in fresh input tokens."""
        tokens = self.shown.tokens
        return [
            sum(
                fetch_cost(
                    call.tokens,
                    tokens[self.originals[place]],
                    read=vector.read,
                    write=vector.write,
                )
                for place in results_to_fetch(needs)
            )
            for call, needs in zip(calls, missed, strict=True)
        ]


def results_to_fetch(needs: Sequence[NeededText]) -> list[int]:
    """Return positions of the results to fetch so that all of `needs` are in view again.

    For each need it is the latest result that holds it, unless one already listed does.
    """
    places: list[int] = []
    for need in needs:
        if not set(need.results) & set(places):
            places.append(need.results[-1])
    return places


Kind: TypeAlias = Literal["value", "line"]

VALUE_LENGTH: Final = 4
LINE_LENGTH: Final = 24
_MARKED: Final = re.compile(r"[0-9_/@#.]")
_INSIDE: Final = re.compile(r"[^\s\"'`(){}\[\]<>,;|&=$:!*?\\^~%+]+")
"""A run of characters that may be one identifier, path, number or address."""
_COMMAND: Final = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)
"""A command in the text of an answer."""
_WORD: Final = re.compile(r"\w+")


class CallsOnMessages(Protocol):
    """A list of messages that only grew, and the calls that were made on it."""

    @property
    def messages(self) -> Sequence[Chat]:
        """Return the messages in OpenAI chat form."""
        ...

    @property
    def calls(self) -> Sequence[int]:
        """Return the positions of the calls.

        Each was sent the messages before, and answered there.
        """
        ...

    @property
    def used(self) -> Mapping[int, Sequence[str]] | None:
        """Return the values that calls took out of earlier results, by the position of the answer.

        None: they are not recorded, and found by how they look.
        """
        ...


class NeededText(NamedTuple):
    """A value or a line that a call used."""

    kind: Kind
    text: str
    holders: tuple[int, ...]
    """The positions of the earlier messages that hold it, ascending."""
    results: tuple[int, ...]
    """Those of `holders` that are tool results (empty: only the assistant wrote it)."""


def is_value(text: str) -> bool:
    """Say whether a text is long and marked enough to be an identifier, path, number or address."""
    return len(text) >= VALUE_LENGTH and _MARKED.search(text) is not None


def values_in(text: str) -> Iterator[str]:
    """Yield the values that an argument's text may use: its marked words."""
    for word in _INSIDE.findall(text):
        value = word.removeprefix("//").rstrip(".-/")  # an address follows its scheme
        if is_value(value):
            yield value


def lines_in(text: str) -> Iterator[str]:
    """Yield the whole lines of an argument's text, with their indentation."""
    for line in text.splitlines():
        if len(line.strip()) >= LINE_LENGTH:
            yield line.rstrip()


class _Index:
    """Finds which of some texts hold a needle; an index of words narrows the search."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._places: dict[str, list[int]] = {}
        for at, text in enumerate(texts):
            for word in set(_WORD.findall(text)):
                self._places.setdefault(word, []).append(at)

    def find(self, needle: str) -> list[int]:
        """Return positions of the texts that hold `needle`, ascending."""
        # The first and the last word of the needle may be parts of longer ones.
        inner = [
            match[0]
            for match in _WORD.finditer(needle)
            if match.start() > 0 and match.end() < len(needle)
        ]
        places: Sequence[int] = range(len(self._texts))
        if inner:
            lists: list[Sequence[int]] = [self._places.get(word, []) for word in inner]
            places = min(lists, key=len)
        return [at for at in places if needle in self._texts[at]]


def needs_of(recording: CallsOnMessages) -> dict[int, list[NeededText]]:
    """Return the needs of each call, by the call's position; each text once a call and kind."""
    return needs_and_own(recording)[0]


def needs_and_own(
    recording: CallsOnMessages, results_as_words: Collection[int] = ()
) -> tuple[dict[int, list[NeededText]], dict[int, list[NeededText]]]:
    """Return the needs of each call, and apart from them what only the assistant had written.

    `results_as_words` are the positions of results that were sent as words of the user. Where there
    are some, calls are commands in the text of answers.
    """
    texts = [searchable_text(chat) for chat in recording.messages]
    roles = [
        "tool" if at in results_as_words else chat["role"]
        for at, chat in enumerate(recording.messages)
    ]
    index = _Index(texts)
    places: dict[str, list[int]] = {}
    needs: dict[int, list[NeededText]] = {}
    own: dict[int, list[NeededText]] = {}
    for at in recording.calls:
        for kind, text in dict.fromkeys(_candidates(recording, at, in_text=bool(results_as_words))):
            if text not in places:
                places[text] = index.find(text)
            holders = tuple(place for place in places[text] if place < at)
            if any(roles[place] in ("system", "developer", "user") for place in holders):
                continue
            results = tuple(place for place in holders if roles[place] == "tool")
            if holders:
                need = NeededText(kind, text, holders, results)
                (needs if results else own).setdefault(at, []).append(need)
    return needs, own


def _candidates(
    recording: CallsOnMessages, at: int, *, in_text: bool
) -> Iterator[tuple[Kind, str]]:
    answer = recording.messages[at] if at < len(recording.messages) else {}
    texts = [text for call in answer.get("tool_calls") or () for text in argument_texts(call)]
    if in_text and not texts:
        texts = _COMMAND.findall(searchable_text(answer)) if answer else []
    used = recording.used
    for value in (
        (value for text in texts for value in values_in(text))
        if used is None
        else filter(is_value, used.get(at, ()))
    ):
        yield "value", value
    for text in texts:
        for line in lines_in(text):
            yield "line", line
