"""Pictures of few colours as PNG files, with the standard library alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

_UP = b"\x02"
"""The filter of each line: what it adds to the line above, because neighbours are much alike."""


def palette_png(width: int, cells: bytes, colours: Sequence[str]) -> bytes:
    """A picture with a pixel for each byte of `cells`, which is the number of its colour.

    Colours are `#rrggbb`. The first one is transparent. Lines are `width` pixels long. Raises
    ValueError where there is no pixel, a line is not full, or there are more than 256 colours.
    """
    if not cells or width < 1 or len(cells) % width or not 0 < len(colours) <= 256:  # noqa: PLR2004
        raise ValueError(f"no picture: {len(cells)} cells, {width} wide, {len(colours)} colours")
    head = struct.pack(">IIBBBBB", width, len(cells) // width, 8, 3, 0, 0, 0)
    palette = b"".join(bytes.fromhex(colour.removeprefix("#")) for colour in colours)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", head),
            _chunk(b"PLTE", palette),
            _chunk(b"tRNS", b"\0"),
            _chunk(b"IDAT", zlib.compress(_filtered(width, cells))),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _filtered(width: int, cells: bytes) -> bytes:
    import numpy as np

    lines = np.frombuffer(cells, np.uint8).reshape(-1, width)
    above = np.zeros_like(lines)
    above[1:] = lines[:-1]
    return np.insert(lines - above, 0, _UP[0], axis=1).tobytes()
