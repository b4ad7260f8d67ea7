"""What a session cost, by each account that tells it, side by side.

Run: `python -m bench.bench_accounts`. Sessions of many kinds are made in a folder that goes again:
run here, recorded by other programs, shortened by a hook, sent by a wrapped client. Each account is
read as users read it, by the command line. US dollars; a dash: the session has no such account. Of
a model that costs nothing some accounts say so, the others what a hosted one would have billed.
Exit 1 where two accounts of a session differ by more than is printed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote

import anthropic
import pytest
from tests.context.loops import LOOPS
from tests.importing.making import Session, write_lines
from tests.providers.model_server import model_server, reads_logs
from tests.support.hooks_agent import RecordingAgent, bash, lines
from tests.support.report_costs import PRICED
from tests.support.web_sessions import store_sessions
from tests_inspector.conftest import signed_in

import windlass as library
from windlass.cli import main as command_line
from windlass.history.sqlite import SqliteStore
from windlass.settings.settings import Settings
from windlass_agents._mcp_answers import ToolAnswers

_CENT = 0.00005
"""Half of the last digit that pages and sentences print."""
_EQUAL = 1e-9
"""US dollars by which sums of the same amounts may differ."""
_PRINTED = ("serve", "MCP cost")
"""The accounts that are read from what is printed."""
_MONEY = re.compile(r"\$([\d,]+\.\d+)")
_RECORDINGS = Path(__file__).parent.parent / "examples" / "recordings"


def said(*words: str) -> str:
    """What a command prints."""
    out = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["windlass", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        command_line()
    return out.getvalue()


def told(*words: str) -> Any:
    """The same as JSON (None: the command printed none)."""
    text = said(*words, "--json")
    return json.loads(text) if text else None


def batch_session(folder: Path) -> None:
    """A session of Claude Code whose calls were billed as a batch, and one that goes on with it."""
    session = Session("batch", "claude-opus-4-8")
    for number in range(4):
        session.user(f"Go on with {number}.")
        counts = {"input_tokens": 2_000, "output_tokens": 30, "service_tier": "batch"}
        block = {"type": "text", "text": f"Step {number}."}
        session.answer(f"msg_{number}", block, usage=counts)
    library.import_sessions(
        write_lines(folder / "in" / "batch.jsonl", session.records), store=folder
    )


def hooked_session(folder: Path) -> None:
    """A session of a coding agent with a hook, and a subagent of it."""
    agent = RecordingAgent(folder)
    agent.run("Bash", {"command": "make"}, bash(lines("compiling")))
    below = agent.subagent("a1")
    below.run("Bash", {"command": "make test"}, bash(lines("testing")))
    agent.answer([{"type": "text", "text": "done"}])


def fork_of_batch(folder: Path) -> None:
    """A session that goes on in another file with answers of the first."""
    session = Session("batch", "claude-opus-4-8")
    session.user("Go on with 0.")
    counts = {"input_tokens": 2_000, "output_tokens": 30, "service_tier": "batch"}
    session.answer("msg_0", {"type": "text", "text": "Step 0."}, usage=counts)
    session.answer(
        "msg_9",
        {"type": "text", "text": "More."},
        usage={"input_tokens": 90, "cache_read_input_tokens": 2_000, "output_tokens": 3},
    )
    library.import_sessions(
        write_lines(folder / "in2" / "fork.jsonl", session.records), store=folder
    )


def wrapped_session(folder: Path) -> None:
    """A conversation of a wrapped client, whose vendor answers on loopback."""
    with pytest.MonkeyPatch.context() as patch, model_server(reads_logs(6)) as server:
        server.lead(patch)
        with anthropic.Anthropic(max_retries=0) as client:
            wrapped: Any = library.wrap(client)
            LOOPS["anthropic"](wrapped)
            wrapped.windlass.save(folder)


def make_sessions(folder: Path) -> None:
    """Sessions of all kinds in the store of a folder."""
    store = folder / ".windlass"
    store_sessions(store)
    wrapped_session(store)
    batch_session(store)
    fork_of_batch(store)
    for file in sorted(_RECORDINGS.glob("*.json*")):
        with contextlib.suppress(library.WindlassError):
            library.import_sessions(file, store=store)
    hooked_session(folder)
    said("hook", "report", "--since", "1970-01-02", "--store", str(store))


Account = Callable[[str], float | None]


def accounts(store: Path) -> Iterator[tuple[str, Account]]:
    """Each account of a session by its name: US dollars (None: the session has no such account)."""
    at = ("--store", str(store))
    listed = {one["session_id"]: one for one in told("sessions", *at, "--limit", "1000")}
    ranked = {one["name"]: one for one in told("report", *at, "--limit", "1000")["sessions"]}
    hooked = {
        one["session_id"]: one["dollars"]
        for one in told("hook", "report", *at, "--since", "1970-01-02")["sessions"]
    }
    with SqliteStore.open_existing(store, reading=True) as history:
        pages = signed_in(history)
        with pages.client:
            page = pages.get("/").text
    settings = Settings.read({"store": str(store), "price_as": PRICED})
    with closing(ToolAnswers(settings, None)) as answers:
        asked = {name: answers.cost(name) for name in listed}

    def in_page(name: str) -> float | None:
        link = f'/session/{quote(name, safe="")}"'
        rows = [row for row in page.split("<tr>") if link in row and 'data-label="Cost">' in row]
        cell = rows[0].rsplit('data-label="Cost">', 1)[1].split("</td>")[0] if rows else ""
        return _dollars(cell)

    yield "show", lambda name: told("show", name, *at)["total"]["cost"]
    yield "report ID", lambda name: told("report", name, *at)["total"]["dollars"]
    yield "report", lambda name: ranked[name]["dollars"] if name in ranked else None
    yield "sessions", lambda name: listed[name]["cost"]
    yield "replay", lambda name: (told("replay", name, *at) or {}).get("recorded")
    yield "serve", in_page
    yield "export", lambda name: _of_spans(said("export", name, "--as", "otel", *at))
    yield "hook report", hooked.get
    yield "MCP cost", lambda name: _dollars(asked[name])


def _of_spans(text: str) -> float | None:
    """The sum of what the spans of a session cost."""
    costs = re.findall(r'"windlass.cost", "value": \{"doubleValue": ([^}]+)\}', text)
    return sum(map(float, costs)) if costs else None


def _dollars(text: str) -> float | None:
    match = _MONEY.search(text)
    return None if match is None else float(match[1].replace(",", ""))


def _agree(costs: Mapping[str, float | None]) -> bool:
    """Whether all accounts are equal; what was paid for a free model is nothing."""
    exact = [cost for name, cost in costs.items() if cost and name not in _PRINTED]
    printed = [costs[name] for name in _PRINTED]
    return all(abs(cost - exact[0]) <= _EQUAL for cost in exact) and all(
        abs(cost - exact[0]) <= _CENT for cost in printed if cost is not None and exact
    )


def _cell(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:.6f}".rstrip("0") if cost else "free"


def main() -> int:
    """Print the table; the exit code."""
    os.environ["WINDLASS_PRICE_AS"] = PRICED
    equal = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_sessions(folder)
        store = folder / ".windlass"
        read = dict(accounts(store))
        print("session".ljust(28), *(name.rjust(11) for name in read))
        for one in told("sessions", "--store", str(store), "--limit", "1000"):
            name = one["session_id"]
            if one["parent_id"] is not None or not one["calls"]:
                continue
            costs = {key: account(name) for key, account in read.items()}
            cells = [_cell(cost) for cost in costs.values()]
            same = _agree(costs)
            equal = equal and same
            print(
                name[:28].ljust(28), *(cell.rjust(11) for cell in cells), "" if same else "differ"
            )
    return not equal


if __name__ == "__main__":
    sys.exit(main())
