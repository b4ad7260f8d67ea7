"""Spans that reach a collector over HTTP, and collectors that are not there."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine
from tests.engine.harness import by_phase, call, calls, cascade, phase

from tests_otel.conftest import Collector
from windlass.importing.streams import recordings
from windlass_otel import sdk

SECRET = "the secret word"


@pytest.fixture
def line(windlass: CommandLine) -> CommandLine:
    """The command line in a folder with a cascade that calls a tool."""
    windlass.write("one.json", cascade(phase("a", tackle=["set_state"]), system="Be."))
    kept = calls(call("set_state", '{"key": "k", "value": "v"}'))
    windlass.script = by_phase({"a": [kept, SECRET]})  # type: ignore[assignment]
    return windlass


def attributes(span: Any) -> dict[str, Any]:
    held = {one.key: one.value for one in span.attributes}
    return {key: getattr(value, value.WhichOneof("value")) for key, value in held.items()}


def test_a_run_is_collected(line: CommandLine, collector: Collector) -> None:
    said = line("run", "one.json", "--session", "s1", "--otel", "on")
    assert (said.code, "OpenTelemetry" in said.err) == (0, False)
    assert sorted(span.name for span in collector.spans()) == [
        *["chat function"] * 2,
        "execute_tool set_state",
        "invoke_agent a",
        "invoke_agent test",
    ]
    assert len({span.trace_id for span in collector.spans()}) == 1
    assert {path for path, _ in collector.posts} == {"/v1/traces", "/v1/metrics"}
    assert SECRET.encode() not in b"".join(body for _, body in collector.posts)
    assert b"gen_ai.client.inference.duration" in dict(collector.posts)["/v1/metrics"]


def test_what_a_collector_keeps_is_imported_with_the_same_usage(
    line: CommandLine, collector: Collector, tmp_path: Path
) -> None:
    assert line("run", "one.json", "--session", "s1", "--otel", "content").code == 0
    path = tmp_path / "kept.pb"
    path.write_bytes(b"".join(body for at, body in collector.posts if at == "/v1/traces"))
    (one,) = recordings(path)
    assert [message.role for message in one.messages] == [
        *("system", "user", "assistant", "tool", "assistant")
    ]
    assert one.messages[-1].text == SECRET
    told = [attributes(span) for span in collector.spans() if span.name == "chat function"]
    assert one.usage is not None
    assert one.usage.tokens_in == sum(each["gen_ai.usage.input_tokens"] for each in told)


def test_a_setting_and_a_variable_turn_it_on(
    line: CommandLine, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_OTEL", "on")
    assert line("run", "one.json").code == 0
    assert len(collector.spans()) == 5
    assert line("run", "one.json", "--otel", "off").code == 0
    assert len(collector.spans()) == 5


def test_ids_are_drawn_anew_although_a_program_has_seeded_chance(
    line: CommandLine, collector: Collector
) -> None:
    for _ in range(2):
        random.seed(7)
        assert line("run", "one.json", "--otel", "on").code == 0
    assert len({span.trace_id for span in collector.spans()}) == 2
    assert len({span.span_id for span in collector.spans()}) == len(collector.spans()) == 8


def test_what_a_sampler_leaves_out_is_not_missed(
    line: CommandLine, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    said = line("run", "one.json", "--otel", "on")
    assert (said.code, "OpenTelemetry" in said.err) == (0, False)
    assert not collector.spans()
    assert {path for path, _ in collector.posts} == {"/v1/metrics"}


def test_batches_and_chats_are_collected(line: CommandLine, collector: Collector) -> None:
    line.write("in.jsonl", '{"x": 1}\n{"x": 2}\n')
    said = line("batch", "one.json", "in.jsonl", "--out", "out.jsonl", "--otel", "on")
    assert said.code == 0, said.err
    names = [span.name for span in collector.spans()]
    assert names.count("invoke_agent test") == 2


@pytest.mark.parametrize("status", [400, 404, 503])
def test_a_collector_that_refuses_is_told_and_the_run_completes(
    line: CommandLine, collector: Collector, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(sdk, "LONGEST_WAIT_S", 0.5)
    collector.status = status
    started = time.monotonic()
    said = line("run", "one.json", "--otel", "on")
    assert said.code == 0
    assert SECRET in said.out
    told = "OpenTelemetry: 5 of 5 spans and metrics did not reach http://127.0.0.1:"
    assert told in " ".join(said.err.split())
    assert "Traceback" not in said.err
    assert time.monotonic() - started < 6  # the SDK alone would try for ten seconds


def test_a_collector_that_is_not_there(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "LONGEST_WAIT_S", 0.5)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:hunter2@127.0.0.1:9")
    said = line("run", "one.json", "--otel", "on")
    assert said.code == 0
    assert "5 of 5 spans and metrics did not reach http://" in " ".join(said.err.split())
    assert "hunter2" not in said.err


def test_spans_without_metrics(
    line: CommandLine, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    assert line("run", "one.json", "--otel", "on").code == 0
    assert {path for path, _ in collector.posts} == {"/v1/traces"}


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "only otlp and none"),
        ("OTEL_METRICS_EXPORTER", "prometheus", "only otlp and none"),
        ("WINDLASS_OTEL", "yes", "off, on, or content"),
    ],
)
def test_a_wrong_value_is_one_sentence(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str
) -> None:
    monkeypatch.setenv("WINDLASS_OTEL", "on")
    monkeypatch.setenv(variable, value)
    said = line("run", "one.json")
    assert (said.code, told in said.complaint) == (2, True)
    assert not line.requests


def test_a_folder_may_not_turn_it_on_without_trust(line: CommandLine, collector: Collector) -> None:
    line.write("windlass.toml", 'otel = "content"\n')
    said = line("run", "one.json")
    assert said.code == 2
    assert "otel (content)" in said.complaint
    assert not collector.posts
    assert line("run", "one.json", "--trust").code == 0
    assert collector.spans()
