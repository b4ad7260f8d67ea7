"""What errors of litellm mean: from its classes to the errors that statuses have here. Pure.

Classes are known by their names, so that nothing of litellm is imported for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from windlass.errors import BadRequest, LimitReached, ProviderError
from windlass.providers.failures import Origin
from windlass.providers.http import Timeouts

_SILENCE: Final = frozenset({"Timeout", "TimeoutError", "TimeoutException"})
_UNREACHABLE: Final = frozenset({"APIConnectionError", "TransportError"})
_NO_ANSWER: Final = "Connection error."
"""What the package openai says where nobody listens; litellm makes a status 500 of it."""

_UNNUMBERED: Final = "APIError"
"""Raised without a status for an error that came inside a stream."""

_NOT_SENT: Final = "UnsupportedParamsError"
_TOO_LONG: Final = frozenset({"ContextWindowExceededError"})

_NAMES: Final = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception|Timeout)(?::| -)\s*)+")
"""The names of its own classes that litellm puts before what a provider said."""

_TAIL: Final = re.compile(
    r"(?<!\s)\s*+(?:Traceback \(most recent call last\)|LiteLLM Retried:|, LiteLLM Max Retries"
    r"|To drop (?:these|unsupported params),? set `litellm\.drop_params"
    r"|If you want to use these params dynamically"
    r"|Received Model Group=).*",
    re.DOTALL,
)
"""What litellm puts behind it: its own code, and advice for code that calls it."""

_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_SHORTEST_SECRET: Final = 8


@dataclass(frozen=True, slots=True)
class Reported:
    """An error as litellm reported it. `status` is 0 where it has none; `code` is the server's."""

    origin: Origin
    kinds: frozenset[str]
    status: int
    text: str
    code: str | None
    retry_after: str | None

    @classmethod
    def of(cls, error: BaseException, origin: Origin, environ: Mapping[str, str]) -> Reported:
        """What `error` says, without the value of any variable that may hold a secret."""
        chain = list(_chain(error))
        inner = getattr(error, "original_exception", None)
        error = inner if isinstance(inner, BaseException) else error
        headers: Any = getattr(getattr(error, "response", None), "headers", None)
        headers = headers or getattr(error, "litellm_response_headers", None) or {}
        status = getattr(error, "status_code", 0)
        codes = (getattr(one, "code", None) for one in chain)
        return cls(
            origin=origin,
            kinds=_kinds(error) | (_SILENCE & frozenset().union(*map(_kinds, chain))),
            status=status if isinstance(status, int) else 0,
            text=_without_secrets(_said(str(error)), environ),
            code=next((code for code in codes if _is_word(code)), None),
            retry_after=headers.get("retry-after"),
        )

    def failure(self, limits: Timeouts) -> tuple[ProviderError | LimitReached, bool]:
        """The error of ours, and whether trying again may help."""
        who = self.origin.provider
        if self.kinds & _SILENCE:
            return ProviderError(f"{who}: nothing came for {limits.read_s:g} s"), True
        text = self.origin.clean(self.text)
        if _NOT_SENT in self.kinds:
            return BadRequest(f"{who} was not asked: {text}"), False
        if self.kinds & _UNREACHABLE or text == _NO_ANSWER:
            return ProviderError(f"{who} was not reached, or broke off: {text}"), True
        status = self.status or (500 if _UNNUMBERED in self.kinds else 0)
        if not status:
            return ProviderError(f"{who}: {text or 'no reason given'}"), False
        code = "context_length_exceeded" if self.kinds & _TOO_LONG else self.code
        told = {"error": {"message": text, "code": code}}
        return self.origin.failure(status, json.dumps(told))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and those it came of: litellm hides the end of a stream's patience there."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        inner = getattr(error, "original_exception", None)
        error = inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__


def _is_word(code: object) -> bool:
    """Whether it is the server's own code; litellm puts the status there as a text."""
    return isinstance(code, str) and not code.isdigit()


def _kinds(error: BaseException) -> frozenset[str]:
    return frozenset(kind.__name__ for kind in type(error).__mro__)


def _said(text: str) -> str:
    """What the provider said, out of what litellm made of it."""
    text = _NAMES.sub("", _TAIL.sub("", text)).strip()
    if quoted := re.fullmatch(r"b(['\"])(.*)\1", text, re.DOTALL):
        text = quoted[2]
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    error = value.get("error", value) if isinstance(value, dict) else value
    return str(error.get("message") or text) if isinstance(error, dict) else text


def _without_secrets(text: str, environ: Mapping[str, str]) -> str:
    """The text without what variables hold that are named like secrets."""
    for name, value in environ.items():
        if len(value) >= _SHORTEST_SECRET and _SECRET.search(name.upper()):
            text = text.replace(value, "***")
    return text
