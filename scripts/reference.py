"""Write the pages of the reference that come from the code.

    python scripts/reference.py [PAGE ...]

Without pages, all of them. A test checks that each is as this writes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from windlass.cascade.auto import meanings_of
from windlass.errors import did_you_mean
from windlass.window.options import OPTIONS, Policy, options_of
from windlass.window.profiles import ABOUT, PROFILES, RARE

FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "reference"


def options() -> str:
    """The options of windows: their defaults, what other profiles have, what they mean."""
    others = [name for name in PROFILES if name != "default"]
    lines = [
        "# Options of windows",
        "",
        "This page is written by `python scripts/reference.py options` from the code.",
        "[Windows](../windows.md) says how to use these options.",
        "",
        "A turn is one model call and the results it asked for. `null` switches an option off.",
        "The columns of the profiles are filled where a profile differs from the default.",
        "An option that is rarely on is one that no profile but `spec` turns on.",
        "",
        *(f"- `{name}`: {about}." for name, about in ABOUT.items()),
    ]
    settings = {name: Policy.of(name).settings() for name in PROFILES}
    lines += ["", *_table(Policy, settings, others)]
    for name, option in OPTIONS.items():
        if option.is_block:
            inner = {key: value[name] or {} for key, value in settings.items()}
            whole = str(option.kind.__doc__).split("\n\n")
            lines += ["", f"## `{name}`", "", " ".join(" ".join(whole).split())]
            lines += ["", *_table(option.kind, inner, others, f"{name}.")]
    return "\n".join([*lines, ""])


def _table(
    kind: type, settings: Mapping[str, Mapping[str, Any]], others: list[str], inside: str = ""
) -> Iterator[str]:
    yield f"| option | default | {' | '.join(others)} | meaning |"
    yield f"|---|---|{'---|' * len(others)}---|"
    defaults = {each: option.default for each, option in options_of(kind).items()}
    for name, meaning in meanings_of(kind).items():
        default = settings["default"].get(name, defaults[name])
        cells = [_cell(default)]
        for other in others:
            value = settings[other].get(name, default)
            differs = value != default and name != "profile" and not isinstance(value, dict)
            cells.append(_cell(value) if differs else "")
        rare = " Rarely on." if f"{inside}{name}" in RARE else ""
        yield f"| `{name}` | {' | '.join(cells)} | {' '.join(meaning.split())}{rare} |"


def _cell(value: Any) -> str:
    return "on" if isinstance(value, dict) else f"`{json.dumps(value)}`"


PAGES: Final[Mapping[str, Callable[[], str]]] = {"options": options}
"""From the name of a page to what writes it."""


def main(names: list[str]) -> int:
    """Write the pages; 2 where one is not known."""
    for name in names or PAGES:
        if name not in PAGES:
            print(f"there is no page {name!r}; {did_you_mean(name, PAGES)}", file=sys.stderr)
            return 2
        (FOLDER / f"{name}.md").write_text(PAGES[name](), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
