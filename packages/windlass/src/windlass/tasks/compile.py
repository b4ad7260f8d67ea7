"""From a task file to what the engine runs: phases, a rule for each task, and what to say of it.

A `context_management` block becomes a `windlass.cascade.rules.Rule`, the one inner form that a
cascade's `context` becomes, too. Phases of atomic tasks are checked as those of cascades are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from windlass.cascade import rules
from windlass.cascade.check import check
from windlass.cascade.compile import Explanations, compile_rule, rule_in_words, settings_text
from windlass.cascade.load import LoadedCascade, validate
from windlass.cascade.model import Cascade
from windlass.cascade.needs import InputNeed, input_needs, needs_of
from windlass.cascade.notes import notes
from windlass.cascade.source import ParsedText
from windlass.cascade.warnings import model_warnings
from windlass.errors import Mistake, TaskFileError
from windlass.safety.files import HERE, Folders, MissingFileError, UnreadableError, in_root
from windlass.settings.settings import Settings
from windlass.tasks.model import OF_INNER, Input, Task, TaskFile
from windlass.tools.registry import Registry


@dataclass(frozen=True, slots=True)
class Program:
    """A checked task file: its tree, its atomic tasks as the phases of a cascade, its warnings.

    `previous` says of each task, by path, how outputs of earlier steps are handed to it; `needs`
    are the names of the input without which a template of it fails.
    """

    source: TaskFile
    cascade: Cascade
    warnings: tuple[Mistake, ...]
    previous: dict[str, str | None]
    needs: tuple[InputNeed, ...] = ()

    @property
    def task(self) -> Task:
        """Return the root."""
        return self.source.task

    def untaken(self, settings: Settings) -> Iterator[Mistake]:
        """Return what tasks ask of their models that these do not take; a run does without it."""
        return (_in_xml(each.mistake) for each in model_warnings(self.cascade, settings.model_for))

    def with_windows(self) -> Program:
        """Return the same with calls that are shortened as they grow."""
        return replace(self, cascade=self.cascade.model_copy(update={"auto_context": True}))

    def rule(self, task: Task, settings: Settings | None = None) -> rules.Rule:
        """What a task says of its context, in the inner form; for an operator without a policy."""
        carried = rules.TaskContext(
            task.context.inherit_context,
            self.previous[task.path],  # type: ignore[arg-type]
            task.context.fresh_context,
        )
        if task.leaf is None:
            return rules.Rule("selective", carried=carried)
        own = compile_rule(self.cascade, self.cascade.phases[task.leaf], settings)
        return replace(own, mode="selective", carried=carried)


def compile_task(
    source: TaskFile,
    *,
    tools: Registry | None = None,
    servers: Collection[str] = (),
    strict: bool = False,
    folders: Folders = HERE,
) -> Program:
    """Return the task as it can be run. Raises TaskFileError with every mistake at once.

    `tools` and `servers` are as `cascade.check.check` takes them. `strict`: a required element
    that is missing is a mistake, not a warning. `folders`: where texts must lie that it names.
    """
    reading = ParsedText(source.file, source.cascade, dict(source.lines), folders=folders)
    loaded = validate(reading)
    mistakes: list[Mistake] = []
    warnings: list[Mistake] = []
    for finding in source.findings:
        wrong = finding.error or (strict and finding.lacking)
        (mistakes if wrong else warnings).append(Mistake(source.file, finding.line, finding.text))
    if source.cascade["phases"]:  # else there is no atomic task, which was told
        problems = check(loaded, tools=tools, servers=servers)
        mistakes += [
            _in_xml(finding) for finding in problems if not finding.text.endswith(_ELSEWHERE)
        ]
        (mistakes if strict else warnings).extend(map(_in_xml, notes(loaded)))
    if mistakes:
        ordered = sorted(dict.fromkeys(mistakes), key=lambda finding: finding.line or 0)
        raise TaskFileError(ordered, warnings)
    previous = dict(_handed(source.task, None))
    needs = {need.name: need for need in reversed([*_needs(source, loaded)])}
    in_order = sorted(needs.values(), key=lambda need: need.use.line or 0)
    return Program(source, loaded.cascade, tuple(warnings), previous, tuple(in_order))


def _needs(source: TaskFile, loaded: LoadedCascade) -> Iterator[InputNeed]:
    """Yield what templates of the file need of the input, wherever they stand."""
    inner = {id(below) for task in source.task.walk() if task.inner for below in task.inner.walk()}
    leaves = [task for task in source.task.walk() if task.leaf is not None]
    own = {task.leaf: OF_INNER for task in leaves if task.leaf is not None and id(task) in inner}
    yield from (InputNeed(need.name, _in_xml(need.use)) for need in input_needs(loaded, own))
    for task in source.task.walk():
        templates = [(each.template, each.line, "an input") for each in task.inputs]
        if task.leaf is None:
            templates.append((task.description, task.described, "the description"))
        for template, line, what in templates:
            for need in needs_of(template):
                if id(task) in inner and need.name in OF_INNER:
                    continue
                text = f"{what} of {task.path!r} needs the input {need.name!r}"
                yield InputNeed(need.name, Mistake(source.file, line, text))


_ELSEWHERE = ("names are unique", "stands for phases in a source")
"""The end of mistakes that the tree of tasks tells better, or that tasks cannot make."""


def outside_root(program: Program, root: Path, *, with_inputs: bool) -> Iterator[Mistake]:
    """Yield what a task names that nobody may look at: folders, and `with_inputs` its files, too.

    Files that templates name are known when it runs.
    """
    folders = in_root(root)
    for task in program.task.walk():
        for name in task.folders:
            if not folders.holds(name):
                text = f"<folder>: {name!r} {folders.outside}"
                yield Mistake(program.source.file, task.line, text)
        for declared in task.inputs if with_inputs else ():
            if problem := _problem(declared, folders):
                yield Mistake(program.source.file, declared.line, problem)


def _problem(declared: Input, folders: Folders) -> str:
    """Why a declared file cannot be an input; empty where it may be one, or come to be there."""
    name = declared.value
    if declared.form not in ("file", "glob") or "{" in name:
        return ""
    if declared.form == "glob":
        leads_out = Path(name).is_absolute() or ".." in Path(name).parts
        return f"<glob>: {name!r} {folders.outside}" if leads_out else ""
    try:
        folders.open(name).close()
    except MissingFileError:
        return ""
    except UnreadableError as error:
        return f"<file>: {name!r} {error}"
    return ""


def _in_xml(mistake: Mistake) -> Mistake:
    """Return the mistake in the words of a task file."""
    text = mistake.text
    for key, tag in (("instructions", "description"), ("tackle", "tools")):
        text = text.replace(f", {key}", f", {tag}").replace(f".{key}", f".{tag}")
    return replace(mistake, text=text.replace("phase '", "task '"))


def _handed(task: Task, previous: str | None) -> Iterator[tuple[str, str | None]]:
    yield task.path, previous
    for step in task.steps:
        yield from _handed(step, task.context.accumulation_format)
    if task.inner is not None:
        yield from _handed(task.inner, None)
    if task.reduction is not None:
        yield from _handed(task.reduction, "full_output")


# ---- the same for people -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskDefaults:
    """A task's settings with their origins, its rule, and the rule in words."""

    task: str
    kind: str
    line: int
    settings: tuple[tuple[str, Any, str], ...]
    rule: rules.Rule
    words: str

    def __str__(self) -> str:
        title = f"{self.kind} {self.task!r} (line {self.line}) {self.words}"
        return settings_text(title, self.settings)


