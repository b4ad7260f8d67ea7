"""`windlass models`: providers and keys, and what is known of one model."""

from __future__ import annotations

import dataclasses
import io
from datetime import date, timedelta

import pytest

from tests.cli.conftest import CommandLine, Transcript
from tests.engine.harness import cascade, phase
from windlass.caching import rates
from windlass.caching.provider_rules import AS_OF
from windlass.caching.rates import table_date
from windlass.cli.output import Screen
from windlass.cli.progress import Progress
from windlass.engine.events import Waiting
from windlass.providers.base import ModelInfo
from windlass.providers.scripted import Scripted

SECRET = "sk-never-shown-1234"

OWN = """
[providers.vllm]
base_url = "http://localhost:8000/v1"
key = "VLLM_KEY"
window = 32768
requests_per_minute = 60

[providers.openai]
tokens_per_minute = 30000

[prices."vllm/qwen3"]
input = 0.1
output = 0.4
cache_write_long = 0.3
"""


def test_providers_with_their_keys_found_or_missing_and_never_a_key(
    windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    windlass.write("windlass.toml", OWN)
    monkeypatch.setenv("GOOGLE_API_KEY", SECRET)
    said = windlass("models")
    assert said.code == 0
    rows = {line.split()[0]: line for line in said.out.splitlines() if line}
    assert "in process" in rows["local"]
    assert "not needed" in rows["local"]
    assert "missing: OPENAI_API_KEY" in rows["openai"]
    assert "30,000 tokens" in rows["openai"]
    assert "https://api.anthropic.com/v1" in rows["anthropic"]
    assert "found in GOOGLE_API_KEY" in rows["gemini"]
    assert "missing: VLLM_KEY" in rows["vllm"]
    assert "60 requests" in rows["vllm"]
    assert table_date() in said.out
    listed = windlass("models", "--json")
    by_name = {row["name"]: row for row in listed.json["providers"]}
    assert list(by_name) == [
        *("local", "openai", "anthropic", "gemini", "openrouter", "litellm", "vllm"),
    ]
    assert by_name["gemini"]["key_found_in"] == "GOOGLE_API_KEY"
    assert by_name["vllm"]["key_missing"] is True
    assert by_name["vllm"]["defined"] is True
    assert SECRET not in said.out + said.err + listed.out


def test_what_is_known_of_models(windlass: CommandLine, transcript: Transcript) -> None:
    windlass.write("windlass.toml", OWN)
    names = (
        *(f"anthropic/claude-{name}" for name in ("sonnet-4-5", "sonnet-5-5", "haiku-5-5")),
        *("anthropic/claude-sonnet-5", "anthropic/claude-haiku-4-5", "openai/gpt-6.1-sol"),
        *("openrouter/anthropic/claude-opus-4.5", "openrouter/openai/gpt-5.1"),
        *("openrouter/moonshotai/kimi-k2", "vllm/qwen3", "openai/gpt-99", "local/smollm2"),
        *("gpt-4o", "google/gemini-2.5-flash", "opnai/gpt-5"),
    )
    transcript("models", *(f"models {name}" for name in names))


def test_a_table_that_is_old_says_so(
    windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "_today", lambda: date.fromisoformat(AS_OF) + timedelta(days=91))
    said = windlass("models", "anthropic/claude-sonnet-5-5").out
    assert "note: prices and cache rules are as of" in said
    assert "91 days ago" in said


class Paid(Scripted):
    """A scripted model that is sold under a name of the table, or of none."""

    def __init__(self, named: str) -> None:
        super().__init__(lambda _: "said")
        self.named = named

    def model(self, name: str) -> ModelInfo:
        return dataclasses.replace(super().model(name), name=self.named, free=False)


class TestWhatItCosts:
    @staticmethod
    def sold(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
        monkeypatch.setattr("windlass_local.LocalProvider", lambda: Paid(named))

    def test_a_hosted_model_is_billed_as_itself(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        windlass.write("c.json", cascade(phase("a")))
        self.sold(monkeypatch, "openai/gpt-4o")
        told = windlass("run", "c.json")
        assert told.code == 0, told.err
        assert "out   billed\n" in told.out
        assert f"openai/gpt-4o at its own prices ({table_date()})" in told.out
        assert "claude" not in told.out

    def test_one_without_a_price_is_told_so_and_never_at_anothers(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        windlass.write("c.json", cascade(phase("a")))
        self.sold(monkeypatch, "nowhere/nothing")
        told = windlass("run", "c.json")
        assert "nowhere/nothing has no price" in told.out
        assert "  no price\n" in told.out
        assert "$" not in told.out
        dry = windlass("run", "c.json", "--dry-run")
        assert "prices: nowhere/nothing has no price" in dry.out
        assert "$" not in dry.out

    def test_the_local_one_is_told_at_the_prices_of_another(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a")))
        told = windlass("run", "c.json", "--price-as", "openai/gpt-4o")
        assert "costs are what openai/gpt-4o would bill" in told.out
        dry = windlass("run", "c.json", "--dry-run", "--price-as", "openai/gpt-4o")
        assert "scripted/function at the prices of openai/gpt-4o" in dry.out


def test_a_wait_is_one_line_for_who_watches() -> None:
    console = Screen(file=io.StringIO(), width=200)
    show = Progress(console)
    show(Waiting("anthropic/x", 12.2, "anthropic answered 429: slow down", 2, 5))
    show(Waiting("openai/x", 31.0, "the limits a minute of openai are reached", 1, 5))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "  waiting 12 s: anthropic answered 429: slow down, try 2 of 5",
        "  waiting 31 s: the limits a minute of openai are reached",
    ]


class TestRun:
    def test_a_missing_key_is_told_before_anything_is_made(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a")))
        said = windlass("run", "c.json", "--model", "openai/gpt-4o")
        assert said.code == 2
        assert "set the variable OPENAI_API_KEY" in said.complaint
        assert not (windlass.folder / ".windlass").exists()

    def test_a_dry_run_needs_none(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a")))
        said = windlass("run", "c.json", "--dry-run", "--model", "openai/gpt-99")
        assert said.code == 0, said.err
        assert "openai/gpt-99" in said.out
        assert said.err.count("note: model 'openai/gpt-99'") == 1


def test_litellm_is_listed_whether_it_is_installed_or_not(
    windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, told in (
        (None, "not installed: pip install 'windlass[litellm]'"),
        ("1.106.2", "as litellm 1.106.2 wants"),
    ):
        monkeypatch.setattr("windlass.providers.litellm.installed", lambda version=version: version)
        (row,) = (line for line in windlass("models").out.splitlines() if "litellm" in line[:9])
        assert told in row
