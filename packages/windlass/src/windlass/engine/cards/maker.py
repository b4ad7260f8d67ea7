"""Making cards of messages: whether, how and by which models; by rule where none answers.

One batch at a time, in pieces that are over within a few milliseconds, so that the event loop
serves the run between them. What a model does not answer is made by rule, and told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from windlass.errors import UsageError
from windlass.selection.options import NONE, WORDLLAMA, CardOptions
from windlass.settings.settings import Settings

if TYPE_CHECKING:
    from windlass.cascade.model import Cascade
    from windlass.providers.base import Resolve
    from windlass.selection.vectors import Embedder
import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from windlass.caching.rates import cost
from windlass.errors import WindlassError
from windlass.history.card_rows import CardMarks
from windlass.history.marks import CardsLack
from windlass.messages import Message, user
from windlass.providers.base import ModelInfo, Provider
from windlass.safety.fairness import wait_for_turn
from windlass.selection.card import Card
from windlass.selection.index import embeddable
from windlass.selection.making import (
    card_of,
    mean_vector,
    summary_in,
    summary_question,
    wants_model,
    with_shared_parts,
)
from windlass.selection.vectors import Embedder, Vectors, check_vectors, is_remote, tokens_taken
from windlass.tools.base import Spent
from windlass.window.entries import Item
from windlass.wire.base import Request, Usage

# ---- of which sessions, and by which models ----------------------------------------------------

FLAG: Final = "auto_context_cards_enabled"
"""The feature flag without which no cards are made, whatever a cascade says."""


def wants_cards(cascade: Mapping[str, Any], settings: Settings) -> bool:
    """Return whether cards are made of the sessions of a cascade, given as its JSON.

    They are where a phase may choose its context, or where the user said how they are made.
    """
    if settings.cards.model_fields_set or cascade.get("auto_context") not in (None, False):
        return True
    contexts = [phase.get("context") for phase in cascade.get("phases", ())]
    return any(isinstance(each, Mapping) and each.get("mode") == "auto" for each in contexts)


def card_options(settings: Settings, cascade: Mapping[str, Any]) -> CardOptions:
    """Return how cards of a cascade's sessions (its JSON) are made.

    Where no summariser is named, the helper model is it: the cascade's, else the user's.
    """
    options = settings.cards
    if options.summariser is None:
        auto = cascade.get("auto_context")
        helper = auto.get("helper_model") if isinstance(auto, Mapping) else None
        options = options.model_copy(update={"summariser": helper or settings.helper_model})
    none = options.summariser == NONE
    return options.model_copy(update={"summariser": None}) if none else options


def card_models(settings: Settings, cascade: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the models that see what is said, to make cards of it."""
    options = card_options(settings, cascade)
    hosted = None if options.embedder in (NONE, WORDLLAMA) else options.embedder
    return tuple(name for name in (options.summariser, hosted) if name is not None)


def wanting_cards(cascade: Cascade, settings: Settings) -> dict[str, Any] | None:
    """Return the cascade as JSON where cards of its sessions are wanted; None: they are not."""
    data = cascade.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return data if wants_cards(data, settings) else None


def models_beside(cascade: Cascade, settings: Settings) -> tuple[str, ...]:
    """The models that see what is said in a run, to make cards of it; none where it makes none."""
    data = wanting_cards(cascade, settings)
    return card_models(settings, data) if data and settings.auto_context_cards_enabled else ()


def check_cards(cascade: Cascade, settings: Settings, resolve: Resolve) -> None:
    """Raise UsageError for a model of cards that is not there, before anything is paid for."""
    data = wanting_cards(cascade, settings)
    if data and settings.auto_context_cards_enabled:
        maker_of(settings, resolve, data)


def maker_of(settings: Settings, resolve: Resolve, cascade: Mapping[str, Any]) -> CardMaker:
    """Return what makes cards of a cascade's sessions. Raises UsageError: a model is not there."""
    options = card_options(settings, cascade)
    summariser = None
    if options.summariser is not None:
        summariser = Summariser(options.summariser, *resolve(options.summariser))
    return CardMaker(
        options,
        summariser=summariser,
        embedder=embedder_of(settings),
    )


