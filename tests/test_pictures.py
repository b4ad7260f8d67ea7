"""Pictures as files: type and size are read from the header, and other bytes are refused."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as some
from windlass.text.pictures import picture


@pytest.mark.parametrize(
    ("make", "media_type"),
    [
        (some.png, "image/png"),
        (some.gif, "image/gif"),
        (some.jpeg, "image/jpeg"),
        (some.webp, "image/webp"),
    ],
)
@given(width=st.integers(1, 5_000), height=st.integers(1, 9))
def test_type_and_size_are_read_from_the_file(
    make: Callable[[int, int], bytes], media_type: str, width: int, height: int
) -> None:
    data = make(width, height)
    read = picture(data, name="a")
    assert (read.media_type, read.width, read.height) == (media_type, width, height)
    assert read.sha256 == hashlib.sha256(data).hexdigest()
    assert read.data == data


@pytest.mark.parametrize("kind", [b"VP8X", b"VP8L", b"VP8 "])
def test_all_three_kinds_of_webp(kind: bytes) -> None:
    read = picture(some.webp(640, 480, kind))
    assert (read.width, read.height) == (640, 480)


@pytest.mark.parametrize("frame", [0xC0, 0xC1, 0xC2, 0xCF])
def test_baseline_and_progressive_jpeg(frame: int) -> None:
    read = picture(some.jpeg(640, 480, frame))
    assert (read.width, read.height) == (640, 480)


@pytest.mark.parametrize("kind", ["PNG", "GIF", "JPEG", "WEBP"])
def test_files_as_programs_write_them(kind: str) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs the extra `tools`")
    file = io.BytesIO()
    image.new("RGB", (31, 17), "red").save(file, kind)
    read = picture(file.getvalue())
    assert (read.media_type, read.width, read.height) == (f"image/{kind.lower()}", 31, 17)


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a picture"):
        picture(data)


@given(some.picture_files(), st.data())
def test_a_file_cut_short_is_read_or_refused(whole: bytes, data: st.DataObject) -> None:
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        read = picture(cut)
    except ValueError:
        return
    assert (read.width, read.height) == (picture(whole).width, picture(whole).height)


@pytest.mark.parametrize("data", [some.png(0, 5), some.gif(5, 0), some.jpeg(0, 0)])
def test_a_picture_of_no_size_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a picture: its header says \dx\d pixels"):
        picture(data)
