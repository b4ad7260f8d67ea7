"""What remains of a cascade when its invalid parts are left out.

One mistake should not hide the others: a file with a wrong number in one phase
still has references, templates and tools that can be looked at. The draft is for
that only and is never run.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from windlass.cascade.model import TAGS, Cascade
from windlass.cascade.origin import Path

_NEEDED: Final[Mapping[str, Any]] = {
    "cascade_id": "cascade",
    "instructions": "-",
    "pattern": "(.)",
    "store_as": "key",
    "limit": 1,
}
"""What stands in a draft for a required value that is missing."""

_ROUNDS: Final = 50
"""How often bad parts are taken out; each round goes at least one level up."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A cascade out of those parts of a file that are valid.

    `unnamed` are the phases whose name is made up. `kept` says, for a list out of
    which items were left, which positions the remaining ones had in the file.
    """

    cascade: Cascade
    unnamed: frozenset[int] = frozenset()
    kept: Mapping[Path, list[int]] = field(default_factory=dict[Path, list[int]])

    def original(self, path: Path) -> Path:
        """The place in the file of what stands at `path` in the draft."""
        return _original(path, self.kept)


class Validated(NamedTuple):
    """What pydantic says of some data, and the draft that remains (None: nothing does)."""

    errors: list[ErrorDetails]
    draft: Draft | None


def validate(data: Any) -> Validated:
    """Validate `data`; where it is wrong, find out what remains without the wrong parts."""
    try:
        return Validated([], Draft(Cascade.model_validate(data)))
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False)
    data, found = copy.deepcopy(data), errors
    kept: dict[Path, list[int]] = {}
    unnamed: set[int] = set()
    for _ in range(_ROUNDS):
        if not _mend(data, found, kept, unnamed):
            break
        try:
            draft = Draft(Cascade.model_validate(data), frozenset(unnamed), kept)
            return Validated(errors, draft)
        except ValidationError as invalid:
            found = invalid.errors(include_url=False)
    return Validated(errors, None)


def path_of(error: ErrorDetails) -> Path:
    """The key path of an error, without the forms that pydantic names in between."""
    steps = error["loc"]
    # An unknown key may be called like a form.
    key = steps[-1:] if error["type"] == "extra_forbidden" else ()
    return tuple(step for step in steps[: len(steps) - len(key)] if step not in TAGS) + key


def at(data: Any, path: Path) -> Any:
    """The value at `path`; None where there is none."""
    for step in path:
        try:
            data = data[step]
        except (LookupError, TypeError):
            return None
    return data


def _original(path: Path, kept: Mapping[Path, list[int]]) -> Path:
    found: Path = ()
    for step in path:
        positions = kept.get(found)
        found += (positions[step] if positions and isinstance(step, int) else step,)
    return found


def _mend(
    data: Any, errors: list[ErrorDetails], kept: dict[Path, list[int]], unnamed: set[int]
) -> bool:
    """Take out of `data` what the errors are about; False where nothing would remain."""
    wrong: set[Path] = set()
    for error in errors:
        path = path_of(error)
        if error["type"] != "missing":
            wrong.add(path)
        elif path[-1] in _NEEDED:
            at(data, path[:-1])[path[-1]] = _NEEDED[str(path[-1])]
        elif path[0] == "phases" and path[-1] == "name" and isinstance(path[1], int):
            at(data, path[:-1])["name"] = f"phase {path[1] + 1}"
            unnamed.add(path[1])
        else:  # a source without a phase is none; a cascade without phases neither
            wrong.add(path[:-1])
    if wrong & {(), ("phases",)}:
        return False
    # From the end, so that positions in lists still hold; the inner part first.
    for path in sorted(wrong, key=_reading_order, reverse=True):
        holder, step = at(data, path[:-1]), path[-1]
        if path[:-1] == ("phases",):
            holder[step] = {}
        elif isinstance(holder, list) and isinstance(step, int):
            where = _original(path[:-1], kept)
            del kept.setdefault(where, list(range(len(holder))))[step]
            del holder[step]
        elif isinstance(holder, dict):
            holder.pop(step, None)
    return True


def _reading_order(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple((step, "") if isinstance(step, int) else (0, step) for step in path)
