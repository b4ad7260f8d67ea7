"""Running an example with a scripted model and real tools, and seeing what each call saw."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from examples.run_all import EXAMPLES, FOLDER

import windlass
from windlass.engine.events import CallStarted, Event
from windlass.engine.result import Result
from windlass.messages import Message, ToolCall, assistant
from windlass.providers.scripted import Scripted
from windlass.wire.base import Request
from windlass.wire.openai import to_openai

Chat: TypeAlias = list[dict[str, Any]]
"""The messages of one request as OpenAI's chat dicts."""

Answers: TypeAlias = Mapping[str, Sequence[str]]
"""From a phase to its texts, one for each attempt; the last one goes on holding."""


@dataclass
class Played:
    """A run: how it ended, and the requests of each phase in order."""

    result: Result
    root: Path
    store: Path
    events: list[Event] = field(default_factory=list[Event])
    requests: dict[str, list[Request]] = field(default_factory=dict[str, list[Request]])

    def saw(self, phase: str, call: int = 1) -> Chat:
        """The messages of a phase's call without the system prompt, which stands first."""
        request = self.requests[phase][call - 1]
        system, *rest = [to_openai(each, request.load) for each in request.messages]
        assert system["role"] == "system"
        assert isinstance(system["content"], str)
        return rest

    def asked(self, phase: str) -> dict[str, Any]:
        """The instructions of a phase, as the last message of its first call."""
        return self.saw(phase)[-1]

    def picture(self, phase: str) -> Path:
        """The visible file of the one picture that a phase made."""
        folder = self.store / "images" / self.result.session_id / phase
        (file,) = folder.iterdir()
        return file


Play: TypeAlias = Callable[..., Played]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Run an example in a copy of the examples, each time in a new one."""
    with pytest.MonkeyPatch.context() as patch:

        def run(example: str, answers: Answers | None = None) -> Played:
            folder = tmp_path_factory.mktemp("run")
            root = copy_examples(folder)
            patch.setenv("WINDLASS_SEARCH_FOLDER", str(root / "corpus"))
            events: list[Event] = []
            model = Scripted(lambda request: obey(request, _phase(events), answers or {}))
            result = windlass.run_sync(
                root / example,
                EXAMPLES[example],
                model="scripted/x",
                providers={"scripted": model},
                root=root,
                store=folder / "store",
                on_event=events.append,
            )
            played = Played(result, root, folder / "store", events)
            calls = [event.phase for event in events if isinstance(event, CallStarted)]
            for phase, request in zip(calls, model.requests, strict=True):
                played.requests.setdefault(phase, []).append(request)
            return played

        yield run


def copy_examples(folder: Path) -> Path:
    """A copy of the examples in `folder`, without what earlier runs left there."""
    left = shutil.ignore_patterns("reports", "__pycache__")
    return Path(shutil.copytree(FOLDER, folder / "examples", ignore=left))


def _phase(events: Sequence[Event]) -> str:
    return next(each.phase for each in reversed(events) if isinstance(each, CallStarted))


def obey(request: Request, phase: str, answers: Answers) -> Message:
    """A model that does what the instructions say, and otherwise says where it is.

    It calls the tool it must call with the arguments that the instructions name
    (`kind "line"`, `periods 3`): where they fail to name them, the tool fails.
    """
    spec = next((tool for tool in request.tools if tool.name == request.tool_choice), None)
    if spec is None:
        texts = answers.get(phase, [f"Said in {phase}."])
        refused = sum("[Validation Failed]" in message.text for message in request.messages)
        return assistant(texts[min(refused, len(texts) - 1)])
    told = [
        message.text for message in request.messages if f"Call {spec.name} with" in message.text
    ]
    arguments = {
        name: text or int(number)
        for name, text, number in re.findall(r'(\w+) (?:"([^"]*)"|(\d+))', told[-1])
        if name in spec.parameters["properties"]
    }
    id_ = f"call_{phase}_{len(request.messages)}"
    return assistant(calls=[ToolCall(id_, spec.name, json.dumps(arguments))])


def user(text: str) -> dict[str, Any]:
    """A user message as OpenAI writes it."""
    return {"role": "user", "content": text}


def output_with_result(played: Played, phase: str, text: str) -> dict[str, Any]:
    """The output of a phase whose last reply answers one tool, with the result of that."""
    asked, answered = played.saw(phase, 2)[-2:]
    function = asked["tool_calls"][0]["function"]
    arguments = json.loads(function["arguments"]).items()
    shown = ", ".join(f"{name}={json.dumps(value)}" for name, value in arguments)
    content = answered["content"]
    result = content if isinstance(content, str) else content[0]["text"]
    told = f"[Result of {function['name']}({shown})]:\n{result}"
    return user(f"[Output from {phase}]:\n{text}\n\n{told}")


def said(text: str) -> dict[str, Any]:
    """The model's words as OpenAI writes them."""
    return {"role": "assistant", "content": text}


def original_input(example: str) -> dict[str, Any]:
    """The message that shows the input of an example."""
    return user(f"[Original Input]:\n{json.dumps(EXAMPLES[example], indent=2)}")


def images_from(phase: str, *files: Path) -> dict[str, Any]:
    """The message that shows the pictures of a phase."""
    return {
        "role": "user",
        "content": [{"type": "text", "text": f"[Images from {phase}]:"}, *map(data_url, files)],
    }


def data_url(file: Path) -> dict[str, Any]:
    """A PNG file as a part of a message."""
    from base64 import b64encode

    url = f"data:image/png;base64,{b64encode(file.read_bytes()).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def is_call(message: dict[str, Any], tool: str) -> bool:
    """Whether the message is the assistant's one call of `tool`."""
    names = [call["function"]["name"] for call in message.get("tool_calls", ())]
    return message["role"] == "assistant" and names == [tool]
