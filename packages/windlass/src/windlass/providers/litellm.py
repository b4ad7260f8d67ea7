"""Models reached through the package litellm, for providers that have no format here.

litellm takes a body in OpenAI's format and answers in it; sending, retrying and rate limiting are
those of `windlass.providers._hosted`. The package is an extra, takes seconds to import and is
imported when its first model is used, with its price downloads, its reading of `.env`, its own
retries and its log switched off.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import nullcontext
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from inspect import isawaitable
from types import ModuleType
from typing import Any, Final
from weakref import WeakSet

import httpx

from windlass.errors import BadRequest, LimitReached, ProviderError, UsageError
from windlass.providers._hosted import HostedProvider, timeout_of
from windlass.providers._http import NO_HEADERS, AnswerPiece, Endpoint, causes, is_refused
from windlass.providers._pace import PATIENCE, REFUSED_TRIES, Patience, TransientError
from windlass.providers.base import ModelInfo, RequestWait
from windlass.providers.catalog import Key, ProviderEntry
from windlass.safety.foreign import parse_json
from windlass.safety.imports import logging_unchanged

INSTALL: Final = "pip install 'windlass[litellm]'"

_SWITCHES: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",  # else it reads keys from a file `.env` in the current folder
}
"""Variables that litellm looks at while it is imported."""

_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "AWS_": (
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_PROFILE",
        "AWS_ROLE_ARN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ),
    "AZURE_API_KEY": ("AZURE_AD_TOKEN", "AZURE_CLIENT_ID"),
}
"""Variables that replace those with these prefixes that litellm misses."""

_KEPT: Final = ("role", "content", "tool_calls", "reasoning_content", "thinking_blocks")
"""Keys of a message that a later request may send back; the rest are litellm's own notes."""


_SILENCE: Final = frozenset({"Timeout", "TimeoutError", "TimeoutException"})
_UNREACHABLE: Final = frozenset({"APIConnectionError", "TransportError"})
_NO_ANSWER: Final = "Connection error."
"""What the package openai says where nobody listens; litellm makes a status 500 of it."""

_UNNUMBERED: Final = "APIError"
"""Raised without a status for an error that came inside a stream."""

_NOT_SENT: Final = "UnsupportedParamsError"
_TOO_LONG: Final = "ContextWindowExceededError"

_NAMES: Final = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception|Timeout)(?::| -)\s*)+")
"""The names of its own classes that litellm puts before what a provider said."""

_TAIL: Final = re.compile(
    r"(?<!\s)\s*+(?:Traceback \(most recent call last\)|LiteLLM Retried:|, LiteLLM Max Retries"
    r"|To drop (?:these|unsupported params),? set `litellm\.drop_params"
    r"|If you want to use these params dynamically"
    r"|Received Model Group=).*",
    re.DOTALL,
)
"""What litellm appends to that: its own code, and advice for code that calls it."""

_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_SHORTEST_SECRET: Final = 8

_IN_USE: Final[WeakSet[_Client]] = WeakSet()
"""The clients that have sent something and are not yet closed."""


def installed() -> str | None:
    """Return the version of litellm that is installed, without importing it; None: it is not."""
    try:
        return version("litellm")
    except PackageNotFoundError:
        return None