def embedder_of(settings: Settings) -> Callable[[], Embedder] | None:
    """Makes the embedding model that the user's cards have their vectors of; None: they have none.

    To make it may take a while. Raises UsageError for one that is not there.
    """
    from windlass.selection.vectors import MISSING, WordLlamaEmbedder, installed

    match settings.cards.embedder:
        case "none":
            return None
        case None:
            return WordLlamaEmbedder if installed() else None
        case "wordllama":
            if installed():
                return WordLlamaEmbedder
            raise UsageError(f"cards.embedder is 'wordllama': {MISSING}")
        case name:
            from windlass.providers.embeddings import hosted_embedder

            hosted = hosted_embedder(name, settings.providers)
            return lambda: hosted


# ---- a batch of cards --------------------------------------------------------------------------

Lacks: TypeAlias = Literal["summary", "vector"]

_LONG: Final = 20_000
"""Characters from which on a card is made in a thread: it takes some milliseconds."""
_CHUNKS: Final = 16
"""Chunks that are embedded at once: a thread holds the processor for some milliseconds."""
_SUMMARY_TOKENS: Final = 200
"""The most tokens of a summary, which has 300 characters."""
_REST_S: Final = 30.0
"""Seconds for which a model that failed is left alone."""
_SAME: Final = 10_000
"""Cards that are remembered for messages with an equal body."""


@dataclass(slots=True)
class CardBatch:
    """A batch of cards, what they lack, and what models took for it."""

    cards: list[Card] = field(default_factory=list[Card])
    spent: list[Spent] = field(default_factory=list[Spent])
    _lacking: dict[tuple[Lacks, str, str], list[str]] = field(default_factory=dict, init=False)

    def note_lack(self, lacks: Lacks, model: str, why: str, ids: Iterable[str]) -> None:
        """Note that the cards of these messages lack something, because of a model."""
        self._lacking.setdefault((lacks, model, why), []).extend(ids)

    @property
    def lacks(self) -> list[CardsLack]:
        """What cards lack, by which model and why."""
        return [
            CardsLack(lacks, ids, model, why) for (lacks, model, why), ids in self._lacking.items()
        ]


@dataclass(slots=True)
class Summariser:
    """A model that writes summaries; `name` is `provider/model`."""

    name: str
    provider: Provider
    info: ModelInfo

    def request(self, message: Message, options: CardOptions) -> Request:
        """Return what the model is asked of a message."""
        most = min(_SUMMARY_TOKENS, self.info.max_output_tokens)
        asked = self.info.question([user(summary_question(message, options))], most)
        return replace(asked, model=self.name.partition("/")[2])

    async def ask(self, message: Message, options: CardOptions) -> tuple[str, Usage]:
        """What the model says of a message, and what it took. Raises ProviderError, LimitReached.

        A provider may come from anywhere and raise anything.
        """
        reply = await self.provider.send(self.request(message, options), lambda _: None)
        return reply.message.text, reply.usage


