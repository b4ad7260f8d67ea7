"""`windlass check`: every mistake in a cascade or a task at once, and what is worth a warning."""

from __future__ import annotations

from os import environ
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.api import load_cascade, load_program
from windlass.cascade.check import flags, input_needs, warnings_of
from windlass.cascade.compile import explain_defaults as explain_cascade
from windlass.cascade.load import load
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.sizes import Warned, warnings
from windlass.cli.options import AsJson, Trust
from windlass.cli.output import out, print_json, progress
from windlass.cli.trust import print_unchecked, unchecked
from windlass.errors import CascadeError, Mistake
from windlass.operators.compile import explain_defaults as explain_task
from windlass.settings import Settings
from windlass.tokens import FamilyCounter


def check_command(
    file: Annotated[
        Path, typer.Argument(metavar="CASCADE", help="A cascade in JSON or YAML, or a task in XML.")
    ],
    *,
    explain_defaults: Annotated[
        bool, typer.Option("--explain-defaults", help="Print each setting with its origin.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as mistakes.")] = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Say that a file is sound, or raise CascadeError or TaskFileError with all its mistakes.

    Warnings are about what costs and is no mistake. Code is loaded only where the user trusts it,
    with `trust` or by a mark; a note lists what was left unchecked.
    """
    settings = Settings.read({}, environ, Path.cwd(), trust=trust)
    check = _check_task if file.suffix.lower() == ".xml" else _check_cascade
    check(file, settings, strict=strict, trust=trust, explain=explain_defaults, as_json=as_json)


def _check_cascade(
    file: Path, settings: Settings, *, strict: bool, trust: bool, explain: bool, as_json: bool
) -> None:
    cascade, registry = load_cascade(file, settings, trust=trust)
    source = load(file)
    costly = list(warnings(cascade, registry, lambda phase: _counter(cascade, phase, settings)))
    warned = [*costly, *(Warned(f"{one.file}:{one.line}", one.text) for one in warnings_of(source))]
    left_out = unchecked(settings, registry)
    if strict and (mistakes := [one for one in warned if not one.mended]):
        raise CascadeError([Mistake(one.where, None, one.text) for one in mistakes])
    if explain:
        explained = explain_cascade(cascade, settings)
        if as_json:
            print_json(explained)
        else:
            out.print(str(explained))
        return
    names = [phase.name for phase in cascade.phases]
    needs = input_needs(source)
    if as_json:
        lists = {
            "warnings": [str(one) for one in warned],
            "needs": [one.name for one in needs],
            "unchecked": left_out,
        }
        filled = {key: value for key, value in lists.items() if value}
        print_json({"cascade_id": cascade.cascade_id, "phases": names, **filled})
        return
    out.print(f"{file}: {cascade.cascade_id}, no mistakes; phases: {', '.join(names)}")
    if needs:
        out.print(f"needs: {flags(needs)}")
    for one in warned:
        out.print(f"warning: {one}")
    print_unchecked(left_out)


def _counter(cascade: Cascade, phase: Phase, settings: Settings) -> FamilyCounter:
    return FamilyCounter(settings.model_for(cascade.settings_for(phase).model))


def _check_task(
    file: Path, settings: Settings, *, strict: bool, trust: bool, explain: bool, as_json: bool
) -> None:
    program, registry = load_program(file, settings, strict=strict, trust=trust)
    left_out = unchecked(settings, registry)
    warned = [str(warning) for warning in program.warnings]
    names = [task.path for task in program.task.walk()]
    if as_json:
        fields: dict[str, Any] = {
            "task": program.task.name,
            "kind": program.task.kind,
            "tasks": names,
            "needs": [need.name for need in program.needs],
            "warnings": warned,
            "unchecked": left_out,
            "defaults": explain_task(program, settings) if explain else None,
        }
        print_json({key: value for key, value in fields.items() if value or key == "warnings"})
        return
    print_unchecked(left_out)
    for warning in warned:
        progress.print(f"warning: {warning}")
    if explain:
        out.print(str(explain_task(program, settings)))
        return
    count = f", {len(warned)} warning{'s' if len(warned) != 1 else ''}" if warned else ""
    out.print(f"{file}: {program.task.name}, no mistakes{count}; tasks: {', '.join(names)}")
    if program.needs:
        out.print(f"needs: {flags(program.needs)}")