class LiteLLMProvider(HostedProvider):
    """Answers with `litellm/<whatever litellm calls it>`.

    Args:
        entry: The provider `litellm` of the catalog, with the user's settings.
        key: A key that the settings name; without one litellm reads its own variables.
        warn: Told what is assumed or corrected, once each.
        on_wait: Told of a wait of a second and more, before it begins.
        patience: How often a request is tried; time and chance for it.
        sends: Whether requests will be sent, so that keys must be there.

    Raises UsageError where litellm is not installed.
    """

    def __init__(
        self,
        entry: ProviderEntry,
        key: Key,
        *,
        warn: Callable[[str], None],
        on_wait: Callable[[RequestWait], None] | None = None,
        patience: Patience = PATIENCE,
        sends: bool = True,
    ) -> None:
        self._litellm = _imported()
        _silence_warnings()
        self._needs_keys = sends and not key.value
        client = _Client(self._litellm, entry, key, patience)
        super().__init__(entry, key, warn=warn, on_wait=on_wait, patience=patience, client=client)

    def model(self, name: str) -> ModelInfo:
        """Return what is known about the model `name`, such as `groq/llama-3.3-70b-versatile`.

        The settings override the price table, which overrides litellm's own table.

        Raises UsageError for a provider that litellm does not know and for missing keys.
        """
        if name not in self._models:
            address = self._address(name)
            if self._needs_keys:
                self._check_keys(name, address)
        return super().model(name)

    def _window(self, name: str) -> tuple[int, str | None]:
        window, warning = super()._window(name)
        if warning is not None and (listed := self._listed_window(name)):
            return listed, None
        return window, warning

    def _sees_pictures(self, name: str) -> bool:
        return super()._sees_pictures(name) or bool(self._litellm.supports_vision(model=name))

    def _address(self, name: str) -> str:
        """Return the address that litellm knows for the model's provider, or nothing."""
        try:
            _, _, _, address = self._litellm.get_llm_provider(model=name)
        except self._litellm.exceptions.BadRequestError:
            pass
        else:
            return address or ""
        raise UsageError(
            f"model {f'litellm/{name}'!r}: litellm knows no provider of that name; write it as"
            " litellm/provider/model, for example 'litellm/groq/llama-3.3-70b-versatile'"
        )

    def _check_keys(self, name: str, address: str) -> None:
        """Raise UsageError for variables that litellm needs and that are not set."""
        environment = self._litellm.validate_environment(
            model=name, api_base=self._entry.base_url or None
        )
        missing = [key for key in environment["missing_keys"] if not _has_other(key)]
        if address or self._entry.base_url:
            missing = [variable for variable in missing if not variable.endswith("_API_BASE")]
        if missing:
            several = len(missing) > 1
            raise UsageError(
                f"model {f'litellm/{name}'!r} needs {'keys' if several else 'a key'}: set the"
                f" variable{'s' if several else ''} {' and '.join(missing)}"
                f" (export {missing[0]}=...)"
            )

    def _listed_window(self, name: str) -> int | None:
        try:
            tokens = self._litellm.get_model_info(model=name).get("max_input_tokens")
        except Exception:  # noqa: BLE001 - litellm raises bare ones where a model is not listed
            return None
        return tokens if isinstance(tokens, int) and tokens > 0 else None


class _Client:
    """Sends a body through litellm and answers in pieces, as `HttpClient` does."""

    def __init__(
        self,
        litellm: ModuleType,
        entry: ProviderEntry,
        key: Key,
        patience: Patience,
    ) -> None:
        self._litellm = litellm
        self._entry = entry
        self._key = key
        self._patience = patience
        self._timeout = timeout_of(entry)

    async def answers(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] = NO_HEADERS
    ) -> AsyncGenerator[AnswerPiece, None]:
        """Yield the chunks of the answer, or its one object where it is not streamed."""
        del path, headers  # litellm knows where its providers want what, and OpenAI's has none
        _silence_warnings()
        _IN_USE.add(self)
        body = dict(body)
        if body.get("tool_choice") == "auto":
            del body["tool_choice"]  # says what its absence says, and not every provider takes it
        answer: Any = await self._translating_errors(
            body, self._litellm.acompletion(**body, **self._options())
        )
        if not body.get("stream"):
            yield AnswerPiece(_as_openai(answer), whole=True)
            return
        chunks = aiter(answer)
        thoughts = _Thoughts()
        try:
            while (chunk := await self._translating_errors(body, anext(chunks, None))) is not None:
                yield AnswerPiece(thoughts.held_back(_as_openai(chunk)))
        finally:
            # Also when the reader goes away: what is not closed goes on being generated.
            if hasattr(answer, "aclose"):
                await answer.aclose()
        if not (answer.received_finish_reason or answer.intermittent_finish_reason):
            # litellm ends a stream that was cut as one that was whole, with "stop".
            raise TransientError(ProviderError(f"{self._who(body)} ended its answer in the middle"))
        if blocks := thoughts.blocks:
            yield AnswerPiece({"choices": [{"index": 0, "delta": {"thinking_blocks": blocks}}]})

    async def close(self) -> None:
        """Close litellm's connections, once nobody else here uses them: they are shared."""
        _IN_USE.discard(self)
        if not _IN_USE:
            await _close_clients(self._litellm)

    def _options(self) -> dict[str, Any]:
        return {
            "api_base": self._entry.base_url or None,
            "api_key": self._key.value or None,
            "timeout": self._timeout,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
        }

    def _endpoint(self, body: Mapping[str, Any]) -> Endpoint:
        who = self._who(body)
        vendor = who.rpartition("/")[2].upper().replace("-", "_")
        variable = self._key.variable or f"{vendor}_API_KEY"
        if variable not in os.environ:
            variable = "the variables that litellm reads for it"
        return Endpoint(who, self._entry.base_url or "its usual address", variable, self._key.value)

    def _who(self, body: Mapping[str, Any]) -> str:
        return f"{self._entry.name}/{str(body['model']).partition('/')[0]}"

    async def _translating_errors(self, body: Mapping[str, Any], waited: Any) -> Any:
        """Return the result of `waited`, with its errors translated.

        It is raised outside the handler: litellm's own errors hold what the server said,
        which may quote a key, and must not come along as the context of ours.
        """
        try:
            return await waited
        except Exception as error:  # noqa: BLE001 - litellm raises errors of every package below it
            failed, again = failure_of(error, self._endpoint(body), os.environ, self._timeout)
            after = self._patience.seconds_after(_retry_after(error))
            tries = REFUSED_TRIES if is_refused(error) else None
        if again and isinstance(failed, ProviderError):
            raise TransientError(failed, after, tries=tries)
        raise failed


