"""Settings: who wins, what is refused, and what a person is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from windlass.cascade.model import Cascade
from windlass.errors import FileError, UsageError
from windlass.selection.options import CardOptions
from windlass.settings.fields import (
    HeadingSettings,
    PriceSettings,
    ProviderSettings,
    SettingFields,
)
from windlass.settings.settings import Settings, SettingValue


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def user_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


def read(
    folder: Path,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    return Settings.read(flags or {}, environ or {}, folder, user_folder=folder.parent / "user")


def write(folder: Path, text: str) -> Path:
    path = folder / "windlass.toml"
    path.write_text(text, encoding="utf-8")
    return path


class TestPriority:
    LAYERS = ("flags", "environment", "cascade", "file", "user file")

    @given(st.sets(st.sampled_from(LAYERS)))
    def test_the_first_layer_that_says_something_wins(
        self, tmp_path_factory: pytest.TempPathFactory, saying: set[str]
    ) -> None:
        base = tmp_path_factory.mktemp("layers")
        for name, layer in (("project", "file"), ("user", "user file")):
            (base / name).mkdir()
            if layer in saying:
                write(base / name, f'model = "from/{layer}"')
        settings = read(
            base / "project",
            {"model": "from/flags" if "flags" in saying else None},
            {"WINDLASS_MODEL": "from/environment"} if "environment" in saying else {},
        ).with_cascade({"model": "from/cascade" if "cascade" in saying else None}, "chart.json")
        first = next((layer for layer in self.LAYERS if layer in saying), None)
        assert settings.model == (f"from/{first}" if first else "local/smollm2")

    def test_each_value_names_its_origin(self, here: Path, user_folder: Path) -> None:
        mine = write(user_folder, 'price_as = "openai/gpt-5"\nmodel = "a/b"')
        near = write(here, '# mine\n\nmodel = "c/d"\n')
        settings = read(here, {"max_output_tokens": 9}, {"WINDLASS_TOOLS": "one, two:three"})
        settings = settings.with_cascade({"tool_timeout_s": 5}, "chart.json")
        assert {row.name: row.origin for row in settings.rows()} == {
            "store": "default",
            "model": f"{near}:3",
            "price_as": f"{mine}:1",
            "root": "default",
            "tools": "WINDLASS_TOOLS",
            "search_folder": "default",
            "search_model": "default",
            "http_allow": "default",
            "max_output_tokens": "--max-output-tokens",
            "tool_timeout_s": "chart.json",
            "keep_recent_turns": "default",
            "keep_recent_images": "default",
            "passthrough": "default",
            "breaker_sessions": "default",
            "auto_context_intra_phase_enabled": "default",
            "auto_context_cards_enabled": "default",
            "auto_context_inter_phase_enabled": "default",
            "auto_context_llm_selection_enabled": "default",
            "helper_model": "default",
            "cards": "default",
            "providers": "default",
            "prices": "default",
            "headings": "default",
            "models": "default",
            "otel": "default",
            "mcp_servers": "default",
        }
        assert settings.tools == ("one", "two:three")
        assert (settings.max_output_tokens, settings.tool_timeout_s) == (9, 5.0)

    def test_a_cascade_changes_nothing_for_the_next_one(self, here: Path) -> None:
        settings = read(here)
        settings.with_cascade({"model": "a/b"}, "chart.json")
        assert settings.model == "local/smollm2"


class TestDefaults:
    def test_stand_without_any_file(self, here: Path) -> None:
        settings = read(here)
        assert settings.store == here / ".windlass"
        assert settings.root == here
        assert settings.model == "local/smollm2"
        assert settings.price_as == "anthropic/claude-sonnet-5-5"
        assert settings.tools == ()
        assert settings.search_folder is None
        assert settings.max_output_tokens is None
        assert settings.tool_timeout_s == 60.0
        assert settings.providers == {}
        assert settings.prices == {}

    def test_rows_are_all_settings_with_words_of_help(self, here: Path) -> None:
        rows = read(here).rows()
        assert all(isinstance(row, SettingValue) and row.help for row in rows)
        assert [row.name for row in rows] == list(SettingFields.model_fields)
        plain = [row for row in rows if row.name not in {"cards", "headings", "models"}]
        assert [getattr(read(here), row.name) for row in plain] == [row.value for row in plain]

    def test_what_is_read_cannot_be_changed(self, here: Path) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            read(here).folder = here

    def test_an_empty_variable_is_not_set_and_strange_ones_are_left_alone(self, here: Path) -> None:
        settings = read(here, {}, {"WINDLASS_MODEL": " ", "WINDLASS_MODELL": "x", "MODEL": "y"})
        assert settings["model"].origin == "default"

    def test_the_users_own_file_lies_where_the_platform_says(
        self, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import platformdirs

        monkeypatch.setattr(platformdirs, "user_config_path", lambda *_, **__: tmp_path)
        write(tmp_path, 'model = "a/b"')
        assert Settings.read({}, {}, here).model == "a/b"


class TestCards:
    @pytest.mark.req("AC-87", "AC-88", "AC-92")
    def test_the_table_has_the_settled_defaults(self, here: Path) -> None:
        assert read(here).cards == CardOptions(
            summariser=None,
            embedder=None,
            batch_size=10,
            workers=1,
            summary_chars=300,
            input_chars=2_000,
        )
        assert read(here).helper_model is None

    @pytest.mark.req("AC-87")
    def test_keys_of_files_and_variables_make_one_table(
        self, here: Path, user_folder: Path
    ) -> None:
        write(user_folder, '[cards]\nbatch_size = 5\nsummariser = "a/far"')
        write(here, '[cards]\nsummariser = "a/near"\nworkers = 2')
        settings = read(
            here, {}, {"WINDLASS_CARDS_WORKERS": "3", "WINDLASS_CARDS_EMBEDDER": "none"}
        )
        assert settings.cards.model_dump(exclude_unset=True) == {
            "batch_size": 5,
            "summariser": "a/near",
            "workers": 3,
            "embedder": "none",
        }
        assert settings["cards"].origin.startswith("WINDLASS_CARDS")

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("[cards]\nbatch = 5", r":2: unknown setting 'cards.batch'; did you mean 'batch_size'"),
            ("[cards]\nbatch_size = 0", "cards.batch_size must be a whole number above 0, not 0"),
            (
                "[cards]\nembedder = 'big'",
                "must be 'wordllama', 'none' or a model as provider/name",
            ),
            ("[cards]\nsummariser = 'big'", "must be a model as provider/name, or 'none'"),
            ("helper_model = 'big'", "must be a model as provider/name, or 'none'"),
        ],
    )
    def test_mistakes_are_told_with_what_is_known(self, here: Path, text: str, told: str) -> None:
        write(here, text)
        with pytest.raises(UsageError) as refused:
            read(here)
        assert told.removeprefix(":2: ") in str(refused.value)

    @pytest.mark.req("AC-59", "AC-88")
    def test_a_helper_model_is_none_until_it_is_named(self, here: Path) -> None:
        assert read(here, {}, {"WINDLASS_HELPER_MODEL": "none"}).helper_model is None
        write(here, 'helper_model = "gemini/gemini-2.5-flash-lite"')
        assert read(here).helper_model == "gemini/gemini-2.5-flash-lite"


class TestWindows:
    FLAGS = (
        "auto_context_intra_phase_enabled",
        "auto_context_cards_enabled",
        "auto_context_inter_phase_enabled",
        "auto_context_llm_selection_enabled",
    )

    @pytest.mark.req("AC-99", "AC-100")
    @pytest.mark.parametrize("flag", FLAGS)
    def test_each_flag_is_on_until_it_is_switched_off(self, here: Path, flag: str) -> None:
        variable = f"WINDLASS_{flag.upper()}"
        assert read(here)[flag].value is True
        for word in ("false", "0", "no", "Off"):
            setting = read(here, {}, {variable: word})[flag]
            assert (setting.value, setting.origin) == (False, variable)
        assert getattr(read(here, {}, {variable: "1"}), flag) is True
        write(here, f"{flag} = false")
        assert getattr(read(here), flag) is False
        assert getattr(read(here, {}, {variable: "true"}), flag) is True
        with pytest.raises(UsageError, match=f"{variable}: {flag} must be true or false"):
            read(here, {}, {variable: "maybe"})

    @pytest.mark.req("CA-2", "CA-3")
    @pytest.mark.parametrize("name", ["keep_recent_turns", "keep_recent_images"])
    def test_how_much_is_kept_is_0_for_all(self, here: Path, name: str) -> None:
        variable = f"WINDLASS_{name.upper()}"
        assert read(here)[name].value == 0
        assert read(here, {}, {variable: "10"})[name].value == 10
        assert read(here, {}, {variable: "0"})[name].value == 0
        write(here, f"{name} = 3")
        assert getattr(read(here), name) == 3
        for wrong in ("-1", "1.5", "few"):
            with pytest.raises(UsageError, match=f"{name} must be a whole number, 0 for off"):
                read(here, {}, {variable: wrong})

    def test_everything_can_be_sent(self, here: Path) -> None:
        assert read(here).passthrough is False
        assert read(here, {}, {"WINDLASS_PASSTHROUGH": "1"}).passthrough is True


class TestPaths:
    def test_are_relative_to_where_they_were_written(self, here: Path, tmp_path: Path) -> None:
        user_folder = tmp_path / "user"
        user_folder.mkdir()
        write(user_folder, 'search_folder = "pages"')
        settings = read(here, {"store": "../kept"}, {"WINDLASS_ROOT": "data"})
        assert settings.store == here / "../kept"
        assert settings.root == here / "data"
        assert settings.search_folder == user_folder / "pages"
        said = settings.with_cascade({"search_folder": "corpus"}, "a.json", tmp_path / "cascades")
        assert said.search_folder == tmp_path / "cascades" / "corpus"

    def test_may_be_absolute_or_begin_at_home(self, here: Path, tmp_path: Path) -> None:
        assert read(here, {"store": tmp_path}).store == tmp_path
        assert read(here, {"store": "~/kept"}).store == Path.home() / "kept"


class TestRefusals:
    def test_of_all_mistakes_at_once_each_with_the_line_of_its_key(self, here: Path) -> None:
        text = """# keys of every form
