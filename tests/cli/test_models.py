"""`windlass models`: providers and keys, and what is known of one model."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.harness import cascade, phase
from windlass.prices import table_date

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
        "output": 15.0,
        "own": False,
    }
    assert told["window"] == 200_000
    assert told["cache_minimum"] == 1_024
    assert told["cache"]["breakpoints"] == 4
    assert told["table"] == table_date()
    assert told["notes"] == []
    said = windlass("models", "anthropic/claude-sonnet-4-5").out
    assert "3.75" in said
    assert "200,000 tokens" in said
    assert "prefixes of 1,024 tokens and more, for 5 minutes; up to 4 marks" in said
    assert table_date() in said
    assert "missing: ANTHROPIC_API_KEY" in said


def test_a_model_of_ones_own(windlass: CommandLine) -> None:
    windlass.write("windlass.toml", OWN)
    told = windlass("models", "vllm/qwen3", "--json").json
    assert told["prices"]["own"] is True
    assert (told["prices"]["cached"], told["window"]) == (0.1, 32_768)
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
    assert "note: model 'openai/gpt-99'" in said


def test_the_local_model(windlass: CommandLine) -> None:
    assert "runs on this machine" in windlass("models", "local/smollm2").out


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
