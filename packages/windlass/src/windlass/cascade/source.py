"""From the text of a cascade file to plain data, with the line of every value.

Two readers of one shape, JSON and YAML: both answer with a `ParsedText` and raise
CascadeError with one sentence where the text cannot be read at all. They know
what text is, not what a cascade is.

What YAML takes for something else than the text that is meant, and the line as it should read.

A rewriting is proposed only where it helps: the text with it is read once more.

Parts of a cascade by their path: what a change at one place makes of the whole.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

from windlass.declared import Model
from windlass.errors import CascadeError, Mistake
from windlass.safety.files import HERE, Folders
from windlass.safety.foreign import DEPTH, TOO_DEEP

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node, ScalarNode


Path: TypeAlias = tuple[str | int, ...]
"""A key path: `("phases", 3, "context", "from", 0)`."""

VALUES: Final = 100_000
"""How many values a file may hold, YAML's aliases written out."""


def path_text(path: Path) -> str:
    """A key path as people write it: `phases[3].context.from[0]`, on one line whatever it holds."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            key = step if step.isprintable() else repr(step)
            text += f".{key}" if text else key
    return text


def value_at(data: Any, path: Path) -> Any:
    """Return the value at `path`; None where there is none."""
    for step in path:
        try:
            data = data[step]
        except (LookupError, TypeError):
            return None
    return data


class RepeatedKey(NamedTuple):
    """A key that occurs twice in its object; in JSON the second value holds, in YAML the first."""

    path: Path
    line: int
    first: int


@dataclass(slots=True)
class ParsedText:
    """What a text holds.

    `lines` has the line of each key and list item, `texts` the text behind a value
    that YAML did not take for text, `misread` those places of which it made another number than
    is meant, `yaml` the whole text where it is YAML, `blocks` the line before the first line of a
    literal block (`|`), where the lines of a text are lines of the file. `repeated` are
    the keys that occur twice. `included` are the files whose texts stand in places, `folders`
    where the files must lie that it names.
    """

    file: str
    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict[Path, int])
    texts: dict[Path, str] = field(default_factory=dict[Path, str])
    misread: list[Path] = field(default_factory=list[Path])
    yaml: str = field(default="", repr=False)
    blocks: dict[Path, int] = field(default_factory=dict[Path, int])
    repeated: list[RepeatedKey] = field(default_factory=list[RepeatedKey])
    included: dict[Path, str] = field(default_factory=dict[Path, str])
    folders: Folders = HERE
    count: int = 0

    def note(self, path: Path, line: int) -> None:
        """Remember that the value at `path` stands in `line`."""
        # Counted, not len(lines): what YAML merges is written to one place many times.
        self.count += 1
        if len(path) > DEPTH:
            self.stop(line, TOO_DEEP)
        if self.count > VALUES:
            self.stop(line, f"the file holds more than {VALUES:,} values")
        self.lines[path] = line

    def line(self, path: Path) -> int | None:
        """Return the line of the key or item at `path`, else of what it stands in."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def stop(self, line: int | None, text: str) -> NoReturn:
        """Give up: the text cannot be read."""
        raise CascadeError([Mistake(self.file, line, text)])


def read_json(text: str, file: str) -> ParsedText:
    """Return the values of a JSON text."""
    reading = ParsedText(file)
    try:
        reading.data = json.loads(text)
    except json.JSONDecodeError as error:
        at, fault = _json_fault(error)
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        reading.stop(line, f"not valid JSON at column {column}: {fault}")
    except RecursionError:
        reading.stop(None, TOO_DEEP)
    except ValueError as error:  # a number with thousands of digits
        reading.stop(None, f"not valid JSON: {error}")
    _note_places(text, reading)
    return reading


_JSON_FAULTS: Final = {
    "Expecting property name enclosed in double quotes": "expected a key in double quotes",
    "Expecting ',' delimiter": "expected a comma or the closing bracket",
    "Expecting ':' delimiter": "expected a colon after the key",
    "Expecting value": "expected a value",
    "Extra data": "expected the end of the file after the closing bracket",
    "Invalid control character at": "a line end or tab inside a text must be written \\n or \\t",
}


def _json_fault(error: json.JSONDecodeError) -> tuple[int, str]:
    """Where the mistake is and what it is, in the same words under every Python."""
    text, at = error.doc, error.pos
    # From 3.13 on, the decoder points at such a comma, and before at the bracket after it.
    comma = at if text.startswith(",", at) else len(text[:at].rstrip()) - 1
    closing = text[comma + 1 :].lstrip()[:1]
    if comma >= 0 and text[comma] == "," and closing and closing in "]}":
        return comma, f"remove the comma before {closing!r}"
    return at, _other_json_fault(error)


