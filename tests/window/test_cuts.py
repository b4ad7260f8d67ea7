"""Long results cut at birth: what stays in sight, what is told of the rest, what is never cut."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window._cutting import cut, query_of
from windlass.window.conversation import Conversation, WindowPolicy
from windlass.window.entries import Item
from windlass.window.originals import part_of, reference
from windlass.window.policies.cuts import Cut, Cuts
from windlass.window.policies.lossless import Lossless
from windlass.window.policies.repeats import Repeats
from windlass.wire.openai import check_sequence

GAP = re.compile(r"\[\.\.\. lines? (\d+)(?:-(\d+))? \.\.\.\]")
WORDS = st.text(alphabet="abcdef /_.:0123456789ö", max_size=60)
LINES = st.lists(WORDS, min_size=1, max_size=120)


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
        assert lines[249] in text  # with what stands beside it

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

    def test_alike_lines_of_a_build_do_not_fill_the_head(self) -> None:
        lines = ["Setting up the build"]
        lines += [f"Unpacking lib{at}:amd64 (1.{at}) over (0.{at}) ..." for at in range(300)]
        lines += ["Configuring the server", "done"]
        text = shown(("bash", {"command": "apt-get install -y all"}, "\n".join(lines))).text
        assert text.count("Unpacking") < 150
        assert "Configuring the server" in text

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
        text = LOG[:5_900]
        assert shown(("bash", {"command": "./run.sh"}, text)).text == text
        assert "[Cut from" in shown(("bash", {"command": "pytest -q"}, text)).text

    def test_firm_cuts_more_than_mild(self) -> None:
        call = ("bash", {"command": "./run.sh"}, LOG)
        assert len(shown(call, cuts="firm").text) < len(shown(call).text)


@given(lines=LINES, query=st.lists(WORDS, max_size=3), room=st.integers(0, 4_000))
def test_a_cut_never_grows_and_loses_no_line_without_a_word(
    lines: Sequence[str], query: Sequence[str], room: int
) -> None:
    text = "\n".join(lines)
    numbers = range(1, len(lines) + 1)
    made = cut(text, room, query_of((each, 1.0) for each in query), starts=numbers)
    assert len(made) <= len(text)
    assert restored(f"{made}\n[Cut from ", text) == text


@given(words=st.lists(WORDS, min_size=20, max_size=400), room=st.integers(0, 4_000))
def test_a_long_line_keeps_its_pieces_in_order(words: Sequence[str], room: int) -> None:
    text = " ".join(words)
    made = cut(text, room, {})
    at = 0
    for piece in re.split(r"\[\.\.\. [\d,]+ (?:characters|lines?) \.\.\.\]", made):
        at = text.find(piece, at)
        assert at >= 0
        at += len(piece)
    assert len(made) <= len(text)
