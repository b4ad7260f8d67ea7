"""The library door for recordings of other programs: `import_sessions`, `replay` and `tune`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.api.opening import open_store, shared_store
from windlass.caching.rates import override
from windlass.errors import SessionHeld
from windlass.settings.settings import Settings

if TYPE_CHECKING:
    from windlass.history.base import Store
    from windlass.importing.storing import ImportResult
    from windlass.replays.named_policies import PolicyName
    from windlass.replays.outcomes import Replay
    from windlass.replays.pricing import PricesName
    from windlass.replays.replayable import Replayable
    from windlass.replays.tuning import Tuning


def import_sessions(
    path: str | Path,
    *,
    form: str | None = None,
    store: str | Path | None = None,
    on_skip: Callable[[str], None] | None = None,
) -> ImportResult:
    """Store the sessions that other programs recorded, so that they can be shown and priced.

    What is in the store already is not added again; a session that grew is gone on with.

    Args:
        path: A file, or a folder with files (docs/import.md lists the formats).
        form: The format; default: it is recognised by what a file holds.
        store: The folder of the history, or its address, as in `run`.
        on_skip: Called with one sentence for each file of a folder that is not read.

    Raises UsageError for what cannot be read, StoreError where the store fails.
    """
    from windlass.importing.storing import import_into

    settings = Settings.read({"store": store})
    with shared_store(settings) as history, override(settings.prices):
        return import_into(history, path, form, on_skip)


def replay(
    recording: Replayable,
    policies: Sequence[PolicyName] | None = None,
    prices: Sequence[PricesName] | None = None,
    *,
    model: str | None = None,
    store: str | Path | None = None,
    workers: int = 1,
    on_skip: Callable[[str], None] | None = None,
) -> Replay:
    """Return what other policies would have cost on recorded calls, and kept in view.

    Nothing is sent.

    Args:
        recording: A session of the store, a file, a folder with files (docs/import.md lists the
            formats), or a list of messages.
        policies: Names of profiles, `everything`, `mask:TURNS`, dicts of options, or files with an
            `auto_context`; default: `everything` and `default`.
        prices: Models, `anthropic`, `automatic`, `none`, or `Prices`; default: those of each
            recording's own model.
        model: The model of a list of messages.
        store: The folder of the history, or its address, as in `run`.
        workers: Processes that share the recordings of a folder. With several the program's main
            module must be importable, as for `multiprocessing`.
        on_skip: Called with one sentence for each file or recording that is left out.

    Raises UsageError for what cannot be read, and for policies and prices that there are not.
    """
    from windlass.replays.named_policies import policies_of
    from windlass.replays.pricing import check_prices
    from windlass.replays.replayable import recordings_of
    from windlass.replays.running import replay_all

    settings = Settings.read({"store": store})
    skipped = SkippedNotes(on_skip)
    with override(settings.prices), ExitStack() as closing:
        named = policies_of(policies or ("everything", "default"))
        listed = check_prices(prices or ("own",))
        found = recordings_of(
            recording,
            model,
            lambda: closing.enter_context(open_store(settings, existing=True)),
            skipped.append,
            _check_ended,
        )
        return replay_all(found, named, listed, workers, skipped)


def tune(
    recordings: str | Path | Sequence[Sequence[Mapping[str, Any]]],
    prices: PricesName | None = None,
    *,
    model: str | None = None,
    workers: int = 1,
    on_skip: Callable[[str], None] | None = None,
) -> Tuning:
    """Find the window settings that serve one's own recordings best. Nothing is sent.

    Settings are chosen by needed values and lines in view first, and by cost then. The figure that
    is told is of sessions not tuned on. Where nothing is better than the default, `auto_context`
    of the answer is empty.

    Args:
        recordings: A folder or file, as in `replay`, or lists of messages, each a session.
        prices: A model, `anthropic`, `automatic`, `none`, or `Prices`; default: those of each
            recording's own model.
        model: The model of lists of messages.
        workers: Processes that share the recordings, as in `replay`.
        on_skip: Called with one sentence for each file or recording that is left out.

    Raises UsageError for what cannot be read, for prices that there are not, and where there are
    too few sessions.
    """
    from windlass.importing.streams import recordings as read
    from windlass.replays.pricing import check_prices
    from windlass.replays.replayable import recording_of_list
    from windlass.replays.tuning import tune_on

    settings = Settings.read({})
    skipped = SkippedNotes(on_skip)
    with override(settings.prices):
        (named,) = check_prices([prices or "own"])
        if isinstance(recordings, str | Path):
            found = read(recordings, on_skip=skipped.append)
        else:
            found = (
                replace(recording_of_list(listed, model), name=f"list {number}")
                for number, listed in enumerate(recordings, start=1)
            )
        return tune_on(found, named, workers, skipped)


def _check_ended(store: Store, session_id: str) -> None:
    """Raises UsageError where a session still runs."""
    holder = store.session_status(session_id).holder
    if holder is not None and holder.state != "broken off":
        raise SessionHeld(session_id, holder.process, holder.machine)


class SkippedNotes(list[str]):
    """Sentences about what was left out, each told as it comes."""

    def __init__(self, on_skip: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self._on_skip = on_skip

    def append(self, text: str) -> None:
        """Add one, and tell it."""
        super().append(text)
        if self._on_skip is not None:
            self._on_skip(text)
