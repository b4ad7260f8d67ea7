"""What writing a list in a form changes in its messages, said for people; nothing is changed here.

A list may hold what its provider refuses, or what another form has no place for. The formats write
it otherwise then; this is what they do, message by message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from windlass.messages import Message, Opaque, Text, ToolCall, ToolSpec
from windlass.wire.base import Request
from windlass.wire.calls import NULLS, UNREADABLE, arguments_object, wire_names, with_wire_ids
from windlass.wire.forms import FormName
from windlass.wire.gemini import signs_calls
from windlass.wire.openai_chat import FIT_NAME, REASONING, THINKS_ALOUD

_TAKEN: Final = re.compile(rf"{NULLS}|the empty arguments of .+ are written as an object")
_REPEATED: Final = re.compile(r"call id '.+' is used before")


def form_for(form: str | None, model: str) -> FormName:
    """Return the form in which a list of this form (None: any) is sent to `provider/model`.

    It is the vendor's own, where the vendor has one.
    """
    vendor = model.partition("/")[0]
    return cast("FormName", vendor if vendor in ("anthropic", "gemini") else form or "openai")


def is_taken(sentence: str, form: FormName, model: str) -> bool:
    """Return whether the provider would have taken what a repair changed.

    It only is written otherwise.
    """
    repeats = form in ("openai", "gemini") and "claude" not in model
    return bool(
        _TAKEN.fullmatch(sentence) or (repeats and _REPEATED.fullmatch(sentence) is not None)
    )


def repairs(
    form: FormName,
    messages: Sequence[Message],
    model: str,
    tools: Sequence[ToolSpec] = (),
    *,
    system_anywhere: bool = False,
) -> list[list[str]]:
    """Return what is written otherwise of each message for `provider/model`; most often nothing.

    `tools` are those that the request defines; `system_anywhere`: late system messages stay so.
    """
    request = Request(bare_name(model), tuple(messages), 1, tools=tuple(tools))
    names = wire_names(request, form)
    written = with_wire_ids(request.messages, form, request.model)
    told: list[list[str]] = []
    begun, before = False, ""
    for message, with_ids in zip(request.messages, written, strict=True):
        late = begun and message.is_system and not system_anywhere
        begun = begun or not message.is_system
        calls = zip(message.tool_calls, with_ids.tool_calls, strict=True)
        said = [sentence for pair in calls for sentence in _of_call(form, *pair, names)]
        said += _of_parts(form, message, late=late)
        said += _of_vendor(form, message, request.model)
        if form == "gemini" and message.tool_calls and before == "assistant":
            said.append("it is written as one with the reply before it")
        before = message.role
        told.append(said)
    return told


def bare_name(model: str) -> str:
    """Return the name of `provider/model` without the provider."""
    return model.partition("/")[2] or model


def _of_call(
    form: FormName, call: ToolCall, sent: ToolCall, names: Mapping[str, str]
) -> Iterator[str]:
    if sent.id != call.id:
        yield f"call id {call.id!r} is written as {sent.id!r}"
    if names[call.name] != call.name:
        yield f"the tool name {call.name!r} is written as {names[call.name]!r}"
    if form in ("anthropic", "gemini"):
        if UNREADABLE in arguments_object(call):
            yield f"the arguments of {call.name} are no JSON object: they stand in {UNREADABLE!r}"
    elif not call.arguments.strip():
        yield f"the empty arguments of {call.name} are written as an object"


def _of_parts(form: FormName, message: Message, *, late: bool) -> Iterator[str]:
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    if (form == "anthropic" and not all(map(str.strip, texts))) or (
        form == "gemini" and message.role != "tool" and not all(texts)
    ):
        yield "empty text is left out"
    if late and form in ("anthropic", "gemini"):
        yield "a system message behind others is written as the user's"
    if message.pictures:
        speaks = message.role == "assistant" or (message.is_system and not late)
        if speaks and (message.role == "assistant" or form != "responses"):
            yield "a picture is written in words: only a user's message holds one"
        if message.role == "tool" and form == "openai":
            yield "its pictures stand in a user's message behind the results"
        if form == "gemini" and any(p.media_type == "image/gif" for p in message.pictures):
            yield "a GIF is written in words"


def _of_vendor(form: FormName, message: Message, model: str) -> Iterator[str]:
    if form == "openai":
        if message.name is not None and not FIT_NAME.fullmatch(message.name):
            yield f"the name {message.name!r} is left out"
        keys = {part.kind for part in message.parts if isinstance(part, Opaque)}
        thinks = message.tool_calls and THINKS_ALOUD.search(model)
        if thinks and f"key:{REASONING}" not in keys:
            yield f"an empty {REASONING} is added, which the model wants back"
    if form == "gemini" and message.tool_calls and signs_calls(model):
        marks = [p for p in message.parts if isinstance(p, Opaque) and p.kind == "call"]
        if not any("thoughtSignature" in json.loads(mark.data).get("keys", {}) for mark in marks):
            yield "a signature is added to its first call, which came without one"
