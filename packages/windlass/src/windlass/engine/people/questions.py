"""Questions to the person who runs this, and where answers come from."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from windlass.errors import UsageError, did_you_mean

YES: Final = ("yes", "no")
"""The options where a tool needs approval; another answer is a no that says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a phase asks: its text, and the answers to choose from (none: a free answer).

    `tool` is the tool that needs approval (None: the model asks by `ask_human`), `call` names the
    one call that asks for it, and `known_as` is what the tool is called beside its name.
    `context` is what a person should know to answer, `ids` are other names of the options, in their
    order. `is_open`: an answer that is none of the options counts as it is. After `timeout_s`
    seconds nobody need answer (None: the question waits).
    """

    phase: str
    text: str
    options: tuple[str, ...] = ()
    tool: str | None = None
    call: str | None = None
    known_as: tuple[str, ...] = ()
    context: str = ""
    ids: tuple[str, ...] = ()
    is_open: bool = False
    timeout_s: float | None = None

    def answered(self, given: object) -> str:
        """Return the answer as it counts: an option by its text or its number, from 1.

        Whether a tool may run says `yes` or `no`, to the letter, or why it may not. Raises
        UsageError where it is none of the options.
        """
        if self.tool is not None:
            return approval(given, f"the answer to {self.text!r}")
        if isinstance(given, bool):
            given = "yes" if given else "no"
        text = str(given).strip()
        if not text:
            raise UsageError(f"the answer to {self.text!r} is empty")
        if not self.options:
            return text
        for number, option in enumerate(self.options, start=1):
            names = (option, *self.ids[number - 1 : number])
            if text == str(number) or text.casefold() in {n.strip().casefold() for n in names}:
                return option
        if self.is_open:
            return text
        listed = ", ".join(map(repr, self.options))
        raise UsageError(f"the answer {text!r} to {self.text!r} is none of its options: {listed}")


Asked: TypeAlias = Callable[[Question], Awaitable[Any] | Any]
"""A person, or what stands for one: the answer to a question (None: there is none)."""


_UNCLEAR: Final = frozenset({"y", "n", "yes", "no", "true", "false", "ok", "1", "2", "0"})


def approval(given: object, what: str) -> str:
    """Return what was said of a tool that needs approval: `yes`, `no`, or why it may not run.

    Raises UsageError, which begins with `what`, for what might be either and is not to the letter.
    """
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, str) and (given in YES or given.strip().casefold() not in {"", *_UNCLEAR}):
        return given
    raise UsageError(f"{what} is {given!r}; write 'yes' to let it run, else 'no' or why not")


Approvals: TypeAlias = Mapping[str, bool | str] | Sequence[str] | str
"""Which tools that need approval may run: `all`, their names, or the names of single calls; in a
mapping, whether each may (True, `yes`), or may not (False, `no`, or why not)."""

ALL: Final = "all"
_OF_CALL: Final = re.compile(r"[0-9a-f]{32}")


class AnswerSource:
    """Where answers come from: those that were given beforehand, then who is asked.

    `given` maps questions to answers; in a list, each that is no `{"question": …, "answer": …}`
    answers the next question. Of several answers to one question each is for one time that it is
    asked, and the last for all that follow. What tools may run `approve` says alone: an answer
    never lets one run, and no approval answers a question. Raises UsageError.
    """

    def __init__(
        self,
        given: Mapping[str, Any] | Sequence[Any] = (),
        on_question: Asked | None = None,
        approve: Approvals = (),
    ) -> None:
        self._approved = _approvals(approve)
        self._by_question = defaultdict[str, deque[Any]](deque)
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
                    self._by_question[_key(text)].append(_plain(answer, number))
                case _:
                    self._in_order.append(_plain(each, number))

    async def answer_to(self, question: Question) -> str | None:
        """The answer to a question; None: nobody gives one. Raises UsageError for a bad one."""
        if question.tool is not None:
            for name in (question.call, question.tool, *question.known_as, ALL):
                if (said := self._approved.get(name or "")) is not None:
                    return said
        elif (key := _key(question.text)) in self._by_question:
            listed = self._by_question[key]
            return question.answered(listed.popleft() if len(listed) > 1 else listed[0])
        elif self._in_order:
            return question.answered(self._in_order.popleft())
        if self._on_question is None:
            return None
        given = self._on_question(question)
        if inspect.isawaitable(given):
            given = await given
        return None if given is None else question.answered(given)

    def skip_answered(self, answered: Iterable[tuple[str, str]]) -> None:
        """Spend what a session has answered before it is resumed, as (question, answer) in order.

        Answers in order are those of the whole session where they begin with the ones that it has
        and go on; else they answer what is asked from now on.
        """
        told = [answer for question, answer in answered if _key(question) not in self._by_question]
        listed = list(self._in_order)
        if len(listed) > len(told) and all(map(_is_same, listed, told)):
            self._in_order = deque(listed[len(told) :])

    def check(self, *known: Collection[str]) -> None:
        """Raise UsageError for an approval of what needs none.

        `known` are the tools that do, `server.*` among them, for each cascade that runs.
        """
        names = {ALL}.union(*known)
        every = tuple(name.removesuffix("*") for name in names if name.endswith(".*"))
        for name in self._approved:
            if name not in names and not name.startswith(every) and not _OF_CALL.fullmatch(name):
                raise UsageError(
                    f"approve {name!r}: no tool of that name needs approval here, and no call is"
                    f" called so; {did_you_mean(name, names)}"
                )


def _approvals(given: Approvals) -> dict[str, str]:
    """Return what was said of tools, by their names, of calls, and of all."""
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Mapping | Sequence):
        raise UsageError(
            "approve must be 'all', a list of tools or calls, or map them to 'yes' or 'no', such as"
            f" {{'write_file': 'yes'}}, not {str(given)[:60]!r}"
        )
    pairs = given.items() if isinstance(given, Mapping) else [(name, True) for name in given]
    for name, _ in pairs:
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"approve {name!r}: name a tool or a call, or say 'all'")
    return {name: approval(said, f"approve {name!r}") for name, said in pairs}


def _is_same(given: object, answer: str) -> bool:
    """Whether what was given may be the answer that was recorded: its text, or a number for it."""
    if isinstance(given, bool):
        given = "yes" if given else "no"
    text = str(given).strip()
    return text.casefold() == answer.strip().casefold() or text.isdecimal()


def _key(text: str) -> str:
    return " ".join(text.split()).casefold()


def _plain(answer: Any, number: int) -> Any:
    if isinstance(answer, str | bool | int | float):
        return answer
    raise UsageError(
        f"answer {number} must be a text, or an object with 'question' and 'answer', not"
        f" {str(answer)[:60]!r}"
    )
