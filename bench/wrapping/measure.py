"""One cell of the matrix: a user's work with a plain client, and with a wrapped one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import anthropic
import openai
import pytest
from bench.wrapping.apis import APIS
from bench.wrapping.setups import Setup
from bench.wrapping.shapes import SHAPES, User
from google.genai import errors
from tests.providers.model_server import ModelServer, model_server

import windlass

BAR = 1.01
"""The most that a wrapped client may cost, as a share of a plain one."""


@dataclass(frozen=True)
class Cell:
    """What a set-up came to: US dollars of input, answered calls, and what was refused.

    A plain client is refused nothing.
    """

    setup: Setup
    calls: int
    plain: float
    wrapped: float
    refused: tuple[str, ...]

    @property
    def share(self) -> float:
        """The wrapped bill as a share of the plain one."""
        return self.wrapped / self.plain

    @property
    def fails(self) -> bool:
        """Whether it costs too much, or anything was refused."""
        return self.share > BAR or bool(self.refused)


def measure(setup: Setup) -> Cell:
    """A cell, by two servers of its own."""
    plain, wrapped = _serve(setup, wrap=False), _serve(setup, wrap=True)
    assert not plain.refused, (str(setup), plain.refused)
    return Cell(setup, len(wrapped.billed), plain.bill, wrapped.bill, tuple(wrapped.refused))


def _serve(setup: Setup, *, wrap: bool) -> ModelServer:
    """The server, after all calls or the first that it refused."""
    users: list[User] = []
    refusals = anthropic.BadRequestError, openai.BadRequestError, errors.ClientError
    with (
        pytest.MonkeyPatch.context() as patch,
        model_server(lambda _: users[0].reply) as server,
        warnings.catch_warnings(action="ignore"),
    ):
        server.lead(patch)
        api = APIS[setup.api](setup)
        client = api.client()
        asked = windlass.wrap(client) if wrap else client
        thinks = setup.steady and "sonnet-4-5" not in setup.model
        users.append(User(api, asked, server.clock.wait, thinks))
        try:
            SHAPES[setup.shape](users[0], setup.calls)
        except refusals:
            if not server.refused:
                raise
        api.close(client)
    return server
