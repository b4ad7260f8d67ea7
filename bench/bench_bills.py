"""What recorded sessions cost, beside a computation that shares no code with Windlass.

Run: `python -m bench.bench_bills`, with WINDLASS_DATA naming the folder that holds
`raw/agent_sessions` (default `../shared/data`). Of each session, here and by Windlass: calls, input
tokens, and US dollars of the input, read here from the lines of the file and from the table of
prices alone. The output is left out, because transcripts hold the usage with which answers began.
Exit 1 where one differs.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench.windows.recordings import data_folder
from genai_prices import Usage, calc_price

from windlass.caching.rates import cost
from windlass.importing.streams import recordings


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file, without lines that are no JSON."""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


Answer = tuple[str, int, int, int, int]
"""The model of an answer, its input tokens, and those read, written, and of these for an hour."""


def claude(path: Path) -> Iterator[Answer]:
    """Each answer of Claude Code: records of one answer have its id and that of its request."""
    answers: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for line in lines(path):
        # Subagents may stand in the records of their progress.
        data = line.get("data") if line.get("type") == "progress" else None
        record = line if data is None else data.get("message") or {}
        inner: dict[str, Any] = record.get("message") or {}
        is_answer = record.get("type") == "assistant" and inner.get("usage")
        if is_answer and inner["model"] != "<synthetic>":
            key = inner["id"], str(record.get("requestId"))
            answers[key] = f"anthropic/{inner['model']}", inner["usage"]
    for model, used in answers.values():
        read, made = used["cache_read_input_tokens"], used["cache_creation_input_tokens"]
        hour = (used.get("cache_creation") or {}).get("ephemeral_1h_input_tokens", 0)
        yield model, used["input_tokens"] + read + made, read, made, hour


def codex(path: Path) -> Iterator[Answer]:
    """Each answer of Codex: what its counts of tokens say, where their sum has changed."""
    model, before = "", None
    for record in lines(path):
        payload = record.get("payload") or {}
        model = payload.get("model") or model if record["type"] == "turn_context" else model
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if info and info["total_token_usage"] != before:
            before, last = info["total_token_usage"], info["last_token_usage"]
            yield f"openai/{model}", last["input_tokens"], last["cached_input_tokens"], 0, 0


def dollars_of(answer: Answer) -> float:
    """What the input of an answer costs, by the table of prices."""
    model, tokens, read, made, hour = answer
    provider, _, name = model.partition("/")
    usage = Usage(
        input_tokens=tokens, cache_read_tokens=read, cache_write_tokens=made, output_tokens=0
    )
    priced = calc_price(usage, model_ref=name, provider_id=provider)
    fresh = calc_price(Usage(input_tokens=1_000_000), model_ref=name, provider_id=provider)
    # Written for five minutes at 1.25 of a fresh token, for an hour at 2.
    return float(priced.total_price) + hour * 0.75 * float(fresh.total_price) / 1e6


def main() -> int:
    """Print the table."""
    differing = 0
    print(f"{'session':42} {'calls':>11} {'tokens in':>23} {'dollars of input':>19}")
    for packed in sorted((data_folder() / "raw" / "agent_sessions").glob("*.gz")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / packed.stem
            path.write_bytes(gzip.decompress(packed.read_bytes()))
            mine = list((claude if "__claude__" in packed.name else codex)(path))
            theirs = [call for one in recordings(path) for call in one.calls if call.usage]
        own = len(mine), sum(one[1] for one in mine), sum(map(dollars_of, mine))
        usages = [(call.model, call.usage) for call in theirs if call.usage is not None]
        tokens = sum(usage.tokens_in for _, usage in usages)
        paid = sum(cost(m, **asdict(replace(u, tokens_out=0))) or 0.0 for m, u in usages)
        same = own[:2] == (len(theirs), tokens) and abs(own[2] - paid) < 1e-6
        differing += not same
        print(
            f"{packed.stem[:42]:42} {own[0]:>5} {len(theirs):>5} {own[1]:>11,} {tokens:>11,}"
            f" {own[2]:>9.4f} {paid:>9.4f}{'' if same else '  differs'}"
        )
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