def explain_defaults(
    program: Program, settings: Settings | None = None
) -> Explanations[TaskDefaults]:
    """Per task, every setting of its context with its origin, and what it will see in words."""
    explained = Explanations[TaskDefaults]()
    for task in program.task.walk():
        rule = program.rule(task, settings)
        listed = tuple(_settings(program, task))
        kind = task.kind if task.role == "task" else f"{task.role} ({task.kind})"
        words = rule_in_words(rule)
        explained.append(TaskDefaults(task.path, kind, task.line, listed, rule, words))
    return explained


def _settings(program: Program, task: Task) -> Iterator[tuple[str, Any, str]]:
    context = task.context
    shown: dict[str, Any] = {
        "inherit_context": context.inherit_context,
        "accumulate_data": context.accumulate_data,
        "accumulation_format": context.accumulation_format,
        "fresh_context": "enabled" if context.fresh_context else "disabled",
    }
    for name, value in shown.items():
        if name in context.origins:
            word = str(value).lower() if isinstance(value, bool) else value
            yield name, word, context.origins[name]
    if task.kind == "reduce":
        yield "parallel", task.parallel, "written or default"
    if task.leaf is not None:
        phase = program.cascade.phases[task.leaf]
        for key in ("model", "tackle", "rules", "max_input_tokens"):
            if key in phase.model_fields_set:
                line = program.source.lines.get(("phases", task.leaf, key))
                yield key, phase.model_dump(exclude_unset=True)[key], f"line {line}"
