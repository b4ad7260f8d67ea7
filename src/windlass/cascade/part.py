"""What all parts of a cascade are made of: the base class, and the plainest types of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict

from windlass.cascade.values import without_repeats

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
