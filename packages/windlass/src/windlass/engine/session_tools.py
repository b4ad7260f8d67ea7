"""Tools that a run answers: what a model is told of them. The run does their work.

They are known before anything runs, so this module imports nothing of what a run takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.errors import ToolError, UsageError
from windlass.tools.base import MemoryCallbacks, ToolContext

SEARCH: Final = "search_context"
"""The tool's name."""
MOST_RESULTS: Final = 20


def recall(ref: str, context: ToolContext, part: str = "") -> str:
    """Original of result_..., or part: lines 10-40, /regex/, JSON path a[0].b.

    One paragraph tells a model all of it, and no parameter has words of its own: they are sent
    with every call. Lines count from 1; without a part, all of the original is given back; a
    part of a part is asked for as `a[0].b 10-40 /regex/`. Raises ToolError where nothing has the
    reference or the part.
    """
    if context.recall is None:
        raise ToolError("recall works only inside a run")
    try:
        return context.recall(ref, part)
    except KeyError as error:
        raise ToolError(str(error.args[0])) from error
    except ValueError as error:
        raise ToolError(str(error)) from error


async def callout(context: ToolContext, ref: str, name: str) -> str:
    """Mark a message as important: it is kept whole in view, and later phases find it by its name.

    Args:
        context: What the run provides; not shown to the model.
        ref: The message: a reference such as result_1a2b3c4d5e6f7a8b, the name of a tool for its
            newest result, "last" for the newest message, "this" for what you say with this call.
        name: What it is to be called, in a word or a few.
    """
    if context.callout is None:
        raise ToolError("callout works only inside a run")
    try:
        return context.callout(ref, name)
    except UsageError as error:
        raise ToolError(str(error)) from error


def search_context(query: str, context: ToolContext, max_results: int = 5) -> str:
    """Find what was said earlier in this session, also what is not shown any more.

    Args:
        query: What to look for, in a few words: names, paths and numbers count most.
        context: What the run provides; not shown to the model.
        max_results: How many messages to name, 20 at most.
    """
    if context.search_session is None:
        raise ToolError("search_context works only inside a run")
    if not query.strip():
        raise ToolError("there is nothing to look for: give some words")
    if not 1 <= max_results <= MOST_RESULTS:
        raise ToolError(f"max_results must be from 1 to {MOST_RESULTS}, not {max_results}")
    return context.search_session(query, max_results)


async def remember(
    context: ToolContext, text: str, bank: str, key: str = "", expires: str = ""
) -> str:
    """Keep a text for later sessions, in a memory bank.

    Args:
        context: What the run provides; not shown to the model.
        text: What to remember, so that it is understood without this conversation.
        bank: The memory bank.
        key: A name for it; remembering the same name again makes a new version.
        expires: When it is no longer true: an age such as 30d, or a date such as 2027-01-31.
    """
    return _callbacks(context).remember(text, bank, key, expires)


async def search_memory(context: ToolContext, query: str, bank: str = "") -> str:
    """Find what earlier sessions remembered.

    Args:
        context: What the run provides; not shown to the model.
        query: What to look for, in a few words.
        bank: The memory bank; left out: all that may be read.
    """
    return _callbacks(context).search(query, bank, 0)


def _callbacks(context: ToolContext) -> MemoryCallbacks:
    if context.memory is None:
        raise ToolError("this phase has no memory banks: name some in the cascade's 'memory'")
    return context.memory


YES_OR_NO: Final = ("yes", "no")


def ask_human(
    asking: ToolContext,
    question: str,
    context: str = "",
    ui_hint: str = "",
    options: list[str] | None = None,
    *,
    timeout_seconds: float | None = None,
) -> str:
    """Ask the person you work for a question, and wait for the answer.

    Args:
        asking: What the run provides.
        question: The question, which must be clear without the conversation.
        context: What the person should know to answer it.
        ui_hint: The kind of answer: `confirmation` for yes or no; leave out for any other.
        options: The answers to choose from; leave out for a free answer.
        timeout_seconds: Seconds after which you are told that nobody answered; leave out to wait.
    """
    choices = tuple(options or ())
    if not choices and ui_hint.strip().casefold() in {"confirmation", "confirm", "yes_no"}:
        choices = YES_OR_NO
    return _ask(asking, question, choices, timeout_seconds, context=context)


