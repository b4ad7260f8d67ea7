"""What must survive where several messages become fewer: lines, cuts, names, and summaries.

Pure functions over texts, messages and a pending. They know how a tool pair is told in a line,
where a text may be cut, which names only the messages about to go hold, and what a text that a
model wrote has to show before it may stand for anything. They decide nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from windlass.messages import Message, Opaque, Part, Text, ToolCall
from windlass.text.prompts import summary_text
from windlass.text.tokens import CHARS_A_TOKEN
from windlass.window._pending import PendingEdits, Proposal
from windlass.window.digests import digest, error_lines, has_failed, with_failure
from windlass.window.entries import Entry, Want
from windlass.window.kinds import arguments_of
from windlass.window.names import names_said

ARGUMENT_CHARS: Final = 60
"""Characters that an argument keeps in the line of its call."""
OUTCOME_CHARS: Final = 140
"""Characters that the outcome keeps there."""
ALSO: Final = "Also named: "
"""Stands before the names that only the messages held that a text stands for."""
_TOLD_CHARS: Final = 40
"""Characters of an argument that names a result beside its tool."""
_TITLES: Final = ("title", "name", "id", "path", "url", "key")
_TOLD_ITEMS: Final = 3
_SENTENCE: Final = re.compile(r"[.!?…][\"')\]]*(?=\s)|\n")
_JSON_CHARS: Final = 200_000
"""Longer results are told by their lines: reading them as JSON would take milliseconds."""
_NO_SUMMARY: Final = re.compile(
    r"\W{0,3}(?:error\b|traceback\b|exception\b|internal server error|rate limit"
    r"|i(?:'m| am) sorry|sorry\b|i can(?:no|')t|i am unable|i'm unable|as an ai)",
    re.IGNORECASE,
)


# ---- texts ------------------------------------------------------------------------------


def flat(text: str, chars: int) -> str:
    """Give the text in one line of at most `chars` characters; `...` stands for what is cut off."""
    line = " ".join(text[: chars * 4].split())
    if len(line) > chars:
        return line[: chars - 3].rstrip() + "..."
    return line + "..." if len(text) > chars * 4 else line


def head_tail(text: str, chars: int, notice: str, *, head: float = 0.6) -> str:
    """Return the head and tail of a text, `chars` characters in all, with `notice` between them.

    `{}` in `notice` becomes the number of characters left out. A text that fits comes back.
    """
    if len(text) <= chars:
        return text
    first = int(chars * head)
    last = text[len(text) - (chars - first) :] if chars > first else ""
    return f"{text[:first]}\n{notice.format(len(text) - chars)}\n{last}"


def ends_within(text: str, chars: int, notice: str) -> str:
    """Like `head_tail`, with what stands between them counted: `chars` characters in all.

    Half of them are text, however long `notice` is.
    """
    if len(text) <= chars:
        return text
    between = len(notice.format(len(text))) + 2
    return head_tail(text, max(chars - between, chars // 2), notice)


def cut_with_hint(pending: PendingEdits, at: int, text: str, chars: int) -> str:
    """Give the head and tail of a message's text, and between them how the original is got back."""
    return head_tail(text, chars, f"[... {{}} characters; {pending.recall_hint(at)} ...]")


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON data with what `change` makes of each text in it; keys stay."""
    match value:
        case str():
            return change(value)
        case list():
            return [with_texts(each, change) for each in value]
        case dict():
            return {key: with_texts(each, change) for key, each in value.items()}
        case _:
            return value


def to_sentence_end(text: str, chars: int) -> str:
    """Return the text cut at the last end of a sentence or line within `chars` characters.

    Where the second half of these holds none, it is cut between words; a code block that is
    open there is closed.
    """
    cut = text[:chars]
    ends = [match.end() for match in _SENTENCE.finditer(text, 0, chars + 1) if match.end() <= chars]
    if ends and ends[-1] > chars // 2:
        cut = text[: ends[-1]]
    elif " " in cut[chars // 2 :]:
        cut = cut[: cut.rindex(" ")]
    cut = cut.rstrip()
    return f"{cut}\n```" if cut.count("```") % 2 else cut


def first_sentence(text: str, chars: int) -> str:
    """Return the first sentence of a text, in one line of at most `chars` characters."""
    text = text.strip()
    end = next((m.end() for m in _SENTENCE.finditer(text, 0, chars * 4) if m.end() > 1), len(text))
    return flat(text[:end], chars)


# ---- tool pairs in a line ---------------------------------------------------------------


def turn_number(pending: PendingEdits, at: int) -> int:
    """Return the turn of a message: as recorded, else the number of the call before it."""
    return max(1, pending.item(at).turn or pending.transcript.births[at])


def call_text(call: ToolCall) -> str:
    """Return a call with its arguments, long ones cut: `grep("keel", path="src")`."""
    try:
        arguments = call.parsed()
    except (ValueError, RecursionError):
        return f"{call.name}({flat(call.arguments, ARGUMENT_CHARS)})"
    if len(arguments) == 1:
        return f"{call.name}({_short(next(iter(arguments.values())))})"
    text = ", ".join(f"{name}={_short(value)}" for name, value in arguments.items())
    return f"{call.name}({flat(text, 3 * ARGUMENT_CHARS)})"


def told(pending: PendingEdits, at: int) -> str:
    """Return a result or a call in a few words: its tool, and how the first argument begins."""
    call, message = pending.call(at), pending.original(at)
    if call is None and message.tool_calls:
        return f"your call of {message.tool_calls[0].name}"
    name = message.name or (call.name if call else "a tool")
    values = arguments_of(call) if call else {}
    text = " ".join(str(next(iter(values.values()), "")).split())
    if len(text) > _TOLD_CHARS:
        text = f"{text[: _TOLD_CHARS - 1]}…"
    return f"{name} {text.replace(']', ')')}".rstrip()


def outcome(message: Message) -> str:
    """Return what came out of a call, in a line: an error, a count with the first names, a line."""
    text = message.text
    shown = "; ".join(f"[Image: {picture.describe()}]" for picture in message.pictures)
    line = _outcome(text, failed=has_failed(message)) if text.strip() or not shown else ""
    return f"{line}; {shown}" if line and shown else line or shown


def _outcome(text: str, *, failed: bool) -> str:
    stripped = text.strip()
    if not stripped:
        return "no output"
    if failed:
        # The last error says what ended it.
        last = error_lines(stripped, 2 * OUTCOME_CHARS).rpartition("\n")[2]
        return flat(last or stripped, OUTCOME_CHARS)
    if stripped[0] in "[{" and len(stripped) <= _JSON_CHARS:
        records = _records(stripped)
        if records:
            return records
    lines = [line for line in stripped.split("\n") if line.strip()]
    first = next((line for line in lines if sum(map(str.isalnum, line)) > 2), lines[0])  # noqa: PLR2004
    return flat(first, OUTCOME_CHARS) + (f" ({len(lines):,} lines)" if len(lines) > 1 else "")


def _records(text: str) -> str:
    """Return a JSON text that holds a list, as a count and the first of it; else empty."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    lists = value.values() if isinstance(value, dict) else (value,)
    longest = max((each for each in lists if isinstance(each, list)), key=len, default=None)
    if longest is None:
        return flat(text, OUTCOME_CHARS)
    first = "; ".join(flat(_title(each), 40) for each in longest[:_TOLD_ITEMS])
    count = f"{len(longest):,} result{'s' * (len(longest) != 1)}"
    return f"{count}, most relevant: {first}" if first else count


