"""Each page of the inspector on sessions that ran: what it says is what the reports say."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from tests.support.report_costs import PRICED
from tests.support.web_sessions import HOSTILE, ODD

from tests_inspector.conftest import Elements, Pages, signed_in
from windlass.caching.rates import money, rate
from windlass.history.base import NodeType, SessionFilter
from windlass.report.contents import call_report
from windlass.report.inspected import InspectedSession
from windlass.report.paid import ModelPrices, SpanPrices
from windlass.report.prefix import prefix_of
from windlass.report.session_costs import session_report
from windlass_inspector._rendering import address


@pytest.fixture(scope="module")
def long(pages: Pages) -> InspectedSession:
    return InspectedSession(pages.store, "long", PRICED)


def billed(pages: Pages, path: str) -> Elements:
    """A page once the session's bills are worked out."""
    pages.read(path.split("/call", maxsplit=1)[0].split("?", maxsplit=1)[0])
    for _ in range(20):
        page = pages.read(path)
        if not any(each.get("http-equiv") == "refresh" for each in page.all("meta")):
            return page
    pytest.fail("the bills are never worked out")


class TestTheList:
    def test_has_every_session_with_its_first_words(self, pages: Pages) -> None:
        page = pages.read("/")
        links = [each["href"] for each in page.all("a") if each.get("class") == "big"]
        for name in ("long", "whole", "first", "sounded", "failing", ODD):
            assert address("session", name) in links
        assert "Find the tables and their properties" in page.text
        assert "imported" in page.text

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ("name=LON", {"long"}),
            ("model=SONNET-4&name=firs", {"first"}),
            ("name=five_ph", {"long"}),
            ("state=failed", {"failing"}),
            ("kind=task", set()),
            ("model=sonnet&name=wHole&state=incomplete", set()),
        ],
    )
    def test_has_those_that_are_asked_for(self, pages: Pages, query: str, names: set[str]) -> None:
        page = pages.read(f"/?{query}")
        links = {each["href"] for each in page.all("a") if each.get("class") == "big"}
        assert links == {address("session", name) for name in names}
        assert ("No session fits" in page.text) == (not names)

    def test_of_imported_ones_has_those_alone(self, pages: Pages) -> None:
        page = pages.read("/?kind=imported")
        links = [each["href"] for each in page.all("a") if each.get("class") == "big"]
        assert len(links) == 1
        assert "/session/claude-code-" in str(links[0])

    def test_says_which_kinds_there_are(self, pages: Pages) -> None:
        assert "did you mean" in pages.read("/?kind=tusk", 404).text

    def test_is_shown_part_by_part(self, pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("windlass_inspector._sessions_page._SHOWN", 3)
        names: list[str | None] = []
        path: str | None = "/"
        while path is not None:
            page = pages.read(path)
            names += [each["href"] for each in page.all("a") if each.get("class") == "big"]
            path = next((each["href"] for each in page.all("a") if each.get("rel") == "next"), None)
        roots = pages.store.sessions(SessionFilter(under=()))
        assert len(names) == len(set(names)) == len(roots)


class TestTheSearch:
    def test_finds_what_was_said_and_leads_to_it(self, pages: Pages) -> None:
        page = pages.read("/?q=REPORT id_north_77")
        found = [each["href"] for each in page.all("a") if "/message/" in (each["href"] or "")]
        assert found
        assert "row 1 of north" in pages.read(str(found[0])).text

    @pytest.mark.parametrize("text", ["100% sure_", "x\\%_y", 'a "quoted" text', "nowhere said"])
    def test_takes_signs_as_they_are(self, pages: Pages, text: str) -> None:
        page = pages.read(f"/?{urlencode({'q': text})}")
        assert "Nothing that was said holds it" in page.text

    def test_finds_arguments_and_what_looks_like_a_page(self, pages: Pages) -> None:
        assert "sql_search" in pages.read('/?q={"query": "tables of').text
        page = pages.read("/?q=<script>alert")
        assert "<script>alert(1)" in page.text

    def test_stops_in_time_and_goes_on(self, pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("windlass_inspector._sessions_page._SEARCH_S", 0.0)
        path, looked = "/?q=report id_north_77", 0
        while not re.search("row 0 of north", pages.read(path).text):
            nexts = [each["href"] for each in pages.read(path).all("a") if each.get("rel")]
            path, looked = str(nexts[0]), looked + 1
        assert looked


class TestASession:
    def test_says_what_to_shorten_drop_and_keep(self, pages: Pages) -> None:
        page = pages.read("/session/whole")
        advice = InspectedSession(pages.store, "whole", PRICED).advice
        assert [each.why for each in advice.of("drop")] == [
            "a later message says the same, word for word"
        ]
        (shorten,) = advice.of("shorten")
        assert "later calls used anything of it" in shorten.why
        assert shorten.pays_after is not None
        for each in advice.messages:
            assert address("session", "whole", "message", each.message_id) in {
                link["href"] for link in page.all("a")
            }
            assert each.why in page.text
        assert [tool.name for tool in advice.tools] == ["idle"]
        assert "Tools that no call used" in page.text

    def test_that_was_shortened_has_nothing_to_shorten(
        self, pages: Pages, long: InspectedSession
    ) -> None:
        assert long.advice.of("shorten") == []
        assert any("shortened already" in each.why for each in long.advice.of("keep"))

    def test_lists_its_calls_with_their_money(self, pages: Pages, long: InspectedSession) -> None:
        page = billed(pages, "/session/long")
        for number, call in long.costs.items():
            assert address("session", "long", "call", number) in {
                link["href"] for link in page.all("a")
            }
            assert money(call.dollars) in page.text
        assert len([each for each in page.all("rect") if each.get("class") == "bar"]) == 11

    def test_tells_the_first_break_of_the_prefix(
        self, pages: Pages, long: InspectedSession
    ) -> None:
        first = next(each for each in prefix_of(pages.store, "long") if each.broken_by)
        before = long.before(first.call)
        assert before is not None
        anew = f"{before.sent_tokens - first.shared:,} tokens that stood in the call before"
        text = billed(pages, "/session/long").text
        assert f"First at call {first.call}" in text
        assert first.broken_by in text
        assert anew in text

    def test_that_failed_says_why(self, pages: Pages) -> None:
        text = pages.read("/session/failing").text
        assert "the provider is down" in text
        assert "made no call yet" in text

    def test_shows_its_calls_part_by_part(
        self, pages: Pages, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("windlass_inspector._session_page._CALLS", 4)
        text = pages.read("/session/long?from=8").text
        assert "9 to 11 of 11" in text
        assert pages.get("/session/long?from=1000000").status_code == 200

    def test_costs_what_the_report_says(self, pages: Pages) -> None:
        text = billed(pages, "/session/long/costs").text
        report = session_report(pages.store, "long", PRICED)
        assert f"{money(report.costs.total.dollars)} for 11 calls" in text
        assert money(report.costs.total.snowball_dollars) in text
        for message in report.messages:
            assert message.what in text
        for saving in report.savings:
            assert money(saving.dollars) in text


class TestTheListOfSessions:
    def test_has_the_figures_of_each_session(self, pages: Pages) -> None:
        rows = pages.get("/").text.split("<tr>")
        names = [info.session_id for info in pages.store.sessions()]
        compared = 0
        for name in names:
            address = f'/session/{quote(name, safe="")}"'
            own = next((row for row in rows if address in row and "data-label" in row), None)
            if own is None or not pages.store.calls(name):
                continue
            page = billed(pages, f"/session/{quote(name, safe='')}").text
            listed = {
                label: own.split(f'data-label="{label}">')[1].split("</td>")[0]
                for label in ("Calls", "Tokens in", "Cached", "Saved", "Cost")
            }
            assert f"Cost{listed['Cost']}" in page.replace("Cost ", "Cost"), (name, listed)
            for label, on_page in (
                ("Calls", "Calls"),
                ("Tokens in", "Tokens in"),
                ("Cached", "Read from a cache"),
                ("Saved", "Not sent of all"),
            ):
                assert f"{on_page}{listed[label]}" in page.replace(f"{on_page} ", on_page), (
                    name,
                    label,
                    listed,
                )
            compared += 1
        assert compared > 5

    def test_no_message_is_kept_and_shortened(self, pages: Pages) -> None:
        told = 0
        for info in pages.store.sessions():
            session = InspectedSession(pages.store, info.session_id, PRICED)
            kept = {
                f"{each.what} in {session.record.line(session.record.by_id[each.message_id].row)},"
                f" {session.said(each.message_id).chars:,} characters"
                for each in session.advice.of("keep")
            }
            findings, total = session.report.findings, session.report.costs.total
            assert sum(one.saved for one in findings) <= (total.dollars or 0.0)
            for finding in findings:
                assert sum(part.saved for part in finding.parts) <= finding.dollars
                for part in finding.parts:
                    told += 1
                    assert not any(part.text.startswith(words) for words in kept), part.text
        assert told


class TestTheMatrix:
    def test_has_prices_whichever_page_is_asked_first(self, pages: Pages) -> None:
        asked_first = signed_in(pages.store)
        page = billed(asked_first, "/session/long/matrix")
        assert "Bars above say what each call cost: at most $0." in page.text
        answer = asked_first.get("/session/long/cell?first=1&message=1&call=1").json()
        assert "The call cost $0.0" in answer["text"]
        asked_first.client.close()

    def test_has_a_page_of_the_session(self, pages: Pages) -> None:
        page = pages.read("/session/long/matrix")
        (grid,) = [each for each in page.all("div") if each.get("id") == "matrix-grid"]
        assert grid["data-cells"] == "/session/long/cell"
        for source in [*page.all("img"), *page.all("source")]:
            answer = pages.get(str(source.get("src") or source.get("srcset")))
            assert answer.headers["content-type"] == "image/png"
            assert answer.content.startswith(b"\x89PNG")
        links = [each.get("href") for each in pages.read("/session/long").all("a")]
        assert "/session/long/matrix" in links

    def test_tells_each_cell(self, pages: Pages) -> None:
        answer = pages.get("/session/long/cell?first=1&message=1&call=9")
        assert answer.json()["text"].startswith("Message 1, ")
        for wrong in (
            "cell?first=1&message=1&call=99",
            "cell?message=x&call=1",
            "cell",
            "matrix.png?first=99",
            "matrix?first=0",
        ):
            assert pages.get(f"/session/long/{wrong}").status_code == 404


class TestACall:
    def test_has_each_message_with_reason_tokens_and_price(
        self, pages: Pages, long: InspectedSession
    ) -> None:
        page = pages.read("/session/long/call/9")
        explained = long.explain(9)
        paid = long.paid_in(9)
        assert len(page.all("details")) >= len(explained.decisions)
        for decision in explained.decisions:
            assert decision.reason in page.text
        assert sum(each.tokens for each in paid) <= long.call(9).sent_tokens
        assert all(each.dollars is not None for each in paid)

    def test_shares_add_up_to_the_bill_of_its_input(self, pages: Pages) -> None:
        whole = InspectedSession(pages.store, "whole", PRICED)
        price = rate(PRICED)
        assert price is not None
        for call in whole.view.calls:
            paid = whole.paid_in(call.number)
            head = SpanPrices.of(call, ModelPrices.by(PRICED), 0)
            tools, _ = head.share(0, call.sent_tokens - sum(each.tokens for each in paid))
            shares = (tools or 0.0) + sum(each.dollars or 0.0 for each in paid)
            out = call.tokens_out * price.output / 1e6
            assert shares + out == pytest.approx(call.cost)
            read = sum(each.tokens * each.read for each in paid)
            assert read <= call.tokens_cached

    def test_shows_the_original_beside_what_was_sent(
        self, pages: Pages, long: InspectedSession
    ) -> None:
        page = pages.read("/session/long/call/9?only=changed")
        changed = [each for each in long.explain(9).decisions if each.action == "shortened"]
        assert changed
        for each in changed:
            assert f"As it was said, {each.chars_before:,} characters" in page.text
            assert f"As it was sent, {each.chars_after:,} characters" in page.text
            assert each.reference in page.text

    def test_tells_what_differs_from_the_call_before(
        self, pages: Pages, long: InspectedSession
    ) -> None:
        broken = next(each for each in long.prefixes if each.message is not None)
        text = billed(pages, f"/session/long/call/{broken.call}").text
        assert "The prefix broke" in text
        assert broken.broken_by in text
        assert "It is the first call" in pages.read("/session/long/call/1").text

    def test_has_the_numbers_of_the_planner(self, pages: Pages, long: InspectedSession) -> None:
        planned = [call.number for call in long.view.calls if long.explain(call.number).planner]
        for number in planned:
            plan = long.explain(number).planner
            assert plan is not None
            text = pages.read(f"/session/long/call/{number}").text
            assert f"{plan.verdict} " in text
            if plan.removed:
                assert f"{plan.removed:,}" in text

    def test_is_made_of_what_the_report_says(self, pages: Pages) -> None:
        text = billed(pages, "/session/long/call/9").text
        assert "≈ $" in text
        assert f"at the prices of {PRICED}" in text
        for part in call_report(pages.store, "long", 9, PRICED).parts:
            assert f"{part.tokens:,}" in text

    @pytest.mark.parametrize("number", ["12", "0", "99999999999999999999"])
    def test_that_there_is_not_has_a_page_that_says_so(self, pages: Pages, number: str) -> None:
        assert "has no call" in pages.read(f"/session/long/call/{number}", 404).text
        assert "no page" in pages.read("/session/long/call/x", 404).text


class TestAMessage:
    def test_has_its_life(self, pages: Pages, long: InspectedSession) -> None:
        edited = next(each for each in pages.store.edits("long") if each.kind == "replace")
        life = long.life(edited.message_id)
        page = pages.read(address("session", "long", "message", edited.message_id))
        assert life.edits[0].call is not None
        assert f"Changed by {edited.because} from call {life.edits[0].call} on" in page.text
        for span in life.spans:
            assert f"Sent {span}." in page.text
        states = {each.call: each.is_whole for each in life.paid}
        assert states[life.edits[0].call] is False
        assert all(whole for number, whole in states.items() if number < life.edits[0].call)
        assert life.reference in page.text

    def test_was_paid_in_each_call_what_the_call_says(self, long: InspectedSession) -> None:
        for stored in long.record.rows:
            if stored.id is None:
                continue
            for each in long.life(stored.id).paid:
                assert long.paid_in(each.call)[each.position] == each

    def test_that_is_a_reply_names_the_call_it_was_born_in(
        self, pages: Pages, long: InspectedSession
    ) -> None:
        call = next(each for each in long.view.calls if each.row.node_type == NodeType.FOLLOW_UP)
        page = pages.read(address("session", "long", "message", call.stored.id or ""))
        assert f"Born as the reply to call {call.number}" in page.text

    def test_is_found_by_the_trace_of_its_row(self, pages: Pages, long: InspectedSession) -> None:
        stored = next(each for each in long.record.rows if each.id)
        page = pages.read(address("session", "long", "message", stored.row.trace_id))
        assert str(stored.id) in page.text

    def test_is_a_text_by_itself(self, pages: Pages, long: InspectedSession) -> None:
        stored = next(each for each in long.record.rows if each.row.message and each.id)
        answer = pages.get(address("session", "long", "message", stored.id or "", "text"))
        assert answer.headers["content-type"].startswith("text/plain")
        assert stored.row.message is not None
        assert answer.text.startswith(stored.row.message.text[:50])

    def test_that_there_is_not_has_a_page_that_says_so(self, pages: Pages) -> None:
        assert "has no message 'none-1'" in pages.read("/session/long/message/none-1", 404).text

    def test_shows_its_pictures(self, pages: Pages, long: InspectedSession) -> None:
        stored = next(
            each for each in long.record.rows if each.row.message and each.row.message.pictures
        )
        page = pages.read(address("session", "long", "message", stored.id or ""))
        (image,) = page.all("img")
        answer = pages.get(str(image["src"]))
        assert answer.headers["content-type"] == "image/png"
        assert answer.content.startswith(b"\x89PNG")
        assert image["alt"]

    @pytest.mark.parametrize("sha256", ["0" * 64, "x", "..%2F..%2Fwindlass.sqlite"])
    def test_shows_no_picture_that_is_not_the_sessions(self, pages: Pages, sha256: str) -> None:
        assert pages.get(f"/session/whole/picture/{sha256}").status_code == 404


class TestOtherPages:
    def test_soundings_stand_side_by_side(self, pages: Pages) -> None:
        page = pages.read("/session/sounded/soundings")
        columns = [each["class"] for each in page.all("article")]
        assert columns == ["column", "column taken", "column"]
        for answer in ("one", "two", "three"):
            assert answer in page.text

    def test_soundings_of_a_whole_cascade_are_sessions_under_it(self, pages: Pages) -> None:
        names = [
            info.session_id for info in pages.store.sessions() if info.parent_id == "sounded-whole"
        ]
        assert len(names) == 3
        page = pages.read("/session/sounded-whole/soundings")
        assert [each["class"] for each in page.all("article")].count("column taken") == 1
        for path in ("soundings", "forks"):
            links = [each["href"] for each in pages.read(f"/session/sounded-whole/{path}").all("a")]
            assert all(address("session", name) in links for name in names)
        assert "3 sessions ran under it" in pages.read("/session/sounded-whole").text
        assert "sounding" in pages.read(address("session", names[0])).text

    def test_forks_stand_in_a_tree(self, pages: Pages) -> None:
        for name in ("first", "second", "third"):
            page = pages.read(f"/session/{name}/forks")
            deep = [each["class"] for each in page.all("li") if each.get("class")]
            assert deep[-3:] == ["deep0", "deep1", "deep2"]
            assert "1 of them inherited" in page.text

    def test_a_replay_compares_policies(self, pages: Pages) -> None:
        page = billed_replay(pages, "/session/whole/replay")
        assert len(page.all("polyline")) == 2
        assert "everything" in page.text
        page = billed_replay(pages, "/session/whole/replay?policies=mask:2+everything")
        assert "mask:2" in page.text

    @pytest.mark.parametrize("given", ["nonsense", "../secret.yaml", "a b c d e f"])
    def test_a_replay_of_no_policy_says_so(self, pages: Pages, given: str) -> None:
        page = billed_replay(pages, f"/session/whole/replay?policies={given}")
        assert [each for each in page.all("p") if each.get("class") == "notice bad"]

    def test_an_imported_session_reads_like_an_own_one(self, pages: Pages) -> None:
        info = next(
            each for each in pages.store.sessions() if each.session_id.startswith("claude-code")
        )
        for path in ("", "/costs", "/call/1", f"/call/{info.calls}", "/forks", "/replay"):
            pages.read(address("session", info.session_id) + path)
        assert "imported from" in pages.read(address("session", info.session_id)).text

    def test_every_link_of_every_page_leads_to_a_page(self, pages: Pages) -> None:
        waiting, seen = ["/"], set[str]()
        while waiting and len(seen) < 150:
            path = waiting.pop(0)
            if path in seen:
                continue
            seen.add(path)
            answer = pages.get(path)
            assert answer.status_code == 200, path
            if answer.headers["content-type"].startswith("text/html"):
                links = [each["href"] or "" for each in pages.elements(answer).all("a")]
                waiting += [each.partition("#")[0] or path for each in links]
        assert len(seen) == 150


def billed_replay(pages: Pages, path: str) -> Elements:
    return billed(pages, path) if "?" not in path else _until_done(pages, path)


def _until_done(pages: Pages, path: str) -> Elements:
    for _ in range(20):
        page = pages.read(path)
        if not any(each.get("http-equiv") == "refresh" for each in page.all("meta")):
            return page
    pytest.fail("the replay never ends")


class TestHostileContent:
    def test_is_text(self, pages: Pages) -> None:
        base = address("session", ODD)
        for path in (base, f"{base}/call/1", f"{base}/costs", f"{base}/forks", "/", "/?q=alert"):
            page = pages.read(path)
            scripts = [str(each.get("src")) for each in page.all("script")]
            assert all(script.startswith("/static/") for script in scripts)
            assert all("onerror" not in attributes for _, attributes in page.tags)
            assert "\u202e" not in page.text
        assert "\\u202etxt.exe" in pages.read(f"{base}/call/1").text
        assert HOSTILE[:25] in pages.read(f"{base}/call/1").text

    @pytest.mark.parametrize("name", [".", "..", "~1", "a~b", "%2e%2e", "\x00", "<x>"])
    def test_of_addresses_is_a_name(self, pages: Pages, name: str) -> None:
        page = pages.read(address("session", name), 404)
        assert "no session" in page.text


def test_a_page_reads_for_people_who_hear_it(pages: Pages, folder: Path) -> None:
    del folder
    for path in ("/", "/session/long", "/session/long/call/9", "/session/long/costs"):
        page = pages.read(path)
        assert page.all("html")[0]["lang"] == "en"
        assert len(page.all("h1")) == 1
        assert len(page.all("main")) == 1
        assert page.all("a")[0]["href"] == "#main"
        assert all(each.get("scope") for each in page.all("th"))
        assert all(each.get("aria-label") for each in page.all("nav"))
        assert all(each.get("alt") is not None for each in page.all("img"))
        assert all(each.get("aria-label") for each in page.all("div") if each.get("tabindex"))
        ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
        assert len(ids) == len(set(ids))
        labelled = [each["aria-labelledby"] for each in page.all("section")]
        assert set(labelled) <= set(ids)