tools = [
  "x = 1",
]
[cards]
model = "a/b"
[providers."my.own"]
base_url = '''
[providers.z]
http://x'''
requests_per_minute = "many"
[providers]
q = { stream = true, window = 0 }
x.window = 0
[[providers.y]]
window = 0
[ prices . "a/b" ]
input = 1
[http_allow]
"""
        path = write(here, text)
        with pytest.raises(FileError) as refused:
            read(here)
        told = [(each.line, each.text.split(" must")[0]) for each in refused.value.mistakes]
        assert told == [
            (6, told[0][1]),
            (8, 'providers."my.own".base_url'),
            (11, 'providers."my.own".requests_per_minute'),
            (13, "providers.q.window"),
            (14, "providers.x.window"),
            (15, "providers.y"),
            (17, 'prices."a/b"'),
            (19, "http_allow"),
        ]
        assert told[0][1].startswith("unknown setting 'cards.model'")
        assert {each.file for each in refused.value.mistakes} == {str(path)}

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            (
                "# a\nmodle = 'x'",
                r"windlass.toml:2: unknown setting 'modle'; did you mean 'model'\?",
            ),
            ("[stor]\na = 1", r"windlass.toml:1: unknown setting 'stor'; did you mean 'store'\?"),
            ("model = 'a/b'\nstore = 5", r"windlass.toml:2: store must be a path, not 5$"),
            ("model = ''", r"windlass.toml:1: model must be text, not ''$"),
            ("tools = 1", r"windlass.toml:1: tools must be a list of names, not 1$"),
            ("tools = [1]", r"windlass.toml:1: tools must be a list of names, not \[1\]$"),
            (
                "max_output_tokens = 1.5",
                r"max_output_tokens must be a whole number above 0, not 1.5$",
            ),
            ("max_output_tokens = true", r"must be a whole number above 0, not True$"),
            ("max_output_tokens = 0", r"must be a whole number above 0, not 0$"),
            ("tool_timeout_s = 'soon'", r"tool_timeout_s must be a number above 0, not 'soon'$"),
            ("tool_timeout_s = inf", r"must be a number above 0, not inf$"),
            ("\nmodel = = 1", r"windlass.toml:2: not TOML: "),
            ("model", r"not TOML: "),
        ],
    )
    def test_of_a_file_name_file_line_and_what_was_expected(
        self, here: Path, text: str, says: str
    ) -> None:
        write(here, text)
        with pytest.raises(UsageError, match=says) as refused:
            read(here)
        assert str(refused.value).startswith(str(here))
        assert "\n" not in str(refused.value)

    def test_of_a_file_that_cannot_be_read(self, here: Path) -> None:
        (here / "windlass.toml").write_bytes(b"model = '\xff'")
        with pytest.raises(UsageError, match=r"windlass.toml: is not UTF-8 text \(byte 9\)"):
            read(here)
        (here / "windlass.toml").unlink()
        (here / "windlass.toml").mkdir()
        with pytest.raises(UsageError, match=r"windlass.toml: cannot be read \(Is a directory\)"):
            read(here)

    def test_of_a_flag_or_variable_name_it(self, here: Path) -> None:
        with pytest.raises(UsageError, match=r"^--max-output-tokens: .*, not 'many'$"):
            read(here, {"max_output_tokens": "many"})
        with pytest.raises(UsageError, match=r"^WINDLASS_TOOL_TIMEOUT_S: .*, not '-1'$"):
            read(here, {}, {"WINDLASS_TOOL_TIMEOUT_S": "-1"})
        with pytest.raises(UsageError, match="unknown setting 'modle'; did you mean 'model'"):
            read(here, {"modle": "x"})

    def test_of_a_cascade_name_it(self, here: Path) -> None:
        with pytest.raises(
            UsageError, match=r"^chart.json: max_output_tokens must be .* not \[\]$"
        ):
            read(here).with_cascade({"max_output_tokens": []}, "chart.json")
        with pytest.raises(UsageError, match=r"^chart.json: unknown setting 'pirce_as'"):
            read(here).with_cascade({"pirce_as": "x"}, "chart.json")


class TestAddressesOfOtherClients:
    """The variables that tell the vendors' own clients where to send."""

    ENVIRON: ClassVar = {
        "ANTHROPIC_BASE_URL": "http://proxy.test/",
        "OPENAI_BASE_URL": "http://proxy.test/v1",
        "GOOGLE_GEMINI_BASE_URL": "http://proxy.test",
    }

    def test_hold_where_no_file_says_another(self, here: Path) -> None:
        settings = read(here, {}, self.ENVIRON)
        assert settings.addresses() == {
            "openai": "http://proxy.test/v1",
            "anthropic": "http://proxy.test/v1",
            "gemini": "http://proxy.test/v1beta",
        }
        assert "ANTHROPIC_BASE_URL" in settings["providers"].origin
        assert read(here, {}, {"OPENAI_BASE_URL": "  "}).addresses() == {}

    def test_a_file_goes_before_them_and_keeps_its_other_keys(self, here: Path) -> None:
        write(
            here,
            """
            [providers.openai]
            requests_per_minute = 9
            [providers.anthropic]
            base_url = "http://mine.test/v1"
            """,
        )
        settings = read(here, {}, self.ENVIRON)
        assert settings.providers["openai"] == ProviderSettings(
            base_url="http://proxy.test/v1", requests_per_minute=9
        )
        assert settings.addresses()["anthropic"] == "http://mine.test/v1"
        origin = settings["providers"].origin
        assert "windlass.toml" in origin
        assert "OPENAI_BASE_URL" in origin
        assert "ANTHROPIC_BASE_URL" not in origin

    @pytest.mark.parametrize("address", ["http://me:secret@proxy.test", "proxy.test/secret"])
    def test_what_is_no_address_is_refused_without_being_shown(
        self, here: Path, address: str
    ) -> None:
        with pytest.raises(
            UsageError, match=r"ANTHROPIC_BASE_URL: .* an address such as"
        ) as refused:
            read(here, {}, {"ANTHROPIC_BASE_URL": address})
        assert "secret" not in str(refused.value)


