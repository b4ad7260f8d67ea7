"""What all declared data is made of: the base class, and the plainest types of values.

Cascades and settings are both declared in files; what may stand in either is made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError

T = TypeVar("T")

SENTENCE: Final = "windlass"
"""The pydantic error type of what our own checks find; its message is shown as it is."""


def refuse(sentence: str) -> PydanticCustomError:
    """An error for pydantic whose message is `sentence`, braces and all."""
    return PydanticCustomError(SENTENCE, "{sentence}", {"sentence": sentence})


def without_repeats(items: Sequence[T]) -> tuple[T, ...]:
    """The items as a tuple; none may occur twice."""
    seen: list[T] = []
    for item in items:
        if item in seen:
            raise refuse(f"{item!r} is listed twice")
        seen.append(item)
    return tuple(seen)


ONCE: Final[dict[str, Any]] = {"uniqueItems": True}

Text: TypeAlias = Annotated[str, Field(min_length=1)]
Name: TypeAlias = Annotated[
    # It becomes a folder of the store, hence no separators and no dot in front.
    str, Field(min_length=1, max_length=100, pattern=r'^[^\s./\\<>:"|?*][^/\\<>:"|?*\x00-\x1f]*$')
]
Names: TypeAlias = Annotated[
    Sequence[Text], Field(json_schema_extra=ONCE), AfterValidator(without_repeats)
]
Count: TypeAlias = Annotated[int, Strict(), Field(ge=1)]
YesNo: TypeAlias = Annotated[bool, Strict()]


class Part(BaseModel):
    """What all parts of a cascade share: frozen, and no key that is not declared."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
