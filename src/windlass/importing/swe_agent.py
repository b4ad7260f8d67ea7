"""Trajectories of SWE-agent: one JSON text with its history, and in newer ones each request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from windlass.importing.base import Answers, model_of, read_list, text_of, trajectory
from windlass.importing.json_files import MemoryLimit, RecordedFile
from windlass.importing.recording import RecordedCall, Recording
from windlass.messages import Message
from windlass.safety.foreign import parse_recorded


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:  # noqa: ARG001
    """The trajectory.

    Its history has all messages, but SWE-agent may have sent shortened ones, and it tells the
    tokens of the whole run only: a transcript.
    """
    room = MemoryLimit(file.path)
    for run in file.records():
        messages: list[Message] = []
        calls: list[RecordedCall] = []
        model = model_of(_model(run), "openai")
        for given in run["history"]:
            if not isinstance(given, Mapping):
                file.skipped["messages that are not objects"] += 1
                continue
            is_demo = given.get("is_demo")
            told = {key: given[key] for key in _SENT if given.get(key) is not None}
            ids = told.pop("tool_call_ids", None)
            if isinstance(ids, list) and ids:
                told["tool_call_id"] = ids[0]
            read_now = read_list("openai", [told], file.skipped)
            for message in read_now:
                room.take(message)
            if told.get("role") == "assistant" and read_now and not is_demo:
                calls.append(RecordedCall(len(messages), model))
            messages += read_now
        if calls:
            file.skipped["usage of calls, which such files tell for the whole run only"] = len(
                calls
            )
        yield trajectory(file, file.path.stem, "swe-agent", model, messages, calls=calls)


_SENT: Final = ("role", "content", "tool_calls", "tool_call_ids", "name")


def _model(run: Mapping[str, Any]) -> str:
    """The model, where the settings of the run name it."""
    settings = run.get("replay_config")
    if isinstance(settings, str):
        try:
            settings = parse_recorded(settings)
        except ValueError:
            return ""
    for key in ("agent", "model"):
        settings = settings.get(key) if isinstance(settings, Mapping) else None
    return text_of(settings, "name") if isinstance(settings, Mapping) else ""