def _other_json_fault(error: json.JSONDecodeError) -> str:
    text, at = error.doc, error.pos
    if error.msg.startswith("Unterminated string"):
        return "the text that begins here has no closing double quote"
    if error.msg.startswith("Invalid \\"):
        return f"{text[at : at + 2]!r} is not an escape in JSON; write \\\\ for a backslash"
    expected = _JSON_FAULTS.get(error.msg, error.msg)
    character = text[at : at + 1]
    if not character:
        return f"{expected}, but the file ends here"
    if text.startswith(("//", "/*", "#"), at):
        return f"{expected}; JSON has no comments (YAML has)"
    if error.msg == "Invalid control character at":
        return expected
    return f"{expected}, but found {character!r}"


_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]|\n|[^\s"\[\]{}:,]+')


def _note_places(text: str, reading: ParsedText) -> None:
    """Note where the values of a text stand that is known to be JSON."""
    line = 1
    # Of each object and list around the piece: its key or position (None: a key comes next).
    path: list[str | int | None] = []
    seen: list[dict[str, int]] = []
    for piece in _TOKENS.findall(text):
        if piece == "\n":
            line += 1
        elif piece in "}]":
            path.pop()
            seen.pop()
        elif piece == ",":
            step = path[-1]
            path[-1] = step + 1 if isinstance(step, int) else None
        elif path and path[-1] is None:
            path[-1] = key = json.loads(piece)
            if key in seen[-1]:
                reading.repeated.append(RepeatedKey(_place(path), line, seen[-1][key]))
            seen[-1].setdefault(key, line)
            reading.note(_place(path), line)
        else:
            if not path or isinstance(path[-1], int):
                reading.note(_place(path), line)
            if piece in "{[":
                path.append(None if piece == "{" else 0)
                seen.append({})
            # Python reads NaN, Infinity and 1e999; JSON has none of them.
            elif piece[0] in "-0123456789NI" and not _is_number(json.loads(piece)):
                reading.stop(line, f"{piece[:20]} is not a number that JSON can hold")


def _is_number(value: float) -> bool:
    """Return whether a number is one of JSON's; whole ones have no limit."""
    return isinstance(value, int) or math.isfinite(value)


def _place(steps: list[str | int | None]) -> Path:
    return tuple(step for step in steps if step is not None)


def read_yaml(text: str, file: str) -> ParsedText:
    """Return the values of a YAML text: plain ones only, aliases and merge keys written out."""
    import yaml

    reading = ParsedText(file, yaml=text)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if error.context_mark and str(error.problem).endswith("end of stream"):
            mark = error.context_mark  # where the quotes are opened
        line = mark.line + 1 if mark else None
        column = f" at column {mark.column + 1}" if mark else ""
        lines = [each.line for each in (error.problem_mark, error.context_mark) if each]
        way = in_quotes(text, *lines, *(each - 1 for each in lines))
        reading.stop(line, f"not valid YAML{column}: {_yaml_fault(error)}{way}")
    except yaml.reader.ReaderError as error:
        line = 1 + text.count("\n", 0, error.position)
        reading.stop(
            line, f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
        )
    except RecursionError:
        reading.stop(None, TOO_DEEP)
    try:
        if node is not None:
            reading.data = _Nodes(reading).value(node, ())
    except RecursionError:
        reading.stop(None, "an object is merged into itself by '<<'")
    return reading


def _yaml_fault(error: Any) -> str:
    problem = str(error.problem or error.context)
    if r"'\t'" in problem:
        return "a tab; YAML is indented with spaces"
    if error.context == "expected a single document in the stream":
        return "a second document begins here; one file holds one"
    if problem == "mapping values are not allowed here":
        return "a colon and a space make a key, and none can stand here"
    return f"{error.context}, {problem}" if error.context else problem


class _Nodes:
    """Turns composed YAML nodes into plain data and notes where its values stand."""

    def __init__(self, reading: ParsedText) -> None:
        from yaml import SafeLoader

        self.reading = reading
        self._loader = SafeLoader("")

    def value(self, node: Node, path: Path) -> Any:
        from yaml.nodes import MappingNode, ScalarNode, SequenceNode

        line = node.start_mark.line + 1
        if not path or isinstance(path[-1], int):
            self.reading.note(path, line)
        if isinstance(node, ScalarNode):
            return self.scalar(node, path)
        if isinstance(node, SequenceNode) and node.tag.endswith(":seq"):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, MappingNode) and node.tag.endswith(":map"):
            return self.mapping(node, path)
        return self.no_tag(node)

    def no_tag(self, node: Node) -> NoReturn:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        text = f"the YAML tag {tag!r} is not allowed: write plain text, numbers, lists and objects"
        self.reading.stop(node.start_mark.line + 1, text)

    def scalar(self, node: ScalarNode, path: Path) -> Any:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if node.style == "|":
            self.reading.blocks[path] = node.start_mark.line + 1
        # A date stays the text it was written as, as YAML 1.2 and JSON have it.
        if kind in {"str", "timestamp", "value", "merge"}:
            return node.value
        if kind not in {"null", "bool", "int", "float"}:
            self.no_tag(node)
        self.reading.texts[path] = node.value
        try:
            value = self._loader.construct_object(node)
        except (ValueError, LookupError) as error:  # an explicit tag that does not fit its text
            text = f"{node.value[:60]!r} is not of the YAML type {kind}: {error}"
            self.reading.stop(node.start_mark.line + 1, text)
        if isinstance(value, float) and not math.isfinite(value):
            text = f"{node.value[:20]} is not a number that JSON can hold"
            self.reading.stop(node.start_mark.line + 1, text)
        if kind in {"int", "float"} and is_misread(node.value):
            self.reading.misread.append(path)
        return value

    def mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        from yaml.nodes import ScalarNode

        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        # Merged keys first: what the object says itself goes before them, lines too.
        entries = sorted(node.value, key=lambda entry: not entry[0].tag.endswith(":merge"))
        for key, value in entries:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode):
                way = in_quotes(self.reading.yaml, line - 1)
                what = "YAML reads this as an object" if way else "a key must be text"
                self.reading.stop(line, what + way)
            if key.tag.endswith(":merge"):
                merged = self.merge(value, path) | merged
                continue
            # A key that YAML takes for something else (on, 1) is meant as it is written.
            here = (*path, key.value)
            if key.value in own:
                first = self.reading.lines[here]
                self.reading.repeated.append(RepeatedKey(here, line, first))
                continue
            self.reading.note(here, line)
            own[key.value] = self.value(value, here)
        return merged | own

    def merge(self, node: Node, path: Path) -> dict[str, Any]:
        from yaml.nodes import MappingNode, SequenceNode

        if isinstance(node, MappingNode):
            self.reading.note(path, self.reading.lines[path])
            return self.mapping(node, path)
        if not isinstance(node, SequenceNode):
            self.reading.stop(node.start_mark.line + 1, "'<<' needs an alias of an object")
        merged: dict[str, Any] = {}
        for item in node.value:
            merged = self.merge(item, path) | merged
        return merged


