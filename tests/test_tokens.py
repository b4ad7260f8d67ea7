"""Counting offline: the vocabularies, the families' factors, pictures, tools."""

from __future__ import annotations

import base64
import hashlib
import inspect
import math
import re
import struct
from pathlib import Path

import pytest
import quicktok
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

from tests.strategies import messages, pictures, rough_texts
from windlass.messages import Message, Opaque, Picture, ToolCall, ToolSpec, assistant, user
from windlass.text.tokens import (
    UNKNOWN_PICTURE,
    FamilyCounter,
    anthropic_picture,
    family_of,
    gemini_picture,
    openai_patches,
    openai_tiles,
    request_tokens,
)

MODELS = (
    "gpt-4o",
    "gpt-4",
    "gpt-5",
    "gpt-5-mini",
    "o3",
    "o4-mini",
    "anthropic/claude-sonnet-4-5",
    "gemini/gemini-2.5-flash",
    "openrouter/meta-llama/llama-3.1-8b",
    "qwen3-32b",
    "somebody/new-model",
)

# ---- quicktok against tiktoken ------------------------------------------------------


def _ranks(name: str) -> dict[bytes, int]:
    """The vocabulary inside quicktok: a count, then (length, bytes, rank) each."""
    data = (Path(quicktok.__file__).parent / "data" / f"{name}.vocab").read_bytes()
    (number,) = struct.unpack_from("<I", data)
    at = 4
    ranks: dict[bytes, int] = {}
    for _ in range(number):
        (length,) = struct.unpack_from("<H", data, at)
        token = data[at + 2 : at + 2 + length]
        (ranks[token],) = struct.unpack_from("<I", data, at + 2 + length)
        at += 6 + length
    return ranks


def _published_pattern(function: str) -> tuple[str, str]:
    """The pattern and the vocabulary's SHA-256 that tiktoken publishes, without its download."""
    caught: dict[str, str] = {}

    def load(_url: str, expected_hash: str) -> dict[bytes, int]:
        caught["hash"] = expected_hash
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", load)
        told = getattr(openai_public, function)()
    return str(told["pat_str"]), caught["hash"]


CORPUS = [
    "Hello, world! Don't panic; we'll see.",
    "def f(x):\n    return [i**2 for i in range(100)]\n\n\n# done\r\n\tend  ",
    '{"id": 1234567, "path": "/usr/lib/x.so.6", "ok": true, "v": [3.14159, -2e10]}',
    "2024-01-31T12:00:00Z ERROR https://example.com/a?b=c#d 0xDEADBEEF",
    "café naïve Zürich Straße ÅÄÖ e\u0301",
    "日本語のトークン 中文字符 한국어 हिन्दी العربية עברית",
    "emoji 😀👍🏽👨‍👩‍👧 ½ Ⅷ ٣ \u00a0\u2003 zero\u200bwidth",
    "<|endoftext|> <|im_start|> spelled out",
    "=" * 90 + "a" * 90 + " " * 90 + "\n" * 9,
    inspect.getsource(tiktoken.core),
    "",
]


@pytest.mark.parametrize(
    ("name", "vocabulary"), [("o200k_base", "o200k"), ("cl100k_base", "cl100k")]
)
def test_quicktok_equals_tiktoken(name: str, vocabulary: str) -> None:
    ranks = _ranks(vocabulary)
    pattern, published = _published_pattern(name)
    # That quicktok carries OpenAI's file is shown by the hash that tiktoken checks it with.
    lines = (
        base64.b64encode(token) + b" %d\n" % rank
        for token, rank in sorted(ranks.items(), key=lambda item: item[1])
    )
    assert hashlib.sha256(b"".join(lines)).hexdigest() == published
    reference = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    ours = quicktok.get_encoding(name)
    for text in CORPUS:
        assert ours.encode_ordinary(text) == reference.encode_ordinary(text), text[:40]
        assert ours.count(text) == len(reference.encode_ordinary(text))


# ---- families -----------------------------------------------------------------------


def test_families_by_name() -> None:
    assert [family_of(model).name for model in MODELS] == [
        "gpt-4o",
        "gpt-4",
        "gpt-5",
        "gpt-mini",
        "o",
        "o4-mini",
        "claude",
        "gemini",
        "llama",
        "qwen",
        "other",
    ]
    assert family_of("openai/gpt-4o-mini").name == "gpt-4o-mini"
    assert family_of("OpenRouter/Anthropic/Claude-X").name == "claude"


def test_factors() -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 40
    fresh = FamilyCounter("gpt-4o").text(text)
    assert FamilyCounter("claude-sonnet-4-5").text(text) == math.ceil(fresh * 1.25)
    assert FamilyCounter("gemini-2.5-pro").text(text) == fresh
    assert FamilyCounter("unheard-of").text(text) == math.ceil(fresh * 1.1)


def test_only_public_tokenizers_are_exact() -> None:
    exact = [model for model in MODELS if FamilyCounter(model).exact]
    assert exact == ["gpt-4o", "gpt-4", "gpt-5", "gpt-5-mini", "o3", "o4-mini"]


# ---- pictures: the providers' documented examples -----------------------------------


