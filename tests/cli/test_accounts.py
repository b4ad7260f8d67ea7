"""What a session cost is one figure, wherever it is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anthropic
import pytest
from tests_inspector.conftest import signed_in

import windlass as library
from tests.cli.conftest import CommandLine
from tests.context import loops
from tests.importing.making import Session, write_lines
from tests.providers.model_server import model_server, reads_logs
from tests.support.report_costs import PRICED
from tests.support.web_sessions import ODD, store_sessions
from windlass.caching.rates import money
from windlass.history.sqlite import SqliteStore
from windlass.settings.settings import Settings
from windlass_agents._mcp_answers import ToolAnswers

CENT = 0.00005
"""Half of the last digit that is printed."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of ten kinds and more, run here and by other programs."""
    folder = tmp_path_factory.mktemp("accounts")
    store_sessions(folder)
    other = Session("s-9", "claude-opus-4-8")
    for number in range(4):
        other.user(f"Go on with {number}.")
        counts = {"input_tokens": 2_000, "output_tokens": 30, "service_tier": "batch"}
        other.answer(f"msg_{number}", {"type": "text", "text": f"Step {number}."}, usage=counts)
    library.import_sessions(write_lines(folder / "in" / "s-9.jsonl", other.records), store=folder)
    # The same answers in another file, and one of its own.
    other.records.append(dict(other.records[-2], uuid="more", parentUuid=other.last))
    other.last = "more"
    other.answer(
        "msg_9", {"type": "text", "text": "More."}, usage={"input_tokens": 90, "output_tokens": 3}
    )
    library.import_sessions(write_lines(folder / "in2" / "s-9b.jsonl", other.records), store=folder)
    # A call whose answer was not recorded, at the end.
    ask: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    says = {"role": "assistant", "content": "yo"}
    counts = {"prompt_tokens": 100, "completion_tokens": 5}
    log: list[dict[str, Any]] = [
        {"request": {"model": "gpt-5", "messages": sent}, "response": answer | {"usage": counts}}
        for sent, answer in (
            (ask, {"choices": [{"message": says}]}),
            ([*ask, says, *ask], {"choices": []}),
        )
    ]
    library.import_sessions(write_lines(folder / "log.jsonl", log), store=folder)
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    path = write_lines(folder / "chat.jsonl", [{"model": "gpt-5", "messages": chat}])
    library.import_sessions(path, store=folder)
    with pytest.MonkeyPatch.context() as patch, model_server(reads_logs(8)) as server:
        server.lead(patch)
        with anthropic.Anthropic() as plain:
            client: Any = library.wrap(plain, {"profile": "lean", "commit": "at_once"})
            loops.claude(client)
        client.windlass.save(folder)
    return folder


def accounts(windlass: CommandLine, store: Path, session: str) -> Iterator[tuple[str, Any]]:
    """What each account says of a session with those under it: calls, tokens in, US dollars."""

    def said(*words: str) -> Any:
        answer = windlass(*words, "--store", str(store), "--json")
        assert answer.code == 0, answer.err
        return answer.json

    own = said("report", session)
    total = own["total"]
    yield "report SESSION", (total["calls"], total["tokens_in"], total["dollars"])
    phases = own["phases"]
    yield (
        "its phases",
        (
            sum(line["calls"] for line in phases),
            sum(line["tokens_in"] for line in phases),
            sum(line["dollars"] or 0.0 for line in phases)
            if total["dollars"] is not None
            else None,
        ),
    )
    of_store = said("report", "--limit", "1000")
    (line,) = (one for one in of_store["sessions"] if one["name"] == session)
    unpriced = line["unpriced"] == line["calls"] > 0
    yield "report", (line["calls"], line["tokens_in"], None if unpriced else line["dollars"])


def cost_of_replay(windlass: CommandLine, store: Path, session: str) -> float | None:
    answer = windlass("replay", session, "--store", str(store), "--json")
    return answer.json["recorded"] if answer.code == 0 else None


def cost_of_spans(windlass: CommandLine, store: Path, session: str) -> float | None:
    spans = windlass("export", session, "--as", "otel", "--store", str(store)).out
    costs = re.findall(r'"windlass.cost", "value": \{"doubleValue": ([^}]+)\}', spans)
    return sum(map(float, costs)) if costs else None


def sessions_of(store: Path) -> Mapping[str, Any]:
    with SqliteStore.open_existing(store, busy_s=5.0) as history:
        return {one.session_id: one for one in history.sessions() if one.parent_id is None}


def near(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and abs(one - other) < CENT)


def test_every_account_of_every_session_is_the_same(
    windlass: CommandLine, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_PRICE_AS", PRICED)
    known = sessions_of(store)
    assert len(known) >= 10
    listed = {
        one["session_id"]: one
        for one in windlass("sessions", "--store", str(store), "--json", "--limit", "1000").json
    }
    with SqliteStore.open_existing(store, reading=True) as history:
        pages = signed_in(history)
        with pages.client:
            page = pages.get("/").text
    of_page = {
        name: row.rsplit('data-label="Cost">', 1)[1].split("</td>")[0]
        for row in page.split("<tr>")
        for name in known
        if f'/session/{quote(name, safe="")}"' in row and 'data-label="Cost"' in row
    }
    assert of_page.keys() >= {name for name in known if not ODD.startswith(name)}
    settings = Settings.read({"store": str(store), "price_as": PRICED})
    with closing(ToolAnswers(settings, None)) as answers:
        asked = {name: answers.cost(name) for name in known}
    for name, info in known.items():
        ((_, first), *others) = accounts(windlass, store, name)
        calls, tokens_in, dollars = first
        for account, other in others:
            assert other[:2] == (calls, tokens_in), (name, account, first, other)
            assert near(other[2], dollars), (name, account, first, other)
        assert listed[name]["tokens_in"] == tokens_in, name
        is_free = info.model.startswith("scripted/")
        if not is_free and calls:
            assert near(listed[name]["cost"], dollars), name
            assert near(cost_of_replay(windlass, store, name), dollars), name
            shown = windlass("show", name, "--store", str(store), "--json").json["total"]
            assert near(shown["cost"], dollars), name
            assert near(cost_of_spans(windlass, store, name), dollars), name
        assert f"{tokens_in:,} tokens in" in asked[name]
        assert money(dollars) in asked[name], name
        if name in of_page and calls:
            assert of_page[name].removeprefix("≈ ") == money(dollars), name
