"""What a provider's refusals mean: turns a status and a body into an error. Pure.

The texts are the provider's own, shortened, and never contain the key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

from windlass.errors import (
    BadRequest,
    ContextTooLong,
    LimitReached,
    ProviderError,
    RateLimited,
    ThinkingRefused,
)
from windlass.safety.foreign import parse_json
from windlass.safety.redaction import HIDDEN, redacted, redacted_url
from windlass.wire.thinking import refuses_thinking

OVERLOADED: Final = 529
"""Anthropic's own status: too many requests from all customers together."""

_LONGEST: Final = 600

_SHORTER: Final = "send less context or use a model with a larger window"

_REDIRECTS: Final = range(300, 400)
_FAILURES: Final = range(400, 600)
_THEIR_FAULT: Final = range(500, 600)

_TOO_LONG: Final = (
    "context_length_exceeded",  # OpenAI's code
    "maximum context length",  # OpenAI, vLLM, OpenRouter
    "prompt is too long",  # Anthropic
    "exceed context limit",  # Anthropic, input and max_tokens together
    "exceeds the maximum number of tokens",  # Gemini
    "exceed_context_size_error",  # llama.cpp
    "available context size",  # llama.cpp
    "request_too_large",  # Anthropic, 413
)

_MAXIMUM: Final = r"maximum context length (?:is|of) (?P<limit>\d+) tokens.*?"
_IN_PARTS: Final = r"\((?P<counted>\d+) (?:in the messages|of text input)\D+(?P<reply>\d+)"
_ALLOWED: Final = r"exceeds the maximum number of tokens allowed \(?(?P<limit>\d+)"

_NUMBERS: Final = (
    _MAXIMUM + _IN_PARTS,  # OpenAI, OpenRouter; `reply` is what the limit has to hold besides
    _MAXIMUM + r"(?P<counted>\d+) (?:input )?tokens",  # OpenAI, vLLM
    r"prompt is too long: (?P<counted>\d+) tokens > (?P<limit>\d+)",  # Anthropic
    r"exceed context limit: (?P<counted>\d+) \+ (?P<reply>\d+) > (?P<limit>\d+)",  # Anthropic
    r"input token count \(?(?P<counted>\d+)\)? " + _ALLOWED,  # Gemini
    r"\((?P<counted>\d+) tokens\) exceeds the available context size \((?P<limit>\d+)",  # llama.cpp
)
"""Patterns for the counted tokens and the maximum in the texts."""
_NUMBERED_CHARS: Final = 4_000
"""Characters of a text that are searched for these."""

_HOPELESS: Final = ("insufficient_quota", "billing_hard_limit_reached")
"""Codes of 429 that waiting does not fix."""

_STATUS_OF: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "INVALID_ARGUMENT": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "RESOURCE_EXHAUSTED": 429,
    "overloaded_error": OVERLOADED,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
}
"""The name of an error inside a stream, and the status it would have had before one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where answers come from, as error texts name it. `key` is removed from every text."""

    provider: str
    url: str
    key_variable: str = ""
    key: str = ""

    def clean(self, text: str) -> str:
        """Return the text on one line, shortened, without the key."""
        if self.key:
            text = text.replace(self.key, HIDDEN)
        text = redacted(text.replace(self.url, self.place) if self.url else text)
        text = " ".join(text.split())
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."

    def failure(self, status: int, body: str) -> tuple[ProviderError | LimitReached, bool]:
        """Return the error for an answer with `status`, and whether a retry may help."""
        reason, codes = _reason(body)
        reason = self.clean(reason) or _phrase(status)
        text = f"{self.provider} answered {status}: {reason}"
        match status:
            case 413:
                return _too_long(text, reason), False
            case 400 | 422 if _is_too_long(reason, codes):
                return _too_long(text, reason), False
            case 400 if refuses_thinking(reason):
                return ThinkingRefused(text), False
            case 400 | 405 | 422:
                return BadRequest(text), False
            case 401:
                # The reason may quote the key in part.
                text = f"{self.provider} answered 401: it does not accept the key {self._key}"
                return ProviderError(text), False
            case 403:
                return ProviderError(f"{text}; see what the key {self._key} may do"), False
            case 404:
                return BadRequest(f"{text} (at {self.place})"), False
            case 408 | 409:
                return ProviderError(text), True
            case 429:
                return RateLimited(text), not any(code in _HOPELESS for code in codes)
            case _ if status in _REDIRECTS:
                return ProviderError(f"{text} (at {self.place}); redirects are not followed"), False
            case _:
                return ProviderError(text), status in _THEIR_FAULT

    def in_stream(self, event: Mapping[str, Any]) -> tuple[ProviderError | LimitReached, bool]:
        """Return the same for an error that came as an event, after the status was sent."""
        error = event.get("error")
        inner = cast("Mapping[str, Any]", error) if isinstance(error, Mapping) else {}
        names = [inner.get(key) for key in ("status", "type", "code")]
        status = next((name for name in names if name in _FAILURES), 0)
        for name in names:
            status = status or (_STATUS_OF.get(name, 0) if isinstance(name, str) else 0)
        return self.failure(status or 500, json.dumps(event))

    @property
    def place(self) -> str:
        """The address in a form that may be shown."""
        return redacted_url(self.url)

    @property
    def _key(self) -> str:
        return f"in {self.key_variable}" if self.key_variable else "(none was sent)"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "overloaded" if status == OVERLOADED else "no reason given"


def _reason(body: str) -> tuple[str, tuple[str, ...]]:
    """Return the message of the body, and its codes and types."""
    try:
        value: Any = parse_json(body)
    except ValueError:
        return body, ()
    if isinstance(value, list) and value:  # Gemini wraps errors of streams
        value = value[0]
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return str(error), ()
    codes = tuple(
        str(code) for name in ("code", "type", "status") if (code := error.get(name)) is not None
    )
    message = error.get("message") or error.get("detail") or json.dumps(error)
    return str(message), codes


def _too_long(text: str, reason: str) -> ContextTooLong:
    """Return the error with the numbers that the provider's reason holds."""
    text = f"{text}; {_SHORTER}"
    plain = reason[:_NUMBERED_CHARS].replace(",", "")
    for pattern in _NUMBERS:
        if match := re.search(pattern, plain, re.IGNORECASE):
            numbers = {name: int(digits) for name, digits in match.groupdict().items() if digits}
            limit = numbers["limit"] - numbers.get("reply", 0)
            return ContextTooLong(text, counted=numbers["counted"], limit=limit)
    return ContextTooLong(text)


def _is_too_long(reason: str, codes: tuple[str, ...]) -> bool:
    text = " ".join([reason, *codes]).lower()
    return any(phrase in text for phrase in _TOO_LONG)
