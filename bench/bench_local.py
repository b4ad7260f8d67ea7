"""The local model: are its calls dependable, and what is a stable prefix worth?

Run: `python bench/bench_local.py [--calls 100] [--json FILE]`. Times are of this
machine at this moment; the counts of tokens and of calls are exact.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from jsonschema import Draft202012Validator

from windlass.messages import Message, ToolSpec, assistant, system, tool, user
from windlass.wire.base import Reply, Request
from windlass_local import MODEL, LocalProvider


def _tool(name: str, description: str, **properties: object) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name, description, schema)


TOOLS = (
    _tool(
        "get_weather",
        "The weather now in a city.",
        city={"type": "string"},
        unit={"enum": ["celsius", "fahrenheit"]},
    ),
    _tool(
        "run_sql",
        "Run one SQL query over sales(month, amount).",
        query={"type": "string", "minLength": 6, "maxLength": 60},
        limit={"type": "integer", "minimum": 1, "maximum": 50},
    ),
    _tool(
        "create_chart",
        "Draw a chart of points.",
        title={"type": "string", "maxLength": 40},
        points={
            "type": "array",
            "minItems": 2,
            "maxItems": 4,
            "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        },
    ),
)

QUESTIONS = (
    "What is the weather in Paris?",
    "Show the sales of March.",
    "Draw a chart of 1, 4, 9.",
    "Hello, how are you?",
    "Write a poem about rain.",
)

CASES: dict[str, tuple[tuple[ToolSpec, ...], str]] = {
    "one tool, by its name": (TOOLS[1:2], "run_sql"),
    "three tools, by name": (TOOLS, "create_chart"),
    "three tools, required": (TOOLS, "required"),
    "three tools, auto": (TOOLS, "auto"),
    "three tools, none": (TOOLS, "none"),
}


@dataclass(frozen=True)
class Row:
    """How the replies of one case were."""

    case: str
    replies: int
    calls: int
    good_calls: int
    ended: int


def good(reply: Reply, tools: tuple[ToolSpec, ...]) -> bool:
    """Whether the reply's one call is JSON, names one of `tools` and holds to its schema."""
    (call,) = reply.message.tool_calls
    spec = next((spec for spec in tools if spec.name == call.name), None)
    if spec is None:
        return False
    arguments = json.loads(call.arguments)
    return Draft202012Validator(dict(spec.parameters)).is_valid(arguments)


async def measure(provider: LocalProvider, case: str, number: int) -> Row:
    """`number` requests of one case, each with another text and temperatures 0 to 1."""
    tools, choice = CASES[case]
    calls = good_calls = ended = 0
    for index in range(number):
        question = QUESTIONS[index % len(QUESTIONS)]
        request = Request(
            model=MODEL,
            messages=(system("You are a helpful assistant."), user(f"{index}. {question}")),
            max_output_tokens=32,
            tools=tools,
            tool_choice=choice,
            temperature=(index % 3) / 2,
        )
        reply = await provider.send(request, lambda _: None)
        ended += reply.finish != "length"
        if reply.message.tool_calls:
            calls += 1
            good_calls += good(reply, tools)
    return Row(case, number, calls, good_calls, ended)


@dataclass(frozen=True)
class First:
    """Median seconds to the first token, and tokens sent and reported as cached."""

    prefix: str
    seconds: float
    tokens_in: int
    tokens_cached: int


def _clock(times: list[float]) -> Callable[[str], None]:
    return lambda _: times.append(time.perf_counter())


async def first_tokens(provider: LocalProvider, calls: int, lines: int) -> list[First]:
    """A session that grows by a tool result a call, with a stable and a changing head."""
    found = []
    for name, head in (("stable", "Session."), ("changes at its start", "Call {} of the session.")):
        texts = "\n".join(f"Rule {line}: look at line {line * 7} first." for line in range(lines))
        history: list[Message] = [user("Go on.")]
        seconds: list[float] = []
        sent = cached = 0
        for index in range(calls):
            began = time.perf_counter()
            times: list[float] = []
            request = Request(
                model=MODEL,
                messages=(system(f"{head.format(index)}\n{texts}"), *history),
                max_output_tokens=2,
            )
            reply = await provider.send(request, _clock(times))
            if index:  # the first call is cold either way
                seconds += [times[0] - began] if times else []
                sent += reply.usage.tokens_in
                cached += reply.usage.tokens_cached
            history += [assistant("Next."), tool(f"c{index}", f"line {index}: value {index * 31}")]
        found.append(First(name, median(seconds), sent, cached))
    return found


async def run(calls: int) -> dict[str, list[dict[str, object]]]:
    provider = LocalProvider()
    try:
        rows = []
        print(f"{'case':24} {'replies':>8} {'calls':>6} {'well-formed':>12} {'ended':>6}")
        for case in CASES:
            row = await measure(provider, case, calls)
            rows.append(asdict(row))
            print(
                f"{row.case:24} {row.replies:8} {row.calls:6} {row.good_calls:12} {row.ended:6}",
                flush=True,
            )
        print(f"\n{'prefix':24} {'first token s':>14} {'sent':>8} {'cached':>8} {'share':>6}")
        firsts = await first_tokens(provider, calls=5, lines=40)
        for one in firsts:
            share = one.tokens_cached / one.tokens_in
            print(
                f"{one.prefix:24} {one.seconds:14.3f} {one.tokens_in:8} {one.tokens_cached:8}"
                f" {share:6.1%}"
            )
        return {"calls": rows, "prefix": [asdict(one) for one in firsts]}
    finally:
        await provider.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100, help="requests a case")
    parser.add_argument("--json", type=Path, help="write the table to this file as JSON")
    asked = parser.parse_args()
    table = asyncio.run(run(asked.calls))
    if asked.json:
        asked.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
