"""Long results cut at birth: what stays in sight, what is told of the rest, what is never cut."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window._pending import WindowPolicy
from windlass.window.conversation import Conversation
from windlass.window.entries import Item
from windlass.window.originals import part_of, reference
from windlass.window.policies.cuts import SIZES, Cut, Cuts
from windlass.window.policies.lossless import Lossless
from windlass.window.policies.repeats import Repeats
from windlass.wire.openai import check_sequence

GAP = re.compile(r"\[\.\.\. lines? (\d+)(?:-(\d+))?(?:, [a-z0-9 ]+)? \.\.\.\]")


def conversation_of(
    *results: tuple[str, Mapping[str, object], str],
    task: str = "find out why it fails",
    cuts: Cut = "mild",
    repeats: bool = False,
) -> Conversation:
    """A conversation of calls, each with its result."""
    policies: list[WindowPolicy] = [Lossless(), *[Repeats()] * repeats, Cuts(cuts=cuts)]
    conversation = Conversation(policies)
    conversation.append(Item("task", user(task), "x"))
    for at, (name, arguments, text) in enumerate(results):
        call = ToolCall(f"c{at}", name, json.dumps(arguments))
        for message in (assistant(calls=[call]), tool(call, text)):
            conversation.append(Item(f"{at}{message.role}", message, "x"))
    return conversation


def shown(*results: tuple[str, Mapping[str, object], str], **options: object) -> Message:
    """The newest result as it is first sent."""
    conversation = conversation_of(*results, **options)  # type: ignore[arg-type]
    window = conversation.window()
    check_sequence(window.messages, None)
    return window.messages[-1]


def restored(cut_text: str, original: str) -> str:
    """What was said, put together from what is shown and from what `recall` brings."""
    body = cut_text.rpartition("\n[Cut from ")[0]
    lines: list[str] = []
    for line in body.split("\n"):
        gap = GAP.fullmatch(line)
        if gap is None:
            lines.append(line)
            continue
        numbered = part_of(original, f"{gap[1]}-{gap[2] or gap[1]}")
        lines += [each.partition(": ")[2] for each in numbered.split("\n")]
    return "\n".join(lines)


LOG = "\n".join(f"{at:04} worker {at % 7} took item I-{at:05} from the queue" for at in range(600))


class TestWhatStays:
    def test_head_and_tail_and_how_the_rest_is_got_back(self) -> None:
        message = shown(("bash", {"command": "./run.sh"}, LOG))
        lines = message.text.split("\n")
        assert lines[0] == LOG.split("\n")[0]
        assert LOG.split("\n")[-1] in lines
        original = tool(ToolCall("c0", "bash", "{}"), LOG)
        assert f"[Cut from {len(LOG):,} characters: {reference(original)}]" in lines[-1]
        assert len(message.text) < 0.5 * len(LOG)

    def test_the_numbers_of_what_is_left_out_bring_exactly_that(self) -> None:
        text = shown(("bash", {"command": "./run.sh"}, LOG)).text
        assert len(GAP.findall(text)) >= 1
        assert restored(text, LOG) == LOG

    def test_errors_stay_wherever_they_stand(self) -> None:
        lines = LOG.split("\n")
        lines[300] = "ValueError: order W-123 has no item 77"
        assert lines[300] in shown(("bash", {"command": "./run.sh"}, "\n".join(lines))).text

    @pytest.mark.parametrize("said", ["call", "task"])
    def test_lines_near_what_was_asked_for_stay(self, said: str) -> None:
        lines = LOG.split("\n")
        lines[250] = "0250 the harvester of turnips stopped"
        arguments = {"command": "./run.sh harvester" if said == "call" else "./run.sh"}
        task = "what became of the harvester?" if said == "task" else "look"
        text = shown(("bash", arguments, "\n".join(lines)), task=task).text
        assert lines[250] in text

    def test_every_identifier_of_records_that_stands_nowhere_else(self) -> None:
        rows = [
            {"id": f"R-{at:04}", "state": "open", "note": f"word {at} of it " * 9}
            for at in range(200)
        ]
        text = shown(("list_orders", {}, json.dumps(rows)), task="the state of R-0001").text
        assert [row["id"] for row in rows if str(row["id"]) not in text] == []
        assert len(text) < 0.5 * len(json.dumps(rows))

    def test_an_identifier_that_another_result_shows_is_not_said_again(self) -> None:
        rows = [
            {"id": f"R-{at:04}", "state": "open", "note": f"word {at} of it " * 9}
            for at in range(200)
        ]
        text = shown(("note", {}, "R-0150 is late"), ("list_orders", {}, json.dumps(rows))).text
        assert "R-0149" in text
        assert "R-0150" not in text

    def test_alike_lines_are_counted_and_do_not_fill_the_room(self) -> None:
        lines = ["Setting up the build"]
        lines += [f"Unpacking lib{at}:amd64 (1.{at}) over (0.{at}) ..." for at in range(300)]
        lines += ["Configuring the server", "done"]
        text = shown(("bash", {"command": "apt-get install -y all"}, "\n".join(lines))).text
        assert text.count("Unpacking") < 8
        assert ", same form as above ...]" in text
        assert "Configuring the server" in text

    def test_an_odd_row_of_a_table_in_any_language(self) -> None:
        rows = [f"tor-{at:03}   1/1   offen    {at % 40} T" for at in range(300)]
        rows[171] = "tor-171   0/1   gesperrt 3 T"
        text = shown(("bash", {"command": "torliste"}, "\n".join(rows))).text
        body, _, names = text.partition("\n[Cut from ")
        assert rows[171] in body
        assert len(body) < 600
        assert "tor-200" in names

    def test_a_number_that_is_larger_by_orders(self) -> None:
        rows = [f"GET /tide/{at} 200 {20 + at % 30} ms" for at in range(300)]
        rows[120] = "GET /tide/120 200 48211 ms"
        assert rows[120] in shown(("bash", {"command": "./load.sh"}, "\n".join(rows))).text

    def test_a_slow_test_among_those_that_passed(self) -> None:
        rows = [f"tests/test_a.py::test_{at} PASSED ({at % 9} ms)" for at in range(200)]
        rows[77] = "tests/test_a.py::test_77 PASSED (48211 ms)"
        text = shown(("bash", {"command": "pytest -v"}, "\n".join(rows))).text
        assert rows[77] in text
        assert restored(text, "\n".join(rows)) == "\n".join(rows)

    def test_what_a_command_printed_the_last_time_is_plain_the_next(self) -> None:
        rows = [f"{at} harbor {at * 37 % 91} open" for at in range(400)]
        again = [*rows]
        again[230] = "230 harbor 49 shut"
        call = ("bash", {"command": "./list.sh"})
        first, second = ("\n".join(each) for each in (rows, again))
        conversation = conversation_of((*call, first), (*call, second), repeats=True)
        *_, last = conversation.window().messages
        assert again[230] in last.text
        assert len(last.text) < 900

    def test_hits_of_a_search_name_each_file_once(self) -> None:
        hits = [
            f"src/harbor/crane_{at // 20}.py:{at % 20 + 1}:    lift({at}, crane_of({at % 7}))"
            for at in range(120)
        ]
        text = shown(("bash", {"command": "grep -rn lift src"}, "\n".join(hits))).text
        assert text.count("src/harbor/crane_2.py") == 1
        assert "13:    lift(52, crane_of(3))" in text
        assert "[The hits by file, made from" in text

    def test_a_long_list_of_paths_names_each_folder_once(self) -> None:
        paths = [f"src/harbor/terminal/north/dock_{at // 60}/c{at}.py" for at in range(300)]
        text = shown(("bash", {"command": "find src -name '*.py'"}, "\n".join(paths))).text
        assert text.startswith(
            "[300 paths by folder]\nsrc/harbor/terminal/north/dock_0/: c0.py c1.py"
        )
        assert all(path.rpartition("/")[2] in text for path in paths)
        assert len(text) < 0.5 * len("\n".join(paths))

    def test_a_shorter_one_tells_each_path_whole(self) -> None:
        paths = [f"src/harbor/dock_{at // 30}/crane_{at}.py" for at in range(200)]
        text = shown(("bash", {"command": "find src -name '*.py'"}, "\n".join(paths))).text
        assert all(path in text for path in paths)

    def test_a_diff_keeps_its_changes_and_loses_unchanged_lines(self) -> None:
        hunks = [
            f"@@ -{at},9 +{at},9 @@ def f{at}():\n"
            + "\n".join([f"     same_{at}_{n} = {n}" for n in range(4)])
            + f"\n-    old({at})\n+    new({at})\n"
            + "\n".join([f"     rest_{at}_{n} = {n}" for n in range(4)])
            for at in range(1, 2400, 20)
        ]
        diff = "\n".join(["diff --git a/m.py b/m.py", "--- a/m.py", "+++ b/m.py", *hunks])
        text = shown(("bash", {"command": "git diff"}, diff)).text
        assert all(f"-    old({at})\n+    new({at})" in text for at in range(1, 2400, 20))
        assert "@@ -25 +25 @@ def f21():" in text
        assert "[The diff with no unchanged lines, made from" in text
        assert "same_" not in text

    def test_the_same_again_refers_to_what_is_shown_cut(self) -> None:
        call = ("bash", {"command": "./run.sh"}, LOG)
        conversation = conversation_of(call, call, repeats=True)
        *_, second = conversation.window().messages
        original = conversation.items[2].message
        assert second.text == f"[Same as bash ./run.sh, {reference(original)}]"


class TestWhatIsNotCut:
    def test_files_that_were_read(self) -> None:
        for call in (("read_file", {"path": "a.py"}), ("bash", {"command": "cat a.py"})):
            assert shown((*call, LOG), cuts="firm").text == LOG

    def test_what_recall_brings(self) -> None:
        assert shown(("recall", {"ref": "result_12345678"}, LOG), cuts="firm").text == LOG

    def test_what_is_as_short_as_its_kind_may_be(self) -> None:
        text = LOG[:3_900]
        assert shown(("bash", {"command": "./run.sh"}, text)).text == text
        assert "[Cut from" in shown(("bash", {"command": "make"}, text)).text

    def test_firm_cuts_more_than_mild(self) -> None:
        call = ("bash", {"command": "./run.sh"}, LOG)
        assert len(shown(call, cuts="firm").text) < len(shown(call).text)


def test_the_page_has_the_size_of_each_kind() -> None:
    page = Path(__file__).parents[2] / "docs" / "windows.md"
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.fullmatch(r"\|[^|]+(\| \d[\d,]*, \d[\d,]* ){2}\|", line)
    ]
    kinds = {
        "JSON answers of an API": ("json", "api"),
        "output of programs, logs": ("command", "log"),
        "tables, pages": ("table", "page"),
        "text": ("text",),
        "diffs": ("diff",),
        "test runs": ("test",),
        "search hits": ("search",),
        "listings": ("listing",),
        "builds and installations": ("build",),
        "the part of a file that an edit shows": ("edit",),
    }
    told = {
        (cuts, kind): tuple(int(size.replace(",", "")) for size in re.findall(r"\d[\d,]*\d", cell))
        for words, *cells in rows
        for cuts, cell in zip(("mild", "firm"), cells, strict=True)
        for kind in kinds[words]
    }
    assert told == {
        (cuts, kind): sizes for cuts, each in SIZES.items() for kind, sizes in each.items()
    }