class _Thoughts:
    """Assembles a model's thinking, which comes in pieces that cannot be told apart later.

    A block ends with its signature; without it whole and unchanged, Anthropic takes no block
    back.
    """

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []
        self._open = False

    def held_back(self, chunk: dict[str, Any]) -> dict[str, Any]:
        """Return the chunk without its pieces of blocks, which are kept in `blocks`."""
        for choice in chunk.get("choices") or ():
            for piece in choice.get("delta", {}).pop("thinking_blocks", None) or ():
                self._take(piece)
        return chunk

    def _take(self, piece: Mapping[str, Any]) -> None:
        block = {key: value for key, value in piece.items() if value is not None}
        if self._open and block.get("type") == "thinking":
            last = self.blocks[-1]
            last["thinking"] = last.get("thinking", "") + block.get("thinking", "")
            last |= {key: value for key, value in block.items() if key == "signature"}
        else:
            self.blocks.append(block)
        self._open = block.get("type") == "thinking" and not block.get("signature")


def _as_openai(answer: Any) -> dict[str, Any]:
    """Return an object of litellm's as OpenAI's format has it, with its count of written tokens."""
    plain: dict[str, Any] = answer.model_dump(warnings=False)
    for choice in plain.get("choices") or ():
        for place in ("message", "delta"):
            if message := choice.get(place):
                choice[place] = {key: message[key] for key in _KEPT if message.get(key) is not None}
    if isinstance(usage := plain.get("usage"), dict):
        details = dict(usage.get("prompt_tokens_details") or {})
        # litellm counts both kinds into `prompt_tokens`, as the format has it, under other names.
        written = details.get("cache_creation_tokens") or usage.get("cache_creation_input_tokens")
        read = details.get("cached_tokens") or usage.get("cache_read_input_tokens")
        details |= {"cache_write_tokens": written or 0, "cached_tokens": read or 0}
        usage["prompt_tokens_details"] = details
    return plain


def _has_other(variable: str) -> bool:
    return any(
        variable.startswith(start) and any(os.environ.get(other) for other in others)
        for start, others in _OTHERS.items()
    )


@cache
def _imported() -> ModuleType:
    """Return the package litellm, silent. Raises UsageError where it is not installed."""
    for name, value in _SWITCHES.items():
        os.environ.setdefault(name, value)
    try:
        # Who asks for litellm's log gets it as litellm prints it.
        with nullcontext() if "LITELLM_LOG" in os.environ else logging_unchanged("litellm"):
            import litellm
    except ImportError as error:
        raise UsageError(
            f"models named litellm/... need the package litellm, which cannot be imported"
            f" ({error}); install it with: {INSTALL}"
        ) from error
    litellm.telemetry = False
    litellm.suppress_debug_info = True  # what it prints about reporting bugs to it
    litellm.disable_aiohttp_transport = True  # httpx finds the same proxies for every provider
    module: ModuleType = litellm
    return module