class TestProvidersAndPrices:
    def test_are_tables_by_name(self, here: Path) -> None:
        write(
            here,
            """
            [providers.vllm]
            base_url = "http://localhost:8000/v1/"
            wire = "openai"
            key = "VLLM_KEY"
            sees_pictures = true
            window = 32768
            stream = false
            read_timeout_s = 300
            [providers.openai]
            requests_per_minute = 500
            tokens_per_minute = 30000
            [prices."vllm/qwen3"]
            input = 0.1
            output = 1
            """,
        )
        settings = read(here)
        assert settings.providers == {
            "vllm": ProviderSettings(
                base_url="http://localhost:8000/v1",
                wire="openai",
                key="VLLM_KEY",
                sees_pictures=True,
                window=32_768,
                stream=False,
                read_timeout_s=300.0,
            ),
            "openai": ProviderSettings(requests_per_minute=500, tokens_per_minute=30_000),
        }
        assert settings.prices == {"vllm/qwen3": PriceSettings(input=0.1, output=1.0)}
        assert settings["providers"].origin.endswith("windlass.toml:2")

    def test_of_two_files_are_joined_by_name(self, here: Path, user_folder: Path) -> None:
        write(user_folder, "[providers.openai]\nwindow = 1\n[providers.gemini]\nwindow = 2")
        write(here, "[providers.openai]\nstream = true")
        settings = read(here)
        assert settings.providers == {
            "openai": ProviderSettings(stream=True),
            "gemini": ProviderSettings(window=2),
        }
        assert settings["providers"].origin.count("windlass.toml:1") == 2

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("providers = 1", r"windlass.toml:1: providers must be tables in windlass.toml, not 1"),
            ("providers.x = 1", r"providers.x must be a table \[providers.x\], not 1"),
            ("\n[providers.x]\nwinow = 1", r":3: unknown setting 'providers.x.winow'; .*'window'"),
            ("[providers.x]\nwire = 'grpc'", r"providers.x.wire must be openai or anthropic or"),
            ("[providers.x]\nwindow = 0", r"providers.x.window must be a whole number above 0"),
            ("[providers.x]\nstream = 1", r"providers.x.stream must be true or false, not 1"),
            (
                "[providers.'A b']\nwindow = 1",
                r"providers.\"A b\" must be a name of lower-case letters",
            ),
            (
                "[prices.'gpt']\ninput = 1",
                r"must be a model, as in \[prices.\"provider/model\"\]",
            ),
            ("[prices.'a/b']\ninput = 1", r"must say input and output"),
            (
                "[prices.'a/b']\ninput = 1\noutput = 1\nsearch = -1",
                r"search must be US dollars per se",
            ),
            (
                "[prices.'a/b']\ninput = -1\noutput = 1",
                r"input must be US dollars per million tokens",
            ),
            ("[prices.'a/b']\ninput = true\noutput = 1", r"input must be US dollars"),
        ],
    )
    def test_refusals_name_the_place(self, here: Path, text: str, says: str) -> None:
        write(here, text)
        with pytest.raises(UsageError, match=says):
            read(here)

    @pytest.mark.parametrize(
        "line",
        [
            'key = "sk-secret-0123"',
            'key = "AIzaSecret0123"',
            'base_url = "https://user:secret@host/v1"',
            'base_url = "https://host/v1?key=secret"',
            'base_url = "ftp://secret"',
        ],
    )
    def test_what_may_be_private_is_not_shown(self, here: Path, line: str) -> None:
        write(here, f"[providers.x]\n{line}")
        with pytest.raises(UsageError, match=r"providers.x.(key|base_url) must be ") as refused:
            read(here)
        assert "secret" not in str(refused.value).lower().replace("windlass", "")
        assert refused.value.__cause__ is None


