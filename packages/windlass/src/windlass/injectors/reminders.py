"""What the end of every request reminds of: the plan, open failures, and what is out of sight.

The plan that a model keeps with the tools `plan` and `todo` is a value of the state, under the key
`plan`, so it is recorded, passes from phase to phase, and can be used in templates. A picture
decays to a line and a file's text to a digest; the scratchpad keeps reference and description of
each that is out of sight. The tool `look_again` shows one, `describe_picture` says what is on it,
for later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias

from windlass.errors import ToolError
from windlass.injectors.base import (
    LOOK,
    Artifact,
    BlockItem,
    FailedCall,
    Injector,
    Rendered,
    Situation,
    Tier,
    option,
)
from windlass.tools.base import ToolContext, ToolOutput

KEY: Final = "plan"
"""The key of the state that holds the plan."""

Status: TypeAlias = Literal["pending", "in_progress", "done"]
STATUSES: Final[tuple[Status, ...]] = ("pending", "in_progress", "done")
MOST_STEPS: Final = 50
_MARKS: Final = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}
_GOAL_CHARS: Final = 300
"""Characters of the instructions that serve as the goal if there is no plan."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step: what to do, its status, and its conclusion."""

    text: str
    status: Status = "pending"
    conclusion: str = ""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A goal and its steps in order."""

    goal: str
    steps: tuple[PlanStep, ...]

    @property
    def done(self) -> int:
        """How many steps are done."""
        return sum(step.status == "done" for step in self.steps)

    @property
    def next(self) -> str:
        """The current step, else the first that is not done; empty if all are."""
        open_steps = [step for step in self.steps if step.status != "done"]
        in_hand = [step for step in open_steps if step.status == "in_progress"]
        return next((step.text for step in (*in_hand, *open_steps)), "")

    def in_line(self) -> str:
        """Return the plan in a line."""
        after = f"; next: {self.next}" if self.next else ""
        return f"{self.goal}: {self.done}/{len(self.steps)} steps{after}"

    def as_state(self) -> dict[str, Any]:
        """Return the plan as a JSON value."""
        steps = [
            {"step": step.text, "status": step.status, "conclusion": step.conclusion}
            for step in self.steps
        ]
        return {"goal": self.goal, "steps": steps}

    def with_step(self, number: int, status: str, conclusion: str = "") -> TaskPlan:
        """Return the plan after step `number` (from 1) has changed. Raises ToolError."""
        if not 1 <= number <= len(self.steps):
            raise ToolError(f"there is no step {number}; the plan has steps 1 to {len(self.steps)}")
        new = next((each for each in STATUSES if each == status.strip().lower()), None)
        if new is None:
            raise ToolError(f"status {status!r} is none of {', '.join(STATUSES)}")
        steps = list(self.steps)
        before = steps[number - 1]
        steps[number - 1] = replace(
            before, status=new, conclusion=conclusion.strip() or before.conclusion
        )
        return replace(self, steps=tuple(steps))


def plan_in(state: Mapping[str, Any]) -> TaskPlan | None:
    """Return the plan in a state; None if there is none, or if its key holds something else."""
    match state.get(KEY):
        case {"goal": str(goal), "steps": list(steps)}:
            pass
        case _:
            return None
    read: list[PlanStep] = []
    for step in steps:
        match step:
            case {"step": str(text), "status": "pending" | "in_progress" | "done" as status}:
                read.append(PlanStep(text, status, str(step.get("conclusion") or "")))
            case _:
                return None
    return TaskPlan(goal, tuple(read))


@dataclass
class PlanStatus(Injector):
    """The plan's steps with their marks and conclusions."""

    name: ClassVar[str] = "plan"
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 10
    cap: ClassVar[int] = 300

    def render(self, seen: Situation) -> Rendered | None:
        """Return the goal, the progress and the steps, open ones before finished ones."""
        plan = plan_in(seen.state)
        if plan is None:
            return None
        progress = seen.prompt.style.progress_text(plan.done, len(plan.steps))
        listed = seen.prompt.style.listed([_step(step) for step in plan.steps])
        order = sorted(range(len(plan.steps)), key=lambda at: plan.steps[at].status == "done")
        items = [BlockItem(listed[at], f"step {at + 1}") for at in order]
        return Rendered(f"[Plan] {plan.goal}\n{progress}", tuple(items))


def _step(step: PlanStep) -> str:
    after = f" -> {step.conclusion}" if step.conclusion else ""
    return f"{_MARKS[step.status]} {step.text}{after}"


@dataclass
class TodoRewriter(Injector):
    """The goal, the progress and the next step, at the very end, where models look."""

    name: ClassVar[str] = "todo"
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 90
    cap: ClassVar[int] = 200

    def guard(self, seen: Situation) -> bool:
        """Whether there is a plan; without one, the goal is repeated from the second turn on."""
        return plan_in(seen.state) is not None or seen.turn > 1

    def render(self, seen: Situation) -> str:
        """Return the three lines, or only the goal if there is no plan."""
        plan = plan_in(seen.state)
        if plan is None:
            words = " ".join(seen.task.strip().partition("\n\n")[0].split())
            if len(words) > _GOAL_CHARS:
                words = words[: _GOAL_CHARS - 3].rstrip() + "..."
            return f"Current Goal: {words}"
        progress = seen.prompt.style.progress_text(plan.done, len(plan.steps))
        after = plan.next or "all steps are done; give the result"
        return f"Current Goal: {plan.goal}\n{progress}\nNext: {after}"


