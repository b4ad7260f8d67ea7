"""`memory` in a cascade: which banks its phases read, and which they write.

A name or a list of names is both read and written. What a phase says goes before what its
cascade says, as a whole: a bank that it does not name is closed to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from windlass.parts import ONCE, Name, Part, refuse, without_repeats

if TYPE_CHECKING:
    from windlass.cascade.model import Cascade, Phase

REMEMBER: Final = "remember"
SEARCH: Final = "search_memory"

BankNames: TypeAlias = Annotated[
    Sequence[Name], Field(json_schema_extra=ONCE), AfterValidator(without_repeats)
]


class Memory(Part):
    """The memory banks of a phase."""

    read: BankNames = ()
    """The banks that `search_memory` looks in."""

    write: BankNames = ()
    """The banks that `remember` may put something into."""

    @model_validator(mode="after")
    def _some_bank(self) -> Memory:
        if not self.read and not self.write:
            raise refuse("name a bank to 'read' or to 'write', such as {'read': ['notes']}")
        return self


def _form(value: Any) -> str:
    if isinstance(value, str):
        return "<word>"
    return "<list>" if isinstance(value, Sequence) else "<object>"


def _long_form(said: str | Sequence[str] | Memory) -> Memory:
    if isinstance(said, Memory):
        return said
    names = (said,) if isinstance(said, str) else tuple(said)
    return Memory(read=names, write=names)


MemoryOf: TypeAlias = Annotated[
    Annotated[Name, Tag("<word>")]
    | Annotated[BankNames, Tag("<list>")]
    | Annotated[Memory, Tag("<object>")],
    Discriminator(_form),
    AfterValidator(_long_form),
]
"""One bank, a list of banks, or an object with `read` and `write`."""


def memory_of(cascade: Cascade, phase: Phase) -> Memory | None:
    """The banks of `phase`: its own, else the cascade's; None: it has none."""
    said = cascade.memory if phase.memory is None else phase.memory
    return None if said is None else _long_form(said)


def without_bank(memory: Memory | None, tool: str) -> str | None:
    """Why a phase can do nothing with `tool`; None where it can, or where it is another tool."""
    if tool == REMEMBER and not (memory and memory.write):
        return f"{tool!r} needs a bank to write; say which: 'memory': {{'write': ['notes']}}"
    if tool == SEARCH and not (memory and memory.read):
        return f"{tool!r} needs a bank to read; say which: 'memory': {{'read': ['notes']}}"
    return None
