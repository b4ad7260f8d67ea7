"""Trajectories of mini-SWE-agent: one JSON text with exactly the messages that were sent."""

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
    dollars_of,
    model_of,
    object_of,
    text_of,
    time_of,
    usage_of,
)


def recognises(records: Records) -> bool:
    """Return whether this is a trajectory of mini-SWE-agent."""
    first, info = records[0], records[0].get("info")
    return isinstance(first.get("messages"), list) and (
        str(first.get("trajectory_format")).startswith("mini-swe-agent")
        or (isinstance(info, Mapping) and "mini_version" in info)
    )


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
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
