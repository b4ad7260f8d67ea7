"""The instructions of a sounding are written anew by a model, before it begins."""

from __future__ import annotations

from windlass.cascade.model import Phase
from windlass.engine.cascade_run import CascadeRun
from windlass.engine.turn.record import with_usage
from windlass.engine.turn.send import take_step
from windlass.errors import ProviderError
from windlass.history.base import NodeType, Row
from windlass.history.decisions import Reworded
from windlass.history.step import Step
from windlass.messages import system, user
from windlass.text.prompts import REWRITE_SYSTEM, rewrite_text
from windlass.wire.base import Request


async def rewrite(run: CascadeRun, phase: Phase, instructions: str, order: str) -> str:
    """Return the instructions in other words, by the phase's own model.

    They stay as they are where the model fails or answers nothing, and the record says so.
    """
    generation = run.generation_of(phase)
    provider, info = run.resolve(generation.model)
    request = Request(
        model=info.name.partition("/")[2],
        messages=(system(REWRITE_SYSTEM), user(rewrite_text(instructions, order))),
        tool_choice="none",
        max_output_tokens=generation.max_output_tokens,
        temperature=generation.temperature,
        output_schema=None,
        load=run.record.store.picture,
    )
    place = Step(phase.name, run.record.sounding_index, asks="rewrite")
    try:
        taken = await take_step(run, place, provider, info.name, request)
    except ProviderError as error:
        text = f"the instructions stay as they are: {error}"
        run.tell(phase.name, text, Reworded(order, failed=True))
        return instructions
    usage, answer = taken.reply.usage, taken.reply.message.text.strip()
    what = "writes the instructions anew" if answer else "answers nothing; the instructions stay"
    details = Reworded(order, answer, failed=not answer)
    text = f"{info.name} {what}: {order}"
    row = Row(NodeType.DECISION, phase=phase.name, turn=0, text=text, details=details)
    run.record.append([with_usage(row, info.name, usage, run.charge(info, usage))])
    return answer or instructions
