"""References to originals, and parts of them: what `recall` takes and gives back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from windlass.messages import Message, ToolSpec
from windlass.safety.patterns import BadPattern, compile_pattern
from windlass.window.encode import in_rows
from windlass.window.kinds import arguments_of

REF: Final = "result_"
"""What a reference begins with; the content hash of the message follows, or its beginning."""
_DIGITS: Final = 8
"""Hex digits of the hash that a reference has. It stands in every line that is in the place of
a text, and models count a token for about two digits. Among 1,000 messages two begin alike
in one of 8,600 sessions; then both are named, and neither is taken for the other."""
_FEWEST: Final = 4
"""Hex digits from which on the beginning of a hash is taken for a reference."""

MOST_CHARS: Final = 32_000
"""Characters given back at once; 8,000 tokens, as much as a window shows of a new result."""

_MOST_LINE: Final = 2_000
_NO_LINE: Final = "[no line matches]"
_MOST_SHOWN: Final = 80
_SPAN: Final = re.compile(r"(\d{1,9})\s*(?:-\s*(\d{1,9}))?")
_GREP: Final = re.compile(r"(?:^|\s)/")
_ENDS: Final = ("/", "/i")
_LINES: Final = re.compile(
    r"(?:^|(?<=\s))(?:lines?\s+|(rows?\s+))?(\d{1,9}(?:\s{0,9}-\s{0,9}\d{1,9})?)$"
)
_MOST_PART: Final = 4_000
"""Characters of what may be asked for at once."""
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def reference(message: Message) -> str:
    """Return what a message is asked for by: `result_` and the first digits of its content hash."""
    return reference_to(message.content_hash)


def reference_to(content_hash: str) -> str:
    """Return what the message with this content hash is asked for by."""
    return f"{REF}{content_hash[:_DIGITS]}"


def is_whole(ref: object) -> bool:
    """Return whether it is as long as a reference is, and no beginning of one."""
    return isinstance(ref, str) and len(ref.strip().removeprefix(REF)) >= _DIGITS


def file_name(message: Message) -> str:
    """Return what the file of an original is called: a reference with the whole hash."""
    return f"{REF}{message.content_hash}"


def matching(ref: str, hashes: Iterable[str]) -> list[str]:
    """The content hashes, each once, that begin as a reference does (with four digits or more)."""
    digits = ref.strip().removeprefix(REF)
    if len(digits) < _FEWEST:
        return []
    return list(dict.fromkeys(each for each in hashes if each.startswith(digits)))


def meant(ref: str, hashes: Iterable[str]) -> str:
    """Return the content hash that a reference means: a whole one, or the beginning of only one.

    Raises KeyError with the end of a sentence: nothing, or more than one, begins so.
    """
    matches = matching(ref, hashes)
    if not matches:
        raise KeyError("none has it")
    if len(matches) > 1:
        raise KeyError(f"several have it: {', '.join(REF + each for each in matches)}")
    return matches[0]


def as_text(message: Message) -> str:
    """Return a message as text: its words, its calls, and a description of each picture."""
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    pictures = [f"[picture {picture.describe()}]" for picture in message.pictures]
    return "\n".join([*([message.text] if message.text else []), *calls, *pictures])


def asked_for(part: str) -> Mapping[str, str]:
    """Return what a model means by a part, in one text: a JSON path, lines, a regular expression.

    >>> asked_for("lines 10-40"), asked_for("results[0].title"), asked_for("/error/i")
    ({'lines': '10-40'}, {'path': 'results[0].title'}, {'grep': '(?i)error'})
    >>> asked_for("logs[0].text 1-90 /Error/")
    {'grep': 'Error', 'lines': '1-90', 'path': 'logs[0].text'}
    """
    options: dict[str, str] = {}
    left = part.strip()
    ends = next((end for end in _ENDS if left.endswith(end)), None)
    if ends and (match := _GREP.search(left)):
        grep = left[match.end() : len(left) - len(ends)]
        if grep:
            options["grep"] = grep if ends == "/" else f"(?i){grep}"
            left = left[: match.start()].rstrip()
    if match := _LINES.search(left):
        options["rows" if match[1] else "lines"] = match[2]
        left = left[: match.start()].rstrip()
    if left:
        options["path"] = left
    return options


def part_of(
    original: str | Message, part: str = "", *, grep: str = "", lines: str = "", path: str = ""
) -> str:
    """Return the part of an original asked for.

    Args:
        original: A message, or a text. In a message with calls a path leads into the arguments of
            its call: `new_string`; with several calls it begins with the number of the call,
            counted from 0: `[1].new_string`.
        part: What follows in one text, as a model says it; see `asked_for`.
        grep: Only lines that match this regular expression, each with its number.
        lines: Only these lines, counted from 1: `12` or `10-40`. In `part`, `rows 10-40` are lines
            of data in rows, as a window shows it.
        path: Only what stands here in a JSON text: `results[0].title`.

    A part is at most `MOST_CHARS` characters and ends by saying how to read on.
    Raises ValueError with one sentence where what is asked for cannot be found.
    """
    if len(part) > _MOST_PART:
        raise ValueError(f"a part is asked for in at most {_MOST_PART:,} characters")
    options = asked_for(part)
    grep, lines, path = (
        given or options.get(name, "")
        for name, given in (("grep", grep), ("lines", lines), ("path", path))
    )
    text = original if isinstance(original, str) else _text_at(original, path)
    if path:
        text = _at_path(text, path)
    if rows := options.get("rows", ""):
        text, lines = in_rows(text), rows
    if not grep and not lines:
        return _cut(text)
    first = 1
    if lines:
        span = _SPAN.fullmatch(lines.strip())
        if span is None:
            raise ValueError(f"lines {lines!r} must be a number or a range such as 10-40")
        first, last = int(span[1]), int(span[2] or span[1])
        among = text.split("\n")[max(first - 1, 0) : last]
        if not among:
            return _NO_LINE
        first, text = max(first, 1), "\n".join(among)
    if grep:
        return matching_lines(text, grep, first)
    numbered = [f"{number}: {line}" for number, line in enumerate(text.split("\n"), first)]
    return _cut("\n".join(numbered))


def text_at(original: Message, path: str) -> str:
    """What stands at a path: `results[0].title` of a JSON text, `content` of a call's arguments.

    Raises ValueError with one sentence where there is nothing.
    """
    return _at_path(_text_at(original, path), path)


def _text_at(message: Message, path: str) -> str:
    """Return the text of a message that a path leads into, or all that it says."""
    if not path or not message.tool_calls:
        return as_text(message)
    if len(message.tool_calls) == 1:
        return message.tool_calls[0].arguments
    return json.dumps([dict(arguments_of(call)) for call in message.tool_calls])


def matching_lines(text: str, grep: str, first: int = 1, *, most: int | None = MOST_CHARS) -> str:
    """Return the lines of a text in which a pattern is found, each with its number.

    `first` is the number of the first line; beyond `most` characters it is told where more match.
    Raises ValueError with a sentence for what is no pattern.
    """
    try:
        pattern = compile_pattern(grep, in_lines=True)
    except BadPattern as error:
        raise ValueError(f"grep {_short(grep)!r} {error}") from error
    lines: list[str] = []
    chars = 0
    for match in pattern.lines(text):
        if most is not None and chars > most:
            lines.append(f"[more lines match, from line {match.number + first - 1} on]")
            break
        lines.append(f"{match.number + first - 1}: {_around(match.text, match.at)}")
        chars += len(lines[-1]) + 1
    return "\n".join(lines) or _NO_LINE


def _short(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def _cut(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return text
    head = text[:MOST_CHARS]
    return (
        f"{head}\n[{len(text) - MOST_CHARS:,} more characters, from line"
        f" {head.count(chr(10)) + 1} on; ask for lines or grep]"
    )


def _around(line: str, at: int) -> str:
    """Return a long line's part around the place of a match."""
    if len(line) <= _MOST_LINE:
        return line
    start = max(0, at - _MOST_LINE // 2)
    return f"[... {start:,} characters] {line[start : start + _MOST_LINE]} [...]"


def _at_path(text: str, path: str) -> str:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"path {path!r}: the original is no JSON ({error})") from error
    walked = ""
    for step in _STEP.finditer(path.removeprefix("$")):
        key: str | int = step[1] if step[2] is None else int(step[2])
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            place = walked or "the top"
            raise ValueError(f"path {path!r}: no {key!r} at {place}, {_known(value)}") from None
        walked += step[0]
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    except RecursionError:
        raise ValueError(f"path {path!r}: what stands there is nested too deeply") from None


def _known(value: Any) -> str:
    if isinstance(value, dict):
        return f"which has {', '.join(map(str, value))[:200] or 'nothing'}"
    return f"a list of {len(value)}" if isinstance(value, list) else "which holds one value"


RECALL: Final = ToolSpec(
    "recall",
    "Original of result_..., or part: lines 10-40, /regex/, JSON path a[0].b.",
    {
        "type": "object",
        "properties": {"ref": {"type": "string"}, "part": {"type": "string"}},
        "required": ["ref"],
    },
)
"""What a model is told of `recall`, in every loop that offers it: it is paid at every call."""