class TestServersAndHosts:
    def test_servers_are_those_that_a_cascade_could_declare(self, here: Path) -> None:
        write(
            here,
            """
            http_allow = ["example.org", "*.example.net"]
            [mcp_servers.files]
            command = ["npx", "-y", "server", "data"]
            env = {LEVEL = "info", API_KEY = "${FILES_KEY}"}
            [mcp_servers.tickets]
            url = "https://tickets.example.org/mcp"
            headers.Authorization = "Bearer ${TOKEN}"
            """,
        )
        settings = read(here)
        assert settings.http_allow == ("example.org", "*.example.net")
        declared = {
            "files": {
                "command": ["npx", "-y", "server", "data"],
                "env": {"LEVEL": "info", "API_KEY": "${FILES_KEY}"},
            },
            "tickets": {
                "url": "https://tickets.example.org/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}"},
            },
        }
        phases = [{"name": "a", "instructions": "x"}]
        made = Cascade.model_validate(
            {"cascade_id": "c", "mcp_servers": declared, "phases": phases}
        )
        assert settings.mcp_servers == made.mcp_servers

    def test_hosts_may_come_from_a_variable(self, here: Path) -> None:
        write(here, 'http_allow = ["a"]')
        assert read(here, environ={"WINDLASS_HTTP_ALLOW": "b, c"}).http_allow == ("b", "c")

    def test_of_two_files_servers_are_joined_by_name(self, here: Path, user_folder: Path) -> None:
        write(user_folder, "[mcp_servers.a]\ncommand = ['far']\n[mcp_servers.b]\ncommand = ['b']")
        write(here, "[mcp_servers.a]\ncommand = ['near']")
        servers = read(here).mcp_servers
        assert {name: list(each.command) for name, each in servers.items()} == {
            "a": ["near"],
            "b": ["b"],
        }

    @pytest.mark.parametrize(
        ("text", "line", "says"),
        [
            ("mcp_servers = 1", 1, "mcp_servers must be tables in windlass.toml, not 1"),
            ("[mcp_servers]\nx = 1", 2, "mcp_servers.x must be a table [mcp_servers.x]"),
            (
                "[mcp_servers.a]\ncommand = ['x']\n\n[mcp_servers.b]\ncomand = ['x']",
                5,
                "unknown setting 'mcp_servers.b.comand'; did you mean 'command'? known: ",
            ),
            (
                "[mcp_servers.'b']\n",
                1,
                "mcp_servers.b: write either 'command' (a program to start) or 'url' (one that",
            ),
            (
                "[mcp_servers.b]\ncommand = 'python x'",
                2,
                'mcp_servers.b.command must be a list of texts, such as ["npx", "-y", "server"]',
            ),
            ("[mcp_servers.b]\ncommand = [1]", 2, "mcp_servers.b.command must be a list of texts"),
            ("[mcp_servers.b]\nurl = 1", 2, "mcp_servers.b.url must be text"),
            ("[mcp_servers.b]\nurl = 'h:1'", 2, "mcp_servers.b.url: 'h:1' is not an address"),
            (
                "\n[mcp_servers.b]\ncommand = ['x']\nenv = {N = 1}",
                4,
                "mcp_servers.b.env.N must be a table of texts",
            ),
            ("[mcp_servers.'b.c']\ncommand = ['x']", 1, "'b.c' is not a name for a server"),
            ("\nhttp_allow = 7", 2, "http_allow must be a list of names, not 7"),
        ],
    )
    def test_mistakes_are_one_sentence_with_its_place(
        self, here: Path, text: str, line: int, says: str
    ) -> None:
        path = write(here, text)
        with pytest.raises(UsageError) as refused:
            read(here)
        assert str(refused.value).startswith(f"{path}:{line}: ")
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)
        assert refused.value.exit_code == 2

    @pytest.mark.parametrize(
        "line",
        [
            'command = ["x"]\nenv = {API_KEY = "hunter2"}',
            'command = ["x"]\nenv = {A = ["hunter2"]}',
            'url = "http://me:hunter2@h/"',
            'url = "http://h/"\nheaders = {Authorization = "Bearer hunter2"}',
        ],
    )
    def test_what_may_be_private_is_not_told(self, here: Path, line: str) -> None:
        write(here, f"[mcp_servers.x]\n{line}")
        with pytest.raises(UsageError, match=r"mcp_servers\.x") as refused:
            read(here)
        assert "hunter2" not in str(refused.value)

    def test_rows_show_variables_and_hide_what_is_written_out(self, here: Path) -> None:
        write(
            here,
            """
            [mcp_servers.a]
            command = ["x", "y"]
            env = {DSN = "postgres://me:hunter2@h", KEY = "${MY_KEY}"}
            [mcp_servers.b]
            url = "https://h/mcp?id=hunter2"
            headers = {X-Plain = "hunter2"}
            """,
        )
        (row,) = [row for row in read(here).rows() if row.name == "mcp_servers"]
        assert row.value == {
            "a": {"command": ("x", "y"), "env": {"DSN": "***", "KEY": "${MY_KEY}"}},
            "b": {"url": "https://h/mcp?***", "headers": {"X-Plain": "***"}},
        }
        assert "hunter2" not in str(read(here).rows())


class TestHeadings:
    @pytest.mark.req("ADR-36")
    def test_are_a_table_of_the_sections_of_a_context(self, here: Path) -> None:
        assert read(here)["headings"].origin == "default"
        write(here, '[headings]\nfresh = "# Found"\ntask = "# To do"\n')
        assert read(here).headings == HeadingSettings(fresh="# Found", task="# To do")

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("[headings]\nfound = 'x'", "unknown setting 'headings.found'"),
            ("[headings]\nfresh = 3", "headings.fresh must be text, not 3"),
            ("headings = 'x'", r"headings must be a table \[headings\]"),
        ],
    )
    def test_what_is_wrong_is_told_with_its_line(self, here: Path, text: str, told: str) -> None:
        write(here, text)
        with pytest.raises(UsageError, match=told):
            read(here)
