"""Conversations as agents have them, for what rewrites lists of messages.

A conversation is built from a list of numbers, one a turn, so that making one costs little
and a failing one shrinks to few turns. Results come in many kinds and repeat; the same paths
and ids are named again and again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.strategies import gif, png
from windlass.messages import Message, Opaque, Part, Text, ToolCall, assistant, system, tool, user
from windlass.text.pictures import picture
from windlass.wire.openai import to_openai

VARIANTS = 4
"""How many different results of one kind there are: so that results repeat."""


def _path(number: int) -> str:
    return f"src/pkg_{number % 3}/module_{number % 7}.py"


def _records(number: int) -> str:
    rows = [
        {"id": f"ord_{number}{row:03}", "status": "open", "total": row * 1.5, "path": _path(row)}
        for row in range(6 + 20 * number)
    ]
    return json.dumps(rows, indent=2 if number % 2 else None)


def _object(number: int) -> str:
    return json.dumps({"results": json.loads(_records(number)), "next": None, "é": "naïve ☃"})


def _source(number: int) -> str:
    lines = [f"def function_{row}(value_{row}: int) -> int:" for row in range(10 + 40 * number)]
    return "\n".join(f"{at:6}\t{line}\n{at:6}\t    return {at}" for at, line in enumerate(lines, 1))


def _log(number: int) -> str:
    lines = [f"2026-01-0{number + 1} 12:00:{at % 60:02} INFO worker-{at} ok" for at in range(80)]
    lines[40:40] = ["Traceback (most recent call last):", '  File "a.py", line 3', "KeyError: 'x'"]
    return "\x1b[31m" + "\n".join(lines) + "\x1b[0m\r\n"


def _diff(number: int) -> str:
    body = "\n".join(f"-old line {at}\n+new line {at}" for at in range(5 + 20 * number))
    return f"diff --git a/{_path(number)} b/{_path(number)}\n@@ -1,5 +1,5 @@\n{body}"


def _listing(number: int) -> str:
    return "\n".join(f"./{_path(at)}/file_{number}_{at}.txt" for at in range(10 + 60 * number))


def _failure(number: int) -> str:
    return f"Error: {_path(number)} not found\n" + "stack frame here\n" * (30 * number)


def _line(number: int) -> str:
    return "x" * (4_000 * number) + " ☃ \u0000\u2028 end"


def _prose(number: int) -> str:
    return f"Paragraph about {_path(number)} and ticket #{number}42. " * (3 + 30 * number)


def _table(number: int) -> str:
    return "name,price,url\n" + "\n".join(
        f"item {at},{at}.50,https://example.org/{at}" for at in range(10 + 30 * number)
    )


def _search(number: int) -> str:
    hits = [
        {"title": f"Title {at}", "url": f"https://example.org/{at}", "snippet": "words " * 20}
        for at in range(3 + 4 * number)
    ]
    return json.dumps({"results": hits})


KINDS: dict[str, Callable[[int], str]] = {
    "list_orders": _records,
    "http_get": _object,
    "read_file": _source,
    "bash": _log,
    "git_diff": _diff,
    "list_files": _listing,
    "run_code": _failure,
    "fetch": _line,
    "ask_expert": _prose,
    "query_table": _table,
    "web_search": _search,
    "noop": lambda number: "" if number % 2 else "ok",
}
"""Tools and what they answer, by the number of the variant."""


@cache
def result_text(name: str, variant: int) -> str:
    """What a tool answers."""
    return KINDS[name](variant)


@cache
def _picture(number: int) -> Part:
    make = gif if number == VARIANTS - 1 else png
    return picture(make(40 + number, 30))


_COMMANDS = ("cat {}", "sed -n '1,40p' {}", "grep -rn value {}", "pytest -q {}", "ls -la {}")


def _arguments(rnd: random.Random, name: str, variant: int) -> str:
    path = _path(rnd.randrange(5))
    if rnd.random() < 0.04:
        return rnd.choice(("", "{broken", "[1]", '"text"'))
    match name:
        case "bash":
            told = {"command": rnd.choice(_COMMANDS).format(path)}
        case "read_file":
            told = {"path": path}
        case _:
            told = {
                "query": f"about {path} #{variant}",
                "content": "long value " * 60 * (variant % 2),
            }
    return json.dumps(told)


def _reply(rnd: random.Random, number: int, *, signed: bool) -> tuple[Message, list[str]]:
    """An assistant message and the names of the results that its calls want."""
    count = rnd.choice((0, 1, 1, 1, 2, 3))
    picked = [(rnd.choice(list(KINDS)), rnd.randrange(VARIANTS)) for _ in range(count)]
    calls = [
        ToolCall(f"call_{number}_{at}", name, _arguments(rnd, name, variant))
        for at, (name, variant) in enumerate(picked)
    ]
    words = rnd.choice(("", "I look at it.", f"The picture shows {_path(number)}. " * 80))
    said: list[Part] = [Text(words)] if words or not calls else []
    if not calls and not words:
        said = [Text(f"Done with {_path(number)}.")]
    if signed and rnd.random() < 0.5:
        thought = {"type": "thinking", "thinking": "Well. " * 50, "signature": f"sig{number}"}
        said.insert(0, Opaque("anthropic", "thinking", json.dumps(thought), "claude-sonnet-4-5"))
    if signed and calls and rnd.random() < 0.5:
        keys = {"extra_content": {"google": {"thought_signature": f"s{number}"}}}
        said.append(Opaque("openai", "call:0", json.dumps(keys)))
    return assistant(*said, calls=calls), [result_text(name, variant) for name, variant in picked]


def turn(seed: int, number: int, *, signed: bool = True) -> list[Message]:
    """What is said in one turn: perhaps a user or a system message, a reply, its results."""
    rnd = random.Random(seed)
    said: list[Message] = []
    chance = rnd.random()
    if chance < 0.2:
        said.append(
            user(f"Please look at {_path(seed)} " + "and so on. " * (300 * (seed % 3 == 0)))
        )
    elif chance < 0.3:
        said.append(user("See:", _picture(seed % VARIANTS)))
    elif chance < 0.35:
        said.append(Message(rnd.choice(("system", "developer")), (Text(f"Note {seed}."),)))
    reply, texts = _reply(rnd, number, signed=signed)
    results = [
        tool(call, text, *([_picture(seed % VARIANTS)] if rnd.random() < 0.15 else []))
        for call, text in zip(reply.tool_calls, texts, strict=True)
    ]
    rnd.shuffle(results)
    return [*said, reply, *results]


def messages_for(seeds: Sequence[int], *, signed: bool = True) -> list[Message]:
    """A valid conversation of a turn for each number; it may end with the user's word."""
    said: list[Message] = [system("You are careful. " * 5)] if sum(seeds) % 3 else []
    said.append(user(f"Fix {_path(len(seeds))}, ticket #1742."))
    for number, seed in enumerate(seeds):
        said += turn(seed, number, signed=signed)
    return said


