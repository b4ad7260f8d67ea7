"""The memory banks of a cascade or a phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, Tag, model_validator

from windlass.declared import ONCE, Model, Name, by_form, refuse, without_repeats

REMEMBER: Final = "remember"
SEARCH: Final = "search_memory"
"""The tools that write to memory banks, and look into them."""

BankNames: TypeAlias = Annotated[
    Sequence[Name], Field(json_schema_extra=ONCE), AfterValidator(without_repeats)
]


class MemoryBanks(Model):
    """The memory banks of a phase."""

    bank: Name | None = None
    """One bank that is both read and written, and that a tool of its name looks into."""

    keep: Literal["all"] | None = None
    """With `bank`: `all` puts every message of the phase, outside soundings, into it."""

    read: BankNames = ()
    """The banks that `search_memory` looks in."""

    write: BankNames = ()
    """The banks that `remember` may put something into."""

    @model_validator(mode="before")
    @classmethod
    def _both_ways(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and isinstance(bank := data.get("bank"), str):
            opened = {key: data.get(key, ()) for key in ("read", "write")}
            if all(isinstance(names, list | tuple) for names in opened.values()):
                both = {key: list(dict.fromkeys([bank, *each])) for key, each in opened.items()}
                return {**data, **both}
        return data

    @model_validator(mode="after")
    def _some_bank(self) -> MemoryBanks:
        if self.keep is not None and self.bank is None:
            raise refuse("'keep' needs the 'bank' that keeps, such as {'bank': 'notes'}")
        if not self.read and not self.write:
            raise refuse("name a bank to 'read' or to 'write', such as {'read': ['notes']}")
        return self


def as_banks(value: str | Sequence[str] | MemoryBanks) -> MemoryBanks:
    """Return banks as an object: those that are only named are both read and written."""
    if isinstance(value, MemoryBanks):
        return value
    names = (value,) if isinstance(value, str) else tuple(value)
    return MemoryBanks(read=names, write=names)


MemoryOf: TypeAlias = Annotated[
    Annotated[Name, Tag("<word>")]
    | Annotated[BankNames, Tag("<list>")]
    | Annotated[MemoryBanks, Tag("<object>")],
    by_form("<word>", "<list>", "<object>"),
    AfterValidator(as_banks),
]
"""One bank, a list of banks, or an object. One bank keeps every message (`{bank, keep: all}`); a
list is both read and written; a bank that is not named is closed."""


def with_kept_banks(data: Any) -> Any:
    """Return the data of a cascade in which each bank that is only named is written out.

    It keeps every message, as it does in other runners, unless the cascade says in our own words
    how its memory is used: by `remember` or `search_memory` in a tackle, or by `injectors`.
    """
    phases = data.get("phases") if isinstance(data, Mapping) else None
    if not isinstance(phases, list | tuple):
        return data
    parts = [data, *(phase for phase in phases if isinstance(phase, Mapping))]
    if not any(isinstance(part.get("memory"), str) for part in parts):
        return data
    ours = any(part.get("injectors") or _has_memory_tool(part.get("tackle")) for part in parts)

    def written_out(part: Any) -> Any:
        if not isinstance(part, Mapping) or not isinstance(name := part.get("memory"), str):
            return part
        banks = {"read": [name], "write": [name]} if ours else {"bank": name, "keep": "all"}
        return {**part, "memory": banks}

    return {**written_out(data), "phases": [written_out(phase) for phase in phases]}


def _has_memory_tool(tackle: Any) -> bool:
    return isinstance(tackle, list | tuple) and (REMEMBER in tackle or SEARCH in tackle)
