"""Trajectories of SWE-agent: one JSON text with its history, and in newer ones each request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from windlass.public import (
    Answers,
    ConversationTree,
    RecordedCall,
    RecordedFile,
    Recording,
    Records,
    model_of,
    object_of,
    parse_recorded,
    text_of,
)


def recognises(records: Records) -> bool:
    """Return whether this is a trajectory of SWE-agent."""
    return all(isinstance(records[0].get(key), list) for key in ("trajectory", "history"))


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the trajectory.

    Its history has all messages, but SWE-agent may have sent shortened ones, and only the tokens of
    the whole run are recorded: a transcript.
    """
    for run in file.records():
        tree = ConversationTree(file, "swe-agent", "openai")
        call = RecordedCall(0, model_of(_model(run), "openai"))
        for item in run["history"]:
            if not isinstance(item, Mapping):
                file.skipped["messages that are not objects"] += 1
                continue
            sent = {key: item[key] for key in _SENT if item.get(key) is not None}
            ids = sent.pop("tool_call_ids", None)
            if isinstance(ids, list) and ids:
                sent["tool_call_id"] = ids[0]
            is_answer = sent.get("role") == "assistant" and not item.get("is_demo")
            tree.say(sent, call if is_answer else None)
        if calls := sum(node.call is not None for node in tree.nodes):
            file.skipped[_UNCOUNTED] = calls
        yield from tree.recordings(answers, file.path.stem, commands="C")


_UNCOUNTED: Final = "usage of calls, which such files tell for the whole run only"
_SENT: Final = ("role", "content", "tool_calls", "tool_call_ids", "name")


def _model(run: Mapping[str, Any]) -> str:
    """Return the model that the settings of the run name; empty where they name none."""
    settings = run.get("replay_config")
    if isinstance(settings, str):
        try:
            settings = parse_recorded(settings)
        except ValueError:
            return ""
    for key in ("agent", "model"):
        settings = object_of(settings).get(key)
    return text_of(object_of(settings), "name")
