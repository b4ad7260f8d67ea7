"""The documents' statements at the command line, and the mistakes that `check` finds."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.harness import by_phase, call, calls, cascade, phase
from tests.support.history_cards_kept import CARD_COLUMNS
from tests.support.history_sql import COLUMNS
from windlass.engine.cards import card_queue

SENTENCE = "The pump in hall 7 failed at 14:05, see order P-101. "
REPORT = SENTENCE * 12
LARGE = "row after row of a table " * 8_000


@pytest.fixture
def asked(windlass: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The session `s1`: a phase that reads a large file, and one that reports."""
    monkeypatch.setattr(card_queue, "DRAIN_S", 60.0)  # a test waits for all cards
    (windlass.folder / "large.txt").write_text(LARGE)
    windlass.write(
        "one.json",
        cascade(phase("a", tackle=["read_file"]), phase("b"), auto_context={"commit": "at_once"}),
    )
    reads = calls(call("read_file", '{"path": "large.txt"}'), text="I read the file first.")
    windlass.script = by_phase({"a": [reads, REPORT], "b": [REPORT]})  # type: ignore[assignment]
    said = windlass("run", "one.json", "--session", "s1", "-i", "hall=7")
    assert said.code == 0, said.err
    return windlass


class TestUnifiedLogs:
    @pytest.mark.req("AC-8", "CA-21")
    def test_has_the_documents_columns_with_full_content(self, asked: CommandLine) -> None:
        rows = asked("query", "SELECT * FROM unified_logs", "--json").json
        assert list(rows[0]) == COLUMNS
        contents = [json.loads(row["content_json"]) for row in rows if row["role"] == "assistant"]
        assert contents == ["I read the file first.", REPORT, REPORT]
        by_phase_ = asked(
            "query",
            "SELECT session_id, phase_name, node_type, tokens_in, tokens_out, cost, content_json"
            " FROM unified_logs WHERE node_type IN ('agent', 'follow_up') ORDER BY timestamp",
            "--json",
        ).json
        assert [(row["phase_name"], row["node_type"]) for row in by_phase_] == [
            ("a", "agent"),
            ("a", "follow_up"),
            ("b", "agent"),
        ]
        assert all(row["tokens_in"] > 0 and row["tokens_out"] > 0 for row in by_phase_)

    @pytest.mark.req("CA-23")
    def test_large_results_are_found_by_their_length(self, asked: CommandLine) -> None:
        (found,) = asked(
            "query",
            "SELECT session_id, phase_name, LENGTH(content_json) AS size FROM unified_logs"
            " WHERE node_type = 'tool_result' AND LENGTH(content_json) > 100000",
            "--json",
        ).json
        assert (found["session_id"], found["phase_name"]) == ("s1", "a")
        assert found["size"] > len(LARGE)

    @pytest.mark.req("AC-9", "AC-24")
    def test_a_hash_is_16_digits_of_the_sha256_and_gives_the_content(
        self, asked: CommandLine
    ) -> None:
        (row,) = asked(
            "query",
            "SELECT content_hash, content_json FROM unified_logs WHERE content_json LIKE '%Do b.%'",
            "--json",
        ).json
        body = {"content": "Do b.", "role": "user"}
        written = json.dumps(body, separators=(",", ":"), sort_keys=True)
        assert row["content_hash"] == hashlib.sha256(written.encode()).hexdigest()[:16]
        (found,) = asked(
            "query",
            "SELECT content_hash, role, content_json, tool_calls_json FROM unified_logs"
            f" WHERE session_id = 's1' AND content_hash IN ('{row['content_hash']}', 'def456')",
            "--json",
        ).json
        assert (found["role"], found["content_json"]) == ("user", '"Do b."')
        (calling,) = asked(
            "query",
            "SELECT tool_calls_json FROM unified_logs WHERE tool_calls_json IS NOT NULL",
            "--json",
        ).json
        assert json.loads(calling["tool_calls_json"])[0]["name"] == "read_file"


