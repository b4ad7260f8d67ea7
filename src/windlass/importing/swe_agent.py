"""Trajectories of SWE-agent: one JSON text with its history, and in newer ones each request.

Trajectories of mini-SWE-agent: one JSON text with exactly the messages that were sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from windlass.importing.base import (
    Answers,
    Records,
    dollars_of,
    model_of,
    object_of,
    text_of,
    time_of,
    usage_of,
)
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import RecordedCall, Recording
from windlass.importing.tree import ConversationTree
from windlass.safety.foreign import parse_recorded


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


def recognises_mini(records: Records) -> bool:
    """Return whether this is a trajectory of mini-SWE-agent."""
    first, info = records[0], records[0].get("info")
    return isinstance(first.get("messages"), list) and (
        str(first.get("trajectory_format")).startswith("mini-swe-agent")
        or (isinstance(info, Mapping) and "mini_version" in info)
    )


def read_mini(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the trajectory.

    Its messages are exact. Where it calls tools, their definitions are missing, so that it is a
    transcript; where the model writes commands in its text, there are no tools.
    """
    for run in file.records():
        info = object_of(run.get("info"))
        config = object_of(object_of(info.get("config")).get("model"))
        settings = object_of(config.get("model_kwargs"))
        model = text_of(config, "model_name") or text_of(settings, "model") or "unknown"
        provider = "openrouter" if "openrouter" in str(info.get("config")) else "openai"
        tree = ConversationTree(file, "mini-swe-agent", "openai")
        for item in run["messages"]:
            if not isinstance(item, Mapping) or item.get("role") == "exit":
                continue  # how the run ended: it was sent to no model
            sent = {key: value for key, value in item.items() if key not in _UNSENT}
            is_answer = item.get("role") == "assistant"
            tree.say(sent, _call(item, model_of(model, provider)) if is_answer else None)
        name = text_of(run, "instance_id") or file.path.stem.removesuffix(".traj")
        yield from tree.recordings(answers, name, commands="A")


_UNSENT: Final = frozenset({"extra", "timestamp", "reasoning", "provider_specific_fields"})
"""Keys of a message that the program or the provider added, and that are not sent."""


def _call(item: Mapping[str, Any], model: str) -> RecordedCall:
    extra = object_of(item.get("extra"))
    response = object_of(extra.get("response"))
    usage = response.get("usage")
    return RecordedCall(
        0,
        model,
        usage_of(usage),
        dollars_of(object_of(usage).get("cost") or extra.get("cost")),
        time_of(response.get("created") or extra.get("timestamp") or item.get("timestamp")),
        text_of(response, "id"),
    )
