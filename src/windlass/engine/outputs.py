"""What `{{ outputs.PHASE }}` offers a template: read from the record when it is asked for."""

from __future__ import annotations

from windlass.engine.record import Recorder
from windlass.engine.sources import last_said
from windlass.messages import Message
from windlass.templates import PhaseOutput
from windlass.window.originals import meant, reference


def phase_output(record: Recorder, phase: str) -> PhaseOutput:
    """The output of a phase that ran: its text, state, pictures and stored tool results.

    A tool result is found by its reference (`result_` and a content hash) or by the
    name of its tool, which means that tool's latest result.
    """

    def text() -> str:
        said = last_said(record.items(phase))
        return said.message.text if said else ""

    def state() -> dict[str, object]:
        changes = record.keeper.state(record.session_id)
        return {change.key: change.value for change in changes if change.phase == phase}

    def images() -> list[str]:
        items = record.items(phase)
        return [picture.describe() for item in items for picture in item.message.pictures]

    def results() -> dict[str, Message]:
        found: dict[str, Message] = {}
        for item in record.items(phase):
            if item.message.role == "tool":
                found[reference(item.message)] = item.message
                if item.message.name:
                    found[item.message.name] = item.message
        return found

    def result(name: str) -> str:
        known = results()
        if name in known:
            return known[name].text
        by_hash = {message.content_hash: message for message in known.values()}
        return by_hash[meant(name, by_hash)].text

    return PhaseOutput(
        text=text,
        state=state,
        images=images,
        result=result,
        known_results=lambda: list(results()),
    )
