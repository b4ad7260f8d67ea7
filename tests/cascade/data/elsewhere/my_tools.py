"""Small helpers for my cascades."""

import csv
import re
from pathlib import Path
from typing import Any


def read_orders(path: str, limit: str = "50") -> dict[str, Any]:
    """Read a CSV of orders (id, customer, item, amount, state)."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[: int(limit)]  # numbers come as text
    if not rows:
        return {"_route": "empty", "status": "success", "orders": [], "count": 0, "late": []}
    return {
        "status": "success",
        "orders": rows,
        "count": len(rows),
        "total": round(sum(float(row["amount"]) for row in rows), 2),
        "late": [row["id"] for row in rows if row["state"] == "late"],
    }


def not_empty(content: str) -> dict[str, Any]:
    """Whether there is a text."""
    valid = bool(content and content.strip())
    return {"valid": valid, "reason": "" if valid else "there is no text"}


def no_phone_numbers(content: str) -> dict[str, Any]:
    """Whether a text names no telephone number."""
    hit = re.search(r"\+?\d[\d /-]{7,}\d", content or "")
    return {"valid": hit is None, "reason": f"phone number {hit.group(0)}" if hit else "fine"}