class CardMaker:
    """Makes cards; remembers those it made, for messages of an equal body.

    Args:
        options: How cards are made.
        summariser: The model that writes summaries (None: all are made by rule).
        embedder: Makes the embedding model when it is first needed, which takes a while
            (None: cards have no vectors).
    """

    def __init__(
        self,
        options: CardOptions,
        *,
        summariser: Summariser | None,
        embedder: Callable[[], Embedder] | None,
    ) -> None:
        self.options = options
        self.summariser = summariser
        self._make_embedder = embedder
        self._embedder: Embedder | None = None
        self._rests: dict[str, tuple[float, str]] = {}
        self._same: dict[str, Card] = {}

    async def make(
        self, items: Sequence[Item], count: Callable[[Message], int], marks: CardMarks
    ) -> CardBatch:
        """Return the cards of messages, in their order. `count` gives the tokens of a message."""
        batch, summariser = CardBatch(), self.summariser
        for item in items:
            card = await self._by_rule(item, count)
            same = self._same.get(card.content_hash)
            if same is not None:
                card = with_shared_parts(card, same)
            if summariser is not None and wants_model(item.message):
                card = await self._summarised(card, item.message, summariser, batch)
            batch.cards.append(card)
            await wait_for_turn()
        await self._with_vectors(items, batch)
        now = int(time.time())
        batch.cards = [marks.on(replace(card, generated_at=now)) for card in batch.cards]
        lacking = {id_ for lack in batch.lacks for id_ in lack.failed}
        for card in batch.cards:
            if card.id not in lacking:
                self._same[card.content_hash] = card
        while len(self._same) > _SAME:
            del self._same[next(iter(self._same))]
        return batch

    async def close(self) -> None:
        """Let go of connections."""
        closing = getattr(self._embedder, "close", None)
        if closing is not None:
            await closing()

    async def _by_rule(self, item: Item, count: Callable[[Message], int]) -> Card:
        def make() -> Card:
            return card_of(item, count(item.message), chars=self.options.summary_chars)

        return await asyncio.to_thread(make) if item.message.chars > _LONG else make()

    async def _summarised(
        self, card: Card, message: Message, summariser: Summariser, batch: CardBatch
    ) -> Card:
        """Return the card with a model's summary; by rule again where no model answers."""
        if card.generator_model == summariser.name:
            return card
        why = self._resting(summariser.name)
        if not why:
            try:
                answer, usage = await summariser.ask(message, self.options)
            except Exception as error:  # noqa: BLE001 - whatever a provider raises is told
                why = self._rest(summariser.name, error)
            else:
                dollars = 0.0 if summariser.info.free else _dollars(summariser.name, usage)
                batch.spent.append(Spent(summariser.name, usage, dollars))
                summary = summary_in(answer, self.options)
                if summary is not None:
                    card = replace(card, summary=summary, generator_model=summariser.name)
                    self._same[card.content_hash] = card
                    return card
                why = "it answered nothing"
        batch.note_lack("summary", summariser.name, why, [card.id])
        return card

    async def _with_vectors(self, items: Sequence[Item], batch: CardBatch) -> None:
        if self._make_embedder is None:
            return
        name = "the embedding model"
        try:
            if self._embedder is None:
                self._embedder = await asyncio.to_thread(self._make_embedder)
            embedder = self._embedder
            name = embedder.name
            places = [
                at
                for at, card in enumerate(batch.cards)
                if not card.embedding or card.embedding_model != name
            ]
            why = self._resting(name)
            if places and not why:
                texts = [embeddable(items[at].message) for at in places]
                vectors = await _embedded(embedder, [text for own in texts for text in own])
                if tokens := tokens_taken(embedder):
                    usage = Usage(tokens, 0)
                    batch.spent.append(Spent(name, usage, _dollars(name, usage)))
                start = 0
                for at, own in zip(places, texts, strict=True):
                    mean = mean_vector(vectors[start : start + len(own)])
                    card = replace(batch.cards[at], embedding=mean, embedding_model=name)
                    batch.cards[at], start = card, start + len(own)
        except Exception as error:  # noqa: BLE001 - a model of the user's may raise anything
            why = self._rest(name, error)
            places = [at for at, card in enumerate(batch.cards) if card.embedding_model != name]
        if why:
            batch.note_lack("vector", name, why, [batch.cards[at].id for at in places])

    def _resting(self, name: str) -> str:
        """Return why a model is left alone for now; empty: it is not."""
        until, why = self._rests.get(name, (0.0, ""))
        return why if time.monotonic() < until else ""

    def _rest(self, name: str, error: Exception) -> str:
        """Leave a model alone for a while, and why."""
        why = str(error)
        if not isinstance(error, WindlassError):
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
        self._rests[name] = (time.monotonic() + _REST_S, why)
        return why


async def _embedded(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """The vectors of texts: a server's without holding the loop up, the others' in a thread."""
    if is_remote(embedder):
        return check_vectors(embedder, texts, await embedder.vectors(texts))
    rows = [
        await asyncio.to_thread(embedder.embed, texts[at : at + _CHUNKS])
        for at in range(0, len(texts), _CHUNKS)
    ]
    import numpy as np

    return check_vectors(embedder, texts, np.concatenate(rows))


def _dollars(name: str, usage: Usage) -> float | None:
    tokens = (usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.tokens_written)
    return cost(name, *tokens)