def _silence_warnings() -> None:
    """Keep Python warnings of litellm's own code from the user, who cannot act on them."""
    warnings.filterwarnings("ignore", module=r"litellm(\.|$)")
    for message in ("Pydantic serializer warnings", "Item '.*' on TypedDict class"):
        warnings.filterwarnings("ignore", message=message)


async def _close_clients(litellm: ModuleType) -> None:
    """Close what litellm keeps open for this event loop; another may be in use.

    One client of litellm's belongs to no loop. Its connections would be taken into the next
    one, and fail there, so it is replaced.
    """
    ending = f"-{id(asyncio.get_running_loop())}"
    held = getattr(litellm.in_memory_llm_clients_cache, "cache_dict", {})
    for key in [key for key in held if str(key).endswith(ending)]:
        client = held.pop(key)
        close = getattr(client, "aclose", None) or getattr(client, "close", None)
        if close is not None and isawaitable(closing := close()):
            await closing
    if (shared := getattr(litellm, "module_level_aclient", None)) is not None:
        litellm.__dict__["module_level_aclient"] = type(shared)(timeout=litellm.request_timeout)
        await shared.close()


# ---- what its errors mean ---------------------------------------------------------------


def failure_of(
    error: BaseException, endpoint: Endpoint, environ: Mapping[str, str], timeout: httpx.Timeout
) -> tuple[ProviderError | LimitReached, bool]:
    """Return the Windlass error for one of litellm's, and whether a retry may help.

    Classes are known by their names. The text holds no value of a variable that may hold a secret.
    """
    chain, refused = list(causes(error)), is_refused(error)
    error = _original(error)
    kinds = _kinds(error) | (_SILENCE & frozenset().union(*map(_kinds, chain)))
    text = endpoint.clean(_without_secrets(_provider_text(str(error)), environ))
    who = endpoint.provider
    if kinds & _SILENCE:
        return ProviderError(f"{who}: nothing came for {timeout.read:g} s"), True
    if _NOT_SENT in kinds:
        return BadRequest(f"{who} was not asked: {text}"), False
    if refused:
        return ProviderError(f"{who} at {endpoint.place}: nothing listens there"), True
    if kinds & _UNREACHABLE or text == _NO_ANSWER:
        return ProviderError(f"{who} was not reached, or broke off: {text}"), True
    status = getattr(error, "status_code", 0)
    if not isinstance(status, int) or not status:
        status = 500 if _UNNUMBERED in kinds else 0
    if not status:
        return ProviderError(f"{who}: {text or 'no reason given'}"), False
    code = "context_length_exceeded" if _TOO_LONG in kinds else None
    for word in (getattr(each, "code", None) for each in chain):
        # litellm puts the status where the server's own code belongs, as a text.
        if code is None and isinstance(word, str) and not word.isdigit():
            code = word
    return endpoint.failure(status, json.dumps({"error": {"message": text, "code": code}}))


def _retry_after(error: BaseException) -> str | None:
    """Return what the server's headers say of trying again."""
    error = _original(error)
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    headers = headers or getattr(error, "litellm_response_headers", None) or {}
    value: str | None = headers.get("retry-after")
    return value


def _original(error: BaseException) -> BaseException:
    """Return the error that litellm wrapped, or the error itself."""
    inner = getattr(error, "original_exception", None)
    return inner if isinstance(inner, BaseException) else error


def _kinds(error: BaseException) -> frozenset[str]:
    return frozenset(kind.__name__ for kind in type(error).__mro__)


def _provider_text(text: str) -> str:
    """Return the provider's own text, extracted from litellm's."""
    text = _NAMES.sub("", _TAIL.sub("", text)).strip()
    if quoted := re.fullmatch(r"b(['\"])(.*)\1", text, re.DOTALL):
        text = quoted[2]
    try:
        value: Any = parse_json(text)
    except ValueError:
        return text
    error = value.get("error", value) if isinstance(value, dict) else value
    return str(error.get("message") or text) if isinstance(error, dict) else text


def _without_secrets(text: str, environ: Mapping[str, str]) -> str:
    """Return the text without the values of variables that are named like secrets."""
    for name, value in environ.items():
        if len(value) >= _SHORTEST_SECRET and _SECRET.search(name.upper()):
            text = text.replace(value, "***")
    return text
