"""Questions to the person who runs this, and where answers come from.

`ask_human` asks one, and so does a tool that a phase runs with approval only.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from windlass.errors import ToolError, UsageError
from windlass.tools.base import ToolContext

YES: Final = ("yes", "no")
"""The options where a tool needs approval; any other answer is a no that says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a phase asks: its text, and the answers to choose from (none: a free answer).

    `tool` is the tool that needs approval (None: the model asks by `ask_human`).
    """

    phase: str
    text: str
    options: tuple[str, ...] = ()
    tool: str | None = None

    def answered(self, given: object) -> str:
        """The answer as it counts: an option by its text or its number, from 1.

        Raises UsageError where it is none of the options.
        """
        if isinstance(given, bool):
            given = "yes" if given else "no"
        text = str(given).strip()
        if not text:
            raise UsageError(f"the answer to {self.text!r} is empty")
        if self.tool is not None:
            short = {"y": "yes", "n": "no", "true": "yes", "false": "no", "1": "yes", "2": "no"}
            return short.get(text.casefold(), text.casefold() if text.casefold() in YES else text)
        if not self.options:
            return text
        for number, option in enumerate(self.options, start=1):
            if text.casefold() == option.strip().casefold() or text == str(number):
                return option
        listed = ", ".join(map(repr, self.options))
        raise UsageError(f"the answer {text!r} to {self.text!r} is none of its options: {listed}")


Asked: TypeAlias = Callable[[Question], Awaitable[Any] | Any]
"""A person, or what stands for one: the answer to a question (None: there is none)."""


class AnswerSource:
    """Where answers come from: those that were given beforehand, then who is asked.

    `given` maps questions (or the names of tools that need approval) to answers; in a list, each
    that is no `{"question": …, "answer": …}` answers the next question. Raises UsageError.
    """

    def __init__(
        self, given: Mapping[str, Any] | Sequence[Any] = (), on_question: Asked | None = None
    ) -> None:
        self._by_question: dict[str, Any] = {}
        self._in_order: deque[Any] = deque()
        self._on_question = on_question
        if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
            raise UsageError(
                "answers must be a list of them, or map questions to them, such as"
                f" {{'Which city?': 'Bern'}}, not {str(given)[:60]!r}"
            )
        if isinstance(given, Mapping):
            given = [{"question": key, "answer": value} for key, value in given.items()]
        for number, each in enumerate(given, start=1):
            match each:
                case {"question": str(text), "answer": answer, **rest} if not rest:
                    self._by_question[_key(text)] = _plain(answer, number)
                case _:
                    self._in_order.append(_plain(each, number))

    async def answer_to(self, question: Question) -> str | None:
        """The answer to a question; None: nobody gives one. Raises UsageError for a bad one."""
        keys = [question.text, *([question.tool] if question.tool else [])]
        for key in map(_key, keys):
            if key in self._by_question:
                return question.answered(self._by_question[key])
        if self._in_order:
            return question.answered(self._in_order.popleft())
        if self._on_question is None:
            return None
        given = self._on_question(question)
        if inspect.isawaitable(given):
            given = await given
        return None if given is None else question.answered(given)


def _key(text: str) -> str:
    return " ".join(text.split()).casefold()


def _plain(answer: Any, number: int) -> Any:
    if isinstance(answer, str | bool | int | float):
        return answer
    raise UsageError(
        f"answer {number} must be a text, or an object with 'question' and 'answer', not"
        f" {str(answer)[:60]!r}"
    )


def ask_human(context: ToolContext, question: str, options: list[str] | None = None) -> str:
    """Ask the person you work for a question, and wait for the answer.

    Args:
        context: What the run provides.
        question: The question, which must be clear without the conversation.
        options: The answers to choose from; leave out for a free answer.
    """
    if context.ask is None:
        raise ToolError("ask_human works only inside a run")
    if not question.strip():
        raise ToolError("the question is empty: write what you want to know")
    return context.ask(question, tuple(options or ()))
