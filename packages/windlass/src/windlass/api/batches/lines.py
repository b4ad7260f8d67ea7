"""The lines of a file of results as they are read back: what money and rows are counted by.

A file lies where others may write, so that its numbers are not believed as they stand.
"""

from __future__ import annotations

from typing import Annotated, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from windlass.history.base import Status

_Dollars: TypeAlias = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
"""Of one run: more is not believed."""
_Tokens: TypeAlias = Annotated[int, Field(ge=0, le=10**12)]
_Number: TypeAlias = Annotated[int, Field(ge=1)]


class _Line(BaseModel):
    """What else a line says is for people and programs, and nothing is counted by it."""

    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=True)


class ResultTokens(_Line):
    """The tokens that a run used."""

    in_: _Tokens = Field(alias="in")
    out: _Tokens


class ResultLine(_Line):
    """A row's line in the file of results of a batch."""

    row: _Number
    input_hash: str
    cascade_hash: str
    status: Status
    again: bool
    cost: _Dollars | None
    tokens: ResultTokens
    reason: str | None = None
    session_id: str | None = None
    error: str | None = None
    output: str | None = None
    outputs: dict[str, str | None] = Field(default_factory=dict)


class RunOfLine(_Line):
    """What a run took without its judge."""

    cost: _Dollars | None
    tokens: ResultTokens


class ComparedLine(ResultLine):
    """A run's line in the file of results of a comparison."""

    policy: str
    input: _Number
    take: _Number
    run: RunOfLine | None = None
    judge: str | None = None
    score: bool | Annotated[float, Field(allow_inf_nan=False)] | None = None
    judge_cost: _Dollars | None = None
    why: str = ""

    @model_validator(mode="after")
    def _has_run(self) -> Self:
        if self.run is None and not self.again:
            raise PydanticCustomError("windlass", "'run' is missing, and the run counts")
        return self
