"""A step of a session: where in its program a model is called, as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, ValidationInfo

NOTES: Final = "notes"
"""What the step asks for in which a helper model says what a task came to."""

_COUNTED: Final = ("sounding", "attempt", "turn", "again")
"""What earlier records count in the words for a step."""


@dataclass(frozen=True, slots=True)
class Step:
    """Where a session calls a model: steps of one session are equal where the place is the same.

    `phase` is the name of the phase, or the path of the task. `sounding` counts its soundings from
    0 (None: it has none). `attempt` and `turn` count from 1; turn 0 is before the first turn, and
    attempt 0 says that the step is no part of an attempt. `asks` names what is asked for
    besides the turn's own call (empty: the turn's own call). `repeat` counts the steps before it
    at the same place: a turn may ask twice.
    """

    phase: str
    sounding: int | None = None
    attempt: int = 0
    turn: int = 0
    asks: str = ""
    repeat: int = 0

    def __str__(self) -> str:
        """Return the step in words, for people: `phase a, attempt 1, turn 2`."""
        words = [f"phase {self.phase}"]
        if self.sounding is not None:
            words.append(f"sounding {self.sounding}")
        if self.attempt:
            words += [f"attempt {self.attempt}", f"turn {self.turn}"]
        if self.asks:
            words.append(self.asks)
        if self.repeat:
            words.append(f"again {self.repeat}")
        return ", ".join(words)

    def as_json(self) -> dict[str, Any]:
        """Return the step as it is recorded: what it leaves open is left out."""
        open_step = asdict(Step(self.phase))
        stated = {key: value for key, value in asdict(self).items() if value != open_step[key]}
        return {"phase": self.phase, **stated}


def _of_words(recorded: Any, info: ValidationInfo) -> Any:
    """The step that an earlier version recorded in words, in a row of the phase `info.context`."""
    if not isinstance(recorded, str):
        return recorded
    phase = str(info.context)
    told = recorded.removeprefix(f"notes on {phase}")
    asks = [NOTES] if told != recorded else []
    counted: dict[str, int] = {}
    for word in told.removeprefix(f"phase {phase}").split(", "):
        name, _, number = word.rpartition(" ")
        if name in _COUNTED and number.isdecimal():
            counted[name] = int(number)
        elif word:
            asks.append(word)
    repeat = counted.pop("again", 0)
    return Step(phase, asks=", ".join(asks), repeat=repeat, **counted)


RecordedStep: TypeAlias = Annotated[Step, BeforeValidator(_of_words)]
"""A step as rows tell of it."""
