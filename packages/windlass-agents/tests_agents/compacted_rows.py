"""Conversations as Claude Code tells them to a mod, and what its provider asks of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def said(role: str, text: str) -> Row:
    """Return a row of words."""
    return {"role": role, "text": text, "toolUses": [], "handle": f"h-{len(text)}"}


def used(ident: str, tool: str, **arguments: object) -> Row:
    """Return a row of a call."""
    use = {"tool_use_id": ident, "tool": tool, "input": arguments}
    return {"role": "assistant", "text": "", "toolUses": [use], "handle": f"h-{ident}"}


def answered(ident: str, text: str, *, failed: bool = False, result: object = None) -> Row:
    """Return a row of a result."""
    told = {"tool_use_id": ident, "text": text, "isError": failed, "result": result}
    return {"role": "user", "text": "", "toolUses": [], "toolResults": [told], "handle": "h"}


def long_conversation(calls: int, lines: int = 120) -> list[Row]:
    """Return a conversation in which files are read and edited; each line says where it is from."""
    rows: list[Row] = [said("user", "Please make the harbour's cranes faster.")]
    for number in range(calls):
        path = f"/harbour/src/crane_{number}.py"
        text = "\n".join(
            f"{line + 1}\tdef lift_{number}_{line}(load): return load * {number + line}"
            for line in range(lines)
        )
        rows += [
            said("assistant", f"I look at crane {number}."),
            used(f"read-{number}", "Read", file_path=path),
            answered(f"read-{number}", text),
        ]
    return rows


def faults(rows: Sequence[Row]) -> list[str]:
    """Return what the client or its provider would refuse of rows, a sentence each."""
    found: list[str] = []
    for at, row in enumerate(rows):
        role = "assistant" if at % 2 else "user"
        if row["role"] != role:
            found.append(f"row {at} is not of the {role}")
        if set(row) - {"role", "text", "toolUses", "toolResults"}:
            found.append(f"row {at} has other keys")
        results = row.get("toolResults", [])
        if not (row["text"].strip() or row["toolUses"] or results):
            found.append(f"row {at} is empty")
        if role == "user" and row["toolUses"]:
            found.append(f"row {at} calls tools as the user")
        called = _ids(rows[at - 1]["toolUses"]) if at else []
        if sorted(called) != sorted(_ids(results)):
            found.append(f"the results of row {at} are not those of the calls before it")
        if len(set(called)) < len(called):
            found.append(f"row {at - 1} has a call twice")
        if not all(result["text"].strip() for result in results):
            found.append(f"row {at} has an empty result")
    calls = [ident for row in rows for ident in _ids(row["toolUses"])]
    if len(set(calls)) < len(calls):
        found.append("a call stands twice")
    if rows and rows[-1]["toolUses"]:
        found.append("the last calls have no results")
    return found


def texts_of(rows: Iterable[Row]) -> str:
    """Return all that rows say."""
    said: list[str] = []
    for row in rows:
        said += [row["text"], *(str(use["input"]) for use in row["toolUses"])]
        said += [result["text"] for result in row.get("toolResults", ())]
    return "\n".join(said)


def _ids(told: Iterable[Row]) -> list[str]:
    return [one["tool_use_id"] for one in told]
