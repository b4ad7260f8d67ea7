"""`wrap`: what the caller wrote stays, and each call says what was done and what it cost."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anthropic
import openai
import pytest

import windlass
from tests.context import loops
from tests.providers.model_server import ModelServer, log, model_server, reads_logs
from windlass.errors import UsageError

EPHEMERAL = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
STATIC = "An order is late when it left after noon. " * 500
"""A system prompt of 5,000 tokens."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server(reads_logs(50)) as served:
        served.lead(monkeypatch)
        yield served


@pytest.fixture
def claude(server: ModelServer) -> Iterator[Any]:
    with anthropic.Anthropic(max_retries=0) as client:
        yield client


@pytest.fixture
def gpt(server: ModelServer) -> Iterator[Any]:
    with openai.OpenAI(max_retries=0) as client:
        yield client


def text(words: str, mark: Any = None) -> dict[str, Any]:
    return {"type": "text", "text": words, **({"cache_control": mark} if mark else {})}


def ask(client: Any, messages: list[Any], **more: Any) -> Any:
    request = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": messages, **more}
    return client.messages.create(**request)


def history(turns: int, task: str = "Read all logs.") -> list[Any]:
    listed: list[Any] = [{"role": "user", "content": task}]
    for at in range(turns):
        use = {"type": "tool_use", "id": f"call_{at}", "name": "read_log", "input": {"number": at}}
        result = {"type": "tool_result", "tool_use_id": f"call_{at}", "content": log(at)}
        listed += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return listed


def last_body(server: ModelServer) -> Any:
    return server.asked[-1].body


def marks_in(value: Any, path: str = "") -> dict[str, Any]:
    """The cache marks of a body, by their place."""
    marks: dict[str, Any] = {}
    if isinstance(value, dict):
        if "cache_control" in value:
            marks[path] = value["cache_control"]
        for key, one in value.items():
            marks |= marks_in(one, f"{path}.{key}")
    if isinstance(value, list):
        for at, one in enumerate(value):
            marks |= marks_in(one, f"{path}.{at}")
    return marks


