"""From the text of a cascade file to plain data, with the line of every value.

Two readers of one shape, JSON and YAML: both answer with a `ParsedText` and raise
CascadeError with one sentence where the text cannot be read at all. They know
what text is, not what a cascade is.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

from windlass.cascade.quoting import in_quotes, is_misread
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


class Repeated(NamedTuple):
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
    repeated: list[Repeated] = field(default_factory=list[Repeated])
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
                reading.repeated.append(Repeated(_place(path), line, seen[-1][key]))
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
                self.reading.repeated.append(Repeated(here, line, first))
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
