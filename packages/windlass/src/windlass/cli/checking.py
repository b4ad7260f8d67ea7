"""Every mistake in a cascade or a task at once, and what is worth a warning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import environ
from pathlib import Path
from typing import Any

from windlass.api.loading import ReadingOptions, load_cascade, load_program, read_cascade
from windlass.caching.rates import many
from windlass.cascade.children import family_needs, perhaps_unset
from windlass.cascade.compile import explain_defaults as explain_cascade
from windlass.cascade.differences import differences
from windlass.cascade.inputs_schema import fields_of, inputs_in_words
from windlass.cascade.model import Phase
from windlass.cascade.model_names import model_names, wrong_model_names
from windlass.cascade.needs import flags
from windlass.cascade.notes import notes
from windlass.cascade.ready import ReadyCascade
from windlass.cascade.unset_names import unset_names
from windlass.cascade.warnings import CascadeWarning, flow_warnings, model_warnings, prompt_warnings
from windlass.cli.output import out, printed_as_json, progress
from windlass.cli.untrusted import list_unchecked, print_unchecked
from windlass.errors import CascadeError, FileError, Mistake, UsageError
from windlass.providers.catalog import THIS_MACHINE, catalog, find, host_of
from windlass.settings.settings import Settings
from windlass.tasks.compile import explain_defaults as explain_task
from windlass.text.tokens import FamilyCounter


def check_file(
    file: Path, how: ReadingOptions, *, strict: bool, explain: bool, through: str | None
) -> None:
    """Say that a cascade or a task is sound, or raise UsageError with all its mistakes.

    `through`: the provider that all its models are asked through.
    """
    try:
        if file.suffix.lower() == ".xml":
            _check_task(file, strict=strict, trust=bool(how.trust), explain=explain)
        else:
            settings = Settings.read({"through": through}, trust=bool(how.trust))
            _check_cascade(file, settings, how, strict=strict, explain=explain)
    except UsageError as error:
        mistakes: Sequence[Mistake] = [Mistake(str(file), None, str(error))]
        warnings: Sequence[Mistake] = ()
        if isinstance(error, FileError):
            mistakes, warnings = error.mistakes, error.warnings
        printed_as_json({"mistakes": _plain(mistakes), "warnings": _plain(warnings)})
        raise


def _plain(mistakes: Iterable[Mistake]) -> list[dict[str, Any]]:
    return [{"message": each.text, "file": each.file, "line": each.line} for each in mistakes]


def _check_cascade(
    file: Path, settings: Settings, how: ReadingOptions, *, strict: bool, explain: bool
) -> None:
    """Say that a cascade is sound, or raise CascadeError with all its mistakes.

    Warnings are about what costs and is no mistake. Code is loaded only where the user trusts it,
    by the word of `how` or by a mark; a note lists what was left unchecked.
    """
    try:
        ready = load_cascade(file, settings, how=how)
    except CascadeError:
        print_unchecked(list_unchecked(settings), settings)
        raise
    cascade = ready.cascade
    family = read_cascade(file, settings, how=how)
    misread = [CascadeWarning(each) for part in family.walk() for each in notes(part.loaded)]
    misread += [CascadeWarning(each, mended=True) for each in perhaps_unset(family)]
    misread += map(CascadeWarning, unset_names(family))
    warned = [*(each for part in ready.walk() for each in _warnings(part, settings)), *misread]
    different = [each for part in family.walk() for each in differences(part.loaded)]
    left_out = list_unchecked(settings, *(each.registry for each in ready.walk()))
    if strict and (mistakes := [each.mistake for each in warned if not each.mended]):
        raise CascadeError(mistakes, (each.mistake for each in warned if each.mended))
    if explain:
        explained = explain_cascade(cascade, settings)
        if not printed_as_json(explained):
            out.print(str(explained))
        return
    names = [phase.name for phase in cascade.phases]
    needs = family_needs(family)
    models = _models_of(ready, settings)
    lists = {
        "models": models,
        "warnings": _plain(each.mistake for each in warned),
        "different_here": _plain(different),
        "needs": [need.name for need in needs],
        "inputs": {name: dict(each) for name, each in fields_of(cascade.inputs_schema).items()},
        "unchecked": left_out,
    }
    filled = {key: value for key, value in lists.items() if value}
    if printed_as_json({"cascade_id": cascade.cascade_id, "phases": names, **filled}):
        return
    out.print(f"{file}: {cascade.cascade_id}, no mistakes; phases: {', '.join(names)}")
    if needs:
        out.print(f"needs: {flags(needs)}")
    for line in inputs_in_words(cascade.inputs_schema):
        out.print(f"input {line}")
    for model in models:
        out.print(f"model {model['name']}: {model['asked']}")
    for each in warned:
        out.print(f"warning: {each.mistake}")
    for difference in different:
        out.print(f"different here: {difference}")
    print_unchecked(left_out, settings)


def _warnings(ready: ReadyCascade, settings: Settings) -> Iterable[CascadeWarning]:
    """Return what is worth a warning in one cascade."""
    cascade = ready.cascade

    def counter(phase: Phase) -> FamilyCounter:
        return FamilyCounter(settings.model_for(cascade.settings_for(phase).model))

    settings = settings.of_models(cascade.models, cascade.cascade_id)
    sizes = prompt_warnings(cascade, ready.registry, counter)
    providers = catalog(settings.providers)

    def problem(name: str) -> str | None:
        try:
            find(name, providers)
        except UsageError as error:
            return str(error)
        return None

    names = (CascadeWarning(each) for each in wrong_model_names(cascade, settings, problem))
    return (*flow_warnings(cascade), *sizes, *model_warnings(cascade, settings.model_for), *names)


def _models_of(ready: ReadyCascade, settings: Settings) -> list[dict[str, str]]:
    """Give each model that a cascade and those below it ask, with its host and its key's variable.

    None where all of them run on this machine.
    """
    providers = catalog(settings.providers)
    found: dict[str, dict[str, str]] = {}
    for each in ready.walk():
        own = settings.of_models(each.cascade.models, each.cascade.cascade_id)
        for name in model_names(each.cascade, own):
            try:
                entry = find(name, providers)
                key = entry.key(environ)
            except UsageError:
                continue  # told as a warning
            host, keys = host_of(entry), " or ".join(entry.keys)
            asked = "runs on this machine" if entry.name == "local" else f"asked at {host}"
            if keys:
                asked += f" with the key in {key.variable if key else f'{keys} (not set)'}"
            found[name] = {"name": name, "host": host, "key": keys, "asked": asked}
    listed = list(found.values())
    return listed if any(each["host"] != THIS_MACHINE for each in listed) else []


def _check_task(file: Path, *, strict: bool, trust: bool, explain: bool) -> None:
    """Say that a task is sound, or raise TaskFileError with all its mistakes."""
    settings = Settings.read({}, trust=trust)
    program, registry = load_program(file, settings, strict=strict, trust=trust)
    left_out = list_unchecked(settings, registry)
    explained = explain_task(program, settings) if explain else None
    warned = [*program.warnings, *program.untaken(settings)]
    paths = [task.path for task in program.task.walk()]
    fields = {
        "task": program.task.name,
        "kind": program.task.kind,
        "tasks": paths,
        "needs": [need.name for need in program.needs],
        "warnings": _plain(warned),
        "unchecked": left_out,
        "defaults": explained,
    }
    if printed_as_json({key: value for key, value in fields.items() if value or key == "warnings"}):
        return
    print_unchecked(left_out, settings)
    for warning in warned:
        progress.print(f"warning: {warning}")
    if explained is not None:
        out.print(str(explained))
        return
    count = len(warned)
    counted = f", {many(count, 'warning')}" if count else ""
    out.print(f"{file}: {program.task.name}, no mistakes{counted}; tasks: {', '.join(paths)}")
    if program.needs:
        out.print(f"needs: {flags(program.needs)}")
