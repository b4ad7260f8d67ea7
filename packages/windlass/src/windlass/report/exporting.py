"""A session written out: as the lists that other programs take, or as a page to read.

`jsonl` is a log of the calls as they were sent, which `windlass import` reads again; the others
are what was said, in order and unshortened. Plugins add forms.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from windlass.caching.rates import money
from windlass.errors import UsageError, did_you_mean
from windlass.history.base import BORN, NodeType, Store, StoredRow
from windlass.history.lanes import Lanes
from windlass.importing.exchanges import EVIDENCE
from windlass.importing.storing import evidence_text, imported_from
from windlass.messages import Message, Opaque, Part, Picture, Text, ToolCall, ToolSpec
from windlass.report.calls import SessionRecord
from windlass.report.page import page
from windlass.safety.foreign import parse_json
from windlass.safety.redaction import redacted_json, redacted_text
from windlass.settings.plugins import EXPORTERS, load_plugin, plugin_names
from windlass.wire import anthropic
from windlass.wire.base import Request
from windlass.wire.openai import to_openai

LONG: Final = 2_000
"""Characters from which on a text is folded on a page."""


def export(store: Store, session_id: str, form: str, *, redact: bool = False) -> Iterator[str]:
    """Yield the pieces of a session's text in a form: a key of `FORMS`, or a plugin's.

    `redact` takes credentials out. Raises UsageError for an unknown form or session.
    """
    write = FORMS.get(form)
    if write is None:
        known = (*FORMS, *plugin_names(EXPORTERS))
        if form not in known:
            raise UsageError(f"unknown form {form!r}: {did_you_mean(form, known)}")
        write = load_plugin(EXPORTERS, form)
    yield from write(ExportedSession(store, session_id, redact=redact))


class ExportedSession(SessionRecord):
    """What is written out of a session."""

    def __init__(self, store: Store, session_id: str, *, redact: bool) -> None:
        super().__init__(store, session_id)
        self._redact = redact

    def said(self) -> Iterator[tuple[StoredRow, Message]]:
        """Yield the rows of what was said, with their messages; no sounding that did not win."""
        kinds = BORN | {NodeType.SYSTEM}
        for stored in Lanes(self.rows, kinds=kinds).standing().messages:
            assert stored.row.message is not None
            yield stored, self.shown(stored.row.message)

    def shown(self, message: Message) -> Message:
        """Return a message as it is written out."""
        return redacted_message(message) if self._redact else message

    def value(self, value: Any) -> Any:
        """Return JSON data as it is written out."""
        return redacted_json(value) if self._redact else value

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Return the tools of the last call."""
        calls = self.sent_calls
        return self.value([dict(tool) for tool in calls[-1].tools]) if calls else []


def redacted_message(message: Message) -> Message:
    """Return a message without the credentials that can be told from the look of its texts."""

    def told(part: Part) -> Part:
        match part:
            case Text(text):
                return Text(redacted_text(text))
            case Opaque(_, _, data):
                try:
                    return replace(part, data=json.dumps(redacted_json(parse_json(data))))
                except ValueError:
                    return replace(part, data=redacted_text(data))
            case Picture():
                return replace(part, url=redacted_text(part.url))
        return part

    def called(call: ToolCall) -> ToolCall:
        try:
            given = parse_json(call.arguments)
        except ValueError:
            return replace(call, arguments=redacted_text(call.arguments))
        clean = redacted_json(given)
        return (
            call
            if clean == given
            else replace(call, arguments=json.dumps(clean, ensure_ascii=False))
        )

    return replace(
        message,
        parts=tuple(told(part) for part in message.parts),
        tool_calls=tuple(called(call) for call in message.tool_calls),
    )


# ---- for programs -------------------------------------------------------------------


def _bare(model: str) -> str:
    return model.partition("/")[2] or model


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _openai(session: ExportedSession) -> Iterator[str]:
    load = session.store.picture
    body: dict[str, Any] = {
        "model": _bare(session.start.model),
        "messages": [to_openai(message, load) for _, message in session.said()],
    }
    if tools := session.tools:
        body["tools"] = list(tools)
    yield _json(body)


def _anthropic(session: ExportedSession) -> Iterator[str]:
    request = Request(
        _bare(session.start.model),
        tuple(message for _, message in session.said()),
        1,
        tools=tuple(ToolSpec(**tool["function"]) for tool in session.tools),
        load=session.store.picture,
    )
    body = anthropic.body(request)
    keys = ("model", "system", "messages", "tools")
    yield _json({key: body[key] for key in keys if body.get(key)})