_ENTRY: Final = re.compile(r"(\s*(?:- +)*[^\s'\"#{}\[\],&*!|>%@`-][^:#\"']*:[ \t]+)(\S.*?)\s*")
_ITEM: Final = re.compile(r"(\s*(?:- +)+)(\S.*?)\s*")
_KEY_IN_FLOW: Final = re.compile(r"[{,]\s*[\w.-]+:\s+")
_END_IN_FLOW: Final = re.compile(r"(?=\s*(?:,\s*[\w.-]+:\s|[}\]]|$))")
_NEXT_KEY: Final = re.compile(r",\s*[\w.-]+:\s")
_OBJECT: Final = re.compile(r"[\[{]\s*(?:[\w.-]+:\s|[\]}])")
_TEMPLATE: Final = re.compile(r"(?<![\w\"'])(?:\{\{.*?\}\}|\{%.*%\})")
_LARGEST: Final = 200_000
"""Characters of a text that is read again for each rewriting."""
_TRIED: Final = 40
_SHOWN: Final = 300

_SIXTIETHS: Final = re.compile(r"[-+]?\d[\d_]*(?::[0-5]?\d)+(?:\.[\d_]*)?")
_LEADING_ZERO: Final = re.compile(r"[-+]?0[\d_]+(?:\.[\d_]*)?")


def is_misread(written: str) -> bool:
    """Return whether YAML makes a number of what nobody means as that number: `12:30`, `00501`.

    >>> is_misread("12:30"), is_misread("00501"), is_misread("12"), is_misread("0.5")
    (True, True, False, False)
    """
    return bool(_SIXTIETHS.fullmatch(written) or _LEADING_ZERO.fullmatch(written))


def misread(value: Any, written: str) -> str:
    """Say what is said of a number that YAML made of what is meant as another one, or as text."""
    return (
        f"YAML reads {written} as {json.dumps(value)}; put it in quotes ('{written}') if it is text"
    )


