"""Trajectories of mini-SWE-agent: one JSON text with the very messages that were sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from windlass.importing.base import (
    Answers,
    dollars_of,
    model_of,
    read_list,
    text_of,
    time_of,
    trajectory,
    usage_of,
)
from windlass.importing.json_files import MemoryLimit, RecordedFile
from windlass.importing.recording import RecordedCall, Recording
from windlass.messages import Message
from windlass.wire.calls import inside


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """The trajectory.

    Its messages are exact. With calls of tools their definitions are missing, so that it is a
    transcript; a model that is asked for commands in its text has no tools.
    """
    room = MemoryLimit(file.path)
    for told in file.records():
        try:
            info = inside(told, "info", dict)
            config = inside(inside(info, "config", dict), "model", dict)
            settings = inside(config, "model_kwargs", dict)
        except ValueError:
            info, config, settings = {}, {}, {}
        model = text_of(config, "model_name") or text_of(settings, "model") or "unknown"
        provider = "openrouter" if "openrouter" in str(info.get("config")) else "openai"
        name = model_of(model, provider)
        messages: list[Message] = []
        calls: list[RecordedCall] = []
        for given in told["messages"]:
            if not isinstance(given, Mapping) or given.get("role") == "exit":
                continue  # how it ended: said to nobody
            read_now = read_list(
                "openai", [{k: v for k, v in given.items() if k not in _ASIDE}], file.skipped
            )
            for message in read_now:
                room.take(message)
            if given.get("role") == "assistant" and read_now:
                call = _call(given, len(messages), name)
                if not call.id or answers.claim(call.id):
                    calls.append(call)
                else:
                    file.skipped["answers that another file has, too"] += 1
            messages += read_now
        yield trajectory(
            file,
            text_of(told, "instance_id") or file.path.stem.removesuffix(".traj"),
            "mini-swe-agent",
            name,
            messages,
            calls=calls,
            grade="C" if any(message.tool_calls for message in messages) else "A",
        )


_ASIDE: Final = frozenset({"extra", "timestamp", "reasoning", "provider_specific_fields"})
"""Keys of a message that are the program's, or an answer's: not sent."""


def _call(given: Mapping[str, Any], at: int, model: str) -> RecordedCall:
    extra = given.get("extra")
    extra = extra if isinstance(extra, Mapping) else {}
    response = extra.get("response")
    response = response if isinstance(response, Mapping) else {}
    usage = response.get("usage")
    told = usage.get("cost") if isinstance(usage, Mapping) else None
    told = told or extra.get("cost")
    return RecordedCall(
        at,
        model,
        usage_of(usage),
        dollars_of(told),
        time_of(response.get("created") or extra.get("timestamp") or given.get("timestamp")),
        text_of(response, "id"),
    )