class TestCards:
    @pytest.mark.req(
        *("AC-11", "AC-12", "AC-13", "AC-14", "AC-15", "AC-16", "AC-17", "AC-18", "AC-19")
    )
    def test_have_the_documents_columns(self, asked: CommandLine) -> None:
        assert asked("cards", "s1", "--make").code == 0
        rows = asked("query", "SELECT * FROM context_cards", "--json").json
        assert list(rows[0]) == [*CARD_COLUMNS, "message_id"]
        last = next(row for row in rows if row["phase_name"] == "b" and row["role"] == "assistant")
        assert "p-101" in json.loads(last["keywords"])
        assert len(json.loads(last["keywords"])) <= 20
        assert 0.5 < last["estimated_tokens"] / (len(REPORT) / 4) < 1.5
        assert last["summary"] == (SENTENCE * 5).strip()
        assert (last["is_anchor"], last["is_callout"], last["callout_name"]) == (0, 0, None)
        assert last["turn_number"] == 1
        assert last["generator_model"] == "rule"
        assert last["message_timestamp"][:19] <= last["generated_at"][:19]

    @pytest.mark.req("AC-78")
    def test_have_at_most_20_keywords_of_three_letters_and_no_common_words(
        self, asked: CommandLine
    ) -> None:
        words = " ".join(f"wor{chr(97 + at)}d ab x of the" for at in range(26))
        asked.script = lambda _: f"See src/Foo/Bar.py:12 and order_4711. axe axe {words}"
        assert asked("run", "one.json", "--session", "s2").code == 0
        assert asked("cards", "s2", "--make").code == 0
        (found, *_) = asked(
            "query",
            "SELECT keywords FROM context_cards WHERE session_id = 's2' AND role = 'assistant'",
            "--json",
        ).json
        keywords = json.loads(found["keywords"])
        assert keywords[:2] == ["src/foo/bar.py:12", "order_4711"]
        assert len(keywords) == 20
        assert "axe" in keywords
        assert all(len(word) >= 3 for word in keywords)
        assert not {"the", "and", "of"} & set(keywords)

    @pytest.mark.req("AC-90")
    @pytest.mark.parametrize(
        ("result", "told"),
        [
            ({"error": "no such table: x"}, "error: no such table: x"),
            ({"images": ["a", "b"]}, "2 image(s)"),
            (dict.fromkeys("abcdefg", 1), "with keys: a, b, c, d, e"),
            ("x" * 500, f"{'x' * 100}... (500 characters)"),
        ],
    )
    def test_of_results_have_a_summary_by_rule(
        self, asked: CommandLine, result: object, told: str
    ) -> None:
        text = result if isinstance(result, str) else json.dumps(result)
        (asked.folder / "large.txt").write_text(text)
        reads = calls(call("read_file", '{"path": "large.txt"}'), text="I read.")
        asked.script = by_phase({"a": [reads, "ok"]})  # type: ignore[assignment]
        assert asked("run", "one.json", "--session", "s2").code == 0
        assert asked("cards", "s2", "--make").code == 0
        made = asked("cards", "s2", "--json").json["cards"]
        (summary,) = [card["summary"] for card in made if card["role"] == "tool"]
        assert summary.startswith("Result of read_file")
        assert told in summary

    @pytest.mark.req("AC-23", "AC-25")
    def test_are_selected_and_joined_by_the_documents_statements(self, asked: CommandLine) -> None:
        assert asked("cards", "s1", "--make").code == 0
        chosen = asked(
            "query",
            "SELECT content_hash, summary, keywords, estimated_tokens, is_anchor, is_callout"
            " FROM context_cards WHERE session_id = 's1' AND phase_name IN ('a', 'b')"
            " ORDER BY message_timestamp DESC",
            "--json",
        ).json
        assert len(chosen) >= 4
        joined = asked(
            "query",
            "SELECT ul.content_hash, ul.role, ul.content_json, cc.summary, cc.keywords,"
            " cc.estimated_tokens FROM unified_logs ul LEFT JOIN context_cards cc"
            " ON ul.session_id = cc.session_id AND ul.content_hash = cc.content_hash"
            " WHERE ul.session_id = 's1'",
            "--json",
        ).json
        told = {row["content_json"]: row["summary"] for row in joined}
        assert told[json.dumps(REPORT)] is not None
        assert {row["content_hash"] for row in chosen} <= {row["content_hash"] for row in joined}

    @pytest.mark.req("AC-20", "AC-21", "AC-22")
    def test_on_clickhouse_have_the_documents_engine_and_indexes(
        self, windlass: CommandLine
    ) -> None:
        said = windlass("schema", "clickhouse", "--vectors", "384")
        assert said.code == 0
        words = " ".join(said.out.split())
        _, _, table = words.partition("CREATE TABLE IF NOT EXISTS context_cards")
        table = table.partition(";")[0]
        assert "ENGINE = ReplacingMergeTree(generated_at)" in table
        assert "PARTITION BY toYYYYMM(" in table
        assert "ORDER BY (session_id" in table
        assert "INDEX embedding_idx embedding TYPE vector_similarity(" in table
        assert "384" in table
        assert "INDEX keywords_idx keywords TYPE bloom_filter" in table


class TestCheck:
    @pytest.mark.req("CI-25")
    def test_context_beside_inject_from_is_refused(self, windlass: CommandLine) -> None:
        both = phase("b", context={"from": ["a"]}, inject_from=["a"])
        file = windlass.write("c.json", cascade(phase("a"), both))
        for command in ("check", "run"):
            said = windlass(command, file)
            assert said.code == 2
            assert "c.json:" in said.err
            assert "inject_from" in said.err
            assert "context" in said.err
        assert not windlass.requests
        for keys in ({"context": {"from": ["a"]}}, {"inject_from": ["a"]}):
            file = windlass.write("c.json", cascade(phase("a"), phase("b", **keys)))
            assert windlass("check", file).code == 0

    @pytest.mark.req("CI-33")
    @pytest.mark.parametrize("key", ["context", "inject_from"])
    @pytest.mark.parametrize("named", ["a", "b"])
    def test_a_source_that_does_not_come_before_is_refused(
        self, windlass: CommandLine, key: str, named: str
    ) -> None:
        source = {"context": {"from": [named]}} if key == "context" else {key: [named]}
        file = windlass.write("c.json", cascade(phase("a", **source), phase("b")))
        said = windlass("run", file)
        assert said.code == 2
        assert f"'{named}'" in said.complaint
        assert not windlass.requests
