"""All models of a cascade through one provider: by its file, by settings and by the option."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.harness import cascade, phase
from windlass.providers import _hosted
from windlass.providers.scripted import Scripted

NAMES = {
    "hi": "x-ai/grok-4",
    "ho": "google/gemini-2.5-flash",
    "pool": "amazon/nova-lite-v1",
    "judge": "mistralai/mistral-small",
    "direct": "anthropic/claude-sonnet-4.5",
}


def everywhere(**more: Any) -> dict[str, Any]:
    """A cascade with a model in each place that may name one."""
    tried = {
        "factor": 2,
        "models": [NAMES["pool"], "openai/gpt-4o"],
        "evaluator": {"model": NAMES["judge"]},
        "evaluator_instructions": "The best.",
    }
    return cascade(
        phase("a", model=NAMES["hi"]),
        phase("b", model=NAMES["ho"], rules={"loop_until": "good"}),
        phase("c", soundings=tried),
        validators={"good": {"instructions": "Good? {{ input.content }}", "model": "cohere/c"}},
        model=NAMES["direct"],
        **more,
    )


@pytest.fixture
def asked(windlass: CommandLine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that hosted providers were asked for, as `provider/model`; all of them answer."""
    names: list[str] = []

    def make(entry: Any, *_: Any, **__: Any) -> Scripted:
        scripted = windlass.model()
        model = scripted.model

        def of(name: str) -> Any:
            names.append(f"{entry.name}/{name}")
            return model(name)

        monkeypatch.setattr(scripted, "model", of)
        return scripted

    monkeypatch.setattr(_hosted, "HostedProvider", make)
    for variable in ("OPENROUTER", "OPENAI", "ANTHROPIC", "GEMINI"):
        monkeypatch.setenv(f"{variable}_API_KEY", "k")
    windlass.script = lambda _: '{"valid": true, "winner": 1}'
    return names


@pytest.mark.parametrize("way", ["cascade", "settings", "option", "variable"])
def test_one_setting_sends_all_names_through_it(
    windlass: CommandLine, asked: list[str], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    own = {"models": {"through": "openrouter"}} if way == "cascade" else {}
    windlass.write("c.json", everywhere(**own))
    if way == "settings":
        windlass.write("windlass.toml", '[models]\nthrough = "openrouter"\n')
    if way == "variable":
        monkeypatch.setenv("WINDLASS_MODELS_THROUGH", "openrouter")
    flags = ("--through", "openrouter") if way == "option" else ()
    said = windlass("run", "c.json", *flags)
    assert said.code == 0, said.err
    assert {*asked} == {
        f"openrouter/{name}" for name in (*NAMES.values(), "openai/gpt-4o", "cohere/c")
    }


def test_a_child_goes_the_way_of_its_parent(windlass: CommandLine, asked: list[str]) -> None:
    windlass.write("child.json", {**cascade(phase("k", model="x-ai/grok-4")), "cascade_id": "k"})
    top = cascade(phase("a", sub_cascades=[{"ref": "child.json"}]), model="qwen/qwen3-8b")
    windlass.write("c.json", {**top, "models": {"through": "openrouter"}})
    assert windlass("run", "c.json").code == 0
    assert {*asked} == {"openrouter/x-ai/grok-4", "openrouter/qwen/qwen3-8b"}


def test_the_model_of_the_command_line_reaches_soundings(
    windlass: CommandLine, asked: list[str]
) -> None:
    tried = {
        "factor": 2,
        "models": ["x-ai/grok-4", "openai/gpt-4o"],
        "evaluator_instructions": "B.",
    }
    windlass.write("c.json", cascade(phase("a", soundings=tried)))
    said = windlass("run", "c.json", "--model", "openai/gpt-4o-mini")
    assert said.code == 0, said.err
    assert {*asked} == {"openai/gpt-4o-mini"}


def test_the_model_of_the_command_line_goes_through_it_too(
    windlass: CommandLine, asked: list[str]
) -> None:
    windlass.write("c.json", everywhere(models={"through": "openrouter"}))
    said = windlass("run", "c.json", "--model", "x-ai/grok-4", "--session", "s1")
    assert said.code == 0, said.err
    judges = {f"openrouter/{name}" for name in (NAMES["judge"], "cohere/c")}
    assert {*asked} == {"openrouter/x-ai/grok-4", *judges}
    assert windlass("fork", "s1", "--at", "1").code == 0
    assert {*asked} == {"openrouter/x-ai/grok-4", *judges}


@pytest.mark.parametrize("command", [("run", "--resume", "s1"), ("fork", "s1", "--at", "2")])
def test_a_session_goes_on_where_its_models_were_asked(
    windlass: CommandLine, asked: list[str], command: tuple[str, ...]
) -> None:
    windlass.write("c.json", everywhere())
    told = ("run", "c.json", "--through", "openrouter", "--session", "s1", "--max-turns", "2")
    assert windlass(*told).code == 3
    before = {*asked}
    said = windlass(*command)
    assert said.code == 0, said.err
    assert {*asked} == before


@pytest.mark.parametrize("name", ["x-ai/grok-4", "anthropic/claude-sonnet-4.5"])
def test_without_it_nothing_is_asked_and_what_to_write_is_told(
    windlass: CommandLine, asked: list[str], name: str
) -> None:
    windlass.write("c.json", cascade(phase("a"), phase("b", model=name), model="openai/gpt-4o"))
    for command in ("check", "run"):
        said = windlass(command, "c.json")
        told = said.out + said.err
        assert f"'openrouter/{name}'" in told
        assert "models: {through: openrouter}" in told
        assert "--through openrouter" in told
    assert said.code == 2
    assert windlass.requests == []
    assert windlass("check", "c.json", "--strict").code == 2


def test_check_says_which_host_each_model_is_asked_at_and_which_key(
    windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    windlass.write("c.json", everywhere())
    routed = windlass("check", "c.json", "--through", "openrouter", "--json").json["models"]
    assert {each["host"] for each in routed} == {"openrouter.ai"}
    assert {each["key"] for each in routed} == {"OPENROUTER_API_KEY"}
    said = windlass("check", "c.json").out
    assert "model openai/gpt-4o: asked at api.openai.com with the key in OPENAI_API_KEY\n" in said
    assert "sk-very" not in said
    windlass.write("d.json", cascade(phase("a"), phase("b", model="openai/gpt-4o")))
    assert "model local/smollm2: runs on this machine" in windlass("check", "d.json").out


def test_models_here_stay_here(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a", model="local/x"), models={"through": "openrouter"}))
    assert windlass("run", "c.json").code == 0
    assert len(windlass.requests) == 1
