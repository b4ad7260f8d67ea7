"""`plan`, `todo` and `use_skill`: how a model keeps its plan, and asks for a skill."""

from __future__ import annotations

from windlass.errors import ToolError
from windlass.injectors.plan import KEY, MOST_STEPS, Step, TaskPlan, plan_in
from windlass.tools.base import ToolContext


def plan(context: ToolContext, goal: str, steps: list[str]) -> str:
    """Write down a plan: the goal and the steps to it. Replaces the plan there was.

    Args:
        context: What the run provides; not shown to the model.
        goal: What is to be reached, in a sentence.
        steps: The steps in order, a short sentence each.
    """
    said = [" ".join(step.split()) for step in steps]
    if not goal.strip() or not said or not all(said):
        raise ToolError("a plan needs a goal and at least one step, each with words")
    if len(said) > MOST_STEPS:
        raise ToolError(f"a plan has at most {MOST_STEPS} steps, not {len(said)}")
    before = plan_in(context.state)
    kept = {step.text: step for step in before.steps} if before else {}
    made = TaskPlan(" ".join(goal.split()), tuple(kept.get(one, Step(one)) for one in said))
    context.state[KEY] = made.as_state()
    return _told(made)


def todo(context: ToolContext, step: int, status: str, conclusion: str = "") -> str:
    """Say how far a step of the plan is. Mark it done with its conclusion before you go on.

    Args:
        context: What the run provides; not shown to the model.
        step: The number of the step, from 1.
        status: pending, in_progress or done.
        conclusion: What came of it, with the names and numbers that later steps need.
    """
    now = plan_in(context.state)
    if now is None:
        raise ToolError("there is no plan yet: make one with the tool plan")
    made = now.with_step(step, status, conclusion)
    context.state[KEY] = made.as_state()
    return _told(made)


def use_skill(context: ToolContext, name: str) -> str:
    """Get the instructions of a skill.

    Args:
        context: What the run provides; not shown to the model.
        name: The skill.
    """
    if context.skill is None:
        raise ToolError("this phase has no skills: say where they are in the cascade's 'injectors'")
    return context.skill(name)


def _told(made: TaskPlan) -> str:
    lines = [f"{at}. [{one.status}] {one.text}" for at, one in enumerate(made.steps, 1)]
    return "\n".join([f"plan: {made.told()}", *lines])
