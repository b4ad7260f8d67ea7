"""What recorded calls are told beside what was said: plain blocks, or those of the real injectors.

A `Told` says what stands at the head of every request and at the end of each; the contestants
here send it with everything, or hand it to Windlass as a loop does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from bench.bench_injectors import FILES, MEMORIES
from bench.windows.contestants import Everything, Windlass
from bench.windows.recordings import Chat, Recording

from windlass.injectors.base import (
    Artifact,
    FailedCall,
    PromptParts,
    ReadableBanks,
    Situation,
    Tier,
)
from windlass.injectors.orchestrate import BUILTIN, InjectorSpec, make_injector, render_blocks
from windlass.injectors.reminders import MOST_STEPS, PlanStep, TaskPlan, update_failures
from windlass.memory.banks import Memory
from windlass.replays.numbered import CHARACTERS_A_TOKEN, pieces
from windlass.replays.pricing import Vector
from windlass.settings.modules import Modules
from windlass.window.digests import looks_failed

MATTER = "Look up days of the books of the shop and sum up the returns."
"""What the files are about, beside the task, so that they are found."""
GOAL = 300
"""Characters of a user's first word that stand for the task."""
SAID = 80
"""Characters of a call or a result that stand for it in a plan."""
IN_SIGHT = 2
"""The newest pictures, which a window shows as they are."""


class Told(Protocol):
    """What the calls of a recording are told."""

    def begin(self, recording: Recording) -> None:
        """A new recording starts."""
        ...

    def head(self, messages: Sequence[Chat]) -> list[Chat]:
        """The messages with what the head of every request holds besides."""
        ...

    def next(self, messages: Sequence[Chat]) -> str:
        """What the next call is told at its end; asked once a call, in order."""
        ...


