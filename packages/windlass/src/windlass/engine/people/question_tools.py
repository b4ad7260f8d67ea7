"""The tools by which a model asks the person who runs this.

They ask in text. What a call says of a page's layout is left out, and the model is told so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from windlass.errors import ToolError
from windlass.tools.base import ToolContext

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
    more: dict[str, Any] = {"context": descriptions, "ids": ids, "is_open": allow_custom}
    return _ask(asking, question, labels, timeout_seconds, **more)


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
    more: dict[str, Any] = {"context": context, "ids": ids, "is_open": True}
    return _ask(asking, question, labels, timeout_seconds, **more)


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
    **more: Any,
) -> str:
    if asking.ask is None:
        raise ToolError("a person can be asked only inside a run")
    if not question.strip():
        raise ToolError("the question is empty: write what you want to know")
    if timeout_seconds and not timeout_seconds > 0:
        raise ToolError(
            f"timeout_seconds is {timeout_seconds:g}: give seconds above 0, or leave it out to wait"
        )
    return asking.ask(question, options, timeout_s=timeout_seconds or None, **more)
