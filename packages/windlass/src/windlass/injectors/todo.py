"""The plan that a model keeps with the tools `plan` and `todo`, and how it is shown.

The plan is a value of the state, under the key `plan`, so it is recorded, passes from phase to
phase, and can be used in templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias

from windlass.errors import ToolError
from windlass.injectors.base import BlockItem, Injector, Rendered, Situation, Tier
from windlass.tools.base import ToolContext

KEY: Final = "plan"
"""The key of the state that holds the plan."""

Status: TypeAlias = Literal["pending", "in_progress", "done"]
STATUSES: Final[tuple[Status, ...]] = ("pending", "in_progress", "done")
MOST_STEPS: Final = 50
_HEAD: Final = "[Plan]"
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
        progress = seen.style.progress_text(plan.done, len(plan.steps))
        listed = seen.style.listed([_step(step) for step in plan.steps])
        order = sorted(range(len(plan.steps)), key=lambda at: plan.steps[at].status == "done")
        items = [BlockItem(listed[at], f"step {at + 1}") for at in order]
        return Rendered(f"{_HEAD} {plan.goal}\n{progress}", tuple(items))


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
        progress = seen.style.progress_text(plan.done, len(plan.steps))
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
