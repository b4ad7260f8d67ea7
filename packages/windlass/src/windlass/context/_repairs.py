"""What was repaired in a caller's list, as sentences: for a whole list, and for each entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import cast

from windlass.messages import Message, ToolSpec, tool
from windlass.window.entries import Entry
from windlass.window.intake import Intake, IntakeMessage
from windlass.wire.base import Format
from windlass.wire.calls import ANSWERED, NO_RESULT, OPENED
from windlass.wire.forms import MODULES, TITLES, FormName
from windlass.wire.repairs import bare_name, form_for, is_taken, repairs


def repaired_ends(
    form: FormName, messages: Sequence[Message], model: str, *, system_anywhere: bool
) -> list[str]:
    """What is added or changed at the two ends of a list for `provider/model`, a sentence each."""
    written = cast("Format", import_module(MODULES[form]))
    return written.repaired_ends(messages, bare_name(model), system_anywhere=system_anywhere)


def list_repairs(
    own_form: str | None,
    taken_in: Sequence[IntakeMessage],
    intake: Intake,
    model: str,
    tools: Sequence[ToolSpec],
) -> Iterator[str]:
    """Yield what sending a list to a model changes in it that the provider would not have taken.

    `own_form` is the list's, `taken_in` are its messages, and `intake` is who took them.
    """
    form = form_for(own_form, model)
    sent: list[tuple[int | None, Message]] = []
    for taken in (*taken_in, *intake.late):
        if not taken.left_out:
            sent.append((taken.source, taken.item.message))
        for sentence in (taken.repair or "").split("; "):
            if sentence and not is_taken(sentence, form, model):
                yield _at(taken.source, sentence)
    behind = len(sent) - len(intake.late)
    for call in intake.open_calls:
        yield f"call {call.id!r} of {call.name} has no result"
        sent.insert(behind, (None, tool(call, NO_RESULT)))
        behind += 1
    messages = [message for _, message in sent]
    anywhere = form == own_form
    written = repairs(form, messages, model, tools, system_anywhere=anywhere)
    for (source, _), sentences in zip(sent, written, strict=True):
        for sentence in sentences:
            if not is_taken(sentence, form, model):
                yield _at(source, sentence)
    yield from repaired_ends(form, messages, model, system_anywhere=anywhere)


def _at(source: int | None, sentence: str) -> str:
    return sentence if source is None else f"message {source}: {sentence}"


def entry_repairs(
    entries: Sequence[Entry], form: str, model: str, tools: Sequence[ToolSpec]
) -> tuple[Mapping[str, list[str]], list[str]]:
    """What is written otherwise of the entries of a window: by occurrence, and at its two ends.

    Where the model's vendor has another form, all that is said of the entries.
    """
    target = form_for(form, model)
    where = "" if target == form else f"in {TITLES[target]} "
    messages = [entry.message for entry in entries]
    written = repairs(target, messages, model, tools, system_anywhere=target == form)
    told = {
        entry.item.id: [where + sentence for sentence in sentences]
        for entry, sentences in zip(entries, written, strict=True)
    }
    spoken = any(not message.is_system for message in messages)
    anywhere = target == form
    ends = repaired_ends(target, messages, model, system_anywhere=anywhere) if spoken else []
    added = [] if where else [sentence for sentence in ends if sentence in (OPENED, ANSWERED)]
    for sentence in ends:
        if sentence not in added:
            at = entries[0 if sentence == OPENED else -1].item.id
            told[at].append(where + sentence)
    return told, added