def in_quotes(text: str, *lines: int) -> str:
    """Say how to mend a fault of a YAML text: the first of these lines (from 0) that quotes mend.

    The fault is in the first of them. The end of a message; empty where quotes do not help.
    """
    rows = text.split("\n")
    places = [each for each in dict.fromkeys(lines) if 0 <= each < len(rows)]
    if len(text) > _LARGEST:
        return ""
    for at in places:
        for line in islice(_rewritten(rows[at]), _TRIED):
            if _is_mended("\n".join((*rows[:at], line, *rows[at + 1 :])), lines[0], at):
                return f"; put the text in quotes: {_shown(line)}"
    for at in places:
        if entry := _entry_above(rows, at):
            above, head, rest = entry
            indent = " " * (len(rows[at]) - len(rows[at].lstrip()))
            block = (*rows[:above], f"{head}|", indent + rest, *rows[above + 1 :])
            if _is_mended("\n".join(block), lines[0] + 1, at + 1):
                return f"; begin a text of several lines with '{head.strip()} |', and indent them"
    return ""


def quoted_line(text: str, line: int) -> str:
    """Return a line (from 1) of a YAML text with its value in quotes; empty where it has none."""
    rows = text.split("\n")
    row = rows[line - 1] if 0 < line <= len(rows) else ""
    return _shown(next(_rewritten(row), ""))


def _rewritten(line: str) -> Iterator[str]:
    """Yield the line with one of its values in quotes, in each way that may be meant."""
    spans = [found.span(2) for form in (_ENTRY, _ITEM) if (found := form.fullmatch(line))]
    whole = [(start, end) for start, end in spans if not _OBJECT.match(line, start)]
    inside = [each.span() for each in _TEMPLATE.finditer(line)]
    for key in _KEY_IN_FLOW.finditer(line):
        ends = _END_IN_FLOW.finditer(line, key.end() + 1)
        spans = [(key.end(), end.start()) for end in ends]
        inside += [span for span in spans if not _NEXT_KEY.search(line, *span)]
    for start, end in (*whole, *sorted(inside, key=lambda span: span[1] - span[0])):
        yield line[:start] + _quoted(line[start:end]) + line[end:]


def _quoted(text: str) -> str:
    """Return the text in quotes; quotes that it is in, and that do not hold it, are taken away."""
    first = text[0]
    if first in "'\"" and (text.endswith(first) or text.count(first) == 1):
        text = text[1:].removesuffix(first)
    if '"' in text or "\\" in text:
        return "'" + text.replace("'", "''") + "'"
    return f'"{text}"'


def _entry_above(rows: list[str], at: int) -> tuple[int, str, str] | None:
    """Give the nearest line above that is indented less and has a text: its place, key and text."""
    indent = len(rows[at]) - len(rows[at].lstrip())
    for above in range(at - 1, -1, -1):
        row = rows[above]
        if row.strip() and len(row) - len(row.lstrip()) < indent:
            found = _ENTRY.fullmatch(row)
            return (above, found[1], found[2]) if found else None
    return None


def _shown(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def _is_mended(text: str, fault: int, changed: int) -> bool:
    """Return whether a YAML text can be read at the line of the fault, and at the changed one.

    What is wrong further below is told when this is mended.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        marks = [mark.line for mark in (error.problem_mark, error.context_mark) if mark]
        return min(marks, default=0) > max(fault, changed)
    except (yaml.YAMLError, RecursionError):
        return False
    return changed not in _keys_that_are_none(node)


def _keys_that_are_none(node: Any) -> Iterator[int]:
    """Yield the lines of keys that are no texts."""
    waiting, seen = [node], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen or not isinstance(getattr(each, "value", None), list):
            continue
        seen.add(id(each))
        for item in each.value:
            if isinstance(item, tuple):
                if not isinstance(item[0].value, str):
                    yield item[0].start_mark.line
                waiting += item
            else:
                waiting.append(item)


def with_value(part: Any, path: Path, value: Any) -> Any:
    """Return a part of a cascade with another value at `path` in it."""
    if not path:
        return value
    step, below = path[0], path[1:]
    if isinstance(step, int):
        return (*part[:step], with_value(part[step], below, value), *part[step + 1 :])
    if isinstance(part, Mapping):
        return {**part, step: with_value(part[step], below, value)}
    return part.model_copy(update={step: with_value(getattr(part, step), below, value)})


def without(part: Any, path: Path) -> Any:
    """Return a part of a cascade without what stands at `path` in it."""
    *above, step = path
    holder: Any = part
    for each in above:
        is_part = isinstance(holder, Model)
        holder = getattr(holder, str(each)) if is_part else holder[each]
    if isinstance(step, int):
        return with_value(part, tuple(above), (*holder[:step], *holder[step + 1 :]))
    return with_value(part, path, type(holder).model_fields[step].default)
