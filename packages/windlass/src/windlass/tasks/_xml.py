"""Safe reading of XML: elements with the lines they begin in, and nothing from elsewhere.

A document type, entities and external references are refused (defusedxml), a file has at most
`MOST_BYTES`, elements are nested at most `DEPTH` deep. What is wrong is a CascadeError with the
line. This module knows what XML is, not what a task is.

What reading a task file gathers: mistakes, phases, and the line of each of their values.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final, NoReturn
from xml.sax import ErrorHandler, InputSource, SAXException, SAXParseException, xmlreader
from xml.sax.handler import ContentHandler

from defusedxml.common import DefusedXmlException, DTDForbidden
from defusedxml.sax import make_parser

from windlass.cascade.source import Path as Place
from windlass.errors import Mistake, TaskFileError, perhaps_newer
from windlass.safety.foreign import parse_json
from windlass.tasks.model import TaskFinding

MOST_BYTES: Final = 1_000_000
"""Bytes of a task file: a larger one belongs apart, with its inputs in files."""
DEPTH: Final = 100
"""How deep elements may be nested."""
ELEMENTS: Final = 20_000
"""How many elements a file may hold."""


@dataclass(slots=True)
class Element:
    """An element: its tag, attributes, direct text, children, and the line it begins in.

    `text_line` is the line in which its text begins.
    """

    tag: str
    line: int
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list["Element"])
    pieces: list[str] = field(default_factory=list[str])
    text_line: int = 0

    @property
    def text(self) -> str:
        """Return the text directly in it."""
        return "".join(self.pieces)

    def first(self, tag: str) -> Element | None:
        """Return the first child of that tag."""
        return next((child for child in self.children if child.tag == tag), None)


def read_xml(data: bytes, file: str) -> Element:
    """Return the root element of a document. Raises TaskFileError naming the line."""
    if len(data) > MOST_BYTES:
        raise TaskFileError(
            [Mistake(file, None, f"{len(data):,} bytes; a task file has at most {MOST_BYTES:,}")]
        )
    if not data.strip():
        raise TaskFileError([Mistake(file, None, "the file is empty; a task file holds a <task>")])
    parser: Any = make_parser()
    builder = _Builder(file)
    parser.setContentHandler(builder)
    parser.setErrorHandler(ErrorHandler())
    parser.forbid_dtd = parser.forbid_entities = parser.forbid_external = True
    source = InputSource()
    source.setByteStream(BytesIO(data))
    try:
        parser.parse(source)
    except DTDForbidden as error:
        line = parser.getLineNumber()
        text = "a document type (<!DOCTYPE ...>) is refused: it could name entities and other files"
        raise TaskFileError([Mistake(file, line, text)]) from error
    except DefusedXmlException as error:
        text = "entities and external references are refused; write the text itself"
        raise TaskFileError([Mistake(file, parser.getLineNumber(), text)]) from error
    except SAXParseException as error:
        at = f"not well-formed XML at column {(error.getColumnNumber() or 0) + 1}"
        text = f"{at}: {error.getMessage()}"
        raise TaskFileError([Mistake(file, error.getLineNumber(), text)]) from error
    except (SAXException, ValueError, LookupError) as error:
        raise TaskFileError([Mistake(file, None, f"not readable as XML: {error}")]) from error
    assert builder.root is not None
    return builder.root


class _Builder(ContentHandler):
    """Makes elements of events, each with the line at which the parser stands."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.root: Element | None = None
        self._file = file
        self._open: list[Element] = []
        self._count = 0
        self._locator: xmlreader.Locator | None = None

    def setDocumentLocator(self, locator: xmlreader.Locator) -> None:  # noqa: N802
        """Remember who knows the line."""
        self._locator = locator

    def startElement(self, name: str, attrs: xmlreader.AttributesImpl) -> None:  # noqa: N802
        """An element begins."""
        line = self._line()
        self._count += 1
        if len(self._open) >= DEPTH:
            self._stop(line, f"elements are nested more than {DEPTH} deep")
        if self._count > ELEMENTS:
            self._stop(line, f"the file holds more than {ELEMENTS:,} elements")
        element = Element(name, line, dict(attrs.items()))
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def endElement(self, name: str) -> None:  # noqa: ARG002, N802  # matched already
        """An element ends."""
        self._open.pop()

    def characters(self, content: str) -> None:
        """Text stands in the element that is open."""
        if self._open:
            holder = self._open[-1]
            if not holder.pieces:
                holder.text_line = self._line()
            holder.pieces.append(content)

    def _line(self) -> int:
        assert self._locator is not None
        return self._locator.getLineNumber() or 1

    def _stop(self, line: int, text: str) -> NoReturn:
        raise TaskFileError([Mistake(self._file, line, text)])


@dataclass(slots=True)
class TaskBuilder:
    """The work in hand: what was found, the phases so far, and the line of each of their values."""

    file: str
    findings: list[TaskFinding] = field(default_factory=list[TaskFinding])
    phases: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lines: dict[Place, int] = field(default_factory=dict[Place, int])
    uses_input: bool = False

    def wrong(self, line: int, text: str, *, error: bool = True, lacking: bool = False) -> None:
        """Tell a mistake, or with `error` false what is odd."""
        self.findings.append(TaskFinding(line, text, error, lacking))

    def unknown(self, holder: Element, child: Element, tags: Collection[str]) -> None:
        """Tell that an element cannot hold what it holds."""
        text = f"<{holder.tag}> has no <{child.tag}>; {perhaps_newer(child.tag, tags)}"
        self.wrong(child.line, text)

    def json_of(self, element: Element) -> Any:
        """Return the JSON value in an element; None where it is none, which is told."""
        try:
            return parse_json(element.text)
        except ValueError as error:
            self.wrong(element.line, f"<{element.tag}> must hold JSON: {error}")
            return None
