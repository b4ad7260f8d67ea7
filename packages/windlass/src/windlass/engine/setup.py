"""A run is set up and checked before anything is written or paid for."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from windlass.caching.rates import split_model
from windlass.cascade.inputs_schema import fill_input
from windlass.cascade.model import Cascade
from windlass.cascade.model_names import model_names
from windlass.cascade.ready import ReadyCascade
from windlass.cascade.tool_caching import ToolCaching
from windlass.cascade.tools_named import asking_phases, has_tool
from windlass.engine._session_state import SessionState
from windlass.engine.cascade_run import Access, CascadeRun, Nesting
from windlass.engine.events import Event, MessageAdded, MessageEdited
from windlass.engine.opening import OpenSession
from windlass.engine.turn.kept_results import KeptResults
from windlass.engine.turn.record import Recorder
from windlass.errors import UsageError
from windlass.history.base import EditRecord
from windlass.history.packing import path_part
from windlass.providers.base import Resolve, Searching
from windlass.providers.catalog import LITELLM
from windlass.providers.spending import Allowance
from windlass.safety.foreign import TOO_DEEP, is_too_deep
from windlass.settings.settings import Settings
from windlass.tools.base import WebSearch
from windlass.window.entries import Item


def prepare(
    ready: ReadyCascade,
    input: Mapping[str, Any],  # noqa: A002
    session: OpenSession,
    *,
    settings: Settings,
    access: Access,
    nesting: Nesting | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> CascadeRun:
    """Return a run of a checked cascade with everything in its hands, and nothing done yet.

    Raises UsageError.
    """
    settings = settings.of_models(ready.cascade.models, ready.cascade.cascade_id)
    given = check_input(ready.cascade, input, settings)
    record = Recorder(session.store, session.session_id, time.time, lambda: secrets.token_hex(8))
    emit = on_event or (lambda _: None)
    if on_event is not None:
        record.on_append = partial(_tell, on_event)
    pictures = session.store.folder / "images" / path_part(session.session_id)
    search = web_search_of(ready.cascade, settings, access.find_model)
    return CascadeRun(
        record=record,
        input=given,
        ready=ready,
        settings=settings,
        access=replace(access, search=search),
        emit=emit,
        nesting=nesting or Nesting(),
        kept_results=KeptResults(ready.cascade.tool_caching or ToolCaching()),
        session=SessionState(readable=(pictures,)),
    )


def check_input(cascade: Cascade, input: Mapping[str, Any], settings: Settings) -> dict[str, Any]:  # noqa: A002
    """Return the input of a run of a cascade, with what its schema fills in. Raises UsageError."""
    try:
        json.dumps(input, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the input must be an object of JSON values ({error})") from error
    except RecursionError as error:
        raise UsageError(f"the input: {TOO_DEEP}") from error
    if is_too_deep(input):
        raise UsageError(f"the input: {TOO_DEEP}")
    given = fill_input(cascade.inputs_schema, input)
    root = settings.root.resolve()
    if not root.is_dir():
        raise UsageError(f"root {str(root)!r} is not a folder; file tools work in it")
    return given


def _tell(
    emit: Callable[[Event], None], items: Sequence[Item], edits: Sequence[EditRecord]
) -> None:
    """Tell what was appended: messages, and how others are shown from then on."""
    for item in items:
        message = item.message
        tool = message.name if message.role == "tool" else None
        emit(MessageAdded(item.phase or "", message.role, message.text, item.id, tool))
    phase = items[0].phase or "" if items else ""
    for edit in edits:
        emit(MessageEdited(phase, edit.message_id, edit.kind, edit.because, edit.reason))


def check_models(cascade: Cascade, settings: Settings, resolve: Resolve) -> None:
    """Raise UsageError for a model that is not there, before the first phase is paid for."""
    settings = settings.of_models(cascade.models, cascade.cascade_id)
    if cascade.limits is not None:
        resolve = Allowance("the run", **dict(cascade.limits)).resolving(resolve)
    for phase in asking_phases(cascade):
        of_phase = Allowance(f"phase {phase.name!r}", **phase.rules.limits).resolving(resolve)
        of_phase(settings.model_for(cascade.settings_for(phase).model))
    for name in model_names(cascade, settings):
        resolve(name)
    web_search_of(cascade, settings, resolve)


def web_search_of(cascade: Cascade, settings: Settings, resolve: Resolve) -> WebSearch | None:
    """Return the search of the web that the settings name, where a phase may use it; else None.

    Raises UsageError for a model that is not there or cannot search.
    """
    name = settings.search_model
    if name is None or not has_tool(cascade, "web_search"):
        return None
    provider, _ = resolve(name)
    if not isinstance(provider, Searching) or split_model(name)[0] == LITELLM:
        raise UsageError(
            f"search_model {name!r} cannot search the web; name a model of anthropic, gemini,"
            " openai or openrouter, such as 'anthropic/claude-sonnet-5-5'"
        )
    return WebSearch(name, partial(provider.search, split_model(name)[1]))
