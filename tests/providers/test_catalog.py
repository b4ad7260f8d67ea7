"""Which providers there are, by which names, with which keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import windlass
from tests.providers.exchanges import EXCHANGES, TEXT
from tests.providers.server import serving
from windlass.caching.rates import rate
from windlass.errors import UsageError
from windlass.providers.at_hand import Providers
from windlass.providers.catalog import Key, catalog, find, sees_pictures, window_of
from windlass.providers.scripted import Scripted
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
    def test_the_table(self) -> None:
        assert list(catalog({})) == [
            *("local", "openai", "anthropic", "gemini", "openrouter", "litellm"),
        ]

    def test_a_vendor_needs_the_router_or_a_definition(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as refused:
            providers(tmp_path, {}).resolve("google/gemini-2.5-flash")
        told = str(refused.value)
        assert "'openrouter/google/gemini-2.5-flash'" in told
        assert "'gemini/gemini-2.5-flash'" in told
        assert "[providers.google] base_url" in told
        with pytest.raises(UsageError, match="write 'openrouter/meta-llama/llama-4-scout', or"):
            find("meta-llama/llama-4-scout", catalog({}))

    def test_an_unknown_provider_gets_the_nearest_known(self, tmp_path: Path) -> None:
        with pytest.raises(
            UsageError, match=r"there is no provider 'opnai'; did you mean 'openai'"
        ):
            providers(tmp_path, {}).resolve("opnai/gpt-5")
        with pytest.raises(UsageError, match="did you mean 'scripted'"):
            Providers({"scripted": Scripted(lambda _: "said")}).resolve("script/x")

    async def test_a_routed_name_keeps_its_vendor(self, tmp_path: Path) -> None:
        made = providers(tmp_path, {"OPENROUTER_API_KEY": SECRET})
        _, info = made.resolve("openrouter/google/gemini-2.5-flash")
        assert info.name == "openrouter/google/gemini-2.5-flash"
        assert info.sees_pictures
        await made.close()

    def test_a_definition_needs_an_address(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"\[providers.mine\] needs a base_url"):
            providers(tmp_path, {}, "[providers.mine]\nwindow = 9").resolve("mine/x")
        with pytest.raises(UsageError, match=r"\[providers.local\].* another name"):
            providers(tmp_path, {}, "[providers.local]\nwindow = 9").resolve("local/smollm2")

    async def test_a_definition_may_take_a_vendors_name(self, tmp_path: Path) -> None:
        text = '[providers.google]\nbase_url = "http://127.0.0.1:1/v1"\nwindow = 9000'
        made = providers(tmp_path, {}, text)
        assert made.resolve("google/anything")[1].window == 9_000
        await made.close()

    @pytest.mark.parametrize(
        ("name", "routed"),
        [
            ("bedrock/us.anthropic.claude-sonnet-5-5", "litellm/bedrock/us.anthropic.claude-"),
            ("vertex/claude-sonnet-5-5", "litellm/vertex_ai/claude-sonnet-5-5"),
            ("azure/gpt-6.1-sol", "litellm/azure/gpt-6.1-sol"),
            ("kimi/kimi-k3", "openrouter/moonshotai/kimi-k3"),
            ("zai/glm-5.2", "openrouter/z-ai/glm-5.2"),
            ("minimax/minimax-m3", "openrouter/minimax/minimax-m3"),
        ],
    )
    def test_a_name_of_recordings_is_told_the_way(self, name: str, routed: str) -> None:
        assert rate(name) is not None
        with pytest.raises(UsageError, match=f"not a provider here; write '{routed}"):
            find(name, catalog({}))


class TestKeys:
    @pytest.mark.parametrize(
        ("model", "variables"),
        [
            ("openai/gpt-5", "OPENAI_API_KEY"),
            ("anthropic/claude-sonnet-5-5", "ANTHROPIC_API_KEY"),
            ("gemini/gemini-2.5-flash", "GEMINI_API_KEY or GOOGLE_API_KEY"),
            ("openrouter/google/gemini-2.5-flash", "OPENROUTER_API_KEY"),
        ],
    )
    def test_a_missing_one_is_named_when_the_model_is_wanted(
        self, tmp_path: Path, model: str, variables: str
    ) -> None:
        for keys in ({}, {variables.partition(" ")[0]: "  "}):
            with pytest.raises(UsageError, match=f"set the variable {variables} ") as refused:
                providers(tmp_path, keys).resolve(model)
            assert refused.value.exit_code == 2

    async def test_nothing_is_needed_where_nothing_is_sent(self, tmp_path: Path) -> None:
        made = providers(tmp_path, None)
        assert made.resolve("openai/gpt-4o")[1].window == 128_000
        await made.close()

    def test_the_second_variable_is_looked_at_after_the_first(self) -> None:
        gemini = catalog({})["gemini"]
        both = {"GOOGLE_API_KEY": "b", "GEMINI_API_KEY": "a"}
        assert gemini.key(both) == Key("GEMINI_API_KEY", "a")
        assert gemini.key({"GOOGLE_API_KEY": " b\n"}) == Key("GOOGLE_API_KEY", "b")
        assert gemini.key({}) is None

    @pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
    def test_what_cannot_be_one_is_refused_without_being_shown(self, key: str) -> None:
        with pytest.raises(UsageError, match="OPENAI_API_KEY holds characters") as refused:
            catalog({})["openai"].key({"OPENAI_API_KEY": key})
        assert key not in str(refused.value)

    def test_an_own_provider_names_its_variable(self, tmp_path: Path) -> None:
        text = '[providers.mine]\nbase_url = "http://127.0.0.1:1/v1"\nkey = "MINE_KEY"'
        with pytest.raises(UsageError, match="set the variable MINE_KEY "):
            providers(tmp_path, {}, text).resolve("mine/x")


@pytest.mark.parametrize(
    ("model", "sees"),
    [
        ("gpt-4o", True),
        ("gpt-4o-mini", True),
        ("gpt-4o-audio-preview", False),
        ("gpt-4", False),
        ("gpt-3.5-turbo", False),
        ("gpt-5.6-sol", True),
        ("gpt-oss-120b", False),
        ("o1", True),
        ("o1-mini", False),
        ("o3-mini", False),
        ("claude-sonnet-5-5", True),
        ("claude-2.1", False),
        ("gemini-2.5-flash", True),
        ("gemini-pro", False),
        ("anthropic/claude-sonnet-4.5", True),
        ("qwen/qwen3-vl-8b-instruct", True),
        ("qwen/qwen3-8b", False),
        ("meta-llama/llama-3.2-11b-vision-instruct", True),
        ("meta-llama/llama-3.1-8b-instruct", False),
        ("nobody-knows", False),
    ],
)
def test_which_models_see(model: str, sees: bool) -> None:
    assert sees_pictures(model) == sees


def test_windows_the_table_lacks() -> None:
    entry = catalog({})["gemini"]
    name = "gemini/gemini-2.5-pro"
    assert window_of(entry, name, rate(name)) == (1_048_576, None)


class TestRuns:
    CASCADE = {  # noqa: RUF012 - read only
        "cascade_id": "c",
        "phases": [{"name": "a", "instructions": "Do a."}],
    }

    async def test_a_run_over_the_wire_is_recorded_and_priced_by_the_users_own_price(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("MINE_KEY", SECRET)
        async with serving(EXCHANGES["openai"].streamed) as server:
            settings = f"""
            [providers.mine]
            base_url = "{server.url}"
            key = "MINE_KEY"
            window = 32000
            [prices."mine/m"]
            input = 1.0
            cache_read = 0.1
            output = 10.0
            """
            (tmp_path / "windlass.toml").write_text(settings, encoding="utf-8")
            result = await windlass.run(
                self.CASCADE, model="mine/m", store=tmp_path / "s", trust=True
            )
            free = await windlass.run(
                self.CASCADE, model="mine/other", store=tmp_path / "s", trust=True
            )
            (asked, _) = server.asked
        assert (result.status, result.output) == ("completed", TEXT)
        assert result.cost == pytest.approx((500 * 1.0 + 1_500 * 0.1 + 12 * 10.0) / 1e6)
        assert free.cost is None
        assert asked.headers["authorization"] == f"Bearer {SECRET}"
        kept = b"".join(path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file())
        assert SECRET.encode() not in kept
        assert TEXT.encode() in kept or json.dumps(TEXT).encode() in kept

    async def test_what_is_assumed_is_told_once_as_an_event(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        events: list[object] = []
        async with serving(EXCHANGES["openai"].streamed) as server:
            (tmp_path / "windlass.toml").write_text(f'[providers.mine]\nbase_url = "{server.url}"')
            await windlass.run(
                self.CASCADE, model="mine/m", store=tmp_path / "s", on_event=events.append
            )
        assert sum("is taken to be 128,000" in str(event) for event in events) == 1

    @pytest.mark.parametrize(
        ("model", "variable", "path"),
        [
            ("openai/gpt-6.1-sol", "OPENAI_BASE_URL=/v1", "/v1/chat/completions"),
            ("anthropic/claude-sonnet-5-5", "ANTHROPIC_BASE_URL=", "/v1/messages"),
            ("anthropic/claude-sonnet-5-5", "ANTHROPIC_BASE_URL=/v1/", "/v1/messages"),
            (
                "gemini/gemini-4-argon",
                "GOOGLE_GEMINI_BASE_URL=/",
                "/v1beta/models/gemini-4-argon:streamGenerateContent?alt=sse",
            ),
        ],
    )
    async def test_content_goes_where_the_vendors_own_clients_would_send_it(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        model: str,
        variable: str,
        path: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        wire, (name, _, behind) = model.partition("/")[0], variable.partition("=")
        monkeypatch.setenv(f"{wire.upper()}_API_KEY", SECRET)
        async with serving(EXCHANGES[wire].streamed) as server:
            monkeypatch.setenv(name, server.url.removesuffix("/v1") + behind)
            result = await windlass.run(self.CASCADE, model=model, store=tmp_path / "s")
        assert result.error is None
        assert [asked.path for asked in server.asked] == [path]

    def test_without_a_watcher_it_is_a_python_warning(self) -> None:
        with pytest.warns(UserWarning, match="'openai/gpt-99' was looked up"):
            Providers({}, keys={"OPENAI_API_KEY": SECRET}).resolve("openai/gpt-99")
