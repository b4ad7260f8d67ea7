"""The page with the matrix of a session, its picture, and the text of one cell.

The matrix of a session as a page shows it: a picture, its legend, bars at its edges, its texts.

Sizes are attributes, and colours classes of `static/matrix.css`, because the pages allow no inline
style. `static/inspector.js` moves a cursor over the picture; without it all is there to be read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from windlass.public import (
    CALLS,
    Cell,
    InspectedSession,
    Matrix,
    UsageError,
    cell_text,
    escaped,
    many,
    matrix_of,
    money,
)
from windlass_inspector._inspector import Inspector, number_in
from windlass_inspector._rendering import address, page

_WAIT_S: Final = 30.0
"""Seconds that a page waits at most for a matrix, which takes a quarter of one."""


def matrix_page(inspector: Inspector, request: Request) -> Response:
    """Return the matrix, from a call on."""
    session = inspector.session(request)
    matrix = _matrix(inspector, session, request)
    name = address("session", session.record.session_id)
    section = Markup(matrix_section(matrix, name))  # noqa: S704 - made by a template that escapes
    is_billed = inspector.billed(session, 0.0)
    return inspector.respond(
        "matrix_page.html", session, {"section": section, "is_billed": is_billed}
    )


def matrix_picture(inspector: Inspector, request: Request) -> Response:
    """Return the picture of the matrix."""
    matrix = _matrix(inspector, inspector.session(request), request)
    if not matrix.cells:
        raise UsageError(f"session {matrix.session_id!r} made no call that could be drawn")
    data = matrix_png(matrix, dark="dark" in request.query_params)
    return Response(data, media_type="image/png")


def matrix_cell(inspector: Inspector, request: Request) -> Response:
    """Return what became of a message at a call, in a sentence."""
    session = inspector.session(request)
    matrix = _matrix(inspector, session, request)
    row, column = _number(request, "message") - 1, _number(request, "call") - matrix.first
    text = cell_text(session.record, matrix, row, column)
    return JSONResponse({"text": escaped(text)})


def _matrix(inspector: Inspector, session: InspectedSession, request: Request) -> Matrix:
    """Return the matrix that is asked for. Raises UsageError for a call that there is not."""
    first = _number(request, "first", 1)
    is_billed = inspector.billed(session)

    def work() -> Matrix:
        costs = {call.number: call.cost for call in session.view.calls}
        if is_billed:  # else what the record says
            costs |= {number: cost.dollars for number, cost in session.costs.items()}
        return matrix_of(session.record, costs, first)

    name = f"matrix {first} {is_billed}"
    found: Matrix | None = inspector.shelf.later(session, name, work, _WAIT_S)
    if found is None:
        raise UsageError("the matrix takes longer than usual: load the page again")
    return found


def _number(request: Request, name: str, usual: int | None = None) -> int:
    """Return a number in the query. Raises UsageError for what is none."""
    text = request.query_params.get(name, "")
    if not text and usual is not None:
        return usual
    number = number_in(text)
    if number is None:
        raise UsageError(f"{name}={text!r} in the address must be a number from 1 up")
    return number


LIGHT: Final[Mapping[Cell, str]] = {
    Cell.ABSENT: "#ffffff",
    Cell.SHOWN: "#5c89c4",
    Cell.DIGESTED: "#e3ac3f",
    Cell.MASKED: "#a65a25",
    Cell.FOLDED: "#4a1d57",
    Cell.BROUGHT_IN: "#52a98a",
    Cell.DROPPED: "#dcdfe3",
    Cell.READ: "#b7d0ea",
    Cell.WRITTEN: "#1f4b86",
}
"""The colours on a light page. No two are equally light, so that they differ to every eye; what is
dear stands out from the page. `ABSENT` is transparent."""
DARK: Final[Mapping[Cell, str]] = {
    Cell.ABSENT: "#000000",
    Cell.SHOWN: "#7fb2e6",
    Cell.DIGESTED: "#f0c662",
    Cell.MASKED: "#b8693a",
    Cell.FOLDED: "#8a4aa0",
    Cell.BROUGHT_IN: "#3fae8c",
    Cell.DROPPED: "#2b3036",
    Cell.READ: "#34506f",
    Cell.WRITTEN: "#dcebfa",
}
"""The same on a dark page."""

_WIDE: Final = 960
"""Pixels that a picture of many calls has room for."""
_HIGH: Final = 640
_CELL: Final = (24, 14)
"""The largest cell in pixels."""
_ABOVE: Final = 72
"""Pixels above the picture, of which the lower part are bars."""
_BESIDE: Final = 112
_BARS: Final = 52
"""The longest bar in pixels, above and beside."""
_APART: Final = (56, 20)
"""Pixels between two numbers, above and beside."""
_MARGIN: Final = (16, 7)
"""Pixels between the middle of a number and the end of its edge."""


class _Tick(NamedTuple):
    at: float
    number: int


class _Edge(NamedTuple):
    """Bars along an edge of the picture as the path of an SVG, and what is told of them."""

    path: str
    ticks: Sequence[_Tick]
    most: str
    most_at: int
    """The number of the call or message with the longest bar."""
    whole: str


def matrix_png(matrix: Matrix, *, dark: bool = False) -> bytes:
    """Draw a matrix that has cells, a pixel each, as PNG; what was not there is transparent."""
    from PIL import Image  # takes 40 ms that only this picture needs

    colours, width = DARK if dark else LIGHT, len(matrix.columns)
    picture = Image.frombytes("P", (width, len(matrix.cells) // width), matrix.cells)
    picture.putpalette(bytes.fromhex("".join(colours[cell].removeprefix("#") for cell in Cell)))
    file = io.BytesIO()
    picture.save(file, "PNG", transparency=int(Cell.ABSENT))
    return file.getvalue()


def matrix_section(matrix: Matrix, address: str) -> str:
    """Return the HTML of a matrix, for the inside of a section.

    Args:
        matrix: What is drawn.
        address: Where the session's pages are, as `/session/NAME`.
    """
    width, height = _cell_size(matrix)
    last = matrix.first + len(matrix.columns) - 1
    present = set(matrix.cells)
    return page(
        "matrix.html",
        {
            "matrix": matrix,
            "rows": zip(matrix.rows, matrix.told(), strict=True),
            "address": address,
            "last": last,
            "earlier": max(1, matrix.first - CALLS) if matrix.first > 1 else None,
            "later": last + 1 if last < matrix.calls else None,
            "legend": [cell for cell in Cell if cell in present and cell != Cell.ABSENT],
            "cell": (width, height),
            "size": (width * len(matrix.columns), height * len(matrix.rows)),
            "above": _ABOVE,
            "beside": _BESIDE,
            "money": _money_edge(matrix, width),
            "tokens": _tokens_edge(matrix, height),
        },
    )


def _cell_size(matrix: Matrix) -> tuple[int, int]:
    widest, highest = _CELL
    width = _WIDE // max(1, len(matrix.columns))
    height = _HIGH // max(1, len(matrix.rows))
    return max(1, min(widest, width)), max(1, min(highest, height))


def _money_edge(matrix: Matrix, width: int) -> _Edge:
    """Upright bars that stand on the picture."""
    amounts = [column.dollars or 0.0 for column in matrix.columns]
    most = max(amounts, default=0.0)
    thick, ticks = _thick(width), _ticks(matrix.first, len(amounts), width, _APART[0])
    bars = (
        f"M{at * width} {_ABOVE}v{-_BARS * amount / most:.1f}h{thick}V{_ABOVE}z"
        for at, amount in enumerate(amounts)
        if amount > 0
    )
    return _Edge(
        "".join(bars),
        _inside(ticks, _MARGIN[0], width * len(amounts)),
        money(most),
        matrix.first + amounts.index(most) if amounts else 0,
        money(sum(amounts)),
    )


def _tokens_edge(matrix: Matrix, height: int) -> _Edge:
    """Return bars that lie at the left of the picture."""
    amounts = [row.tokens for row in matrix.rows]
    most = max(amounts, default=0)
    thick, ticks = _thick(height), _ticks(1, len(amounts), height, _APART[1])
    bars = (
        f"M{_BESIDE} {at * height}h{-_BARS * amount / most:.1f}v{thick}H{_BESIDE}z"
        for at, amount in enumerate(amounts)
        if amount > 0
    )
    return _Edge(
        "".join(bars),
        _inside(ticks, _MARGIN[1], height * len(amounts)),
        many(most, "token"),
        1 + amounts.index(most) if amounts else 0,
        many(sum(amounts), "token"),
    )


_SEPARATE: Final = 4
"""Pixels from which on bars have a gap between them."""


def _thick(size: int) -> int:
    return size - 1 if size >= _SEPARATE else size


def _ticks(first: int, number: int, size: int, apart: int) -> Iterator[_Tick]:
    """Yield the numbers at an edge: round ones, so far apart that they can be read."""
    step = next(
        step
        for power in range(9)
        for step in (10**power, 2 * 10**power, 5 * 10**power)
        if step * size >= apart
    )
    for at in range(number):
        if (first + at) % step == 0 or (at == 0 and step > 1 and first % step <= step // 2):
            yield _Tick((at + 0.5) * size, first + at)


def _inside(ticks: Iterator[_Tick], margin: float, end: int) -> list[_Tick]:
    """The ticks, the outermost moved in so far that none is cut off, without those that touch."""
    kept: list[_Tick] = []
    for tick in ticks:
        at = min(max(tick.at, margin), end - margin)
        if not kept or at - kept[-1].at >= 2 * margin:
            kept.append(tick._replace(at=at))
    return kept