class TestMarks:
    @pytest.mark.parametrize("mark", [EPHEMERAL, HOUR])
    def test_the_callers_marks_stay_where_they_are(
        self, mark: Any, claude: Any, server: ModelServer
    ) -> None:
        client = windlass.wrap(claude)
        tools = [{**loops.CLAUDE_TOOLS[0], "cache_control": HOUR}]
        for turns in range(1, 5):
            messages = history(turns)
            messages[-1]["content"][0]["cache_control"] = mark
            system = [text(STATIC, HOUR), text(f"It is {turns} o'clock.")]
            ask(client, messages, system=system, tools=tools)
            marks = marks_in(last_body(server))
            own = {".tools.0": HOUR, ".system.0": HOUR}
            own[f".messages.{2 * turns}.content.0"] = mark
            assert marks.items() >= own.items()
            assert len(marks) <= 4
            behind = [place for place in marks if place.startswith(".messages")]
            assert [place for place in behind if marks[place] == EPHEMERAL] == behind or (
                mark == HOUR
            )
        assert server.refused == []
        assert {call.thread for call in client.windlass.calls} == {1}
        assert client.windlass.calls[-1].marks.own == 3

    def test_a_changing_end_of_the_system_prompt_is_named_once(
        self, claude: Any, server: ModelServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        client = windlass.wrap(claude)
        with caplog.at_level(logging.WARNING, "windlass"):
            for turns in range(1, 6):
                system = [text(STATIC, EPHEMERAL), text(f"It is {turns} o'clock.")]
                ask(client, history(turns), system=system, tools=loops.CLAUDE_TOOLS)
        (told,) = [one.message for one in caplog.records if "system prompt" in one.message]
        assert told.startswith('the end of the system prompt changes with every call ("')
        assert told.endswith("put it into the last user message")
        assert told in str(client.windlass)
        # No mark stands behind what changes.
        for asked in server.asked:
            assert set(marks_in(asked.body)) == {".system.0"}

    def test_nothing_is_written_before_a_second_call_is_to_be_expected(
        self, claude: Any, server: ModelServer
    ) -> None:
        client = windlass.wrap(claude)
        for number in range(5):
            ask(client, [{"role": "user", "content": f"{number} {STATIC}"}])
        assert all(not marks_in(asked.body) for asked in server.asked)
        ask(client, [{"role": "user", "content": "Late?"}], system=STATIC)
        assert not marks_in(last_body(server))
        ask(client, [{"role": "user", "content": "Late again?"}], system=STATIC)
        assert marks_in(last_body(server)) == {".system.0": EPHEMERAL}  # another began alike
        begun = [{"role": "user", "content": "Is it late?"}]
        ask(client, begun, tools=loops.CLAUDE_TOOLS)
        assert not marks_in(last_body(server))
        goes_on = [*begun, {"role": "assistant", "content": "No."}]
        ask(client, [*goes_on, {"role": "user", "content": STATIC}], tools=loops.CLAUDE_TOOLS)
        assert marks_in(last_body(server))

    @pytest.mark.parametrize("model", ["claude-sonnet-6", "team-sonnet"])
    def test_a_model_that_no_table_knows_has_the_rules_of_its_kin(
        self, model: str, claude: Any, server: ModelServer
    ) -> None:
        client = windlass.wrap(claude)
        for turns in range(1, 6):
            ask(client, history(turns), model=model, tools=loops.CLAUDE_TOOLS)
        (assumed,) = {call.assumed[0] for call in client.windlass.calls}
        assert f"anthropic/{model} is in no table: the rules of anthropic/claude-sonnet-" in assumed
        assert "prices=" in assumed
        assert client.windlass.saved_tokens > 1_000
        assert marks_in(last_body(server))
        assert client.windlass.calls[-1].cost is None

    def test_an_alias_of_a_gateway_gets_no_marks_that_it_may_refuse(
        self, gpt: Any, server: ModelServer
    ) -> None:
        client = windlass.wrap(gpt)
        listed = [{"role": "system", "content": STATIC}, {"role": "user", "content": "Late?"}]
        for _ in range(2):
            client.chat.completions.create(model="our-model", messages=listed)
        assert [asked.body["messages"] for asked in server.asked] == [listed] * 2
        assert "no price in the table" in client.windlass.calls[0].assumed[0]

    @pytest.mark.parametrize(
        ("provider", "model"),
        [("deepseek", "deepseek-chat"), ("moonshotai", "kimi-k3"), ("zai", "glm-4.6")],
    )
    def test_any_vendors_rules_may_hold(
        self, provider: str, model: str, gpt: Any, server: ModelServer
    ) -> None:
        client = windlass.wrap(gpt, provider=provider)
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi."}])
        (call,) = client.windlass.calls
        assert call.model == f"{provider}/{model}"
        assert not client.windlass.passed


class TestAsItCame:
    CALL = history(1)[:2]
    PREFILL = (*history(1), {"role": "assistant", "content": "The order that is late is"})
    ORPHAN = ({"role": "user", "content": [{**history(1)[2]["content"][0]}]},)
    UNANSWERED = (*CALL, {"role": "user", "content": "Go on."})

    @pytest.mark.parametrize("listed", [PREFILL, ORPHAN, UNANSWERED, CALL])
    def test_what_the_vendor_would_refuse_goes_out_as_it_came(
        self, listed: Any, claude: Any, server: ModelServer
    ) -> None:
        messages, client = [*copy.deepcopy(listed)], windlass.wrap(claude)
        for one in (claude, client):
            with suppress(anthropic.BadRequestError):
                ask(one, messages, model="claude-sonnet-5-5", tools=loops.CLAUDE_TOOLS)
        plain, sent = (asked.body for asked in server.asked)
        assert sent == plain
        (call,) = client.windlass.calls
        assert call.failed.startswith("Error code: 400")
        assert "wrap mends no list" in call.passed_because
        assert client.windlass.tokens == 0
        assert "1 call failed" in str(client.windlass)

    def test_a_switch_sends_all_as_it_came(
        self,
        claude: Any,
        server: ModelServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("WINDLASS_PASSTHROUGH", "1")
        client = windlass.wrap(claude)
        ask(client, history(5), tools=loops.CLAUDE_TOOLS)
        assert last_body(server)["messages"] == history(5)
        (call,) = client.windlass.calls
        assert call.passed_because == "WINDLASS_PASSTHROUGH is set"
        assert call.usage == call.plain_usage

    def test_turns_of_one_role_stay_apart(self, claude: Any, server: ModelServer) -> None:
        messages = [
            {"role": "user", "content": "One."},
            {"role": "user", "content": [text("Two.", EPHEMERAL), text("Three.")]},
        ]
        ask(windlass.wrap(claude), messages)
        assert last_body(server)["messages"] == messages


class TestInPlace:
    PIXEL = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
        "rkJggg=="
    )
    DARK = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5E"
        "rkJggg=="
    )

    def test_what_changed_in_place_is_sent_as_it_is_now(
        self, claude: Any, server: ModelServer
    ) -> None:
        source = {"type": "base64", "media_type": "image/png", "data": self.PIXEL}
        image = {"type": "image", "source": source}
        messages: list[Any] = [{"role": "user", "content": [text("What is it?"), image]}]
        client = windlass.wrap(claude)
        ask(client, messages)
        source["data"] = self.DARK
        ask(client, messages)
        assert last_body(server)["messages"][0]["content"][1]["source"]["data"] == self.DARK
        more = history(2)
        ask(client, more, tools=loops.CLAUDE_TOOLS)
        more[1]["content"][0]["input"]["number"] = 7
        ask(client, more, tools=loops.CLAUDE_TOOLS)
        assert last_body(server)["messages"][1]["content"][0]["input"] == {"number": 7}
        assert [call.thread for call in client.windlass.calls] == [1, 2, 3, 4]

    @pytest.mark.parametrize("other", [True, 1.0])
    def test_one_true_and_1_0_are_three_values(
        self, other: Any, claude: Any, server: ModelServer
    ) -> None:
        client = windlass.wrap(claude)
        for value in (1, other):
            messages = history(1)
            messages[1]["content"][0]["input"]["number"] = value
            ask(client, messages, tools=loops.CLAUDE_TOOLS)
            sent = last_body(server)["messages"][1]["content"][0]["input"]["number"]
            assert type(sent) is type(value)
        for value in (1, other):
            listed = [{"role": "user", "content": [{**text("x"), "n": value}]}]
            shown = windlass.bound(listed, "openai/gpt-5").messages[0]["content"][0]["n"]
            assert type(shown) is type(value)


