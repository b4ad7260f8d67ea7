"""Generators of messages, conversations and chat dicts, for property tests anywhere.

What they make is what a provider may send or accept: a conversation is always a
valid sequence, a chat dict always in the form `to_openai` writes.

Each is made once (`cache`): most of a draw's time would go into making strategies anew.
"""

from __future__ import annotations

import base64
import json
import string
import struct
import zlib
from functools import cache
from typing import Any

from hypothesis import strategies as st

from windlass.messages import (
    ROLES,
    Message,
    Opaque,
    Part,
    Picture,
    Role,
    Text,
    ToolCall,
    assistant,
    system,
    tool,
    user,
)
from windlass.text.pictures import picture

# ---- files of pictures, made by hand ------------------------------------------------


def png(width: int = 2, height: int = 3) -> bytes:
    """A grey PNG that any viewer opens."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    rows = b"".join(b"\0" + b"\x80" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def gif(width: int = 2, height: int = 3) -> bytes:
    """A GIF with a screen of this size and no frame."""
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + b";"


def jpeg(width: int = 2, height: int = 3, frame: int = 0xC0) -> bytes:
    """The head of a JPEG: a JFIF segment, fill bytes, a table, and the frame header."""
    jfif = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + bytes(9)
    table = b"\xff\xff\xdb" + struct.pack(">H", 67) + bytes(65)
    head = b"\xff" + bytes([frame]) + struct.pack(">HBHHB", 11, 8, height, width, 1) + bytes(3)
    return b"\xff\xd8" + jfif + table + head + b"\xff\xd9"


def webp(width: int = 2, height: int = 3, kind: bytes = b"VP8X") -> bytes:
    """The head of a WebP of one of its three kinds: `VP8X`, `VP8L` or `VP8 `."""
    match kind:
        case b"VP8X":
            sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
            body = bytes(4) + sizes
        case b"VP8L":
            bits = (width - 1) | (height - 1) << 14
            body = b"\x2f" + bits.to_bytes(4, "little") + bytes(8)
        case _:
            body = bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height)
    chunk = kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


FILES = (png, gif, jpeg, webp)


@cache
def picture_files() -> st.SearchStrategy[bytes]:
    """The bytes of a small picture in one of the four formats."""
    side = st.integers(1, 300)
    return st.one_of([st.builds(make, side, side) for make in FILES])


# ---- pieces -------------------------------------------------------------------------

ALL_CHARACTERS = st.characters()
"""Surrogates included: text cut at the wrong place has them."""
CHARACTERS = st.characters(exclude_categories=["Cs"])


@cache
def texts(min_size: int = 0) -> st.SearchStrategy[str]:
    """Any text that has a UTF-8 form."""
    return st.text(CHARACTERS, min_size=min_size, max_size=40)


@cache
def rough_texts() -> st.SearchStrategy[str]:
    """Any text at all, lone surrogates included."""
    return st.text(ALL_CHARACTERS, max_size=40)


@cache
def names() -> st.SearchStrategy[str]:
    """Names that every provider accepts for a tool or a call."""
    first, more = string.ascii_letters + "_", string.ascii_letters + string.digits + "_-"
    # Quicker than `from_regex` by far, and the same names.
    return st.builds(str.__add__, st.sampled_from(first), st.text(more, max_size=15))


@cache
def json_values() -> st.SearchStrategy[Any]:
    """JSON values without null at the top."""
    # Three levels by hand: `recursive` draws again and again to keep to its number of leaves.
    values: st.SearchStrategy[Any] = (
        st.booleans() | st.integers() | st.floats(allow_nan=False) | texts()
    )
    for _ in range(2):
        inner = values
        values |= st.lists(inner, max_size=2) | st.dictionaries(texts(), inner, max_size=2)
    return values


@cache
def arguments() -> st.SearchStrategy[str]:
    """The arguments of a call: mostly a JSON object, sometimes what a model got wrong."""
    good = st.dictionaries(names(), json_values(), max_size=3).map(json.dumps)
    return good | st.just("") | texts()


@cache
def tool_calls() -> st.SearchStrategy[ToolCall]:
    """One call with an id of its own choosing."""
    return st.builds(ToolCall, names(), names(), arguments())


@cache
def pictures() -> st.SearchStrategy[Picture]:
    """Pictures as chat knows them: with their bytes, or by address; without a name."""
    with_data = st.builds(picture, picture_files())
    by_address = st.builds(
        lambda path, detail: Picture("", "", url=f"https://example.org/{path}", detail=detail),
        names(),
        st.sampled_from(["", "low", "high"]),
    )
    return with_data | by_address


@cache
def foreign_parts() -> st.SearchStrategy[Opaque]:
    """What another provider than OpenAI signed."""
    data = st.dictionaries(names(), json_values(), max_size=3).map(json.dumps)
    return st.builds(Opaque, st.sampled_from(["anthropic", "gemini"]), names(), data, names())


@cache
def chat_keys() -> st.SearchStrategy[dict[str, Any]]:
    """Keys that vendors add to a chat message."""
    key = st.sampled_from(["refusal", "reasoning_content", "cache_control", "annotations"])
    return st.dictionaries(key, json_values(), max_size=2)


@cache
def chat_only_parts() -> st.SearchStrategy[dict[str, Any]]:
    """Parts of a chat message that Windlass has no word for."""
    return st.one_of(
        st.builds(
            lambda data: {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
            st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode()),
        ),
        st.builds(lambda id_: {"type": "file", "file": {"file_id": id_}}, names()),
        st.builds(lambda text: {"type": "refusal", "refusal": text}, texts()),
    )


@cache
def parts(*, foreign: bool = False) -> st.SearchStrategy[Part]:
    """Text, pictures, and with `foreign` what other providers signed."""
    known: st.SearchStrategy[Part] = st.builds(Text, rough_texts()) | pictures()
    return known | foreign_parts() if foreign else known


# ---- messages -----------------------------------------------------------------------


@st.composite
def messages(draw: st.DrawFn, *, foreign: bool = False, role: Role | None = None) -> Message:
    """One message of any role; by itself, not as a part of a sequence."""
    roles: st.SearchStrategy[Role] = st.sampled_from(ROLES if role is None else (role,))
    chosen = draw(roles)
    calls: list[ToolCall] = []
    if chosen == "assistant":
        calls = draw(st.lists(tool_calls(), max_size=3, unique_by=lambda call: call.id))
    return Message(
        chosen,
        tuple(draw(st.lists(parts(foreign=foreign), max_size=3))),
        tuple(calls),
        draw(names()) if chosen == "tool" else None,
        draw(st.none() | names()),
        chosen == "tool" and draw(st.booleans()),
    )


@st.composite
def _turns(draw: st.DrawFn, number: int) -> list[Message]:
    """An assistant message with its results, in any order; ids carry the turn's number."""
    chosen = draw(st.lists(tool_calls(), max_size=3))
    calls = [
        ToolCall(f"call_{number}_{index}", call.name, call.arguments)
        for index, call in enumerate(chosen)
    ]
    said = draw(texts(min_size=0 if calls else 1))
    results = [tool(call, *draw(st.lists(parts(), max_size=2))) for call in calls]
    return [assistant(said, calls=calls), *draw(st.permutations(results))]


