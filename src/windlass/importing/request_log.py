"""Logs of requests and answers, one JSON object a line: OpenAI's, Anthropic's and Gemini's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from windlass.importing.base import Answers
from windlass.importing.exchanges import Exchanges, exchange_of, form_of_request
from windlass.importing.json_files import RecordedFile
from windlass.importing.recording import Recording

NAME: Final = "request-log"
TITLE: Final = "log of requests and answers"


def recognises(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether these are the first records of such a file."""
    exchanges = [exchange_of(record) for record in records]
    return any(
        one is not None and one.response is not None and form_of_request(one.request, one.response)
        for one in exchanges
    )


def scan(file: RecordedFile, answers: Answers) -> None:
    """Nothing: an answer and its usage stand in one line."""


def read(file: RecordedFile, answers: Answers) -> Iterator[Recording]:
    """The conversations of a log: exact requests."""
    exchanges = Exchanges(file.path, answers, file.skipped)
    for record in file.records():
        exchange = exchange_of(record)
        if exchange is None:
            file.skipped["records that hold no request"] += 1
        else:
            exchanges.add(exchange)
    yield from exchanges.recordings(NAME)
