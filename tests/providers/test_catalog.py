"""Which providers there are, by which names, with which keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from windlass.errors import UsageError
from windlass.providers.at_hand import Providers
from windlass.providers.catalog import catalog, find
from windlass.settings.settings import Settings

SECRET = "sk-never-shown-1234"


def written(folder: Path, text: str) -> Settings:
    (folder / "windlass.toml").write_text(text, encoding="utf-8")
    return Settings.read({}, {}, folder, user_folder=folder / "nobody", trust=True)


def providers(
    folder: Path, keys: Mapping[str, str] | None, text: str = "", warned: list[str] | None = None
) -> Providers:
    told: list[str] = [] if warned is None else warned
    return Providers({}, written(folder, text), warn=told.append, keys=keys)


class TestNames:
    def test_a_vendor_needs_the_router_or_a_definition(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as refused:
            providers(tmp_path, {}).resolve("google/gemini-2.5-flash")
        told = str(refused.value)
        assert "'openrouter/google/gemini-2.5-flash'" in told
        assert "'gemini/gemini-2.5-flash'" in told
        assert "[providers.google] base_url" in told
        with pytest.raises(UsageError, match="write 'openrouter/meta-llama/llama-4-scout', or"):
            find("meta-llama/llama-4-scout", catalog({}))

    def test_a_definition_needs_an_address(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"\[providers.mine\] needs a base_url"):
            providers(tmp_path, {}, "[providers.mine]\nwindow = 9").resolve("mine/x")
        with pytest.raises(UsageError, match=r"\[providers.local\].* another name"):
            providers(tmp_path, {}, "[providers.local]\nwindow = 9").resolve("local/smollm2")


class TestKeys:
    @pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
    def test_what_cannot_be_one_is_refused_without_being_shown(self, key: str) -> None:
        with pytest.raises(UsageError, match="OPENAI_API_KEY holds characters") as refused:
            catalog({})["openai"].key({"OPENAI_API_KEY": key})
        assert key not in str(refused.value)


class TestRuns:
    CASCADE = {  # noqa: RUF012 - read only
        "cascade_id": "c",
        "phases": [{"name": "a", "instructions": "Do a."}],
    }

    def test_without_a_watcher_it_is_a_python_warning(self) -> None:
        with pytest.warns(UserWarning, match="'openai/gpt-99' was looked up"):
            Providers({}, keys={"OPENAI_API_KEY": SECRET}).resolve("openai/gpt-99")