# ---- the tools ---------------------------------------------------------------------------


def plan(context: ToolContext, goal: str, steps: list[str]) -> str:
    """Write down a plan: the goal and the steps to it. Replaces the plan there was.

    Args:
        context: What the run provides; not shown to the model.
        goal: What is to be reached, in a sentence.
        steps: The steps in order, a short sentence each.
    """
    texts = [" ".join(step.split()) for step in steps]
    if not goal.strip() or not texts or not all(texts):
        raise ToolError("a plan needs a goal and at least one step, each with words")
    if len(texts) > MOST_STEPS:
        raise ToolError(f"a plan has at most {MOST_STEPS} steps, not {len(texts)}")
    before = plan_in(context.state)
    kept = {step.text: step for step in before.steps} if before else {}
    new = TaskPlan(" ".join(goal.split()), tuple(kept.get(text, PlanStep(text)) for text in texts))
    return _keep(context, new)


def todo(context: ToolContext, step: int, status: str, conclusion: str = "") -> str:
    """Say how far a step of the plan is. Mark it done with its conclusion before you go on.

    Args:
        context: What the run provides; not shown to the model.
        step: The number of the step, from 1.
        status: pending, in_progress or done.
        conclusion: What came of it, with the names and numbers that later steps need.
    """
    before = plan_in(context.state)
    if before is None:
        raise ToolError("there is no plan yet: make one with the tool plan")
    return _keep(context, before.with_step(step, status, conclusion))


def _keep(context: ToolContext, plan: TaskPlan) -> str:
    context.state[KEY] = plan.as_state()
    lines = [f"{at}. [{step.status}] {step.text}" for at, step in enumerate(plan.steps, 1)]
    return "\n".join([f"plan: {plan.in_line()}", *lines])


_ARGUMENTS: Final = 120
_REASON: Final = 200


@dataclass
class ErrorRetention(Injector):
    """Failures that are still open, newest first."""

    last: int = option(5, "The most failures that are shown.")

    name: ClassVar[str] = "errors"
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 20
    cap: ClassVar[int] = 300

    def render(self, seen: Situation) -> Rendered:
        """Return one line for each failure: what was called, and why it failed."""
        lines = [failure_line(failure) for failure in seen.failures[: self.last]]
        listed = seen.prompt.style.listed(lines)
        return Rendered("[Failed before; do not repeat]", tuple(map(BlockItem, listed, lines)))


def failure_line(failure: FailedCall) -> str:
    """Format a failure as one line."""
    arguments, why = _short(failure.arguments, _ARGUMENTS), _short(failure.reason, _REASON)
    return f"{failure.tool}({arguments}): {why}"


def update_failures(
    failures: Sequence[FailedCall],
    now: FailedCall,
    *,
    failed: bool,
    mended: Iterable[FailedCall] = (),
) -> tuple[FailedCall, ...]:
    """Return the open failures after one more result, newest first and each once.

    `now` is the call with its first line. A call that succeeded removes the failures of the same
    call, and those that are `mended` by it (the same tool touched the same thing).
    """
    gone = set(mended)
    left = [
        failure
        for failure in failures
        if (failure.tool, failure.arguments) != (now.tool, now.arguments) and failure not in gone
    ]
    return (now, *left) if failed else tuple(left)


def _short(text: str, most: int) -> str:
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most - 3] + "..."


@dataclass
class Scratchpad(Injector):
    """Pictures and files that the request no longer shows, newest first."""

    top: int = option(8, "The most pictures and files that are listed.")

    name: ClassVar[str] = "scratchpad"
    tier: ClassVar[Tier] = Tier.DYNAMIC
    priority: ClassVar[int] = 30
    cap: ClassVar[int] = 300

    def guard(self, seen: Situation) -> bool:
        """Return whether the phase can look at what is listed."""
        return LOOK in seen.tools

    def render(self, seen: Situation) -> Rendered:
        """Return one line for each: its reference, its kind and its description."""
        hidden = [artifact for artifact in seen.artifacts if not artifact.in_sight][: self.top]
        lines = seen.prompt.style.listed([_line(artifact) for artifact in hidden])
        keys = [artifact.reference for artifact in hidden]
        head = "[Out of sight; look_again(reference) shows it]"
        return Rendered(head, tuple(map(BlockItem, lines, keys)))


def _line(artifact: Artifact) -> str:
    return f"{artifact.reference} ({artifact.what}){': ' if artifact.says else ''}{artifact.says}"


def look_again(context: ToolContext, ref: str) -> ToolOutput:
    """See a picture or a file of this session again.

    Args:
        context: What the run provides; not shown to the model.
        ref: Its reference or its name, as it is listed, or its beginning.
    """
    if context.look is None:
        raise ToolError("look_again works only inside a run")
    return context.look(ref)


def describe_picture(context: ToolContext, ref: str, text: str) -> str:
    """Keep in words what a picture or a file shows, for when it is out of sight.

    Args:
        context: What the run provides; not shown to the model.
        ref: Its reference or its name.
        text: What it shows, in a sentence or two, with the numbers that matter.
    """
    if context.describe is None:
        raise ToolError("describe_picture works only inside a run")
    return context.describe(ref, text)
