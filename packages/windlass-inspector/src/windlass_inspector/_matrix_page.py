"""The page with the matrix of a session, its picture, and the text of one cell."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from windlass.public import InspectedSession, Matrix, UsageError, cell_text, escaped, matrix_of
from windlass_inspector._inspector import Inspector, number_in
from windlass_inspector._rendering import address
from windlass_inspector.matrix_view import matrix_png, matrix_section

_WAIT_S: Final = 30.0
"""Seconds that a page waits at most for a matrix, which takes a quarter of one."""


def matrix_page(inspector: Inspector, request: Request) -> Response:
    """Return the matrix, from a call on."""
    session = inspector.session(request)
    matrix = _matrix(inspector, session, request)
    name = address("session", session.record.session_id)
    section = Markup(matrix_section(matrix, name))  # noqa: S704 - made by a template that escapes
    is_billed = inspector.billed(session, 0.0)
    return inspector.respond("matrix_page.html", session, section=section, is_billed=is_billed)


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