def request_decision(
    asking: ToolContext,
    question: str,
    options: list[dict[str, Any] | str],
    *,
    context: str = "",
    allow_custom: bool = True,  # a tool's argument
    timeout_seconds: float | None = None,
) -> str:
    """Have the person you work for choose among options, and wait for the choice.

    Args:
        asking: What the run provides.
        question: The question, which must be clear without the conversation.
        options: The choices, each with id, label and description.
        context: What the person should know to choose.
        allow_custom: Whether the person may answer something else.
        timeout_seconds: Seconds after which you are told that nobody answered; leave out to wait.
    """
    labels, ids, descriptions = read_options(options)
    if not labels:
        raise ToolError("there are no options: give at least one with 'id' and 'label'")
    descriptions = "\n".join(part for part in (context, descriptions) if part)
    return _ask(
        asking,
        question,
        labels,
        timeout_seconds,
        context=descriptions,
        ids=ids,
        is_open=allow_custom,
    )


def ask_human_custom(
    asking: ToolContext,
    question: str,
    options: list[dict[str, Any] | str] | None = None,
    *,
    context: str = "",
    images: list[str] | None = None,
    data: dict[str, Any] | list[Any] | None = None,
    timeout_seconds: float | None = None,
) -> str:
    """Ask the person you work for a question about pictures or data, and wait for the answer.

    Args:
        asking: What the run provides.
        question: The question, which must be clear without the conversation.
        options: The answers to choose from, as texts or with id, label and description.
        context: What the person should know to answer it.
        images: Names or paths of the pictures that it is about.
        data: The data that it is about.
        timeout_seconds: Seconds after which you are told that nobody answered; leave out to wait.
    """
    labels, ids, descriptions = read_options(options or [])
    parts = [context, descriptions]
    parts += [f"Pictures: {', '.join(images)}"] if images else []
    parts += [json.dumps(data, ensure_ascii=False, indent=2)] if data is not None else []
    context = "\n".join(part for part in parts if part)
    return _ask(asking, question, labels, timeout_seconds, context=context, ids=ids, is_open=True)


ASKING: Final = (ask_human, request_decision, ask_human_custom)
"""The tools that ask a person."""


def read_options(
    options: Sequence[Mapping[str, Any] | str],
) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the labels of options, their ids, and what is said of them, a line each.

    An option without a label is called by its id, and the other way round.
    """
    labels: list[str] = []
    ids: list[str] = []
    descriptions: list[str] = []
    for option in options:
        says = {"label": option} if isinstance(option, str) else option
        label, ident = (str(says.get(key) or "").strip() for key in ("label", "id"))
        if not label and not ident:
            continue
        labels.append(label or ident)
        ids.append(ident or label)
        if description := str(says.get("description") or "").strip():
            descriptions.append(f"{labels[-1]}: {description}")
    return tuple(labels), tuple(ids), "\n".join(descriptions)


def _ask(
    asking: ToolContext,
    question: str,
    options: tuple[str, ...],
    timeout_seconds: float | None,
    *,
    context: str,
    ids: tuple[str, ...] = (),
    is_open: bool = False,
) -> str:
    if asking.ask is None:
        raise ToolError("a person can be asked only inside a run")
    if not question.strip():
        raise ToolError("the question is empty: write what you want to know")
    if timeout_seconds and not timeout_seconds > 0:
        raise ToolError(
            f"timeout_seconds is {timeout_seconds:g}: give seconds above 0, or leave it out to wait"
        )
    return asking.ask(
        question,
        options,
        context=context,
        ids=ids,
        is_open=is_open,
        timeout_s=timeout_seconds or None,
    )