@st.composite
def conversations(draw: st.DrawFn, *, max_turns: int = 4, min_turns: int = 0) -> list[Message]:
    """A valid sequence: perhaps a system message, then user messages and turns."""
    said = draw(st.lists(texts(min_size=1), max_size=1))
    spoken = [system(text) for text in said] + [user(draw(texts(min_size=1)))]
    for number in range(draw(st.integers(min_turns, max_turns))):
        spoken += draw(_turns(number))
        if draw(st.booleans()):
            spoken.append(user(draw(texts(min_size=1)), *draw(st.lists(pictures(), max_size=1))))
    return spoken


@st.composite
def server_tool_conversations(draw: st.DrawFn) -> list[Message]:
    """Replies with tools that Anthropic runs: answered at once, later, or never, in any order."""
    ids = st.sampled_from(["s1", "s2", "s3"])
    kinds = st.sampled_from(["server_tool_use", "mcp_tool_use"])

    def use(id_: str, kind: str) -> Opaque:
        data = {"type": kind, "id": id_, "name": "web_search", "input": {}}
        return Opaque("anthropic", kind, json.dumps(data))

    def result(id_: str) -> Opaque:
        kind = "web_search_tool_result"
        data = {"type": kind, "tool_use_id": id_, "content": []}
        return Opaque("anthropic", kind, json.dumps(data))

    blocks = st.lists(
        st.builds(use, ids, kinds) | st.builds(result, ids) | st.just(Text("words")), max_size=4
    )
    spoken = [user("go")]
    for number in range(draw(st.integers(1, 5))):
        said = draw(blocks)
        calls = [ToolCall(f"t{number}", "look", "{}")] if draw(st.booleans()) else []
        if said or calls:
            spoken += [assistant(*said, calls=calls), *(tool(call, "seen") for call in calls)]
        if draw(st.booleans()):
            spoken.append(user(f"word {number}"))
    return spoken


