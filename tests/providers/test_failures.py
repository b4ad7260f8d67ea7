"""What a provider's refusals mean: the texts as the providers write them."""

from __future__ import annotations

import pytest

from windlass.errors import BadRequest, ProviderError, RateLimited
from windlass.providers._http import Endpoint

ENDPOINT = Endpoint("openai", "https://host/v1", "OPENAI_API_KEY", "sk-very-secret")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"error": {"message": "no", "type": "x"}}', "no"),
        ('{"error": "plain"}', "plain"),
        ('{"detail": "of FastAPI"}', "of FastAPI"),
        ('{"message": "of Mistral"}', "of Mistral"),
        ('[{"error": {"message": "of a Gemini stream"}}]', "of a Gemini stream"),
        ("<html>\n  <b>Bad</b></html>", "<html> <b>Bad</b></html>"),
        ("", "Bad Request"),
        ('"text"', "text"),
        ("null", "None"),
        ("[]", "[]"),
        ('{"error": {}}', "{}"),
    ],
)
def test_the_text_is_the_providers_own(body: str, told: str) -> None:
    error, _ = ENDPOINT.failure(400, body)
    assert isinstance(error, BadRequest)
    assert str(error) == f"openai answered 400: {told}"


@pytest.mark.parametrize(
    ("status", "kind", "again"),
    [
        (302, ProviderError, False),
        (402, ProviderError, False),
        (404, BadRequest, False),
        (408, ProviderError, True),
        (409, ProviderError, True),
        (418, ProviderError, False),
        (429, RateLimited, True),
        (500, ProviderError, True),
        (529, ProviderError, True),
        (600, ProviderError, False),
    ],
)
def test_what_may_go_better_the_next_time(
    status: int, kind: type[ProviderError], again: bool
) -> None:
    error, better = ENDPOINT.failure(status, "")
    assert type(error) is kind
    assert better == again