def _logged(message: Message, load: Callable[[str], bytes]) -> dict[str, Any]:
    """Return a message in OpenAI's chat form.

    It has no word for a result that failed, so Anthropic's.
    """
    return {**to_openai(message, load), **({"is_error": True} if message.failed else {})}


def _jsonl(session: ExportedSession) -> Iterator[str]:
    load = session.store.picture
    grade = imported_from(session.start.cascade).get("grade")
    for call in session.calls:
        row = call.row
        sent = (session.shown(seen.message) for seen in call.seen)
        request: dict[str, Any] = {
            "model": call.model,
            "messages": [_logged(message, load) for message in sent],
        }
        if call.tools:
            request["tools"] = session.value([dict(tool) for tool in call.tools])
        reply = None if row.message is None else to_openai(session.shown(row.message), load)
        response = {
            "id": row.trace_id,
            "object": "chat.completion",
            "created": int(row.timestamp),
            "model": _bare(call.model),
            "choices": [] if reply is None else [{"index": 0, "message": reply}],
        }
        if row.tokens_in is not None:
            details = {"cached_tokens": row.tokens_cached or 0}
            if written := call.reply_details.tokens_written:
                details["cache_write_tokens"] = written
            response["usage"] = {
                "prompt_tokens": row.tokens_in,
                "completion_tokens": row.tokens_out or 0,
                "prompt_tokens_details": details,
            }
        line = {
            "session_id": session.session_id,
            "phase": row.phase,
            "cost": row.cost,
            **({} if grade is None else {EVIDENCE: grade}),
            "request": request,
            "response": response,
        }
        yield json.dumps(line, ensure_ascii=False) + "\n"


# ---- for people ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A message on a page: a head of plain words, and its parts."""

    phase: str
    head: str
    role: str
    parts: Sequence[Text | Picture]
    calls: Sequence[ToolCall]


def _entries(session: ExportedSession) -> Iterator[_Entry]:
    number = 0
    for stored, message in session.said():
        row = stored.row
        words: list[str] = [message.role]
        if message.failed:
            words.append("failed")
        if row.model is not None and message.role == "assistant":
            number += 1
            words.append(f"call {number}")
            if row.tokens_in is not None:
                words.append(f"{row.tokens_in:,} tokens in, {row.tokens_cached or 0:,} cached")
                words.append(f"{row.tokens_out or 0:,} out")
            if row.cost is not None:
                words.append(money(row.cost))
        yield _Entry(
            row.phase or "",
            " · ".join(words),
            message.role,
            [part for part in message.parts if isinstance(part, Text | Picture)],
            message.tool_calls,
        )


def _about(session: ExportedSession) -> list[str]:
    start = session.start
    began = datetime.fromtimestamp(start.timestamp, UTC)
    lines = [f"session {session.session_id}, {began:%Y-%m-%d %H:%M} UTC, {start.model}"]
    if evidence := evidence_text(start.cascade):
        lines.append(evidence)
    return lines


def _markdown(session: ExportedSession) -> Iterator[str]:
    yield f"# {_one_line(session.start.cascade_id)}\n\n"
    yield "".join(f"{line}  \n" for line in _about(session))
    phase: str | None = None
    for entry in _entries(session):
        if entry.phase != phase:
            phase = entry.phase
            yield f"\n## {_one_line(phase)}\n"
        yield f"\n### {entry.head}\n"
        for part in entry.parts:
            if isinstance(part, Picture):
                yield f"\n[picture: {_one_line(part.describe())}]\n"
            else:
                yield f"\n{_fenced(part.text)}\n"
        for call in entry.calls:
            yield f"\n`{_one_line(call.name)}`\n\n{_fenced(call.arguments, 'json')}\n"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("`", "'")


def _fenced(text: str, kind: str = "text") -> str:
    """Return a text in a fence that nothing in it ends."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{text}\n{fence}"


def _html(session: ExportedSession) -> Iterator[str]:
    def data_url(part: Picture) -> str:
        data = base64.b64encode(session.store.picture(part.sha256)).decode()
        return f"data:{part.media_type};base64,{data}"

    return page(
        "export.html",
        {
            "title": session.start.cascade_id,
            "about": _about(session),
            "entries": _entries(session),
            "data_url": data_url,
            "long": LONG,
        },
    )


FORMS: Final[Mapping[str, Callable[[ExportedSession], Iterator[str]]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "markdown": _markdown,
    "jsonl": _jsonl,
    "html": _html,
}
PAGES: Final = frozenset({"markdown", "html"})
"""The forms that people read; the others are JSON."""
