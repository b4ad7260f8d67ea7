"""Lists of messages without their answers: bodies of requests, one JSON text or one a line.

What `windlass export --as openai|anthropic` writes is one. Each message of the assistant was a
call, of which no usage is known: a transcript.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.importing.base import Answers, ListOfForm, model_of, read_tools, text_of
from windlass.importing.exchanges import PROVIDERS, exchange_of, form_of_request, listed_of
from windlass.importing.json_files import MemoryLimit, RecordedFile
from windlass.importing.recording import RecordedCall, Recording


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """A recording for each list."""
    del answers
    room = MemoryLimit(file.path)
    for number, record in enumerate(file.records(), 1):
        exchange = exchange_of(record)
        form = None if exchange is None else form_of_request(exchange.request)
        if exchange is None or form is None:
            file.skipped["records that hold no list of messages"] += 1
            continue
        reading = ListOfForm(form, file.skipped)
        for one in listed_of(exchange.request, form):
            reading.add(one)
        for message in reading.messages:
            room.take(message)
        model = model_of(text_of(exchange.request, "model"), PROVIDERS[form])
        calls = [
            RecordedCall(at, model, time=exchange.time)
            for at, message in enumerate(reading.messages)
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
            tuple(reading.messages),
            tuple(calls),
            tools=None if tools is None else read_tools(tools),
            skipped=file.take_skipped(),
            source=str(file.path),
        )
