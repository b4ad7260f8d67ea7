"""Pictures as files: their type and size, read from the header.

PNG, JPEG, GIF and WebP, which every provider takes.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final

from windlass.messages import Picture

_PNG_MAGIC: Final = b"\x89PNG\r\n\x1a\n"
_JPEG_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_BARE: Final = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers that no length follows."""
_PNG_HEAD: Final = 24
_GIF_HEAD: Final = 10
_WEBP_HEAD: Final = 30
"""Bytes of a file that must be there to read its size."""


def picture(data: bytes, *, name: str = "") -> Picture:
    """Return the picture whose file is `data`: PNG, JPEG, GIF or WebP.

    Type and size are read from the file's own header. Raises ValueError when the
    bytes are none of these, so that a broken picture never reaches a provider.
    """
    media_type, width, height = _picture_header(data)
    if not width or not height:
        raise ValueError(f"not a picture: its header says {width}x{height} pixels")
    digest = hashlib.sha256(data).hexdigest()
    return Picture(digest, media_type, width, height, name=name, data=data)


def _picture_header(data: bytes) -> tuple[str, int, int]:
    if data.startswith(_PNG_MAGIC) and data[12:16] == b"IHDR" and len(data) >= _PNG_HEAD:
        width, height = struct.unpack(">II", data[16:24])
        return "image/png", width, height
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= _GIF_HEAD:
        width, height = struct.unpack("<HH", data[6:10])
        return "image/gif", width, height
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= _WEBP_HEAD:
        return "image/webp", *_webp_size(data)
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg", *_jpeg_size(data)
    raise ValueError("not a picture: neither PNG, JPEG, GIF nor WebP")


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            sides = data[24:27], data[27:30]
            width, height = (1 + int.from_bytes(side, "little") for side in sides)
            return width, height
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case other:
            raise ValueError(f"not a picture: a WebP that begins with {other!r}")


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data):
        fill, marker = data[at], data[at + 1]
        if fill != 0xFF:  # noqa: PLR2004 - the byte that opens every marker
            break
        if marker == fill or marker in _JPEG_BARE:
            at += 1 if marker == fill else 2
            continue
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    raise ValueError("not a picture: a JPEG without a frame header")