def _title(value: Any) -> str:
    if isinstance(value, dict):
        for name in _TITLES:
            if isinstance(value.get(name), str | int):
                return str(value[name])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= ARGUMENT_CHARS else text[: ARGUMENT_CHARS - 4] + '..."'


def exchange_lines(pending: PendingEdits, at: int, error_chars: int) -> list[str]:
    """Return the calls of an assistant message, each with its result in a line, in their order.

    `[Turn 3] web_search("x") -> 8 results, ...; reference`. Behind the line of a call that failed
    stand the lines of its errors, in `error_chars` characters.
    """
    results = {pending.original(place).tool_call_id: place for place in pending.results(at)}
    lines: list[str] = []
    for call in pending.original(at).tool_calls:
        line = f"[Turn {turn_number(pending, at)}] {call_text(call)} -> "
        place = results.get(call.id)
        if place is None:
            lines.append(f"{line}no result")
            continue
        result = pending.original(place)
        ending = outcome(result)
        line += f"{ending}; {pending.recall_hint(place)}"
        lines.append(with_failure(line, result, error_chars, ending))
    return lines


# ---- names ------------------------------------------------------------------------------


def with_lost_names(
    pending: PendingEdits, span: Sequence[int], text: str, chars: int, besides: str = ""
) -> str:
    """The text, and in a line behind it, in `chars`, the names that only the span's messages hold.

    Not those that stand in the text or in `besides`. The most telling kinds first; written in the
    order in which the messages have them.
    """
    entries = [entry for entry in map(pending.entry, span) if entry is not None]
    texts = [entry.message.text for entry in entries]
    texts += [call.arguments for entry in entries for call in entry.message.tool_calls]
    if not any(texts) or chars <= 0:
        return text
    source = "\n".join(texts)
    # A tool's name stands in its definition, as long as there is one.
    tools = {call.name for at in span for call in pending.original(at).tool_calls}
    names = [
        name
        for name in pending.names_held_only(span, names_said(source))
        if not (name in text or name in besides or name in tools)
    ]
    kept = digest(names, chars)
    return f"{text}\n{ALSO}{kept}" if kept else text


# ---- messages ---------------------------------------------------------------------------


def with_text(message: Message, text: str) -> Message:
    """Return the message with `text` in place of its text pieces, where the first of them stood.

    What was said about a piece (`with` parts) goes with it; everything else stays.
    """
    parts: list[Part] = []
    is_text = written = False
    for part in message.parts:
        if isinstance(part, Text):
            is_text = True
            if not written:
                parts.append(Text(text))
                written = True
        elif not (is_text and isinstance(part, Opaque) and part.kind == "with"):
            is_text = False
            parts.append(part)
    return message.with_parts(*parts)


# ---- summaries --------------------------------------------------------------------------


def summarised(
    pending: PendingEdits,
    span: Sequence[int],
    shown: Iterable[Entry],
    *,
    key: str,
    header: str,
    tokens: int,
    reason: str,
    must: bool = False,
) -> Iterator[Proposal]:
    """Yield one message for a span: a header, a summary of what is `shown`, and the names it lacks.

    The summary is asked for under `key`. Nothing is proposed until a text is there that says
    something, has at most `tokens` tokens and does not report an error. The names have as many
    tokens again.
    """
    messages = tuple(entry.message for entry in shown)
    text = pending.want(Want(key, summary_text(tokens), messages, tokens))
    if not span or text is None or not text.strip() or _NO_SUMMARY.match(text):
        return
    alone, empty = Message("assistant", (Text(text),)), Message("assistant")
    if pending.size(alone) > tokens + pending.size(empty):
        return
    summary = f"{header}\n{text.strip()}"

    def write(pending: PendingEdits) -> Message:
        with_names = with_lost_names(pending, span, summary, tokens * CHARS_A_TOKEN)
        return Message("assistant", (Text(with_names),))

    yield Proposal(tuple(span), "summarise", reason, write, folds=True, must=must)
