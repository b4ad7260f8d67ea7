"""`select`: from a list of messages, those that a task needs, within a budget of tokens.

Messages in, the same messages out, in session order. Nothing here reads a clock or a disk,
and a model is asked only through the function that the caller hands over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypedDict, Unpack

from windlass.context.lists import Chat, FollowedList, Memo, copied
from windlass.errors import UsageError
from windlass.messages import Message
from windlass.selection.index import Index, Query
from windlass.selection.menu import menu_of
from windlass.selection.options import (
    Selection,
    Strategy,
)
from windlass.selection.scoring import Picked, SelectionRequest, reasons, score
from windlass.selection.vectors import Embedder, WordLlamaEmbedder, installed
from windlass.text.tokens import FamilyCounter, size_up
from windlass.window.entries import Entry
from windlass.window.intake import Intake, IntakeMessage
from windlass.wire.forms import as_json, form_of_list, has_objects


@dataclass(frozen=True, slots=True)
class ChosenEntry:
    """One chosen message: which, how well it scored, and why it is there.

    `position` is the place in the caller's list (None: it stands in none, as the result of a
    call whose own was never recorded). `ranks` are its places by each signal, from 1.
    """

    id: str
    position: int | None
    score: float
    reason: str
    tokens: int
    ranks: Mapping[str, int] = field(default_factory=dict)


class Chosen:
    """What was chosen for a task, in session order.

    `strategy` is what chose in the end; `note` says why it is not what was asked for (empty:
    it is). `reasoning` is what a model said of its choice, `refused` what it named that was not
    to be chosen from. `tokens` are those of `messages`.
    """

    def __init__(self, session: _Session, picked: Picked) -> None:
        self._session = session
        self._picked = picked
        self._places = [place for at in picked.choice.chosen for place in session.places_of(at)]
        # Now, because the index goes on growing with the caller's session.
        self._reasons = reasons(picked)
        self.strategy = picked.strategy
        self.note = picked.note
        self.reasoning = picked.reasoning
        self.refused = picked.refused
        self.tokens = picked.choice.tokens

    @cached_property
    def messages(self) -> list[Chat]:
        """Return the originals: the caller's own objects, but for what had to be mended to be sent.

        They have the form of the session. An object of which only a part was chosen is written
        anew.
        """
        return self._session.chats(self._places)

    @cached_property
    def entries(self) -> tuple[ChosenEntry, ...]:
        """Return each chosen message with its score and the reason, in the order of `messages`."""
        pairs = zip(self._places, self._reasons, strict=True)
        return tuple(self._entry(place, why) for place, why in pairs)

    @cached_property
    def left_out(self) -> tuple[ChosenEntry, ...]:
        """Get the best-scored messages that did not fit what was left of the budget, best first."""
        return tuple(
            self._entry(place, "does not fit what is left of the budget")
            for at in self._picked.choice.left_out
            for place in self._session.places_of(at)
        )

    def _entry(self, place: int, why: str) -> ChosenEntry:
        taken = self._session.taken[place]
        tokens = int(self._session.index.tokens_at(place))
        score = round(float(self._picked.scored.total[place]), 4)
        ranks = self._picked.scored.ranks(place)
        return ChosenEntry(taken.item.id, taken.source, score, why, tokens, ranks)


class ScoringOptions(TypedDict, total=False):
    """How messages are weighed against each other."""

    max_messages: int | None
    """Most messages (None: no limit)."""
    keyword_weight: float
    """How much the words and vectors of a message count."""
    recency_weight: float
    """How much its position counts."""
    callout_weight: float
    """How much it counts that a message is among the callouts."""
    similarity_threshold: float | str
    """How near a message's vector must be to count: a share of the embedding model's own scale, or
    a text such as `cosine>=0.7`."""


def select(
    messages: Sequence[Chat],
    task: str,
    strategy: Strategy = "hybrid",
    max_tokens: int = 4_000,
    *,
    callouts: Collection[str | int] = (),
    embedder: Embedder | None = None,
    helper: Callable[[str], str] | None = None,
    model: str | None = None,
    **scoring: Unpack[ScoringOptions],
) -> Chosen:
    """Return the messages that matter most for a task, within a budget.

    Args:
        messages: A session in OpenAI's chat form, OpenAI's Responses form, Anthropic's or
            Gemini's, or objects of their SDKs; they are not changed. A message may carry its
            own `id`, which its entry then has.
        task: What the messages are wanted for, in words.
        strategy: `heuristic`, `semantic`, `llm` or `hybrid`.
        max_tokens: Most tokens of what is chosen.
        callouts: Messages that were marked as important, by id or position.
        embedder: The embedding model (None: the embedded one, where it is installed).
        helper: Asked by `llm`, and by `hybrid` where it is given: a function from the
            question to the model's answer.
        model: `provider/model` whose tokens are counted (None: characters / 4, 4 a message).
        scoring: Those of `ScoringOptions`.

    System messages are not chosen from, nor a call that still waits for its result. Calls and
    their results are chosen together.

    Raises SequenceError, naming the position and the rule, for a list that no provider takes;
    UsageError for a wrong option, or for a strategy that needs a model where there is none.
    """
    scoring.setdefault("max_messages", None)
    asking = choosing(
        messages,
        task,
        Selection(strategy=strategy, max_tokens=max_tokens, **scoring),
        callouts=callouts,
        embedder=embedder,
        helper=helper is not None,
        model=model,
    )
    try:
        question = next(asking)
        while helper is not None:
            question = asking.send(helper(question))
    except StopIteration as done:
        chosen: Chosen = done.value
        return chosen
    raise AssertionError("only a helper is asked")


def choosing(
    messages: Sequence[Chat],
    task: str,
    options: Selection,
    *,
    callouts: Collection[str | int] = (),
    embedder: Embedder | None = None,
    helper: bool = False,
    model: str | None = None,
) -> Generator[str, str, Chosen]:
    """Yield `select` as a generator: yields the question for a model, is sent its answer.

    For callers who ask their model in their own way, for one in an event loop.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise UsageError(f"messages are a list of objects, not {type(messages).__name__}")
    if not isinstance(task, str):
        raise UsageError(f"a task is a text that says what is to be done, not {task!r:.80}")
    if options.strategy == "llm" and not helper:
        raise UsageError(
            "strategy 'llm' asks a model: pass helper=, a function that takes the question and"
            " returns the model's answer; or use strategy 'hybrid', which needs none"
        )
    if any(map(has_objects, messages)):
        messages = [as_json(one) for one in messages]
    session = _MEMO.take(lambda one: one.begins(messages, model)) or _Session(model)
    try:
        session.take(messages)
        marked = session.marked(callouts)
        wanted = SelectionRequest(
            index=session.index,
            task=Query.of(task),
            options=options,
            embedder=embedder or _embedded(options.strategy),
            among=session.among,
            callouts=marked,
        )
        found = score(wanted)
        alone = options.strategy == "llm"
        asks = helper and options.strategy in ("llm", "hybrid")
        menu = menu_of(found, alone=alone) if asks else None
        picked = found.pick() if menu is None else menu.pick((yield menu.question))
        return Chosen(session, picked)
    finally:
        _MEMO.keep(session)


