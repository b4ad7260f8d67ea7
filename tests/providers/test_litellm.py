"""What holds of `litellm/...` where the package litellm is not installed."""

from __future__ import annotations

import sys

import httpx
import pytest

from windlass.caching.rates import cost, rate
from windlass.errors import BadRequest, ContextTooLong, ProviderError, UsageError
from windlass.providers import litellm as module
from windlass.providers._http import Endpoint
from windlass.providers.at_hand import Providers
from windlass.providers.litellm import failure_of

ENDPOINT = Endpoint("litellm/groq", "its usual address", "GROQ_API_KEY")
KEY = "gsk-VERY-secret-0123456789"


def reported(name: str, text: str, **more: object) -> tuple[Exception, bool]:
    error = type(name, (Exception,), more)(text)
    return failure_of(error, ENDPOINT, {"GROQ_API_KEY": KEY}, httpx.Timeout(120.0))


def test_without_the_package_one_sentence_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    module._imported.cache_clear()
    with pytest.raises(UsageError, match=r"install it with: pip install 'windlass\[litellm\]'"):
        Providers({}).resolve("litellm/groq/llama-3.3-70b-versatile")
    module._imported.cache_clear()


def test_prices_are_those_of_the_provider_behind_it() -> None:
    for name, same in (
        ("litellm/groq/llama-3.3-70b-versatile", "groq/llama-3.3-70b-versatile"),
        ("litellm/vertex_ai/gemini-2.5-flash", "gemini/gemini-2.5-flash"),
    ):
        mine, theirs = rate(name), rate(same)
        assert mine is not None
        assert theirs is not None
        assert (mine.input, mine.output) == (theirs.input, theirs.output)
        assert cost(name, 1_000, 10) == cost(same, 1_000, 10)
    assert rate("litellm/nosuch/model") is None
    assert rate("litellm/model") is None
    assert cost("litellm/nosuch/model", 1_000, 10) is None


def test_errors_are_told_without_litellms_words_and_without_keys() -> None:
    text = (
        "litellm.ContextWindowExceededError: litellm.BadRequestError: GroqException - "
        '{"error": {"message": "too much for us"}}'
    )
    failed, again = reported("ContextWindowExceededError", text, status_code=400)
    assert isinstance(failed, ContextTooLong)
    assert "litellm/groq answered 400: too much for us;" in str(failed)
    assert not again
    text = f"litellm.APIConnectionError: no {KEY}\nTraceback (most recent call last)"
    failed, again = reported("APIConnectionError", text, status_code=500)
    assert str(failed) == "litellm/groq was not reached, or broke off: no ***"
    assert again
    refused = {"original_exception": ConnectionRefusedError(111, "refused")}
    failed, again = reported("APIConnectionError", "litellm.APIConnectionError: x", **refused)
    assert str(failed) == "litellm/groq at its usual address: nothing listens there"
    assert again
    failed, again = reported("Timeout", "litellm.Timeout: x", status_code=408)
    assert str(failed) == "litellm/groq: nothing came for 120 s"
    assert again
    failed, _ = reported("UnsupportedParamsError", "no effort", status_code=400)
    assert isinstance(failed, BadRequest)
    failed, again = reported("KeyError", "choices")
    assert (type(failed), again) == (ProviderError, False)
