"""Tasks of Cline and its kin (Roo Code, Kilo Code): a list of messages in Anthropic's form.

Until version 4 it is `api_conversation_history.json`, with the requests and their cost in
`ui_messages.json` beside it; since then `SESSION.messages.json`, which has both.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from windlass.public import (
    Answers,
    ConversationTree,
    RecordedCall,
    RecordedFile,
    Recording,
    Records,
    Usage,
    UsageError,
    dollars_of,
    model_of,
    object_of,
    parse_recorded,
    text_of,
    time_of,
    unseen,
    usage_of_counts,
)

_HISTORY: Final = "api_conversation_history.json"
_MESSAGES: Final = ".messages.json"
_AGENTS: Final = ("subagent", "teammate")
_FOLDER: Final = re.compile(r"# Current Working Directory \(([^\n]+?)\) Files\n")
_TASK: Final = "<task>"
"""How the user's first words begin: older files say nothing else of their program."""
_BESIDE: Final = ("ts", "modelInfo", "metrics")
"""Keys of a message that are Cline's own."""
_PROVIDERS: Final = {
    "openai-native": "openai",
    "openai-codex": "openai",
    "claude-code": "anthropic",
    "vertex": "gemini",
    "cline": "openrouter",
}
_SUMS: Final = frozenset({"deleted_api_reqs", "subagent_usage"})
"""Notes of what requests cost whose messages are not in the list."""


def recognises(records: Records) -> bool:
    """Return whether these are the messages of a task."""
    first = records[0]
    if first.get("version") and isinstance(first.get("sessionId"), str):
        return isinstance(first.get("messages"), list)
    listed = [one for one in records if one.get("role") in ("user", "assistant")]
    return len(listed) == len(records) and (
        any(key in one for one in listed for key in _BESIDE) or _TASK in str(first["content"])[:500]
    )


def beside(file: RecordedFile) -> list[Path]:
    """Return the files of the agents that a session of version 4 had at work."""
    first = file.head[0]
    if "messages" not in first or text_of(first, "agent") in _AGENTS:
        return []
    return sorted(one for one in file.path.parent.glob(f"*{_MESSAGES}") if one != file.path)


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the task, and what it cost besides."""
    records = list(file.records())
    whole = records[0] if "messages" in records[0] else {}
    messages = [object_of(one) for one in whole.get("messages") or records]
    folder, name = file.path.absolute().parent.name, file.path.name.removesuffix(_MESSAGES)
    name = folder if name == _HISTORY else name
    is_apart = whole.get("agent") in _AGENTS
    tree = ConversationTree(file, "cline", "anthropic")
    requests, lost = _requests(file)
    if prompt := text_of(whole, "system_prompt"):
        tree.say({"role": "system", "content": prompt})
    model = ""
    for number, message in enumerate(messages):
        sent = {key: message.get(key) for key in ("role", "content")}
        if sent["role"] != "assistant":
            tree.say(sent)
            continue
        when = time_of(message.get("ts"))
        while len(requests) > 1 and when and requests[1].time and requests[1].time <= when:
            lost.append(requests.popleft())  # one that failed, or that the user took back
        is_later = requests and when and (requests[0].time or 0) > when
        request = requests.popleft() if requests and not is_later else RecordedCall(0, "")
        metrics = object_of(message.get("metrics"))
        info = object_of(message.get("modelInfo"))
        provider = text_of(info, "providerId", "provider")
        model = text_of(info, "modelId", "id") or model or request.model
        call = RecordedCall(
            0,
            model_of(model, _PROVIDERS.get(provider, provider or "anthropic")),
            request.usage or _usage_of(metrics),
            request.cost or dollars_of(metrics.get("cost")),
            when or request.time,
            f"{name}:{message.get('id') or number}",
        )
        tree.say(sent, call)
    words = next((one.text for node in tree.nodes for one in node.said if one.role == "user"), "")
    folder_named = _FOLDER.search(words)
    project = folder_named[1] if folder_named else ""
    task = list(tree.recordings(answers, name, folder if is_apart else None, project, "C"))
    yield from task
    for number, call in enumerate([*lost, *requests], 1):
        ident = f"request without its answer {number}"
        if task and (call.usage or call.cost) and answers.claim(f"{name}:{ident}"):
            last = task[0].calls[-1].model
            model = model_of(call.model, last.partition("/")[0]) if call.model else last
            yield unseen("cline", replace(call, model=model, id=ident), task[0])


def _requests(file: RecordedFile) -> tuple[deque[RecordedCall], list[RecordedCall]]:
    """Return the requests of the file of what people saw, and sums of others; without messages."""
    requests: deque[RecordedCall] = deque()
    sums: list[RecordedCall] = []
    path = file.path.with_name("ui_messages.json")
    if file.path.name != _HISTORY or not path.exists():
        return requests, sums
    with suppress(UsageError):
        for record in RecordedFile(path).records():
            kind = record.get("say")
            if kind != "api_req_started" and kind not in _SUMS:
                continue
            told: Mapping[str, Any] = {}
            with suppress(ValueError):
                told = object_of(parse_recorded(text_of(record, "text")))
            cost = dollars_of(told.get("cost") or told.get("totalCost"))
            model = text_of(object_of(record.get("modelInfo")), "modelId")
            call = RecordedCall(0, model, _usage_of(told), cost, time_of(record.get("ts")))
            (sums if kind in _SUMS else requests).append(call)
    return requests, sums


def _usage_of(told: Mapping[str, Any]) -> Usage | None:
    """Return a usage in the words of any version: what was cached is in its input, or beside it."""
    if "tokens" in told:  # what was cached was read or written: it is not told which
        tokens = object_of(told["tokens"])
        counts = (*(tokens.get(key) for key in ("prompt", "completion", "cached")), 0)
        return usage_of_counts(*counts, is_all=False)
    names = next((one for one in _COUNTS if one[0] in told), _COUNTS[0])
    is_all = names[0] == "inputTokens" or "apiProtocol" in told
    return usage_of_counts(*(told.get(key) for key in names), is_all=is_all)


_COUNTS: Final = (
    ("tokensIn", "tokensOut", "cacheReads", "cacheWrites"),
    ("totalTokensIn", "totalTokensOut", "totalCacheReads", "totalCacheWrites"),
    ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"),
)