def seeds(max_turns: int = 12) -> st.SearchStrategy[list[int]]:
    """The numbers that a conversation is built from."""
    return st.lists(st.integers(0, 1 << 20), min_size=1, max_size=max_turns)


def chats(max_turns: int = 10) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Conversations as chat dicts."""
    return seeds(max_turns).map(lambda numbers: [to_openai(m) for m in messages_for(numbers)])


def policies() -> st.SearchStrategy[dict[str, Any]]:
    """A profile and options of any kind."""
    profile = st.sampled_from(["default", "lean", "careful", "spec"])
    options = st.fixed_dictionaries(
        {"profile": profile},
        optional={
            "see_results": st.sampled_from([None, 1, 3]),
            "mask_observations_after": st.sampled_from([None, 1, 2]),
            "min_masked_chars": st.sampled_from([1, 200]),
            "preserve_errors": st.booleans(),
            "preserve_reasoning": st.booleans(),
            "window": st.integers(1, 4),
            "lossless": st.sampled_from([None, 1, 400]),
            "repeats": st.booleans(),
            "compress": st.sampled_from([False, True, {"above_chars": 200}]),
            "images_after": st.sampled_from([None, 1, 2]),
            "reasoning_max_chars": st.sampled_from([None, 1, 500]),
            "fold_after": st.sampled_from([None, 1, 3]),
            "fold_subtasks": st.booleans(),
            "shorten_arguments": st.booleans(),
            "decay": st.sampled_from([False, True, {"full": 1, "fold": 2}]),
            "compress_loops": st.booleans(),
            "keep_recent_turns": st.sampled_from([0, 1, 3]),
            "keep_recent_images": st.sampled_from([0, 1, 2]),
            "max_input_tokens": st.sampled_from([None, 500, 5_000]),
        },
    )
    return st.one_of(profile.map(lambda name: {"profile": name}), options)
