"""Task files for tests: the pieces of XML, read and compiled."""

from __future__ import annotations

from tests.cascade.making import Toolbox
from windlass.errors import TaskFileError
from windlass.tasks.compile import Program, compile_task
from windlass.tasks.parse import read_task

TOOLS = ("read_file", "list_files", "recall")


def block(
    inherit: str | None = "full",
    fresh: str | None = "enabled",
    accumulate: str | None = None,
    how: str | None = None,
) -> str:
    """A `context_management` block; what is None is left out."""
    said = {
        "inherit_context": inherit,
        "accumulate_data": accumulate,
        "accumulation_format": how,
        "fresh_context": fresh,
    }
    lines = "\n".join(f"<{tag}>{text}</{tag}>" for tag, text in said.items() if text is not None)
    return f"<context_management>\n{lines}\n</context_management>\n"


def atomic(name: str = "", inside: str = "", asks: str = "") -> str:
    """An atomic task that asks `Do NAME.`."""
    named = f' name="{name}"' if name else ""
    told = asks or f"Do {name or 'it'}."
    return f'<task type="atomic"{named}><description>{told}</description>{inside}</task>\n'


def sequential(*steps: str, inside: str = "", name: str = "") -> str:
    named = f' name="{name}"' if name else ""
    return (
        f'<task type="sequential"{named}><description>Do all.</description>\n{inside}'
        f"<steps>\n{''.join(steps)}</steps></task>\n"
    )


def reduce(
    inputs: str,
    *,
    inside: str = "",
    inner: str = "",
    reduction: str = "",
    name: str = "",
    parallel: int | None = None,
    inner_type: str = "",
) -> str:
    named = f' name="{name}"' if name else ""
    named += f' parallel="{parallel}"' if parallel else ""
    return (
        f'<task type="reduce"{named}><description>Do each.</description>\n{inside}'
        f"<inputs>{inputs}</inputs>\n"
        f"<inner_task{inner_type}><description>Do inner.</description>{inner}</inner_task>\n"
        f"<reduction_task><description>Do reduction.</description>{reduction}</reduction_task>"
        "</task>\n"
    )


def compiled(xml: str, *, strict: bool = False) -> Program:
    """The program in a text."""
    return compile_task(read_task(xml, "task.xml"), tools=Toolbox(*TOOLS), strict=strict)


def complaints(xml: str, *, strict: bool = False) -> list[str]:
    """All that is wrong with a text, as `line: text`."""
    try:
        compiled(xml, strict=strict)
    except TaskFileError as error:
        return [f"{mistake.line}: {mistake.text}" for mistake in error.mistakes]
    return []


def warnings(xml: str) -> list[str]:
    """What is odd in a text that runs, as `line: text`."""
    return [f"{one.line}: {one.text}" for one in compiled(xml).warnings]
