"""The official SDKs' own types, asked whether a body is one of theirs.

A typed dict drops the keys it does not know, so what it gives back equals what it
was given only if it knew every key of it, at any depth.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from anthropic.types import message_create_params
from google.genai import types as gemini
from openai.types.chat import completion_create_params
from pydantic import TypeAdapter


@cache
def _openai(stream: bool) -> TypeAdapter[Any]:
    if stream:
        return TypeAdapter(completion_create_params.CompletionCreateParamsStreaming)
    return TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming)


@cache
def _anthropic(stream: bool) -> TypeAdapter[Any]:
    if stream:
        return TypeAdapter(message_create_params.MessageCreateParamsStreaming)
    return TypeAdapter(message_create_params.MessageCreateParamsNonStreaming)


def _whole(value: Any) -> Any:
    """The value with its lazy lists read, which is when they are validated."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {key: _whole(held) for key, held in value.items()}
    if isinstance(value, Iterable):
        return [_whole(held) for held in value]
    return value


def openai_takes(body: dict[str, Any]) -> None:
    assert _whole(_openai("stream" in body).validate_python(body)) == body


def anthropic_takes(body: dict[str, Any]) -> None:
    # The SDK has no temperature any more; models before 4.7 still take it.
    known = {key: value for key, value in body.items() if key != "temperature"}
    assert _whole(_anthropic("stream" in body).validate_python(known)) == known


def gemini_takes(body: dict[str, Any]) -> None:
    for content in body["contents"]:
        given = gemini.Content.model_validate(content)
        again = given.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert _plain_base64(again) == _plain_base64(content)
    config = {
        **body["generationConfig"],
        **{key: body[key] for key in ("systemInstruction", "tools", "toolConfig") if key in body},
    }
    taken = gemini.GenerateContentConfig.model_validate(config)
    assert taken.model_dump(mode="json", by_alias=True, exclude_none=True) == config


def _plain_base64(value: Any, key: str = "") -> Any:
    """Bytes of both alphabets of base64 as the same text: the SDK writes the one for URLs.

    What a call is given and what a tool returned are the user's, whatever their keys are called.
    """
    if key in ("args", "response"):
        return value
    if isinstance(value, dict):
        return {name: _plain_base64(held, name) for name, held in value.items()}
    if isinstance(value, list):
        return [_plain_base64(held) for held in value]
    if key in ("data", "thoughtSignature"):
        text = str(value).replace("-", "+").replace("_", "/")
        return base64.b64encode(base64.b64decode(text)).decode()
    return value
