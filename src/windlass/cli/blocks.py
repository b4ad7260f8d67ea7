"""What injectors brought into a call, for `show` and `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.cli.output import out, print_table

_COLUMNS = ["block", "tier", "version", "tokens", "cap", "message", "record", "left out"]


def print_blocks(details: Mapping[str, Any]) -> None:
    """Print a call's blocks as a table, and what older ones cost; nothing where it has none.

    `details` are those of the call's record.
    """
    told = details.get("injectors")
    if not told:
        return
    rows = [_row(one) for one in told["blocks"]]
    if rows:
        print_table("\nblocks of injectors", _COLUMNS, rows, right=[3, 4], whole=[0, 1, 6])
    if line := blocks_text(details):
        out.print(line, style="dim")


def blocks_text(details: Mapping[str, Any]) -> str:
    """What became of the blocks of earlier calls, and the bill of both ways so far."""
    told, bill = details.get("injectors") or {}, details.get("blocks_bill")
    old, lines = told.get("old") or {}, []
    if old.get("blocks") or old.get("gone"):
        gone = f", {old['gone']} taken away because {old['because']}" if old["gone"] else ""
        lines.append(f"blocks of earlier calls: {old['blocks']} stand as they were{gone}")
    if bill and bill["kept"] != bill["dropped"]:
        lines.append(
            f"this call's input, in fresh tokens' worth: {bill['kept']:,.0f} as sent,"
            f" {bill['dropped']:,.0f} without blocks of earlier calls"
        )
    return "\n".join(lines)


def _row(one: Mapping[str, Any]) -> list[str]:
    cap = f"{one['cap']:,}"
    cap += f" of {one['full_cap']:,}" if one["cap"] != one["full_cap"] else ""
    place = f"{one['message']}.{one['part']}" if one.get("message") is not None else "-"
    place = "tools" if one["injector"] == "tools" else place
    return [
        one["injector"],
        one["tier"],
        one["version"],
        f"{one['tokens']:,}",
        cap,
        place,
        one["id"] or "-",
        ", ".join(one["cut"]) or "-",
    ]
