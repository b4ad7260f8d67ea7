"""`windlass models`: providers and keys, and what is known of one model."""

from __future__ import annotations

import dataclasses
import io
from datetime import date, timedelta

import pytest

from tests.cli.conftest import CommandLine
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


def test_one_model(windlass: CommandLine) -> None:
    told = windlass("models", "anthropic/claude-sonnet-4-5", "--json").json
    assert told["prices"] == {
        "input": 3.0,
        "cached": 0.3,
        "written": 3.75,
        "written_long": 6.0,
        "output": 15.0,
        "tiers": [[200_000, 2.0]],
        "own": False,
    }
    assert told["in_fresh_tokens"]["write_long"] == 2.0
    assert told["sequence"]["results_together"] is True
    assert told["window"] == 200_000
    assert told["cache_minimum"] == 1_024
    assert told["cache"]["breakpoints"] == 4
    assert told["table"] == table_date()
    assert told["notes"] == []
    said = windlass("models", "anthropic/claude-sonnet-4-5").out
    assert "3.75" in said
    assert "200,000 tokens" in said
    assert "tokens and more, for 5 minutes from the start of a request; up to 4 marks" in said
    assert table_date() in said
    assert "missing: ANTHROPIC_API_KEY" in said
    assert "fresh 1, read 0.1, written 1.25, written for an hour 2" in said
    assert "input above 200,000 tokens: 2 times as much" in said
    assert "the first message is the user's; roles alternate" in said


@pytest.mark.parametrize(
    ("model", "says", "never"),
    [
        (
            "claude-sonnet-5-5",
            [
                "prefixes of 512 tokens and more, for 5 minutes from the start of a request",
                "source: platform.claude.com, docs, build-with-claude/prompt-caching",
                "fresh 1, read 0.05, written 1.25",
                "thinking bound to all before it: refused where that was changed since",
                "cannot be switched off; no tool can be forced",
                "address https://api.anthropic.com/v1",
            ],
            ["must come back"],
        ),
        (
            "claude-haiku-5-5",
            ["input above 100,000 tokens: 5 times as much", "bound to all before it"],
            ["switched off", "can be forced"],
        ),
        (
            "claude-sonnet-5",
            ["of earlier turns is read, and paid for", "is not ended must come back"],
            ["bound to", "switched off", "can be forced"],
        ),
        ("claude-haiku-4-5", ["of earlier turns is left out"], ["bound to", "is read, and"]),
    ],
)
def test_what_a_model_does_with_its_cache_and_its_thinking(
    windlass: CommandLine, model: str, says: list[str], never: list[str]
) -> None:
    said = " ".join(windlass("models", f"anthropic/{model}").out.split())
    assert [text for text in says if text not in said] == []
    assert [text for text in never if text in said] == []
    assert f"as of {AS_OF}" in said
    told = windlass("models", f"anthropic/{model}", "--json").json
    assert told["cache_as_of"] == AS_OF
    assert told["cache"]["source"] in said
    assert told["thinking"]["bound"] is model.endswith("-5-5")


def test_a_model_that_signs_nothing_says_nothing_of_it(windlass: CommandLine) -> None:
    assert windlass("models", "openai/gpt-6.1-sol", "--json").json["thinking"] is None
    assert "thinking" not in windlass("models", "openai/gpt-6.1-sol").out


def test_a_table_that_is_old_says_so(
    windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "_today", lambda: date.fromisoformat(AS_OF) + timedelta(days=91))
    said = windlass("models", "anthropic/claude-sonnet-5-5").out
    assert "note: prices and cache rules are as of" in said
    assert "91 days ago" in said


def test_a_vendors_model_behind_the_router(windlass: CommandLine) -> None:
    told = windlass("models", "openrouter/anthropic/claude-opus-4.5", "--json").json
    assert told["cache_minimum"] == 4_096
    assert (told["cache"]["breakpoints"], told["cache"]["automatic"]) == (4, False)
    said = windlass("models", "openrouter/openai/gpt-5.1").out
    assert "prefixes of 1,024 tokens and more, in steps of 128" in said
    # The wire is the router's, so the order of messages is too.
    assert "call ids have up to 40 characters" in said
    # Rules, but no cheaper price in the table: nothing is told that is not billed.
    assert "none that is known" in windlass("models", "openrouter/moonshotai/kimi-k2").out


def test_a_model_of_ones_own(windlass: CommandLine) -> None:
    windlass.write("windlass.toml", OWN)
    told = windlass("models", "vllm/qwen3", "--json").json
    assert told["prices"]["own"] is True
    assert (told["prices"]["cached"], told["window"]) == (0.1, 32_768)
    assert told["prices"]["written_long"] == 0.3
    assert "your own, windlass.toml" in windlass("models", "vllm/qwen3").out


def test_a_model_that_nobody_knows_has_no_price(windlass: CommandLine) -> None:
    told = windlass("models", "openai/gpt-99", "--json").json
    assert told["prices"] is None
    assert told["window"] == 128_000
    assert told["cache_minimum"] is None
    assert "'openai/gpt-99'" in told["notes"][0]
    said = windlass("models", "openai/gpt-99").out
    assert "none that is known" in said
    assert "never as zero" in said
    assert said.count("note: model 'openai/gpt-99'") == 1


def test_the_local_model(windlass: CommandLine) -> None:
    said = windlass("models", "local/smollm2").out
    assert "runs on this machine" in said
    assert "fresh 1, read 0, written 1" in said
    assert "note" not in said


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpt-4o", "names no provider"),
        ("google/gemini-2.5-flash", "openrouter/google/gemini-2.5-flash"),
        ("opnai/gpt-5", "did you mean 'openai'"),
    ],
)
def test_names_that_are_none(windlass: CommandLine, name: str, says: str) -> None:
    said = windlass("models", name)
    assert said.code == 2
    assert says in said.complaint


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
