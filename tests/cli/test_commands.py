"""Every command does what it says."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine, Transcript
from tests.engine.harness import cascade, phase
from tests.history.builders import a_session, row, start
from tests.tasks.making import atomic
from windlass.cascade.published_schema import json_schema
from windlass.errors import BadRequest
from windlass.history.base import Batch
from windlass.history.sqlite import SqliteStore
from windlass.messages import user
from windlass.settings.settings import Settings
from windlass.wire.base import Request

COMMANDS = (
    "run",
    "sessions",
    "show",
    "check",
    "query",
    "verify",
    "prune",
    "schema",
    "config",
    "policies",
    "explain",
    "migrate",
)


class TestHelp:
    def test_lists_every_command(self, windlass: CommandLine) -> None:
        said = windlass("--help")
        assert said.code == 0
        for command in COMMANDS:
            assert f"\n  {command} " in said.out

    @pytest.mark.parametrize("command", COMMANDS)
    def test_each_command_has_a_page(self, windlass: CommandLine, command: str) -> None:
        said = windlass(command, "--help")
        assert said.code == 0
        assert said.out.startswith(f"Usage: windlass {command}")

    def test_version(self, windlass: CommandLine) -> None:
        assert windlass("--version").out == "windlass 0.1.0\n"

    def test_without_a_command_help_is_shown(self, windlass: CommandLine) -> None:
        said = windlass()
        assert "Usage: windlass" in said.out + said.err


class TestRun:
    def test_progress_goes_to_standard_error_and_the_answer_to_standard_output(
        self, windlass: CommandLine
    ) -> None:
        windlass.write("c.json", cascade(phase("a"), phase("b")))
        said = windlass("run", "c.json")
        assert said.code == 0
        first = said.err.splitlines()[0]
        assert first.endswith("models that will see content: local/smollm2 (on this machine)")
        assert "[1/2] a" in said.err
        assert "said" in said.out.splitlines()
        table = [line.split()[0] for line in said.out.splitlines() if line[:1].isalpha()]
        assert {"phase", "a", "b", "all"} <= set(table)
        assert "windlass show " in said.out

    def test_an_address_of_a_file_stands_behind_the_models_that_are_sent_there(
        self, windlass: CommandLine
    ) -> None:
        windlass.write("c.json", cascade(phase("a"), model="openai/gpt-4o"))
        windlass.folder.joinpath("windlass.toml").write_text(
            '[providers.openai]\nbase_url = "http://elsewhere.test/v1"\n'
        )
        said = windlass("run", "c.json", "--dry-run")
        assert said.code == 0, said.err
        first = said.out.splitlines()[0]
        assert first.endswith("content: openai/gpt-4o (at http://elsewhere.test/v1)")

    def test_an_address_of_a_variable_is_told_like_one_of_a_file(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        windlass.write("c.json", cascade(phase("a"), model="anthropic/claude-sonnet-5-5"))
        monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://elsewhere.test")
        said = windlass("run", "c.json", "--dry-run")
        assert said.code == 0, said.err
        first = said.out.splitlines()[0]
        assert first.endswith("anthropic/claude-sonnet-5-5 (at http://elsewhere.test/v1)")
        rows = {row["name"]: row for row in windlass("config", "--json").json}
        assert rows["providers"]["origin"] == "ANTHROPIC_BASE_URL"
        known = windlass("models", "anthropic/claude-sonnet-5-5").out
        assert "address        http://elsewhere.test/v1" in known
        monkeypatch.setenv("ANTHROPIC_BASE_URL", "elsewhere")
        wrong = windlass("run", "c.json", "--dry-run")
        assert wrong.code == 2
        assert "ANTHROPIC_BASE_URL: providers.anthropic.base_url must be" in wrong.complaint

    def test_input_is_json_files_and_pairs_merged_in_order(self, windlass: CommandLine) -> None:
        asked = {"name": "a", "instructions": "{{ input | tojson }}"}
        windlass.write("c.json", cascade(asked))
        windlass.write("one.json", {"a": 1, "b": 1})
        windlass.write("two.yaml", "b: 2\nc: [x]\n")
        windlass.write("text.txt", "a text")
        given = ["one.json", "two.yaml", '{"d": 4}', "e=5", "f=words", "g=@text.txt", "a=true"]
        arguments = [part for item in given for part in ("-i", item)]
        assert windlass("run", "c.json", *arguments).code == 0
        sent = json.loads(windlass.requests[0].messages[-1].text)
        assert sent == {
            "a": True, "b": 2, "c": ["x"], "d": 4, "e": 5, "f": "words", "g": "a text",
        }  # fmt: skip

    def test_a_long_text_is_no_file_name(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade({"name": "a", "instructions": "{{ input.x }}"}))
        assert windlass("run", "c.json", "-i", "x=" + "a" * 5_000).code == 0
        assert windlass.requests[0].messages[-1].text == "a" * 5_000

    def test_model_store_and_session_are_flags(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a"), model="openai/none"))
        said = windlass(
            "run", "c.json", "--model", "local/other", "--store", "kept", "--session", "mine"
        )
        assert said.code == 0
        assert "local/other" in said.err
        assert Path("kept/windlass.sqlite").is_file()
        assert not Path(".windlass").exists()
        assert [
            s["session_id"] for s in windlass("sessions", "--store", "kept", "--json").json
        ] == ["mine"]

    def test_as_json_it_prints_the_result_and_nothing_else(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a"), phase("b")))
        said = windlass("run", "c.json", "--json")
        assert said.err == ""
        result = said.json
        assert result["status"] == "completed"
        assert result["outputs"] == {"a": "said", "b": "said"}
        assert set(result) >= {
            "status", "output", "outputs", "state", "session_id", "usage", "cost", "saved", "error",
        }  # fmt: skip
        assert [line["phase"] for line in result["phases"]["phases"]] == ["a", "b"]

    def test_a_dry_run_shows_the_first_request_and_leaves_nothing(
        self, windlass: CommandLine
    ) -> None:
        windlass.write("c.json", cascade(phase("a", tackle=["run_sql"]), phase("b"), system="Be."))
        before = sorted(Path().iterdir())
        said = windlass("run", "c.json", "--dry-run", "-i", "x=1")
        assert said.code == 0
        assert windlass.requests == []
        assert sorted(Path().iterdir()) == before
        assert "Do a." in said.out
        assert "Be." in said.out
        assert "tools: run_sql" in said.out
        assert "at most 82 calls and $" in said.out
        shown = windlass("run", "c.json", "--dry-run", "--json").json
        assert shown["phase"] == "a"
        assert shown["models"] == ["local/smollm2"]
        assert shown["tokens"] > 0
        # The same tokens are sent when it is meant.
        windlass("run", "c.json", "--session", "s")
        call = windlass("show", "s", "--call", "1", "--json").json
        assert call["sent_tokens"] == shown["tokens"]

    def test_a_dry_run_of_a_manifest_asks_no_model(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a", tackle="manifest"), phase("b")))
        said = windlass("run", "c.json", "--dry-run", "--json")
        assert said.code == 0
        assert said.json["tools"] == []
        assert said.json["most_calls"] == 83  # 21 and 20, each reply cut once, and one to choose
        assert windlass.requests == []

    def test_tools_beside_the_cascade_are_found(self, windlass: CommandLine) -> None:
        Path("sub").mkdir()
        windlass.write(
            "sub/own_tools_of_the_cli.py",
            "from windlass.tools.registry import tool\n\n\n@tool\ndef own() -> str:\n"
            "    '''Mine.'''\n    return 'x'\n",
        )
        windlass.write(
            "sub/c.json", cascade(phase("a", tackle=["own"]), tools=["own_tools_of_the_cli"])
        )
        assert windlass("run", "sub/c.json").code == 0
        assert [spec.name for spec in windlass.requests[0].tools] == ["own"]


def test_what_looking_back_prints(ran: CommandLine, transcript: Transcript) -> None:
    assert ran("run", "two.json", "--session", "s2").code == 0
    transcript(
        "looking_back",
        *("sessions", "show s1", "show s1 --call 3", "show s1 --call 2 --full", "explain s1 3"),
        *("report s1", "report s1 --call 2", "report", "diff s1 s2", "verify"),
        "query 'SELECT phase_name, count(*) AS n FROM unified_logs GROUP BY 1 ORDER BY 1'",
        "query 'SELECT 1 WHERE 0'",
    )


class TestShow:
    @pytest.mark.parametrize("options", [(), ("--call", "1")])
    def test_options_are_told_in_words(
        self, windlass: CommandLine, options: tuple[str, ...]
    ) -> None:
        phases = (phase("a", tackle=["set_state"]), phase("b", context={"mode": "auto"}))
        windlass.write(
            "c.json",
            cascade(*phases, auto_context={"intra_phase": {"compress": {"by_kind": True}}}),
        )
        assert windlass("run", "c.json", "--session", "s1").code == 0
        said = windlass("show", "s1", *options).out
        for dumped in ("{", "[]", "['", "None", "True", "False"):
            assert dumped not in said
        if not options:
            told = "a: turn 1: 1 of 1 messages sent, 0 of them shortened, 0 tokens fewer than all"
            assert told in said

    def test_as_json_it_holds_everything(self, ran: CommandLine) -> None:
        session = ran("show", "s1", "--json").json
        assert (session["session_id"], len(session["calls"])) == ("s1", 3)
        call = ran("show", "s1", "--call", "2", "--json").json
        assert call == session["calls"][1]
        roles = [seen["role"] for seen in call["seen"]]
        assert roles == ["system", "user", "assistant", "tool"]
        assert call["seen"][3]["message"]["content"] == "set state 'k'"


class TestCheck:
    def test_a_sound_cascade(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a"), phase("b")))
        assert windlass("check", "c.json").out == "c.json: test, no mistakes; phases: a, b\n"
        assert windlass("check", "c.json", "--json").json == {
            "cascade_id": "test",
            "phases": ["a", "b"],
        }
        assert not Path(".windlass").exists()

    def test_every_mistake_at_once_with_file_and_line(self, windlass: CommandLine) -> None:
        first = phase("a", context={"from": ["later"]}, tackle=["run_sq"])
        windlass.write("c.json", cascade(first, phase("later", unknown_key=1)))
        said = windlass("check", "c.json")
        assert said.code == 2
        assert said.err.count("c.json:") == 3
        assert "did you mean 'run_sql'" in said.err

    @pytest.mark.parametrize("strict", [(), ("--strict",)], ids=["", "strict"])
    def test_mistakes_and_warnings_are_json_too(
        self, windlass: CommandLine, strict: tuple[str, ...]
    ) -> None:
        first = phase("a", context={"from": ["later"]}, tackle=["run_sq"], tool_choice="x")
        windlass.write("c.json", cascade(first, phase("later", unknown_key=1), memory="notes"))
        plain, said = (windlass("check", "c.json", *strict, *more) for more in ((), ("--json",)))
        assert plain.code == said.code == 2
        assert plain.err == said.err
        told = [
            f"{each['file']}:{each['line']}: {each['message']}" for each in said.json["mistakes"]
        ]
        assert "\n".join(told) in plain.err
        lines = Path("c.json").read_text().splitlines()
        by_key = {lines[each["line"] - 1].split('"')[1]: each for each in said.json["mistakes"]}
        assert "known: " in by_key["run_sq"]["message"]

    def test_warnings_are_objects_in_json(self, windlass: CommandLine) -> None:
        system = "Be. Today is {{ now }}."
        windlass.write("c.json", cascade(phase("a"), system=system, injectors=True))
        (warning,) = windlass("check", "c.json", "--json").json["warnings"]
        assert "now will be moved" in warning["message"]
        assert "system" in Path("c.json").read_text().splitlines()[warning["line"] - 1]
        assert warning["file"] == "c.json"

    def test_a_file_that_is_none_is_json_too(self, windlass: CommandLine) -> None:
        windlass.write("bad.xml", "<task")
        windlass.write("bad.yaml", "a: [")
        for name in ("no.json", "no.xml", "bad.xml", "bad.yaml", "bad.txt"):
            said = windlass("check", name, "--json")
            assert said.code == 2
            (mistake,) = said.json["mistakes"]
            assert mistake["message"]
            assert mistake["file"] == name
            assert (mistake["line"] == 1) is name.startswith("bad.") or name == "bad.txt"

    def test_defaults_are_explained(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a"), phase("b", context_strategy="minimal")))
        said = windlass("check", "c.json", "--explain-defaults").out
        assert "phase 'b' sees only: output of 'a'" in said
        assert "rules.max_turns" in said
        assert "(default)" in said
        explained = windlass("check", "c.json", "--explain-defaults", "--json").json
        assert [entry["phase"] for entry in explained] == ["a", "b"]
        assert explained[1]["rule"]["mode"] == "selective"
        windlass.write("c.json", cascade(phase("a"), phase("b", context={"mode": "auto"})))
        explained = windlass("check", "c.json", "--explain-defaults", "--json").json
        assert explained[1]["rule"]["choosing"]["anchors"]["window"] == 3


class TestVerifyAndPrune:
    @pytest.mark.req("AC-112")
    def test_prune_removes_one_session_and_nothing_else_does(self, ran: CommandLine) -> None:
        assert ran("run", "two.json", "--session", "s2").code == 0
        told = ran("prune", "--session", "s1", "--dry-run")
        assert told.out.startswith("would remove 1 session, ")
        assert len(ran("sessions", "--json").json) == 2
        assert ran("prune", "--session", "s1").out.startswith("removed 1 session, ")
        assert [s["session_id"] for s in ran("sessions", "--json").json] == ["s2"]
        assert ran("verify").code == 0

    @pytest.mark.req("AC-112")
    def test_prune_by_age(self, ran: CommandLine) -> None:
        assert ran("prune", "--older-than", "90d", "--json").json["sessions"] == []
        assert ran("prune", "--older-than", "0s", "--json").json["sessions"] == ["s1"]
        assert ran("sessions").out.endswith("no sessions yet\n")

    @pytest.mark.req("AC-112")
    @pytest.mark.parametrize(
        ("age", "unit_s"), [("90d", 86_400), ("12h", 3_600), ("30m", 60), ("45s", 1)]
    )
    def test_prune_takes_an_age_in_its_unit(
        self, windlass: CommandLine, age: str, unit_s: int
    ) -> None:
        units, now = int(age[:-1]), time.time()
        spare = 1 if unit_s > 1 else 30  # so long the command may take
        with SqliteStore(windlass.folder / "aged") as store:
            for name, old in (("older", units + 1), ("younger", units - spare)):
                at = now - old * unit_s
                store.append(Batch(name, start=start(at), rows=[row(user(name), timestamp=at)]))
        pruned = windlass("prune", "--older-than", age, "--store", "aged", "--json")
        assert pruned.json["sessions"] == ["older"]
        (kept,) = windlass("sessions", "--store", "aged", "--json").json
        assert kept["session_id"] == "younger"


class TestSchemaAndConfig:
    def test_schema_is_the_published_one(self, windlass: CommandLine) -> None:
        assert windlass("schema").json == json.loads(json.dumps(json_schema()))

    def test_config_tells_value_and_origin(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        windlass.write("windlass.toml", 'price_as = "openai/gpt-4o"\n')
        monkeypatch.setenv("WINDLASS_MODEL", "local/from-env")
        rows = {row["name"]: row for row in windlass("config", "--store", "x", "--json").json}
        assert rows["store"]["origin"] == "--store"
        assert rows["model"] == rows["model"] | {
            "value": "local/from-env",
            "origin": "WINDLASS_MODEL",
        }
        assert rows["price_as"]["origin"].endswith("windlass.toml:1")
        assert rows["tool_timeout_s"]["origin"] == "default"
        assert list(rows) == [row.name for row in Settings.read({}, {}, Path()).rows()]
        assert "tool_timeout_s" in windlass("config").out

    def test_config_shows_servers_without_what_may_be_a_secret(self, windlass: CommandLine) -> None:
        server = '[mcp_servers.mine]\ncommand = ["x"]\nenv = {A = "hunter2", B = "${KEY}"}\n'
        windlass.write("windlass.toml", server)
        rows = {row["name"]: row for row in windlass("config", "--json").json}
        shown = {"mine": {"command": ["x"], "env": {"A": "***", "B": "${KEY}"}}}
        assert rows["mcp_servers"]["value"] == shown
        said = windlass("config").out
        assert "${KEY}" in said
        assert "hunter2" not in said

    def test_check_knows_the_servers_of_the_settings(self, windlass: CommandLine) -> None:
        asks = {"name": "a", "instructions": "x", "tackle": ["mine.read"]}
        windlass.write("c.json", {"cascade_id": "c", "phases": [asks]})
        said = windlass("check", "c.json")
        assert said.code == 2
        assert "neither the cascade nor the settings declare" in said.err
        windlass.write("windlass.toml", '[mcp_servers.mine]\ncommand = ["no-such-program"]\n')
        assert windlass("check", "c.json").code == 0

    def test_a_wrong_server_is_one_sentence(self, windlass: CommandLine) -> None:
        windlass.write("windlass.toml", "\n[mcp_servers.mine]\ncomand = ['x']\n")
        said = windlass("config")
        assert said.code == 2
        assert "windlass.toml:3: unknown setting 'mcp_servers.mine.comand'" in said.complaint


class TestSearch:
    def test_a_dry_run_names_who_would_search(
        self, windlass: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asks = {"name": "a", "instructions": "x", "tackle": ["web_search"]}
        windlass.write("c.json", {"cascade_id": "c", "phases": [asks]})
        monkeypatch.setenv("WINDLASS_SEARCH_MODEL", "gemini/gemini-2.5-flash")
        said = windlass("run", "c.json", "--dry-run")
        assert said.code == 0, said.err
        first, *_, last = said.out.strip().splitlines()
        assert first.endswith(", gemini/gemini-2.5-flash")
        assert last == "not counted there: searches of the web by gemini/gemini-2.5-flash"


class TestStores:
    def test_the_tables_are_printed(self, windlass: CommandLine) -> None:
        said = windlass("schema", "clickhouse", "--vectors", "256")
        assert said.code == 0
        assert "ENGINE = MergeTree()" in said.out
        assert "vector_similarity('hnsw', 'cosineDistance', 256)" in said.out

    def test_a_wrong_schema_is_told(self, windlass: CommandLine) -> None:
        said = windlass("schema", "clickhose")
        assert (said.code, "did you mean 'clickhouse'" in said.complaint) == (2, True)
        assert "for tables" in windlass("schema", "--ttl-days", "3").complaint
        assert "from 1" in windlass("schema", "clickhouse", "--ttl-days", "0").complaint

    def test_a_history_moves_to_another_folder(self, windlass: CommandLine, tmp_path: Path) -> None:
        with SqliteStore(tmp_path / "a") as store:
            for batch in a_session():
                store.append(batch)
        said = windlass("migrate", str(tmp_path / "a"), str(tmp_path / "b"))
        assert "1 session, 6 rows (6 of them new there)" in said.out
        assert windlass("verify", "--store", str(tmp_path / "b")).code == 0
        same = windlass("migrate", str(tmp_path / "a"), str(tmp_path / "a"))
        assert (same.code, "are one store" in same.complaint) == (2, True)
        none = windlass("migrate", str(tmp_path / "c"), str(tmp_path / "b"))
        assert (none.code, "there is no store" in none.complaint) == (2, True)


class TestPatterns:
    def test_check_names_what_a_callouts_pattern_cannot_have_with_its_line(
        self, windlass: CommandLine
    ) -> None:
        windlass.write("c.json", cascade(phase("a", callouts={"decision": r"(?=D)(.)\1"})))
        said = windlass("check", "c.json")
        assert said.code == 2
        assert "c.json:8: " in said.err
        assert "lookahead" in said.err

    def test_check_tells_which_patterns_are_searched_for_in_a_process_of_their_own(
        self, windlass: CommandLine
    ) -> None:
        wanted = {"pattern": "(?<=A: )(.*)", "store_as": "x"}
        windlass.write("c.json", cascade(phase("a", output_extraction=wanted)))
        said = windlass("check", "c.json")
        assert said.code == 0
        assert "warning: c.json:8" in said.out.replace("\n", " ")
        assert "has lookahead or lookbehind" in said.out.replace("\n", " ")


class TestRows:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("--json", "-- the first\nSELECT 1 AS x"),
            ("--a=b --json\nSELECT 1 AS x", "--json", "--store", ".windlass"),
            ("--store=.windlass", "--\nSELECT 1 AS x", "--format", "json"),
            ("--json", "--", "-- the first\nSELECT 1 AS x"),
            ("--format=json", "SELECT 1 AS x -- after"),
        ],
    )
    def test_sql_may_begin_with_a_comment(
        self, ran: CommandLine, arguments: tuple[str, ...]
    ) -> None:
        said = ran("query", *arguments)
        assert said.code == 0, said.err
        assert said.json == [{"x": 1}]

    @pytest.mark.parametrize("option", ["--stor", "--stor=x", "--stor=a b"])
    def test_an_option_that_is_none_is_told(self, ran: CommandLine, option: str) -> None:
        said = ran("query", option, "SELECT 1")
        assert said.code == 2
        assert "--stor" in said.err

    def test_csv_is_read_back_as_it_was(self, ran: CommandLine) -> None:
        sql = """SELECT 'a,b' AS "x,y", NULL AS n, 'say "hi"\n twice' AS q UNION ALL
            SELECT 1.5, 2, 'é'"""
        said = ran("query", sql, "--format", "csv")
        assert said.code == 0, said.err
        assert list(csv.reader(io.StringIO(said.out))) == [
            ["x,y", "n", "q"],
            ["a,b", "", 'say "hi"\n twice'],
            ["1.5", "2", "é"],
        ]
        assert ran("query", "SELECT 1 WHERE 0", "--format", "csv").out == ""
        assert "SELECT" not in ran("query", "SELECT 'x' AS x", "--format", "table").out

    def test_one_form_is_printed(self, ran: CommandLine) -> None:
        said = ran("query", "SELECT 1", "--format", "csv", "--json")
        assert said.code == 2
        assert "--format csv and --json exclude each other" in said.complaint


class TestOutputOnly:
    @pytest.mark.parametrize("command", ["run", "evaluate"])
    def test_prints_the_result_alone(self, windlass: CommandLine, command: str) -> None:
        windlass.write("run.json", cascade(phase("a"), phase("b")))
        windlass.write("evaluate.xml", atomic("a"))
        windlass.script = lambda _: "the result " * 1_000 + "\nits end"
        file = "run.json" if command == "run" else "evaluate.xml"
        said = windlass(command, file, "--output-only")
        assert (said.code, said.err) == (0, "")
        assert said.out == "the result " * 1_000 + "\nits end\n"

    def test_of_a_run_that_failed_only_the_sentence(self, windlass: CommandLine) -> None:
        windlass.write("c.json", cascade(phase("a"), phase("b")))

        def script(request: Request) -> str:
            if len(windlass.requests) > 1:
                raise BadRequest("not like this")
            return "the first"

        windlass.script = script
        said = windlass("run", "c.json", "--output-only")
        assert (said.code, said.out) == (1, "")
        assert "not like this" in said.complaint
        assert [line.split(": ")[0] for line in said.err.splitlines()] == [
            "windlass",
            "what was recorded",
            "go on from there",
        ]

    @pytest.mark.parametrize("other", ["--json", "--dry-run"])
    def test_goes_with_no_other_form(self, windlass: CommandLine, other: str) -> None:
        windlass.write("c.json", cascade(phase("a")))
        said = windlass("run", "c.json", "--output-only", other)
        assert said.code == 2
        assert "--output-only excludes --json" in said.complaint
        assert windlass.requests == []


@pytest.mark.parametrize(
    "command",
    [
        *(("sessions",), ("report",), ("verify",), ("run", "c.json"), ("import", "c.json")),
        *(("prune", "--older-than", "1d"), ("query", "SELECT 1"), ("replay", "latest")),
    ],
)
@pytest.mark.parametrize("name", ["f", "f/below"])
def test_a_store_that_is_a_file_is_one_sentence(
    windlass: CommandLine, command: tuple[str, ...], name: str
) -> None:
    windlass.write("f", "words")
    windlass.write("c.json", cascade(phase("a")))
    said = windlass(*command, "--store", name)
    assert said.code == 2
    assert "is a file" in said.complaint
    assert "name a folder with --store" in said.complaint
    assert (windlass.folder / "f").read_text() == "words"


def test_lines_of_tables_have_no_blanks_at_their_ends(windlass: CommandLine) -> None:
    windlass.write("c.json", cascade(phase("a")))
    assert windlass("run", "c.json", "--session", "s1").code == 0
    assert windlass("run", "c.json", "--session", "s2").code == 0
    for command in (
        ("query", "SELECT session_id, node_type, phase_name FROM unified_logs"),
        *(("diff", "s1", "s2"), ("sessions",), ("report", "s1"), ("report",)),
    ):
        said = windlass(*command)
        assert said.code == 0
        assert [line for line in said.out.splitlines() if line != line.rstrip()] == []
