"""The local model's own tokenizer, read out of its weights' file.

Pure Python on purpose: counting then needs neither the loaded model (600 MB, 0.6 s)
nor the runtime's HTTP port, which is out of reach where a sandbox has no loopback.
And a prompt sent as token ids cannot be broken out of: text that spells a special
token is ordinary text here, since special tokens are only ever written by `special`.

The format is GGUF (github.com/ggml-org/ggml/blob/master/docs/gguf.md); the way of
splitting is llama.cpp's pre-tokenizer `smollm`: each digit alone, then GPT-2's
pattern on what lies between; then byte-level BPE by the file's own merges.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from windlass.public import ProviderError, clean_text

_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f",
    7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING: Final = 8
_ARRAY: Final = 9
_WANTED: Final = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.pre")

_LONGEST_WORD: Final = 2_000
"""Characters of one word merged at once; a longer run is cut, so that merging stays cheap."""

_COMMON_WORD: Final = 40
"""Characters up to which a word's tokens are remembered; longer ones seldom come back."""


def _unpack(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return file.read(_unpack(file, "<Q")).decode("utf-8", "replace")
    if kind == _ARRAY:
        inner, length = struct.unpack("<IQ", file.read(12))
        return [_value(file, inner) for _ in range(length)]
    return _unpack(file, _SCALARS[kind])


def _metadata(path: Path) -> dict[str, Any]:
    """Return the tokenizer's entries of the file's header."""
    metadata: dict[str, Any] = {}
    with path.open("rb") as file:
        magic, _, _, entries = struct.unpack("<4sIQQ", file.read(24))
        if magic != b"GGUF":
            raise ValueError("no GGUF file")
        for _ in range(entries):
            key = cast("str", _value(file, _STRING))
            value = _value(file, _unpack(file, "<I"))
            if key in _WANTED:
                metadata[key] = value
    return metadata


def _number_class() -> str:
    r"""Return the characters of `\p{N}` that Python's `\d` lacks, as the inside of a class.

    Planes above the first two hold letters only, so they need no look.
    """
    numbers = (chr(c) for c in range(0x20000) if unicodedata.category(chr(c)) in ("Nl", "No"))
    return "".join(map(re.escape, numbers))


def _byte_letters() -> list[str]:
    """Return GPT-2's printable stand-in for each byte, in the order of the bytes."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    odd = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(odd)) for byte in range(256)]


class Vocabulary:
    """Text to token ids, as the model itself splits it. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        """Read the vocabulary of the weights at `path` (0.3 s).

        Raises ProviderError when the file is none, or is split in a way unknown here.
        """
        try:
            entries = _metadata(path)
            tokens, merges = (cast("list[str]", entries[key]) for key in _WANTED[:2])
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise ProviderError(
                f"the weights {str(path)!r} cannot be read ({error}); reinstall them"
            ) from error
        if entries.get(_WANTED[2]) != "smollm":
            raise ProviderError(f"the weights {str(path)!r} are not those of SmolLM2")
        self._ids = {token: index for index, token in enumerate(tokens)}
        pairs = (merge.split(" ", 1) for merge in merges)
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
        self._never = len(self._ranks)
        self._letters = _byte_letters()
        number = rf"\d{_number_class()}"
        # Unicode's White_Space; Python's \s has four control characters more.
        space = "\\t-\\r \\x85\\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
        self._digits = re.compile(f"([{number}])")
        self._words = re.compile(
            rf"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W_]+| ?(?:[^{space}\w]|_)+"
            rf"|[{space}]+(?![^{space}])|[{space}]+"
        )
        self._remembered = lru_cache(maxsize=1 << 16)(self._merge)

    def __len__(self) -> int:
        return len(self._ids)

    def special(self, name: str) -> int:
        """Return the id of a special token such as `<|im_end|>`.

        Raises KeyError where there is none.
        """
        return self._ids[name]

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`; special tokens spelled in it are ordinary text."""
        return [token for word in self._split(text) for token in word]

    def count(self, text: str) -> int:
        """Return how many tokens `text` is."""
        return sum(map(len, self._split(text)))

    def _split(self, text: str) -> Iterator[tuple[int, ...]]:
        """Yield the tokens of each word of `text`, in order."""
        for index, piece in enumerate(self._digits.split(clean_text(text))):
            # Every second piece is the digit that the split caught.
            for word in (piece,) if index % 2 else self._words.findall(piece):
                if len(word) <= _COMMON_WORD:
                    yield self._remembered(word)
                    continue
                for start in range(0, len(word), _LONGEST_WORD):
                    yield self._merge(word[start : start + _LONGEST_WORD])

    def _merge(self, word: str) -> tuple[int, ...]:
        """Byte-level BPE: the pair of the lowest rank is joined, wherever it stands, in turn."""
        parts = [self._letters[byte] for byte in word.encode("utf-8")]
        while len(parts) > 1:
            pairs = set(pairwise(parts))
            best = min(pairs, key=lambda pair: self._ranks.get(pair, self._never))
            if best not in self._ranks:
                break
            joined: list[str] = []
            for part in parts:
                if joined and (joined[-1], part) == best:
                    joined[-1] += part
                else:
                    joined.append(part)
            parts = joined
        ids: list[int] = []
        for part in parts:
            if part in self._ids:
                ids.append(self._ids[part])
            else:  # a few control bytes have no token: the model cannot see them
                ids.extend(self._ids[letter] for letter in part if letter in self._ids)
        return tuple(ids)
