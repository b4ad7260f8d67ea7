"""What tests of cli terminal build their cases of; others use it, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from windlass.cli.app import app

ACTS = "\x1b[31m\x1b]0;mine\x07\x9b2J\x7f\r\x08\x0b\u202e\u2066\u200f\u061c\u2028"


BAD = f"{ACTS}[bold]b[/bold][link=http://e.test]l[/link]:smile:"


NAME = "n\x7f\x9b\u202e\u2066[bold]b[[bold]"
"""What a name of a phase may hold."""


def leaves(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the command line, by the words that call it."""
    for name, one in getattr(command, "commands", {}).items():
        yield from leaves(one, *path, name)
    if not hasattr(command, "commands"):
        yield path, command


COMMANDS: Mapping[tuple[str, ...], Any] = dict(leaves(typer.main.get_command(app)))


WAYS: Mapping[tuple[str, ...], tuple[tuple[str, ...], ...]] = {
    ("run",): (
        ("bad.json",),
        ("bad.json", "-i", f"{NAME}={BAD}", "--dry-run"),
        ("wrong.json",),
        (f"{NAME}.json",),
        ("bad.json", "-i", BAD),
        ("bad.json", "--model", f"{BAD}/x"),
        ("bad.json", "--session", "s1"),
    ),
    ("chat",): (("-m", "local/x"), ("bad.json",), (BAD,), ("--session", "S"), ("--session", BAD)),
    ("fork",): (("S", "--at", "1"), ("S", "--at", "99"), (BAD, "--at", "1")),
    ("diff",): (("S", "S"), ("S", BAD)),
    ("batch",): (
        ("bad.json", "rows.csv", "--out", "r.jsonl", "--resume"),
        ("bad.json", "rows.csv", "--out", "r.jsonl"),
        ("bad.json", "rows.csv", "--out", f"{NAME}.jsonl", "--model", f"{BAD}/x"),
        ("bad.json", f"{NAME}.jsonl", "--out", "r2.jsonl"),
        ("bad.json", f"{NAME}.csv", "--out", "r3.jsonl", "--max-runs", "1"),
        ("bad.json", BAD, "--out", BAD),
    ),
    ("compare",): (
        ("bad.json", "rows.csv", "--policy", "full", "--policy", "lean", "--out", "c.jsonl"),
        ("bad.json", "rows.csv", "--policy", BAD, "--policy", "lean", "--out", "c2.jsonl"),
        ("bad.json", "rows.csv", "--policy", "full", "--policy", f"{NAME}.json", "--out", "c3"),
        (
            "bad.json",
            "rows.csv",
            "--policy",
            "full",
            "--policy",
            "lean",
            "--out",
            "c.jsonl",
            "--resume",
            "--judge",
            f"{BAD}/x",
        ),
        ("bad.json", "rows.csv", "--policy", "full", "--out", BAD),
    ),
    ("evaluate",): (("bad.xml", "-i", f"x={BAD}"), (f"{NAME}.xml",), ("--resume", BAD)),
    ("sessions",): ((), ("--store", BAD.replace("/", ""))),
    ("show",): (("S",), ("S", "--call", "1"), ("S", "--call", "2", "--full"), (BAD,)),
    ("explain",): (("S", "2"), (BAD, "1")),
    ("report",): (
        ("S",),
        ("S", "--calls"),
        ("S", "--call", "1"),
        ("S", "--prefix"),
        (),
        (BAD,),
        ("S", "--html", f"{NAME}.html"),
        ("--html", BAD),
        ("--since", BAD),
    ),
    ("replay",): (
        ("S", "--html", "page.html"),
        ("log.jsonl", "--policy", "mask:1", "--prices", "none"),
        ("texts",),
        (BAD,),
        ("S", "--policy", BAD),
        ("S", "--policy", f"{NAME}.json"),
        ("S", "--prices", BAD),
        ("S", "--html", f"{BAD}/page.html"),
        ("S", "--fail-over", "0.1"),
    ),
    ("agent", "try"): (("log.jsonl",), ("texts",), (BAD,), ("log.jsonl", "--policy", BAD)),
    ("agent", "install"): (
        ("claude-code", "--dry-run"),
        ("claude-code", "--plugin", NAME, "--mcp"),
        (BAD,),
        ("claude-code", "--policy", BAD),
        ("claude-code", "--holdout", BAD),
        ("claude-code", "--store", f"{BAD}://x"),
    ),
    ("agent", "status"): ((), ("--store", BAD)),
    ("agent", "report"): ((), ("--since", BAD), ("--store", BAD)),
    ("agent", "uninstall"): (("claude-code",), ("opencode", "--user", "--dry-run"), (BAD,)),
    ("agent", "run"): (("--help",), (BAD, "--help")),
    ("hook", "try"): (("log.jsonl",), ("texts",), (BAD,), ("log.jsonl", "--policy", BAD)),
    ("hook", "install"): (
        ("claude-code", "--dry-run"),
        ("claude-code", "--plugin", NAME, "--mcp"),
        (BAD,),
        ("claude-code", "--policy", BAD),
        ("claude-code", "--holdout", BAD),
        ("claude-code", "--store", f"{BAD}://x"),
    ),
    ("hook", "status"): ((), ("--store", BAD)),
    ("hook", "report"): ((), ("--since", BAD), ("--store", BAD)),
    ("hook", "uninstall"): (("claude-code",), ("opencode", "--user", "--dry-run"), (BAD,)),
    ("hook", "run"): (("--help",), (BAD, "--help")),
    ("recall",): (("R",), ("R", "--grep", "."), ("R", "--grep", BAD), (BAD,)),
    ("mcp",): (("--help",), ("--store", BAD)),
    ("serve",): (("--help",), ("--token", BAD), ("--store", BAD)),
    ("tune",): (("talks", "--out", "mine.yaml"), ("texts",), (BAD,), ("talks", "--prices", BAD)),
    ("callout",): (("S", "set_state", NAME), ("S", BAD, "x"), ("S", "set_state", BAD * 2)),
    ("cards",): (("S",), ("S", "--regenerate"), ("S", "--pin", BAD)),
    ("check",): (
        ("bad.json",),
        ("bad.json", "--explain-defaults"),
        ("wrong.json",),
        ("bad.xml", "--explain-defaults"),
    ),
    ("query",): (
        ("SELECT * FROM unified_logs",),
        (f'SELECT content_json AS "{NAME.replace("[", "")}" FROM unified_logs',),
        (f"SELECT '{BAD}'",),
        (f"SELECT {BAD}",),
        ('SELECT "\x1b[31m" FROM unified_logs',),
    ),
    ("verify",): ((), ("--store", "damaged")),
    ("prune",): (("--session", "S", "--dry-run"), ("--session", BAD), ("--older-than", BAD)),
    ("export",): (
        ("S",),
        ("S", "--as", "html", "--redact"),
        ("S", "--as", "openai"),
        ("S", "--as", "anthropic"),
        ("S", "--as", "jsonl"),
        ("S", "--as", BAD),
        (BAD,),
    ),
    ("import",): (("log.jsonl",), (BAD,), ("log.jsonl", "--as", BAD), ("texts",)),
    ("migrate",): ((".windlass", "other"), (BAD.replace("/", ""), "other2")),
    ("schema",): ((), ("clickhouse",), (BAD,)),
    ("models",): ((), (f"openai/{BAD}",), (BAD,)),
    ("config",): ((),),
    ("trust",): ((NAME,), (), (NAME, "--remove"), (BAD, "--remove"), (BAD,)),
    ("policies",): ((), ("careful",), (BAD,)),
    ("memory", "list"): ((), ("notes",), (BAD,)),
    ("memory", "show"): (("notes", "K"), ("notes", BAD), (BAD, "k")),
    ("memory", "match"): ((f"{BAD} deploy", "--bank", "notes"), ("deploy", "--folder", "texts")),
    ("memory", "forget"): (("notes", "K"), ("notes", BAD)),
}
"""How each command is called; S and K are the session and the key of what was said."""
