"""The runtime under the local model: what loads it and generates with it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from windlass.public import BadRequest, ContextTooLong, ProviderError, logging_unchanged

WINDOW: Final = 8_192
"""Tokens of prompt and reply together that SmolLM2 was trained for."""

_BATCH: Final = 256
"""Prompt tokens read between two looks at whether the job was cancelled (about 1 s)."""

_CACHE_MIB: Final = 1_024
"""Memory for the states of earlier prompts: about five full windows."""

Look: TypeAlias = Callable[[str], bool]
"""Handed each new piece of text (empty while the prompt is read); True stops the generation."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What the runtime answered; `cut`: the output limit, not the model, ended the text."""

    text: str
    cut: bool
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0


class LocalEngine:
    """The loaded model. Blocking; used only in the thread that made it."""

    def __init__(self, weights: Path) -> None:
        """Load the weights (0.6 s). Raises ProviderError when the runtime refuses them."""
        try:
            with logging_unchanged("xllamacpp"):
                import xllamacpp
        except ImportError as error:
            raise ProviderError(f"the local model's runtime is broken: {error}") from error

        params = xllamacpp.CommonParams()
        params.model.path = str(weights)
        params.n_ctx = WINDOW
        params.n_parallel = 1  # one slot keeps one prefix; others wait in host memory
        params.n_batch = params.n_ubatch = _BATCH
        params.cache_ram_mib = _CACHE_MIB
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
        params.verbosity = -1
        params.warmup = params.ui = params.endpoint_slots = False
        params.offline = True
        # The runtime always listens on a loopback port; nobody knows the key to it.
        params.api_keys = [secrets.token_hex(32)]
        try:
            self._server = xllamacpp.Server(params)
        except RuntimeError as error:
            raise ProviderError(
                f"the local model could not be loaded from {str(weights)!r}: {error}"
            ) from error

    def complete(self, body: Mapping[str, Any], look: Look) -> Completion:
        """Generate; ends early, without usage, when `look` says so.

        Raises ContextTooLong, BadRequest or ProviderError with the runtime's reason.
        """
        pieces: list[str] = []
        last: dict[str, Any] = {}

        def take(chunk: dict[str, Any]) -> bool:
            last.update(chunk)
            if "error" in chunk:
                return True
            piece = cast("str", chunk["choices"][0]["text"])
            pieces.append(piece)
            return look(piece)

        request = {**body, "stream": True, "return_progress": True, "cache_prompt": True}
        try:
            self._server.handle_completions(request, take)
        except RuntimeError as error:
            raise ProviderError(f"the local model failed: {error}") from error
        if "error" in last:
            raise _error(last["error"])
        # A generation that was stopped early reports no usage, only its progress.
        usage, progress = last.get("usage", {}), last.get("prompt_progress", {})
        details = usage.get("prompt_tokens_details", {})
        return Completion(
            text="".join(pieces),
            cut=last.get("choices", [{}])[0].get("finish_reason") == "length",
            tokens_in=usage.get("prompt_tokens", progress.get("total", 0)),
            tokens_out=usage.get("completion_tokens", sum(map(bool, pieces))),
            tokens_cached=details.get("cached_tokens", progress.get("cache", 0)),
        )


def _threads() -> int:
    """Return half of the cores this process may use, from 1 to 4.

    The runtime's threads wait for each other after every layer. On two cores that
    others use as well, two threads wrote 2 tokens/s and one thread 22; on idle ones
    two are not twice as fast as one.
    """
    counts = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if counts else os.cpu_count() or 1
    return max(1, min(cores // 2, 4))


def too_long(tokens: int) -> ContextTooLong:
    """Return the error for a prompt of `tokens` tokens that leaves no room for a reply."""
    return ContextTooLong(
        f"the request has {tokens:,} tokens, the window of 'local/smollm2' {WINDOW:,};"
        " send less context or use a model with a larger window"
    )


def _error(reason: Mapping[str, Any]) -> ProviderError | ContextTooLong:
    if reason.get("type") == "exceed_context_size_error":
        return too_long(reason["n_prompt_tokens"])
    refused = reason.get("type") == "invalid_request_error"
    text = f"the local model answered: {reason.get('message', reason)}"
    return BadRequest(text) if refused else ProviderError(text)
