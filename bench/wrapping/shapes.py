"""The shapes of users' work: which calls are made, with what of the list."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bench.wrapping.apis import Api
from tests.providers.model_server import log
from tests.providers.thinking_server import Say

TASK: Final = "Read all logs and say which order is late."
_BREAK: Final = 600.0
_KEPT: Final = 4
_MANY: Final = 12
_SHORT: Final = (
    "Log {0}: the ship left on day {0} with nine orders. Two of them came back in the same week:"
    " one for the wrong colour, the other because nobody was at home. The clerk wrote to both"
    " buyers, and the second answered that a neighbour would take it next time. Four went through"
    " customs without a question. The one for the museum waits for a paper that only its director"
    " can sign, and she travels until the end of the month. Of the last two nothing was heard so"
    " far; the carrier says that the lorry was seen near the border, and that the weather there is"
    " bad. Ask again on Monday, before the office closes at four."
)


@dataclass
class User:
    """A user with a client. `reply` is what the model answers next, `wait` lets seconds go by."""

    api: Api
    client: Any
    wait: Callable[[float], None]
    thinks: bool = True
    reply: Say = field(default_factory=lambda: Say("Nothing."))
    number: int = 0

    def ask(self, steps: list[list[Any]], reply: Say) -> Any:
        """Ask with all steps of a list, and add what was said."""
        self.reply = Say(reply.text, reply.calls, searches=reply.searches, thinking=self._thinking)
        messages = [message for step in steps for message in step]
        answer = self.api.ask(self.client, self.api.request(messages, self.number))
        self.number += 1
        steps.append(self.api.messages_of(answer))
        return answer

    @property
    def _thinking(self) -> tuple[str, ...]:
        return ("",) if self.thinks else ()

    def turn(self, steps: list[list[Any]], number: int, calls: int = 1) -> None:
        """Ask, and add the logs that the model wants: as results, or as the user's message."""
        wants = [("read_log", {"number": number + at}) for at in range(calls)]
        wants = [] if self.api.setup.tools == "none" else wants
        answer = self.ask(steps, Say(f"Next is log {number}.", wants))
        read = _SHORT.format if self.api.setup.results == "short" else log
        results = {call: read(call[1]) for call in self.api.calls_of(answer)}
        steps[-1] += self.api.results(results) if results else [self.api.user(read(number))]

    def end(self, steps: list[list[Any]]) -> None:
        """Ask for the last time."""
        self.ask(steps, Say("All logs are read: order 7 is late."))

    def begin(self, text: str = TASK) -> list[list[Any]]:
        """A list with what the user says first."""
        return [[self.api.user(text)]]


def _loop(user: User, calls: int) -> None:
    steps = user.begin()
    for number in range(calls - 1):
        user.turn(steps, number)
    user.end(steps)


def _documents(user: User, calls: int) -> None:
    for number in range(calls):
        user.end(user.begin(f"{log(4 * number + 2)}\nWhich order is late?"))


def _questions(user: User, calls: int) -> None:
    for number in range(calls):
        user.end(user.begin(f"Is order {number} late?"))


def _branches(user: User, calls: int) -> None:
    steps = user.begin()
    for number in range(calls // 3):
        user.turn(steps, number)
    branches = 0
    while user.number < calls:
        branches += 1
        branch = copy.deepcopy(steps)
        branch[-1] = [*branch[-1]]
        for number in range(min(3, calls - user.number)):
            user.turn(branch, 40 + 3 * branches + number)


def _interleaved(user: User, calls: int) -> None:
    loops = [user.begin(f"{TASK} You are number {at}.") for at in range(3)]
    for number in range(calls):
        user.turn(loops[number % 3], number)


def _parallel(user: User, calls: int) -> None:
    steps = user.begin()
    for number in range(calls - 1):
        user.turn(steps, number * _MANY, _MANY)
    user.end(steps)


def _edited(user: User, calls: int) -> None:
    steps = user.begin()
    for number in range(calls - 1):
        if number % 5 == 4:
            for step in steps[1:-_KEPT]:
                user.api.clear(step)
        user.turn(steps, number)
    user.end(steps)


def _trimmed(user: User, calls: int) -> None:
    steps = user.begin()
    for number in range(calls - 1):
        del steps[1 : max(1, len(steps) - _KEPT)]
        user.turn(steps, number)
    user.end(steps)


def _breaks(user: User, calls: int) -> None:
    steps = user.begin()
    for number in range(calls - 1):
        if number % 5 == 4:
            user.wait(_BREAK)
        user.turn(steps, number)
    user.end(steps)


def _searches(user: User, calls: int) -> None:
    steps = user.begin()
    for number in range(calls - 1):
        if number % 3 == 1:
            user.ask(steps, Say("I search.", searches=[("web_search", {"query": f"{number}"})]))
        else:
            user.turn(steps, number)
    user.end(steps)


SHAPES: Final[Mapping[str, Callable[[User, int], None]]] = {
    "loop": _loop,
    "documents": _documents,
    "questions": _questions,
    "branches": _branches,
    "interleaved": _interleaved,
    "parallel": _parallel,
    "edited": _edited,
    "trimmed": _trimmed,
    "breaks": _breaks,
    "searches": _searches,
}
