"""What a model sees of long outputs when they are born: needles, hidden anomalies, time.

Run: `python -m bench.bench_in_sight [--policy NAME ...] [--seed N] [--outputs N] [--least N]
[--time]`, with WINDLASS_DATA naming the folder that holds `trajectories/*.jsonl.gz` and `raw/`
(default `../shared/data`).

Needles are texts of invented outputs (`tests/data/outputs.jsonl.xz`) that an agent needs next. An
anomaly is one odd line, put at a random place of a real result of `--least` characters or more
which is not a file: a word of a line is another one (`status`), a number is larger by orders
(`number`), or a line in words of any language stands between others (`words`). `--time` prints the
processor's time for texts of three sizes, and of odd shapes.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.windows.recordings import SESSIONS, SOURCES, data_folder, load

import windlass
from windlass.messages import ToolCall
from windlass.window.kinds import file_access, kind_of

MODEL: Final = "anthropic/claude-sonnet-5-5"
CASES: Final = Path(__file__).parent.parent / "tests/data/outputs.jsonl.xz"
LEAST: Final = 8_000
"""Characters from which on every kind of result is cut: none shows its anomaly uncut."""
MOST: Final = 200_000
EDGE: Final = 0.1
"""No anomaly stands in this share of the lines at each end."""
WORDS: Final = (
    "Zugriff verweigert: Konto 4471 ist gesperrt",
    "el archivo de precios no coincide con la suma esperada",
    "la tâche de nuit s'est arrêtée sans réponse du serveur",
    "支付网关返回空响应 订单未入账",
    "送信先が見つからないため 3 件を保留しました",
    "zápis do deníku selhal, disk je plný",
    "la operación quedó sin confirmar en el libro",
    "خادم الدفع لم يستجب في الوقت المحدد",
    "segmentation fault in worker 12",
    "panic: runtime error: index out of range [5] with length 5",
    "CONFLICT (content): Merge conflict in src/harbor/crane.rs",
    "lock held by pid 40213, giving up",
    "checksum of part 17 differs from the manifest",
    "quota exceeded for bucket tide-archive",
    "peer closed the connection before the handshake was complete",
)
SHAPE: Final = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+")
ODD: Final = {
    "status": re.compile(r"(?<=[\s|])[A-Za-z]{4,12}(?=[\s|]|$)"),
    "number": re.compile(r"(?<![\w.])\d{1,6}(?![\w.])"),
}
ALIKE: Final = 12
"""Lines that share a shape, from which on a value of one of them can be odd."""
LONGEST: Final = 400
STATES: Final = (
    *("Evicted", "disputed", "CUSTOMS_HOLD", "orphaned", "degraded", "Gesperrt", "stale"),
    *("quarantined", "SKEWED", "detached", "frozen", "UNKNOWN", "suspendido", "Pending"),
)


class Output(NamedTuple):
    """A result, and what an agent needs of it."""

    tool: str
    arguments: Mapping[str, Any]
    task: str
    text: str
    needles: tuple[str, ...]
    kind: str


def needles() -> Iterator[Output]:
    """The invented outputs."""
    for line in lzma.decompress(CASES.read_bytes()).decode().splitlines():
        case = json.loads(line)
        arguments = {"command": case["command"]}
        yield Output(
            case["tool"], arguments, case["task"], case["text"], tuple(case["needles"]), "needle"
        )


def real_results() -> Iterator[tuple[str, str, str, str]]:
    """Tool, arguments, task and text of the recorded results."""
    folder = data_folder()
    for one in chain(load(folder, SOURCES, every=5), load(folder, SESSIONS)):
        chats = one.messages
        task = next((_text(chat) for chat in chats if chat["role"] == "user"), "")
        calls = {
            call["id"]: call["function"] for chat in chats for call in chat.get("tool_calls") or ()
        }
        for chat in chats:
            call = calls.get(chat.get("tool_call_id"))
            if chat["role"] == "tool" and call:
                yield call["name"], call["arguments"], task, _text(chat)


def _text(chat: Mapping[str, Any]) -> str:
    content = chat.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part.get("text", "") for part in parts if isinstance(part, dict))


def anomalies(seed: int, number: int, least: int) -> Iterator[Output]:
    """Real results with an odd line each, as many of each kind of result as there are."""
    by_kind: dict[str, dict[str, tuple[str, str, str, str]]] = {}
    kind: str
    for name, arguments, task, text in real_results():
        if not least <= len(text) <= MOST:
            continue
        call = ToolCall("c", name, arguments)
        kind = kind_of(call, text)
        writes = file_access(call).writes and not file_access(call).reads
        if kind not in ("file", "json", "api") and not writes and text.count("\n") > 10:
            by_kind.setdefault(kind, {})[text] = name, arguments, task, text
    chance = random.Random(seed)
    share = -(-number // len(by_kind))
    for kind, results in sorted(by_kind.items()):
        chosen = chance.sample(sorted(results.values()), min(share, len(results)))
        for name, arguments, task, text in chosen:
            sort = chance.choice(("status", "number", "words"))
            sort, changed, needle = _changed(text, sort, chance)
            given = json.loads(arguments or "{}")
            said = given if isinstance(given, dict) else {}
            yield Output(name, said, task or "Go on.", changed, (needle,), f"{kind} {sort}")


def _changed(text: str, sort: str, chance: random.Random) -> tuple[str, str, str]:
    """The sort of anomaly, the text with it, and what of it must be in view.

    A state or a number is odd only among others: in lines that many have the shape of.
    """
    lines = text.split("\n")
    edge = int(EDGE * len(lines)) + 1
    places = [*range(edge, len(lines) - edge)]
    chance.shuffle(places)
    shapes = [SHAPE.sub(lambda part: "0" if part[0][0].isdigit() else "w", line) for line in lines]
    counts = Counter(shapes)
    for at in places if sort in ODD else ():
        words = list(ODD[sort].finditer(lines[at]))
        if not words or counts[shapes[at]] < ALIKE or len(lines[at]) > LONGEST:
            continue
        word = chance.choice(words)
        new = (
            chance.choice(STATES) if sort == "status" else f"{word[0]}{chance.randint(1000, 9999)}"
        )
        line = f"{lines[at][: word.start()]}{new}{lines[at][word.end() :]}"
        return sort, "\n".join([*lines[:at], line, *lines[at + 1 :]]), " ".join(line.split())
    sentence = chance.choice(WORDS)
    return "words", "\n".join([*lines[: places[0]], sentence, *lines[places[0] :]]), sentence


def shown(output: Output, policy: str) -> str:
    """What is first sent of an output."""
    call = {"type": "tool_use", "id": "toolu_01", "name": output.tool, "input": output.arguments}
    result = {"type": "tool_result", "tool_use_id": "toolu_01", "content": output.text}
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": output.task},
        {"role": "assistant", "content": [{"type": "text", "text": "I run it."}, call]},
        {"role": "user", "content": [result]},
    ]
    content = windlass.bound(chat, MODEL, policy, recall=True).messages[-1]["content"]
    return _text(content[0])


def table(name: str, outputs: list[Output], policy: str) -> None:
    """Print what is in view of each kind of outputs, and of all."""
    there: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    chars: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for output in outputs:
        text = shown(output, policy)
        spaced = " ".join(text.split())
        for kind in (output.kind, "all"):
            there[kind] += sum(
                any(part in there_is for part in (needle, needle.partition(":")[2] or needle))
                for needle in output.needles
                for there_is in (text + spaced,)
            )
            asked[kind] += len(output.needles)
            chars[kind] += len(text)
            whole[kind] += len(output.text)
    for kind in asked:
        print(
            f"{name:10} {policy:8} {kind:10} {there[kind]:4} of {asked[kind]:4}"
            f" {there[kind] / asked[kind]:6.3f} {chars[kind]:10,} of {whole[kind]:10,}"
            f" {chars[kind] / whole[kind]:6.3f} {chars[kind] // max(1, asked[kind]):7,}"
        )


def times() -> None:
    """Print the processor's time to cut texts of some sizes and shapes."""
    cases = {output.arguments["command"]: output.text for output in needles()}
    mixed = "\n".join(text for text in cases.values() if len(text) < 60_000)
    shapes = {
        "8 kB": mixed[:8_000],
        "100 kB": mixed[:100_000],
        "1 MB": (mixed * 3)[:1_000_000],
        "one line": "x" * 1_000_000,
        "words, no line's end": "a b " * 250_000,
        "empty lines": "\n" * 1_000_000,
        "tabs": "\t" * 1_000_000,
        "numbers": "".join(f"{at}\n" for at in range(150_000)),
        "heads of hunks": "@@ -1 +1 @@\n" * 80_000,
        "hits": "".join(f"d{at % 100}/f{at % 1000}.py:{at}:text\n" for at in range(40_000)),
    }
    shown(Output("Bash", {"command": "./warm.sh"}, "Go on.", mixed[-9_000:], (), ""), "default")
    for name, text in shapes.items():
        output = Output("Bash", {"command": "./run.sh"}, "Go on.", text, (), "")
        began = time.process_time()
        chars = len(shown(output, "default"))
        spent = 1_000 * (time.process_time() - began)
        print(f"{name:22} {len(text):10,} characters {spent:9.1f} ms {chars:8,} shown")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policy", nargs="+", default=["default", "lean"])
    parser.add_argument("--seed", type=int, default=45)
    parser.add_argument("--outputs", type=int, default=240)
    parser.add_argument("--least", type=int, default=LEAST)
    parser.add_argument("--time", action="store_true")
    asked = parser.parse_args()
    if asked.time:
        times()
        return 0
    sets = {"needles": [*needles()]}
    if (data_folder() / "trajectories").is_dir():
        sets["anomalies"] = [*anomalies(asked.seed, asked.outputs, asked.least)]
    print(f"{'set':10} {'policy':8} {'kind':10} in view, share, shown of whole, share, shown each")
    for policy in asked.policy:
        for name, outputs in sets.items():
            table(name, outputs, policy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
