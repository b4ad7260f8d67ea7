"""Logs of requests and answers, one JSON object a line: OpenAI's, Anthropic's and Gemini's."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.public import (
    Answers,
    Exchanges,
    RecordedFile,
    Recording,
    Records,
    exchange_of,
    form_of_request,
)


def recognises(records: Records) -> bool:
    """Return whether a record holds a request with its answer."""
    exchanges = [exchange_of(record) for record in records]
    return any(
        one is not None and one.response is not None and form_of_request(one.request, one.response)
        for one in exchanges
    )


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """Yield the conversations of a log: exact requests."""
    exchanges = Exchanges(file, answers, "request-log")
    for record in file.records():
        exchange = exchange_of(record)
        if exchange is None:
            file.skipped["records that hold no request"] += 1
        else:
            exchanges.add(exchange)
    yield from exchanges.recordings()
