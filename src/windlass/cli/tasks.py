"""Commands about tasks in XML: check; `evaluate` stands in `evaluate.py`."""

from __future__ import annotations

from os import environ
from pathlib import Path

from windlass.api import load_program
from windlass.cascade.needed import flags
from windlass.cli.output import out, print_json, progress
from windlass.cli.trusting import tell_unchecked, unchecked
from windlass.operators.compile import explain_defaults as explain
from windlass.settings import Settings


def check_task_command(
    task: Path, *, explain_defaults: bool, strict: bool, trust: bool, as_json: bool
) -> None:
    """Say that a task is sound, with its warnings, or raise TaskFileError with all mistakes."""
    settings = Settings.read({}, environ, Path.cwd(), trust=trust)
    program, registry = load_program(task, settings, strict=strict, trust=trust)
    left_out = unchecked(settings, registry)
    warnings = [str(warning) for warning in program.warnings]
    names = [one.path for one in program.task.walk()]
    if as_json:
        defaults = explain(program, settings) if explain_defaults else None
        told = {"task": program.task.name, "kind": program.task.kind, "tasks": names}
        told |= {"needs": [one.name for one in program.needs]} if program.needs else {}
        also = {"unchecked": left_out} if left_out else {}
        more = {"defaults": defaults} if defaults else {}
        print_json({**told, "warnings": warnings, **also, **more})
        return
    tell_unchecked(left_out)
    for warning in warnings:
        progress.print(f"warning: {warning}", markup=False, soft_wrap=True)
    if explain_defaults:
        out.print(str(explain(program, settings)), markup=False)
        return
    count = f"{len(warnings)} warning{'s' if len(warnings) != 1 else ''}" if warnings else ""
    found = f"no mistakes, {count}" if count else "no mistakes"
    told_tasks = ", ".join(names)
    out.print(f"{task}: {program.task.name}, {found}; tasks: {told_tasks}", markup=False)
    if program.needs:
        out.print(f"needs: {flags(program.needs)}", markup=False)