class Plain:
    """A plan that goes on from call to call, of so many tokens."""

    def __init__(self, tokens: int) -> None:
        self._chars = tokens * CHARACTERS_A_TOKEN
        self._calls = 0

    def begin(self, recording: Recording) -> None:  # noqa: ARG002 - the same for each
        """A new recording starts."""
        self._calls = 0

    def head(self, messages: Sequence[Chat]) -> list[Chat]:
        """As they are."""
        return list(messages)

    def next(self, messages: Sequence[Chat]) -> str:  # noqa: ARG002 - the same for each
        """The block of the next call."""
        self._calls += 1
        steps = tuple(
            PlanStep(f"step {n} of the work in hand", "done" if n < self._calls else "pending")
            for n in range(1, 2 + self._calls)
        )
        plan = TaskPlan("Bring the task to its end", steps)
        told = f"\n\n[Plan]\n{plan.in_line()}\n"
        lines = [f"- {step.text}: {step.status}\n" for step in reversed(steps)]
        return (told + "".join(lines) * (1 + self._chars // 40))[: self._chars]


class Injected:
    """The blocks of all injectors that come with Windlass, out of what the recording says.

    Skills, knowledge, a playbook and memories are the same for all recordings and shown whatever
    the task is. The plan is what was called so far, with the first line of each result; failures
    are results that look like one; pictures out of sight are in the scratchpad.

    Args:
        root: A folder, where files for skills, knowledge and playbooks are written.
    """

    def __init__(self, root: Path) -> None:
        for name, text in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        options: dict[str, dict[str, Any]] = {
            "skills": {"active": ("books",)},
            "knowledge": {"threshold": 0.0},
            "playbooks": {"threshold": 0.0},
        }
        # The role is the recording's own; definitions of tools stand beside its messages.
        names = [name for name in BUILTIN if name not in {"system_role", "tools"}]
        self._placed = [
            make_injector(InjectorSpec(name, options=options.get(name, {})), Modules())
            for name in names
        ]
        memories = [Memory("likes", key, 1, text, 0.0) for key, text in MEMORIES.items()]
        self._seen = Situation(
            "recording",
            "work",
            "",
            root=root,
            banks=ReadableBanks(("likes",), lambda _: memories),
            tools=("plan", "todo", "look_again"),
        )
        self._now = self._seen
        self._steps: list[PlanStep] = []
        self._calls: dict[str, Chat] = {}
        self._read = 0
        self.tokens: dict[str, list[int]] = {"head": [], "end": []}
        """Tokens of what was told, by place, of each recording's head and each call's end."""

    def begin(self, recording: Recording) -> None:
        """A new recording starts: its first word of a user is the task."""
        users = (chat for chat in recording.messages if chat["role"] == "user")
        task = f"{_text(next(users, {}))[:GOAL]}\n{MATTER}"
        self._now, self._steps, self._read = replace(self._seen, task=task), [], 0
        self._calls = {}
        self._stable = "\n\n".join(self._blocks(Tier.STABLE))
        self._session = "\n\n".join(self._blocks(Tier.SESSION))
        self.tokens["head"].append(_tokens(self._stable + self._session))

    def head(self, messages: Sequence[Chat]) -> list[Chat]:
        """The system prompt with the STABLE blocks, then the SESSION blocks as a user's word."""
        role, rest = {"role": "system", "content": ""}, messages
        if messages[0]["role"] == "system":
            role, rest = added(messages[0], "\n\n"), messages[1:]
        return [added(role, self._stable), {"role": "user", "content": self._session}, *rest]

    def next(self, messages: Sequence[Chat]) -> str:
        """The DYNAMIC blocks after these messages."""
        now = self._now
        for chat in messages[self._read :]:
            self._calls |= {call["id"]: call["function"] for call in chat.get("tool_calls") or ()}
            if chat["role"] == "tool" and chat.get("tool_call_id") in self._calls:
                self._learn(self._calls[chat["tool_call_id"]], _text(chat))
        self._read = len(messages)
        steps = (*self._steps[1 - MOST_STEPS :], PlanStep("go on with the task"))
        call = now.call + bool(now.prompt.values)
        self._now = replace(
            self._now,
            call=call,
            turn=call,
            state={"plan": TaskPlan(now.task.partition("\n")[0][:SAID], steps).as_state()},
            prompt=PromptParts(
                values={"now": f"2026-11-22T10:{call // 60 % 60:02}:{call % 60:02}Z"}
            ),
            artifacts=_keepsakes(messages),
        )
        block = "\n".join(self._blocks(Tier.DYNAMIC))
        self.tokens["end"].append(_tokens(block))
        return f"\n{block}"

    def _learn(self, function: Chat, result: str) -> None:
        """A step that is done, and a failure or what mends one."""
        name, arguments = function["name"], function["arguments"]
        line = result.strip().partition("\n")[0]
        self._steps.append(PlanStep(f"{name} {arguments}"[:SAID], "done", line[:SAID]))
        now = FailedCall(name, arguments, line)
        failures = update_failures(self._now.failures, now, failed=looks_failed(result))
        self._now = replace(self._now, failures=failures)

    def _blocks(self, tier: Tier) -> list[str]:
        blocks = render_blocks(self._placed, tier, self._now, _tokens)
        return [one.text for one in blocks if one.text]


class EverythingTold(Everything):
    """All that was said, each call with what it is told.

    What was told at the end of older calls stays, as in a run without windows; where there is no
    cache only the last is sent.
    """

    by_price = True

    def __init__(self, told: Told, vector: Vector) -> None:
        self._told = told
        self._stay = vector.read < 1
        self._blocks: dict[int, str] = {}

    def begin(self, recording: Recording) -> None:
        """A new recording starts."""
        super().begin(recording)
        self._told.begin(recording)
        self._blocks = {}

    def window(self, messages: Sequence[Chat], new_from: int) -> list[Chat]:  # noqa: ARG002
        """All of them, and the blocks."""
        shown, block = self._told.head(messages), self._told.next(messages)
        if not self._stay:
            self._blocks = {}
        if shown[-1]["role"] in {"user", "tool"}:
            self._blocks[len(shown) - 1] = block
        return [added(chat, self._blocks.get(at, "")) for at, chat in enumerate(shown)]


class WindlassTold(Windlass):
    """Windlass' own windows, told the block of each call as a loop tells it."""

    def __init__(self, told: Told, vector: Vector) -> None:
        super().__init__("default", {}, vector)
        self._told = told

    def begin(self, recording: Recording) -> None:
        """A new recording starts."""
        super().begin(recording)
        self._told.begin(recording)

    def window(self, messages: Sequence[Chat], new_from: int) -> list[Chat]:
        """Append what is new; the window's messages, with this block and those that stay."""
        for chat in messages[new_from:] if new_from else self._told.head(messages):
            self.context.append(chat)
        chats: list[Chat] = self.context.window(block=self._told.next(messages)).messages
        return chats


def added(chat: Chat, block: str) -> Chat:
    """The message with a text at its end."""
    content: Any = chat.get("content")
    if not block:
        return chat
    if isinstance(content, list):
        return {**chat, "content": [*content, {"type": "text", "text": block}]}
    return {**chat, "content": f"{content or ''}{block}"}


def _text(chat: Chat) -> str:
    return "".join(pieces({"content": chat.get("content")}))


def _tokens(text: str) -> int:
    return len(text) // CHARACTERS_A_TOKEN


def _keepsakes(messages: Sequence[Chat]) -> tuple[Artifact, ...]:
    """The pictures of the messages, newest first."""
    pictures = [
        Artifact(f"picture_{at}", "a picture", _text(chat)[:SAID])
        for at, chat in enumerate(messages)
        if isinstance(chat.get("content"), list)
        and any(part.get("type") == "image_url" for part in chat["content"])
    ]
    newest = pictures[::-1]
    return tuple(replace(one, in_sight=at < IN_SIGHT) for at, one in enumerate(newest))
