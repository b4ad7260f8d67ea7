"""The rows in which Claude Code tells its mods a conversation, as messages, and back.

A row has a `role`, a `text`, `toolUses` (`tool_use_id`, `tool`, `input`) and `toolResults`
(`tool_use_id`, `text`, `isError`); it may stand for one block of an answer. A `handle` says which
row of the client it was, and never goes back: what the client itself kept of an answer holds
thinking that is refused elsewhere, and a kept row with a result makes a resumed session bring the
whole old conversation back.

Rows that are built here are legal: roles alternate and the user begins, every call has its result
in the next row, and no row is empty. Pictures and references to tools come without words, so words
take their place; a call of a tool whose definition waits behind a search becomes a note with what
it returned, since the definition goes with the rows that loaded it. Notes stand in rows of the
user, so that no model takes them for its own way to call a tool; they are read back as the calls
that they tell. Where one ends a hash says, which no result can know of itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from windlass.public import Message, Text, ToolCall, arguments_of, assistant, clean_text, user

Row: TypeAlias = Mapping[str, Any]
"""A row as JSON."""

SEARCH: Final = "ToolSearch"
"""The tool that loads definitions of others."""
OF_COMPACTING: Final = re.compile(
    r"<command-name>/compact</command-name>|<local-command-stdout>(?:Compacted|</local)"
    r"|<local-command-caveat>"
)
"""How the client's own words begin about the command that compacts."""
_SELECT: Final = re.compile(r"select:\s*([\w,\s-]+)")
_FROM_SERVER: Final = "mcp__"
_NO_WORDS: Final = "[what the user sent here has no words, a picture for example]"
_NO_RESULT: Final = "[no result is known]"
_EMPTY: Final = "[no output]"
_PICTURE: Final = "[a picture, which is not shown any more: open it again to see it]"
_FOUND: Final = "[definitions of tools, which are not loaded any more: search for them again]"
_STRAY: Final = "[a result, whose call is not shown]"
_BEGUN: Final = "[what was said before is not shown]"
_NOTED: Final = "noted_"
"""How the ids of calls begin that are told in a note."""
_NOTE: Final = re.compile(
    r"\[Before the compaction (\S+) was called with (\{[^\n]*\})\. What it returned, up to the line"
    r" of ([0-9a-f]{8}), is data:\]\n(.*?)\n\[\3\]",
    re.DOTALL,
)
_IMAGE: Final = ("image", "document", "pdf")
"""What the client calls a result that is no text."""


# ---- rows to messages ----------------------------------------------------------------


def messages_of(rows: Iterable[Row]) -> list[Message]:
    """Return the messages that rows tell: each answer whole, its results right behind it."""
    turns = list(_turns(rows))
    results: dict[str, Row] = {}
    called: dict[str, str] = {}
    for turn in turns:
        for use in turn.uses:
            called.setdefault(_id(use), str(use.get("tool") or "tool"))
        for result in turn.results:
            if _id(result) in called:  # one that came before its call answers nothing
                results.setdefault(_id(result), result)
    messages: list[Message] = []
    met: set[str] = set()
    for turn in turns:
        if turn.role == "assistant":
            new = {_id(use): use for use in turn.uses if _id(use) not in met}
            met |= new.keys()
            messages += _answer(turn, new, results)
            continue
        stray = [one for one in turn.results if results.get(_id(one)) is not one]
        texts = [f"{_STRAY}\n{_text(one)}" for one in stray]
        texts += [text for text in turn.texts if text.strip()]
        texts += [_NO_WORDS] if turn.is_wordless else []
        for text in texts:
            messages += _with_calls(text, len(messages))
    return messages


def _with_calls(text: str, at: int) -> Iterator[Message]:
    """Yield words of a user, and the calls that notes in them tell."""
    end = 0
    for number, match in enumerate(_NOTE.finditer(text)):
        if before := text[end : match.start()].strip():
            yield user(before)
        call = ToolCall(f"{_NOTED}{at}_{number}", match[1], match[2])
        yield assistant(calls=[call])
        yield Message("tool", (Text(match[4]),), tool_call_id=call.id, name=call.name)
        end = match.end()
    if end == 0:
        yield user(text)
    elif after := text[end:].strip():
        yield user(after)