def _embedded(strategy: Strategy) -> Embedder | None:
    return WordLlamaEmbedder() if strategy != "heuristic" and installed() else None


class _Session:
    """What a list of messages came to: its index, and the way back to the caller's objects.

    Grows with the list. Of messages that are not chosen from (system prompts, what says
    nothing) it keeps nothing.
    """

    def __init__(self, model: str | None) -> None:
        self.model = model
        self.given: list[Chat] = []
        """Copies of what was taken, to tell whether a list is the same one, grown."""
        self.index = Index()
        self.taken: list[IntakeMessage] = []
        """What each place of the index holds."""
        self._list = FollowedList(Intake(waits=False), whole=True)
        self._revised: dict[int, Message | None] = {}
        """What became of messages because of what was said after them, by their places."""
        self._count: Callable[[Message], int] = FamilyCounter(model).message if model else size_up
        self._places: dict[str | int, int] = {}

    @property
    def count(self) -> int:
        """Return how many messages it was given."""
        return len(self.given)

    def begins(self, messages: Sequence[Chat], model: str | None) -> bool:
        """Return whether it was given the beginning of these messages."""
        return (
            self.model == model
            and self.count <= len(messages)
            and self.given == list(messages[: self.count])
            and self._list.goes_on_with(messages[self.count : self.count + 1])
        )

    def take(self, messages: Sequence[Chat]) -> None:
        """The rest of a list that begins with what was taken before."""
        listed, new = self._list, messages[self.count :]
        listed.now_said(messages)
        if listed.form is None and (form := form_of_list(new)):
            listed.use_form(form)
        for chat in new:
            for taken in listed.take(chat, listed.read(chat)):
                self._add(taken)
            listed.objects.append(chat)
            self.given.append(copied(chat))
        for taken in listed.flush():
            self._add(taken)
        for one in listed.intake.revised():
            if (at := self._places.get(one.ident)) is not None:
                self._revised[at] = one.message

    def _add(self, taken: IntakeMessage) -> None:
        item = taken.item
        if taken.left_out or item.message.is_system:
            return
        place = len(self.taken)
        self._places[item.id] = place
        if taken.source is not None:
            self._places[taken.source] = place
        self.index.append(item, self._count(item.message))
        self.taken.append(taken)

    @property
    def among(self) -> list[bool] | None:
        """Return which messages may be chosen: not those of a call that waits for its results."""
        if not self._list.intake.open_calls:
            return None
        start = self.index.units.starts[-1]
        return [place < start for place in range(len(self.taken))]

    def marked(self, callouts: Collection[str | int]) -> list[int]:
        """Return the places of callouts. Raises UsageError for one that names no message."""
        if isinstance(callouts, str):
            raise UsageError(f"callouts are a list of ids or positions, not {callouts!r:.80}")
        unknown = [one for one in callouts if one not in self._places]
        if unknown:
            raise UsageError(
                f"no message {unknown[0]!r} to mark as important; there are"
                f" {len(self.given)} messages, of which {len(self.taken)} can be chosen"
            )
        return [self._places[one] for one in callouts]

    def places_of(self, at: int) -> range:
        """Return the places of a unit."""
        return self.index.units[at].places

    def chats(self, places: Sequence[int]) -> list[Chat]:
        """Return the messages at these places, in the form of the session."""
        entries: list[Entry] = []
        for place in places:
            item = self.taken[place].item
            message = self._revised.get(place, item.message)
            if message is not None:
                entries.append(Entry(item, message, ""))
        return [one.sent for one in self._list.written(entries)]


_MEMO: Final = Memo[_Session](4)


def forget() -> None:
    """Forget what the memo holds: the next call of every caller starts anew."""
    _MEMO.forget()
