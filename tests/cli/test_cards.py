"""`windlass cards`: what it prints, what it makes, and what it says of mistakes."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine, Transcript
from tests.engine.harness import by_phase, call, calls, cascade, phase
from windlass.engine.cards import card_queue
from windlass.errors import ProviderError
from windlass.wire.base import Request

LONG = "The pump in hall 7 failed at 14:05. " * 12


@pytest.fixture
def carded(windlass: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A folder where the session `s1` ran and has its cards."""
    monkeypatch.setattr(card_queue, "DRAIN_S", 60.0)  # a test waits for all of them
    windlass.write(
        "one.json", cascade(phase("look-at-it", tackle=["set_state"]), auto_context=True)
    )
    asked = calls(call("set_state", '{"key": "k", "value": "P-101"}'), text="I look at the pump.")
    windlass.script = by_phase({"look-at-it": [asked, LONG]})  # type: ignore[assignment]
    said = windlass("run", "one.json", "--session", "s1")
    assert said.code == 0, said.err
    return windlass


class TestShow:
    @pytest.mark.req("AC-10", "AC-12")
    def test_lists_the_cards_in_the_order_of_the_session(self, carded: CommandLine) -> None:
        said = carded("cards", "s1")
        assert said.code == 0, said.err
        lines = said.out.splitlines()
        assert lines[0].split()[:3] == ["message", "role", "said"]
        assert "look-at-it:1" in said.out
        assert "The pump in hall 7 failed" in said.out
        assert lines[-1].endswith("cards, 0 messages wait for one")
        told = carded("cards", "s1", "--json").json
        assert told["waiting"] == []
        assert [one["role"] for one in told["cards"]][-1] == "assistant"
        assert told["cards"][-1]["generator_model"] == "rule"
        assert "embedding" not in told["cards"][-1]
        assert 280 < len(told["cards"][-1]["summary"]) <= 300

    @pytest.mark.req("AC-17", "AC-18")
    def test_shows_what_was_called_out_and_pinned(self, carded: CommandLine) -> None:
        card = carded("cards", "s1", "--json").json["cards"][-1]
        assert carded("callout", "s1", card["id"], "the failure").code == 0
        said = carded("cards", "s1", "--pin", card["id"])
        assert "called out: the failure, pinned" in said.out
        (marked,) = carded(
            "query",
            "SELECT message_id, is_anchor, is_callout, callout_name FROM context_cards "
            "WHERE is_anchor",
            "--json",
        ).json
        assert marked == {
            "message_id": card["id"],
            "is_anchor": 1,
            "is_callout": 1,
            "callout_name": "the failure",
        }
        assert "pinned" not in carded("cards", "s1", "--unpin", card["id"]).out
        assert carded("verify").code == 0

    def test_a_session_without_cards_says_how_to_make_them(self, ran: CommandLine) -> None:
        said = ran("cards", "s1")
        assert said.code == 0
        assert "0 cards" in said.out
        assert "windlass cards s1 --make" in said.out
        made = ran("cards", "s1", "--make")
        assert made.code == 0, made.err
        assert "cards made" in made.out
        assert "0 messages wait for one" in made.out


class TestMake:
    @pytest.mark.req("AC-113")
    def test_regenerates_all_with_another_summariser(
        self, carded: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = carded("cards", "s1", "--json").json["cards"]
        monkeypatch.setenv("WINDLASS_CARDS_SUMMARISER", "local/sum")
        carded.script = lambda _: "P-101 failed."
        said = carded("cards", "s1", "--regenerate")
        assert said.code == 0, said.err
        assert "models that see content: local/sum" in said.err
        after = carded("cards", "s1", "--json").json["cards"]
        assert [one["id"] for one in after] == [one["id"] for one in before]
        assert after[-1]["summary"] == "P-101 failed."
        assert after[-1]["generator_model"] == "local/sum"
        assert {one["generator_model"] for one in after[:-1]} == {"rule"}

    @pytest.mark.req("AC-93")
    def test_shows_what_failed_and_makes_it_again(
        self, carded: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_CARDS_SUMMARISER", "local/sum")

        def fail(request: Request) -> str:
            raise ProviderError("the vendor is on holiday")

        carded.script = fail
        said = carded("cards", "s1", "--regenerate")
        assert said.code == 0
        assert "1 card with a summary by rule, because of local/sum: the vendor" in said.out
        failed = carded("cards", "s1", "--failed").out
        assert "failed" in failed
        assert "1 lack something: the vendor is on holiday" in failed
        assert "I look at the pump" not in failed
        carded.script = lambda _: "P-101 failed."
        again = carded("cards", "s1", "--make", "--json").json
        assert (again["made"], again["failed"]) == (1, {})
        assert carded("cards", "s1", "--failed").out.startswith("no card of this session lacks")

    @pytest.mark.req("AC-100")
    def test_makes_none_where_they_are_switched_off(
        self, carded: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WINDLASS_AUTO_CONTEXT_CARDS_ENABLED", "0")
        said = carded("cards", "s1", "--make")
        assert said.code == 2
        assert "because WINDLASS_AUTO_CONTEXT_CARDS_ENABLED switches them off" in said.complaint

    @pytest.mark.usefixtures("carded")
    def test_what_is_said_of_mistakes(self, transcript: Transcript) -> None:
        transcript("cards_mistakes", "cards s2", "cards s1 --pin nothing")
