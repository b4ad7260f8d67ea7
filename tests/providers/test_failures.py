"""What a provider's refusals mean: the texts as the providers write them."""

from __future__ import annotations

import json

import pytest

from windlass.errors import BadRequest, ContextTooLong, ProviderError, RateLimited
from windlass.providers._http import Endpoint

ENDPOINT = Endpoint("openai", "https://host/v1", "OPENAI_API_KEY", "sk-very-secret")

TOO_LONG = [
    (
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted"
            " in 130001 tokens. Please reduce the length of the messages."
        ),
        (130_001, 128_000),
    ),
    (
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9020 tokens"
            " (7996 in the messages, 1024 in the completion). Please reduce the length."
        ),
        (7_996, 7_168),
    ),
    (
        (
            "This endpoint's maximum context length is 32768 tokens. However, you requested about"
            " 40000 tokens (35000 of text input, 5000 in the output)."
        ),
        (35_000, 27_768),
    ),
    ("prompt is too long: 208310 tokens > 200000 maximum", (208_310, 200_000)),
    (
        (
            "input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000, decrease"
            " input length or `max_tokens` and try again"
        ),
        (199_000, 195_904),
    ),
    (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        (1_200_000, 1_048_576),
    ),
    (
        "the request exceeds the available context size. try increasing it",
        (None, None),
    ),
    (
        "request (9026 tokens) exceeds the available context size (2048 tokens), try increasing it",
        (9_026, 2_048),
    ),
]


@pytest.mark.parametrize(("text", "numbers"), TOO_LONG, ids=[text[:40] for text, _ in TOO_LONG])
def test_too_long_with_the_numbers_it_tells(
    text: str, numbers: tuple[int | None, int | None]
) -> None:
    error, again = ENDPOINT.failure(400, json.dumps({"error": {"message": text}}))
    assert isinstance(error, ContextTooLong)
    assert (error.counted, error.limit) == numbers
    assert text[:30] in str(error)
    assert not again


def test_a_code_says_it_too() -> None:
    body = {"error": {"message": "Too much.", "code": "context_length_exceeded"}}
    assert isinstance(ENDPOINT.failure(400, json.dumps(body))[0], ContextTooLong)
    assert isinstance(ENDPOINT.failure(413, "")[0], ContextTooLong)


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


def test_texts_are_short_and_without_the_key() -> None:
    error, _ = ENDPOINT.failure(400, "word " * 1_000 + "sk-very-secret")
    assert len(str(error)) < 700
    error, _ = ENDPOINT.failure(500, "the key sk-very-secret is odd")
    assert str(error) == "openai answered 500: the key *** is odd"
    error, _ = ENDPOINT.failure(401, "Incorrect API key provided: sk-ve****cret")
    assert str(error) == "openai answered 401: it does not accept the key in OPENAI_API_KEY"


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


@pytest.mark.parametrize(
    ("event", "says", "again"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "529: m", True),
        ({"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}, "503: m", True),
        ({"error": {"code": 429, "message": "m"}}, "429: m", True),
        ({"error": {"type": "invalid_request_error", "message": "m"}}, "400: m", False),
        ({"error": {"message": "m", "code": "odd"}}, "500: m", True),
        ({"error": "m"}, "500: m", True),
    ],
)
def test_errors_inside_a_stream(event: dict[str, object], says: str, again: bool) -> None:
    error, better = ENDPOINT.in_stream(event)
    assert str(error) == f"openai answered {says}"
    assert better == again
