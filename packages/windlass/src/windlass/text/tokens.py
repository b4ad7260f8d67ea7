"""Counting tokens offline, before anything is sent.

Families with a public tokenizer are counted with it. Others are counted with
OpenAI's o200k vocabulary times a factor of the family, until a provider's own
usage corrects it; limits then get `MARGIN` more room. Pictures are counted by
their provider's formula, tool schemas as the JSON that is sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol, runtime_checkable

from windlass.messages import Message, Opaque, Picture, Text, ToolSpec, canonical_json, clean_text

MARGIN: Final = 0.10
"""Share by which a hard limit is kept away from when a count is not exact."""

CHARS_A_TOKEN: Final = 4
MESSAGE_TOKENS: Final = 4
UNKNOWN_PICTURE: Final = 1_105
"""Tokens of a picture whose size is unknown. One of 1,024 x 1,024 costs 765 with OpenAI's formula
and 1,398 with Anthropic's; this is what OpenAI's asks for one twice as wide."""


class Counter(Protocol):
    """What counts tokens for one model."""

    @property
    def exact(self) -> bool:
        """Return whether the count is the provider's own, so that no margin is needed."""
        ...

    @property
    def opening(self) -> int:
        """Give tokens every request has besides its tools and messages: the answer's beginning."""
        ...

    def text(self, text: str) -> int:
        """Return tokens of a bare text."""
        ...

    def message(self, message: Message) -> int:
        """Return tokens a message adds to a request, its frame included."""
        ...

    def tools(self, tools: Sequence[ToolSpec]) -> int:
        """Return tokens the definitions of `tools` add to a request."""
        ...


@runtime_checkable
class Reading(Protocol):
    """A counter that knows the very tokens its model reads, and whose cache keeps replies, too."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Sequence[int]:
        """Return the tokens of a request, up to where the answer begins."""
        ...

    def reply(self, message: Message) -> Sequence[int]:
        """Return the tokens of an answer, behind those of its request."""
        ...


def request_tokens(
    counter: Counter, messages: Iterable[Message], tools: Sequence[ToolSpec] = ()
) -> int:
    """Return input tokens of a request."""
    messages_tokens = sum(counter.message(message) for message in messages)
    return counter.opening + counter.tools(tools) + messages_tokens


PictureFormula = Callable[[int, int, str], int]


def _tiles(width: int, height: int, base: int, tile: int) -> int:
    # platform.openai.com/docs/guides/images-vision, "GPT-4o, GPT-4.1, o-series":
    # fit into 2,048 x 2,048, shortest side to 768, then tiles of 512.
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    across, down = math.ceil(width * scale / 512), math.ceil(height * scale / 512)
    return base + tile * across * down


def openai_tiles(base: int, tile: int) -> PictureFormula:
    """Return OpenAI's formula by tiles of 512 pixels; `detail: low` costs the base alone."""

    def formula(width: int, height: int, detail: str) -> int:
        return base if detail == "low" else _tiles(width, height, base, tile)

    return formula


def openai_patches(factor: float) -> PictureFormula:
    """Return OpenAI's formula by patches of 32 pixels, at most 1,536 of them, times a factor."""

    def formula(width: int, height: int, _detail: str) -> int:
        patches = math.ceil(width / 32) * math.ceil(height / 32)
        return math.ceil(min(patches, 1536) * factor)

    return formula


def anthropic_picture(width: int, height: int, _detail: str) -> int:
    """Anthropic: pixels / 750 after the longer side is brought to 1,568 (docs, "Vision")."""
    scale = min(1.0, 1568 / max(width, height))
    return math.ceil(width * scale * height * scale / 750)


_GEMINI_SMALL: Final = 384
"""Pixels a side up to which a picture is one tile at Gemini."""


def gemini_picture(width: int, height: int, _detail: str) -> int:
    """Gemini: 258 up to 384 pixels a side, else 258 a tile of 768 (docs, "Image understanding")."""
    if max(width, height) <= _GEMINI_SMALL:
        return 258
    return 258 * math.ceil(width / 768) * math.ceil(height / 768)


@dataclass(frozen=True, slots=True)
class Family:
    """How one family of models is counted.

    `factor` multiplies the vocabulary's count; `frame` are the tokens around each
    message, `tools_frame` what a provider adds once when tools are sent.
    """

    name: str
    encoding: str
    factor: float
    picture: PictureFormula
    exact: bool = False
    frame: int = 4
    tools_frame: int = 0


_GPT = openai_tiles(85, 170)
_FAMILIES: Final[tuple[tuple[tuple[str, ...], Family], ...]] = (
    # Claude's vocabulary is not public; 1.25 is the settled factor over o200k.
    # 346 tokens: the tool-use system prompt that Anthropic documents for `auto`.
    (("claude",), Family("claude", "o200k_base", 1.25, anthropic_picture, tools_frame=346)),
    (("gemini", "gemma"), Family("gemini", "o200k_base", 1.0, gemini_picture)),
    (
        ("gpt-5-mini", "gpt-4.1-mini"),
        Family("gpt-mini", "o200k_base", 1.0, openai_patches(1.62), exact=True),
    ),
    (
        ("gpt-5-nano", "gpt-4.1-nano"),
        Family("gpt-nano", "o200k_base", 1.0, openai_patches(2.46), exact=True),
    ),
    (("o4-mini",), Family("o4-mini", "o200k_base", 1.0, openai_patches(1.72), exact=True)),
    (
        ("gpt-4o-mini",),
        Family("gpt-4o-mini", "o200k_base", 1.0, openai_tiles(2833, 5667), exact=True),
    ),
    (("gpt-5",), Family("gpt-5", "o200k_base", 1.0, openai_tiles(70, 140), exact=True)),
    (("o1", "o3"), Family("o", "o200k_base", 1.0, openai_tiles(75, 150), exact=True)),
    (("gpt-4o", "gpt-4.1", "chatgpt"), Family("gpt-4o", "o200k_base", 1.0, _GPT, exact=True)),
    (("gpt-4", "gpt-3.5"), Family("gpt-4", "cl100k_base", 1.0, _GPT, exact=True)),
    (("llama",), Family("llama", "llama3", 1.0, _GPT)),
    (("qwen", "qwq"), Family("qwen", "qwen3", 1.0, _GPT)),
)
_OTHER: Final = Family("other", "o200k_base", 1.1, _GPT)