class TestReport:
    def test_calls_say_what_was_done_and_at_what_price(
        self, claude: Any, server: ModelServer
    ) -> None:
        client = windlass.wrap(claude)
        for turns in range(1, 9):
            ask(client, history(turns), tools=loops.CLAUDE_TOOLS)
        calls = client.windlass.calls
        assert [call.number for call in calls] == list(range(1, 9))
        assert all(call.cost <= call.plain_cost * 1.1 for call in calls)
        assert sum(call.cost for call in calls) < 0.5 * sum(call.plain_cost for call in calls)
        changes = [change for call in calls for change in call.changes]
        assert len(changes) >= 3
        for change in changes:
            at = change.position // 2 - 1
            if change.chars_before == len(log(at)):
                assert log(at).startswith(client.windlass.recall(change.reference)[:30_000])
        lines = [str(call) for call in calls]
        assert lines[-1].startswith("call 8, conversation 1; 17 messages; ")
        assert "without windows" in lines[-1]
        assert any("shortened" in line for line in lines)
        assert "without windows" in str(client.windlass)

    def test_plain_cost_is_what_a_plain_client_pays(self, server: ModelServer) -> None:
        """Of a loop with marks, without, and with an hour's."""
        for mark in (None, EPHEMERAL, HOUR):

            def run(client: Any, mark: Any = mark) -> None:
                for turns in range(1, 9):
                    messages = history(turns, f"Task {mark}.")
                    if mark:
                        messages[-1]["content"][0]["cache_control"] = mark
                    ask(client, messages, tools=loops.CLAUDE_TOOLS)

            with anthropic.Anthropic() as plain_client:
                plain: Any = plain_client
                before = server.bill
                run(plain)
                paid = server.bill - before
                server.forget()
                client = windlass.wrap(plain)
                run(client)
            output = sum(call.usage.tokens_out for call in client.windlass.calls) * 10e-6
            # Tokens of what was not sent are told by characters.
            assert client.windlass.plain_cost - output == pytest.approx(paid, rel=0.04)

    def test_more_than_64_conversations_are_counted_right(
        self, claude: Any, server: ModelServer
    ) -> None:
        client = windlass.wrap(claude)
        for turns in (1, 2):
            for number in range(80):
                ask(client, history(turns, f"Task {number}."), tools=loops.CLAUDE_TOOLS)
        assert [call.thread for call in client.windlass.calls] == [*range(1, 81)] * 2
        assert "in 80 conversations" in str(client.windlass)

    def test_held_out_conversations_stay_as_they_are_and_are_compared(
        self, claude: Any, server: ModelServer
    ) -> None:
        client = windlass.wrap(claude, holdout=0.5)
        for number in range(12):
            for turns in (1, 3, 4):
                messages = history(turns, f"Task {number}.")
                ask(client, messages, tools=loops.CLAUDE_TOOLS)
                if client.windlass.calls[-1].held_out:
                    assert last_body(server)["messages"] == messages
        held = {call.thread: call.held_out for call in client.windlass.calls}
        assert 2 <= sum(held.values()) <= 10
        assert {call.held_out for call in client.windlass.calls if call.thread == 1} == {held[1]}
        low, high = client.windlass.comparison
        assert -1 < low < high < 0
        assert f"{sum(held.values())} conversations held out" in str(client.windlass)

    @pytest.mark.parametrize("holdout", [-0.1, 1.5])
    def test_a_holdout_is_a_share(self, holdout: float, claude: Any) -> None:
        with pytest.raises(UsageError, match="holdout is a share from 0 to 1"):
            windlass.wrap(claude, holdout=holdout)

    def test_each_kind_of_warning_is_given_once(
        self, claude: Any, server: ModelServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        client = windlass.wrap(claude)
        with caplog.at_level(logging.WARNING, "windlass"):
            for _ in range(3):
                with suppress(anthropic.BadRequestError):
                    ask(client, [*TestAsItCame.PREFILL], model="claude-sonnet-6")
        assert [one.name for one in caplog.records] == ["windlass", "windlass"]
        assert "is in no table" in caplog.records[0].message
        assert "goes out as it came" in caplog.records[1].message
