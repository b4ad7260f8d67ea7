"""`windlass.tune` and `windlass tune`: settings for one's own recordings."""

from __future__ import annotations

import pytest
import yaml

import windlass
from tests.cli.conftest import CommandLine
from tests.cli.conftest import windlass as command_line
from tests.replays.making import MODEL, quoting, request_log, session_file, talk
from windlass.api.loading import load_cascade
from windlass.errors import UsageError
from windlass.settings.settings import Settings

__all__ = ["command_line"]


class TestTuning:
    def test_finds_what_keeps_needed_lines_in_view(self) -> None:
        tuning = windlass.tune([quoting(number) for number in range(10)], "none")
        assert tuning.is_better
        assert (tuning.default.lines, tuning.unseen.lines) == (0, 1)
        assert tuning.chosen in {figure.settings for figure in tuning.figures}
        assert tuning.chosen != "default"
        assert sum(tuning.choices.values()) == 5
        assert tuning.sessions == 10

    def test_says_when_nothing_is_better(self) -> None:
        tuning = windlass.tune([talk(1 + number % 2) for number in range(10)], model=MODEL)
        assert not tuning.is_better
        assert (tuning.chosen, tuning.auto_context) == ("default", {})

    def test_what_serves_one_session_only_does_not_hold_for_the_others(self) -> None:
        """The part with the odd one is billed by what the others choose."""
        tuning = windlass.tune([*(talk(1) for _ in range(9)), quoting(1)], "none")
        assert not tuning.is_better
        assert tuning.unseen.lines == tuning.default.lines == 0
        assert max(figure.lines for figure in tuning.figures) == 1

    @pytest.mark.parametrize("count", [0, 1, 9])
    def test_with_too_few_sessions_it_names_the_number_needed(self, count: int) -> None:
        with pytest.raises(UsageError, match=f"{count} sessions? .* at least 10 are needed"):
            windlass.tune([talk(1) for _ in range(count)])

    def test_sessions_without_results_do_not_count(self) -> None:
        plain = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        told: list[str] = []
        with pytest.raises(UsageError, match="9 sessions"):
            windlass.tune([*(talk(1) for _ in range(9)), plain], on_skip=told.append)
        assert "has no result of a tool" in told[0]


class TestTheCommand:
    def test_writes_what_a_cascade_and_a_replay_take(self, command_line: CommandLine) -> None:
        for number in range(10):
            request_log(command_line.folder / "logs" / f"{number}.jsonl", quoting(number))
        said = command_line("tune", "logs", "--out", "mine.yaml", "--prices", "none")
        assert said.code == 0, said.err
        assert "on sessions not tuned on" in said.out
        assert "better than the default" in said.out
        written = (command_line.folder / "mine.yaml").read_text(encoding="utf-8")
        assert written.removeprefix("# written by Windlass\n") in said.out
        cascade = {
            "cascade_id": "c",
            "phases": [{"name": "a", "instructions": "Do a."}],
            **yaml.safe_load(written),
        }
        assert load_cascade(cascade, Settings.read({})).cascade.auto_context is not None
        prices = ("--prices", "none")
        replayed = command_line("replay", "logs", "--policy", "mine.yaml", *prices, "--json").json
        assert replayed["totals"][0]["lines_seen"] == replayed["totals"][0]["lines"] == 10

    def test_says_so_where_there_are_too_few(self, command_line: CommandLine) -> None:
        session_file(command_line.folder / "logs" / "s.jsonl")
        said = command_line("tune", "logs")
        assert said.code == 2
        assert "found 1 session with results of tools; at least 10 are needed" in said.complaint