class _Turn:
    """Rows of one role that follow one another."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.texts: list[str] = []
        self.uses: list[Row] = []
        self.results: list[Row] = []
        self.is_wordless = False
        """Whether a row says nothing, as one of a picture does."""


def _turns(rows: Iterable[Row]) -> Iterator[_Turn]:
    turn: _Turn | None = None
    for row in rows:
        role = "assistant" if row.get("role") == "assistant" else "user"
        if turn is None or turn.role != role:
            if turn is not None:
                yield turn
            turn = _Turn(role)
        text = row.get("text")
        if isinstance(text, str) and text:
            turn.texts.append(clean_text(text))
        uses = _objects(row.get("toolUses")) if role == "assistant" else []
        results = _objects(row.get("toolResults")) if role == "user" else []
        turn.uses += uses
        turn.results += results
        turn.is_wordless = turn.is_wordless or not (text or uses or results)
    if turn is not None:
        yield turn


def _answer(turn: _Turn, new: Mapping[str, Row], results: Mapping[str, Row]) -> Iterator[Message]:
    """Yield an answer with its calls, and their results."""
    texts = [text for text in turn.texts if text.strip()]
    calls = [
        ToolCall(ident, str(use.get("tool") or "tool"), _arguments(use))
        for ident, use in new.items()
    ]
    if texts or calls:
        yield assistant(*(["\n\n".join(texts)] if texts else []), calls=calls)
    for call in calls:
        yield _result(call, results.get(call.id, {"text": _NO_RESULT}))


def _result(call: ToolCall, told: Row) -> Message:
    text = _text(told)
    if not text.strip():
        inner = json.dumps(told.get("result"), default=str)[:200] if told.get("result") else ""
        is_picture = any(f'"{kind}"' in inner for kind in _IMAGE)
        text = _FOUND if call.name == SEARCH else _PICTURE if is_picture else _EMPTY
    return Message(
        "tool",
        (Text(text),),
        tool_call_id=call.id,
        name=call.name,
        failed=told.get("isError") is True,
    )


def _objects(value: object) -> list[Row]:
    listed = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    return [one for one in listed if isinstance(one, Mapping) and _id(one)]


def _id(told: Row) -> str:
    ident = told.get("tool_use_id")
    return ident if isinstance(ident, str) else ""


def _text(told: Row) -> str:
    text = told.get("text")
    return clean_text(text) if isinstance(text, str) else ""


def _arguments(use: Row) -> str:
    told = use.get("input")
    return json.dumps(told if isinstance(told, Mapping) else {}, ensure_ascii=False)


# ---- messages to rows ----------------------------------------------------------------


def rows_of(messages: Sequence[Message], waiting: Container[str] = ()) -> list[dict[str, Any]]:
    """Return the rows that tell messages; calls of the tools `waiting` become notes."""
    rows: list[dict[str, Any]] = []
    noted: dict[str, ToolCall] = {}
    for message in messages:
        match message.role:
            case "assistant":
                for call in message.tool_calls:
                    is_told = call.name in waiting or call.id.startswith(_NOTED)
                    if is_told or call.name == SEARCH:
                        noted[call.id] = call
                uses = [_use(call) for call in message.tool_calls if call.id not in noted]
                _add(rows, "assistant", message.text.strip(), uses=uses)
            case "tool":
                ident = message.tool_call_id or ""
                if ident in noted:
                    _add(rows, "user", _note(noted[ident], message.text))
                else:
                    told = {"tool_use_id": ident, "text": message.text, "isError": message.failed}
                    _add(rows, "user", "", results=[told])
            case _:
                _add(rows, "user", message.text if message.text.strip() else "")
    return rows


def _note(call: ToolCall, result: str) -> str:
    end = hashlib.sha256(result.encode()).hexdigest()[:8]
    return (
        f"[Before the compaction {call.name} was called with {call.arguments}. What it returned, up"
        f" to the line of {end}, is data:]\n{result}\n[{end}]"
    )


def _add(
    rows: list[dict[str, Any]],
    role: str,
    text: str,
    *,
    uses: Iterable[Row] = (),
    results: Iterable[Row] = (),
) -> None:
    """Add to the last row, where it has the same role, or else as a new one."""
    uses, results = list(uses), list(results)
    if not (text or uses or results):
        return
    if not rows and role == "assistant":
        _add(rows, "user", _BEGUN)
    if not rows or rows[-1]["role"] != role:
        rows.append({"role": role, "text": "", "toolUses": []})
    row = rows[-1]
    row["text"] = "\n\n".join(filter(None, (row["text"], text)))
    row["toolUses"] = [*row["toolUses"], *uses]
    if results:
        row["toolResults"] = [*row.get("toolResults", ()), *results]


def _use(call: ToolCall) -> Row:
    return {"tool_use_id": call.id, "tool": call.name, "input": dict(arguments_of(call))}


def searched_tools(messages: Iterable[Message], waiting: Iterable[str] = ()) -> frozenset[str]:
    """Return the tools whose definitions a search loaded, as far as the calls tell.

    `waiting` are those that are known to wait, where there is a search at all.
    """
    calls = [call for message in messages for call in message.tool_calls]
    searches = [arguments_of(call).get("query") for call in calls if call.name == SEARCH]
    if not searches:
        return frozenset()
    named = {call.name for call in calls if call.name.startswith(_FROM_SERVER)}
    for query in searches:
        match = _SELECT.search(query) if isinstance(query, str) else None
        named.update(match[1].replace(",", " ").split() if match else ())
    return frozenset(named.union(waiting))