@pytest.mark.parametrize(
    ("width", "height", "detail", "tokens"),
    [(1024, 1024, "high", 765), (2048, 4096, "high", 1105), (4096, 8192, "low", 85)],
)
def test_openai_tiles(width: int, height: int, detail: str, tokens: int) -> None:
    # platform.openai.com/docs/guides/images-vision, "Calculating costs", gpt-4o
    assert openai_tiles(85, 170)(width, height, detail) == tokens


def test_openai_patches() -> None:
    # The same page, "GPT-4.1-mini": 1,024 x 1,024 is 32 x 32 patches; at most 1,536.
    assert openai_patches(1.0)(1024, 1024, "") == 1024
    assert openai_patches(1.62)(1024, 1024, "") == math.ceil(1024 * 1.62)
    assert openai_patches(1.0)(10_000, 10_000, "") == 1536


@pytest.mark.parametrize(("side", "tokens"), [(200, 54), (1000, 1334), (1092, 1590)])
def test_anthropic_pictures(side: int, tokens: int) -> None:
    # docs.anthropic.com, "Vision", "Calculate image costs": about 54, 1,334 and 1,590
    assert abs(anthropic_picture(side, side, "") - tokens) <= 1


def test_anthropic_brings_the_longer_side_to_1568() -> None:
    assert anthropic_picture(3136, 1568, "") == anthropic_picture(1568, 784, "")


def test_gemini_pictures() -> None:
    # ai.google.dev, "Image understanding": 258 where both sides are at most 384
    assert gemini_picture(384, 384, "") == 258
    assert gemini_picture(100, 20, "") == 258
    assert gemini_picture(768, 768, "") == 258
    assert gemini_picture(960, 540, "") == 2 * 258


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("size", [(1, 1), (10_000, 1), (1, 10_000), (65_535, 65_535)])
def test_degenerate_pictures(model: str, size: tuple[int, int]) -> None:
    counter = FamilyCounter(model)
    for detail in ("", "low", "high"):
        assert counter.picture(Picture("0" * 64, "image/png", *size, detail=detail)) > 0


def test_a_picture_of_unknown_size() -> None:
    assert FamilyCounter("gpt-4o").picture(Picture("", "", url="https://x")) == UNKNOWN_PICTURE


# ---- messages and tools -------------------------------------------------------------


def test_every_part_counts() -> None:
    counter = FamilyCounter("gpt-4o")
    bare = counter.message(user("hello"))
    assert bare == counter.text("hello") + 4
    with_picture = counter.message(user("hello", Picture("0" * 64, "image/png", 1024, 1024)))
    assert with_picture == bare + 765
    assert counter.message(user("hello", Opaque("openai", "reasoning", "x" * 99))) > bare
    call = ToolCall("c", "search", '{"q": "a long question about something"}')
    called = counter.message(assistant(calls=[call]))
    assert called == 8 + counter.text("search") + counter.text(call.arguments)


def test_tool_schemas_count() -> None:
    spec = ToolSpec("t", "Does things.", {"type": "object", "properties": {"a": {}}})
    counter = FamilyCounter("gpt-4o")
    assert counter.tools([]) == 0
    assert 0 < counter.tools([spec]) < counter.tools([spec, spec])
    # Anthropic adds a system prompt of its own once tools are there: 346 tokens.
    claude = FamilyCounter("claude-sonnet-4-5")
    assert claude.tools([spec]) > 346 + counter.tools([spec])
    assert claude.tools([]) == 0
    both = request_tokens(counter, [user("hi")], [spec])
    assert both == counter.opening + counter.tools([spec]) + counter.message(user("hi"))


@given(messages(foreign=True), st.sampled_from(MODELS))
def test_a_count_is_positive_and_the_memo_equals_a_fresh_one(message: Message, model: str) -> None:
    counter = FamilyCounter(model)
    first = counter.message(message)
    assert first > 0
    assert counter.message(message) == first == FamilyCounter(model).message(message)


@given(rough_texts(), st.sampled_from(MODELS))
def test_no_text_crashes(text: str, model: str) -> None:
    counter = FamilyCounter(model)
    assert counter.text(text) >= 0
    # Arguments are kept as the model wrote them, lone surrogates included.
    call = ToolCall("c", "t", text)
    assert counter.message(assistant(text, calls=[call])) > 0
    assert counter.tools([ToolSpec("t", text, {"const": text})]) > 0


def test_lone_surrogates() -> None:
    counter = FamilyCounter("gpt-4o")
    assert counter.text("a\ud800b") == counter.text("a\ufffdb")


@given(pictures(), st.sampled_from(MODELS))
def test_pictures_never_count_less_than_one(picture: Picture, model: str) -> None:
    assert FamilyCounter(model).picture(picture) > 0


def test_patterns_are_those_quicktok_was_built_for() -> None:
    # A new pattern in tiktoken would make the comparison above fail far from its cause.
    for function in ("o200k_base", "cl100k_base"):
        pattern, published = _published_pattern(function)
        assert re.fullmatch(r"[0-9a-f]{64}", published)
        assert r"\p{N}{1,3}" in pattern