# ---- chat dicts ---------------------------------------------------------------------


@cache
def _chat_texts() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda text: {"type": "text", "text": text}, texts())


@st.composite
def _chat_pictures(draw: st.DrawFn) -> dict[str, Any]:
    detail = draw(st.sampled_from([{}, {"detail": "low"}]))
    if draw(st.booleans()):
        url = f"https://example.org/{draw(names())}.png"
    else:
        read = picture(draw(picture_files()))
        assert read.data is not None
        url = f"data:{read.media_type};base64,{base64.b64encode(read.data).decode()}"
    vendor = draw(st.sampled_from([{}, {"format": "image/png"}]))
    return {"type": "image_url", "image_url": {"url": url, **detail, **vendor}}


@st.composite
def _chat_parts(draw: st.DrawFn) -> dict[str, Any]:
    part: dict[str, Any] = draw(st.one_of(_chat_texts(), _chat_pictures(), chat_only_parts()))
    mark = {"cache_control": {"type": "ephemeral"}}
    return part | mark if draw(st.booleans()) else part


@st.composite
def _chat_calls(draw: st.DrawFn) -> dict[str, Any]:
    call = draw(tool_calls())
    signed = {"extra_content": {"google": {"thought_signature": draw(names())}}}
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments}
        | draw(st.sampled_from([{}, {"strict": True}])),
    } | draw(st.sampled_from([{}, signed]))


def _is_plain(content: list[dict[str, Any]]) -> bool:
    return len(content) == 1 and content[0].keys() == {"type", "text"}


@st.composite
def chat_dicts(draw: st.DrawFn) -> dict[str, Any]:
    """A chat dict in the form `to_openai` writes (see the module for what it normalises)."""
    role = draw(st.sampled_from(ROLES))
    keys = draw(chat_keys())
    calls = draw(st.lists(_chat_calls(), max_size=2)) if role == "assistant" else []
    listed = st.lists(_chat_parts(), min_size=1, max_size=3).filter(lambda c: not _is_plain(c))
    content: st.SearchStrategy[Any] = texts() | listed
    if calls or keys:
        content |= st.none()
    chat: dict[str, Any] = {"role": role, "content": draw(content)}
    if calls:
        chat["tool_calls"] = calls
    if role == "tool":
        chat["tool_call_id"] = draw(names())
    if draw(st.booleans()):
        chat["name"] = draw(names())
    return chat | keys