def family_of(model: str) -> Family:
    """Return the family that counts `model` (a bare name or `provider/vendor/name`)."""
    name = model.rsplit("/", 1)[-1].lower()
    for prefixes, family in _FAMILIES:
        if name.startswith(prefixes):
            return family
    return _OTHER


_COUNTED: Final = 1_000_000
"""Characters of a text that are counted; it takes a fifth of a second of processor time."""
_SAMPLES: Final = 50
"""Pieces of a longer text, evenly spread, that are counted in its place."""


@cache
def _encoding(name: str) -> Callable[[str], int]:
    import quicktok  # the vocabulary takes 0.2 to 0.9 s to load

    encoder = quicktok.get_encoding(name)

    def count(text: str) -> int:
        try:
            return int(encoder.count(text))
        except TypeError:  # a lone surrogate has no UTF-8; arguments may hold one
            return int(encoder.count(clean_text(text)))

    return count


class FamilyCounter:
    """Counts for a hosted model by its family; remembers each message's count."""

    def __init__(self, model: str) -> None:
        self.family = family_of(model)
        self._messages: dict[str, int] = {}

    @property
    def exact(self) -> bool:
        """Return whether the family's tokenizer is public."""
        return self.family.exact

    @property
    def opening(self) -> int:
        """OpenAI documents 3 tokens that prime each reply; others are taken to be alike."""
        return 3

    def text(self, text: str) -> int:
        """Return tokens of a bare text; of one above a million characters by a sample of it."""
        share, sample = 1.0, text
        if len(text) > _COUNTED:
            step, length = len(text) / _SAMPLES, _COUNTED // _SAMPLES
            starts = [int(number * step) for number in range(_SAMPLES)]
            sample = "".join([text[start : start + length] for start in starts])
            share = len(text) / len(sample)
        return math.ceil(_encoding(self.family.encoding)(sample) * share * self.family.factor)

    def message(self, message: Message) -> int:
        """Return tokens a message adds to a request, its frame included."""
        known = self._messages.get(message.key)
        if known is None:
            known = self._messages[message.key] = self._count(message)
        return known

    def _count(self, message: Message) -> int:
        total = self.family.frame
        for part in message.parts:
            match part:
                case Text(text):
                    total += self.text(text)
                case Picture():
                    total += self.picture(part)
                case Opaque(_, _, data):
                    total += self.text(data)
        for call in message.tool_calls:
            total += self.family.frame + self.text(call.name) + self.text(call.arguments)
        return total

    def picture(self, picture: Picture) -> int:
        """Return tokens of a picture by the provider's formula."""
        if not picture.width or not picture.height:
            return UNKNOWN_PICTURE
        return self.family.picture(picture.width, picture.height, picture.detail)

    def tools(self, tools: Sequence[ToolSpec]) -> int:
        """Return tokens the definitions of `tools` add to a request."""
        if not tools:
            return 0
        text = canonical_json([spec.to_openai() for spec in tools])
        return self.family.tools_frame + self.text(text)


# ---- a neutral size, by which edits are compared where no tokenizer is given ------------


def size(message: Message) -> int:
    """Give tokens of a message by a neutral count: characters / 4, 4 a message, 1,105 a picture."""
    parts = message.parts
    if len(parts) == 1 and not message.tool_calls and isinstance(parts[0], Text):
        # Most are one text; this is asked of every message several times.
        return len(parts[0].text) // CHARS_A_TOKEN + MESSAGE_TOKENS
    return _chars(message) // CHARS_A_TOKEN + _frame(message)


_NEUTRAL_WORDS: Final = 1.25
"""Tokens of OpenAI's vocabulary for a neutral token, in sessions of coding agents."""


def neutral_scale(model: str) -> float:
    """About how many of a model's tokens one neutral token is."""
    return _NEUTRAL_WORDS * family_of(model).factor


def size_up(message: Message) -> int:
    """Return the same count rounded up: a budget holds also where others count parts of tokens."""
    return -(-_chars(message) // CHARS_A_TOKEN) + _frame(message)


def _chars(message: Message) -> int:
    chars = message.chars
    for call in message.tool_calls:
        chars += len(call.name)
    for part in message.parts:
        if isinstance(part, Opaque):
            chars += len(part.data)
    return chars


def _frame(message: Message) -> int:
    tokens = MESSAGE_TOKENS
    for part in message.parts:
        if isinstance(part, Picture):
            tokens += UNKNOWN_PICTURE
    return tokens
