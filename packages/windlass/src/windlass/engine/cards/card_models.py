"""Whether cards are made of a session, how, and by which models."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from windlass.engine.cards.maker import CardMaker, Summariser
from windlass.errors import UsageError
from windlass.selection.card_settings import NONE, WORDLLAMA, CardOptions
from windlass.settings.settings import Settings

if TYPE_CHECKING:
    from windlass.cascade.model import Cascade
    from windlass.providers.base import Resolve
    from windlass.selection.vectors import Embedder

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
        now=time.time,
        clock=time.monotonic,
    )


def embedder_of(settings: Settings) -> Callable[[], Embedder] | None:
    """Makes the embedding model that the user's cards have their vectors of; None: they have none.

    To make it may take a while. Raises UsageError for one that is not there.
    """
    from windlass.selection.wordllama import MISSING, WordLlamaEmbedder, installed

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
