"""Lists of messages without their answers: bodies of requests, one JSON text or one a line.

`windlass export --as openai|anthropic` writes such a file. Each message of the assistant was a
call whose usage is not known: a transcript.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from windlass.importing.base import Answers, Records, model_of, read_list, read_tools, text_of
from windlass.importing.exchanges import PROVIDERS, exchange_of, form_of_request, items_of
from windlass.importing.json_files import MemoryLimit, RecordedFile
from windlass.importing.recording import RecordedCall, Recording


def recognises(records: Records) -> bool:
    """Return whether a record holds a list of messages with an answer."""
    return any(
        isinstance(listed := one.get("messages"), list)
        and any(isinstance(each, Mapping) and each.get("role") == "assistant" for each in listed)
        for one in records
    )


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield a recording for each list."""
    del answers
    limit = MemoryLimit(file.path)
    for number, record in enumerate(file.records(), 1):
        exchange = exchange_of(record)
        form = None if exchange is None else form_of_request(exchange.request)
        if exchange is None or form is None:
            file.skipped["records that hold no list of messages"] += 1
            continue
        messages = read_list(form, items_of(exchange.request, form), file.skipped, limit)
        model = model_of(text_of(exchange.request, "model"), PROVIDERS[form])
        calls = [
            RecordedCall(at, model, time=exchange.time)
            for at, message in enumerate(messages)
            if message.role == "assistant"
        ]
        if not calls:
            file.skipped["lists of messages without an answer"] += 1
            continue
        file.skipped["usage of calls, which lists of messages do not tell"] += len(calls)
        tools = exchange.request.get("tools")
        yield Recording(
            exchange.key or f"{file.path.stem}-{number}",
            "chat",
            "C",
            model,
            tuple(messages),
            tuple(calls),
            tools=None if tools is None else read_tools(tools),
            skipped=file.take_skipped(),
            source=str(file.path),
        )
