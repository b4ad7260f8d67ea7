"""Names, digests, and the two policies that shorten what was seen: Digest and Masking."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations, png, rough_texts
from tests.window.stepping import holds_for_every_window, texts, windows
from windlass.messages import Message, Opaque, Text, ToolCall, assistant, tool, user
from windlass.text.pictures import picture
from windlass.window.conversation import Conversation, Window
from windlass.window.digests import (
    LINE_CHARS,
    PATHS_FIRST,
    digest,
    error_lines,
    kind_of_name,
    words_of,
)
from windlass.window.encode import encode
from windlass.window.entries import Item
from windlass.window.names import names_in, names_said, unescaped, whole_names
from windlass.window.policies.digest import Digest
from windlass.window.policies.rare import Masking

FILLER = "the quick brown fox jumps over the lazy dog and goes home again\n" * 12


def kept_of(text: str, room: int, **options: Any) -> str:
    """The names kept of a text where nothing else holds any."""
    return digest(list(whole_names(text)), room, **options)


def turns(*rounds: tuple[str, dict[str, Any], str], task: str = "Do it.") -> list[Message]:
    """A user message, and for each round a call with these arguments and its result."""
    said = [user(task)]
    for number, (name, arguments, text) in enumerate(rounds):
        call = ToolCall(f"c{number}", name, json.dumps(arguments))
        said += [assistant("", calls=[call]), tool(call, text)]
    return said


def idle(count: int) -> list[tuple[str, dict[str, Any], str]]:
    """Rounds that name nothing."""
    return [("wait", {}, "ok")] * count


def last(window: Window, at: int) -> str:
    return texts(window)[at]


def seen_whole(said: list[Message], policy: Any, at: int = 2) -> int:
    """How many calls see the message at this position as it was said."""
    return sum(len(w.messages) > at and w.messages[at] == said[at] for w in windows(said, policy))


class TestNames:
    def test_the_number_of_a_line_sticks_to_no_name(self) -> None:
        text = "   347→mod store_v2;\n  1715→\n   189→}\n"
        assert list(whole_names(text)) == ["store_v2", "1715"]

    def test_whole_names_come_in_order_without_quotes_brackets_and_ends(self) -> None:
        text = 'see "/a/b/c.py:12": self.x.y, #W123; 2024-05-20. well-known ---- ____ x@y.com'
        assert list(whole_names(text)) == [
            *("/a/b/c.py:12", "self.x.y", "#W123", "2024-05-20", "x@y.com")
        ]

    def test_words_short_things_and_long_data_are_no_names(self) -> None:
        assert not whole_names("house a.b 123 x_1 " + "a1" * 200)

    def test_of_an_encoded_json_the_values_are_names_and_its_keys_are_not(self) -> None:
        record = {
            "order_id": "HGKLQX",
            "payment_id": "gift_card_7359776",
            "return_items": None,
            "first_name": "Sophia",
            "created_at": "2024-05-12T11:45:52",
            "site": "https://example.com/a_b",
            "times": ["10:45:00", "11:00:00"],
        }
        text = encode(json.dumps(record))
        assert text is not None
        assert list(names_said(text)) == [
            *("order_id:HGKLQX", "gift_card_7359776", "2024-05-12T11:45:52"),
            *("https://example.com/a_b", "10:45:00", "11:00:00"),
        ]

    def test_that_a_column_counts_its_rows_is_no_name(self) -> None:
        hits = [{"rank": at + 1, "url": f"https://example.com/{at}_x"} for at in range(6)]
        text = encode(json.dumps(hits))
        assert text is not None
        assert "rank=1..6" in text
        assert list(names_said(text)) == [hit["url"] for hit in hits]

    def test_escapes_of_json_stick_to_no_name(self) -> None:
        call = ToolCall("c", "bash", json.dumps({"command": 'cd x\nrun_it "a_b"\t\\d_e'}))
        assert "run_it" in names_in(assistant("", calls=[call]))
        assert "nrun_it" not in names_in(assistant("", calls=[call]))
        assert "nrun_it" not in names_in(tool("c", '{"out": "x\\nrun_it"}'))
        assert unescaped(r"C:\new_dir") != r"C:\new_dir"
        assert "new_dir" in names_in(tool("c", r"C:\new_dir")), "prose has no escapes"

    @given(rough_texts())
    def test_every_name_stands_in_the_text(self, text: str) -> None:
        said = Text(text).text
        for name in whole_names(said):
            assert name in said

    @given(st.text("ab1_/.:@#- \n\ud800é", max_size=60))
    def test_names_are_found_as_word_by_word(self, text: str) -> None:
        found: dict[str, None] = {}
        for word in text.replace("\ud800", " ").split():
            name = word.lstrip(":-").rstrip(".:-/#@")
            core = word.strip("._:-/#@")
            if len(name) >= 4 and len(core) >= 2 and set(name) & set("1_/@#."):
                found[name] = None
        assert list(whole_names(text)) == list(found)


class TestDigests:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("#W123", "id"),
            ("src/a.py:12", "place"),
            ("snake_case", "snake"),
            ("2024-05-20", "date"),
            ("152.50", "number"),
            ("self.parent.key", "dotted"),
            ("https://a.org/x", "url"),
            ("HAT030", "code"),
            ("a.b@c.org", "mail"),
            ("src/app", "path"),
            ("main.py", "file"),
            ("123e4567-e89b-12d3-a456-426614174000", "uuid"),
            ("12:30:45", "date"),
            ("12:30:456", "code"),
            ("job-4711", "code"),
            ("a-b_4", "code"),
            ("-4711", "number"),
            ("4711-b", "code"),
            ("a-b.py", "file"),
        ],
    )
    def test_a_name_has_a_kind_by_its_shape(self, name: str, kind: str) -> None:
        assert kind_of_name(name) == kind

    def test_is_what_nothing_else_holds(self) -> None:
        assert digest(["#W123", "2024-05-20"], 100) == "#W123 2024-05-20"

    def test_keeps_telling_kinds_first_and_tells_them_in_the_order_of_the_text(self) -> None:
        text = "a/long/path/to/x.py then some_name then #W123"
        assert kept_of(text, 20) == "some_name #W123"
        assert kept_of(text, 30, order=PATHS_FIRST) == "a/long/path/to/x.py #W123"

    def test_a_name_inside_one_that_is_kept_is_not_told_again(self) -> None:
        assert kept_of("see src/app/main.py then main.py and app_2", 100) == (
            "src/app/main.py app_2"
        )

    def test_prefers_what_the_task_talks_about_among_equals(self) -> None:
        text = "core/alpha.py core/arrow.py core/gamma.py"
        assert kept_of(text, 16) == "core/alpha.py"
        assert kept_of(text, 16, task=words_of("Mend Arrow!")) == "core/arrow.py"

    @given(st.lists(st.sampled_from(["find", "order", "4711"]), unique=True), st.integers(8, 60))
    def test_a_long_task_chooses_as_a_short_one_does(self, task: list[str], room: int) -> None:
        names = ("ORDER_1", "findx_1", "x.find", "a/4711/b", "a47110_b", "Straße_order", "reorder")
        text = " ".join(f"{name}{number}" for number in range(9) for name in names)
        others = [f"zz{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(100)]
        short, long = frozenset(task), frozenset([*task, *others])
        assert kept_of(text, room, task=short) == kept_of(text, room, task=long)

    def test_words_said_over_and_over_say_nothing_about_a_task(self) -> None:
        assert words_of("model " * 9 + "arrow") == {"arrow"}

    @pytest.mark.req("AC-37")
    def test_error_lines_stand_first_and_not_the_whole_log(self) -> None:
        log = "\n".join(f"step {n} error: no {n}" for n in range(500)) + "\nValueError: last"
        kept = error_lines(log, 100)
        assert kept.endswith("ValueError: last")
        assert len(kept) <= 100
        assert digest(list(whole_names(log)), 300, lines=kept).startswith(kept)

    def test_an_error_in_an_endless_line_keeps_what_stands_around_it(self) -> None:
        kept = error_lines("x " * 4_000 + "KeyError: 'gone' " + "y " * 4_000, 400)
        assert "KeyError: 'gone'" in kept
        assert len(kept) <= LINE_CHARS

    @given(st.text("ab1_/.: \nE", max_size=200), st.integers(0, 120), st.integers(0, 60))
    def test_keeps_to_its_room_and_invents_nothing(self, text: str, room: int, errors: int) -> None:
        text += "\nKeyError: a_1"
        lines = error_lines(text, min(errors, room))
        kept = digest(list(whole_names(text)), room, lines=lines)
        assert len(kept) <= room
        for line in lines.splitlines():
            assert line in text
        for name in whole_names(kept):
            assert name in text


class TestDigest:
    def test_a_result_is_seen_whole_once_and_then_told_in_short(self) -> None:
        result = FILLER + "booked as REF_4711 for 99.50"
        said = turns(("book", {}, result), *idle(2))
        seen = windows(said, Digest())
        assert last(seen[1], 2) == result
        assert last(seen[2], 2) == (
            f"[{len(result)} chars: result_{said[2].content_hash[:8]}]\nREF_4711 99.50"
        )
        assert seen[2].entries[2].because == "digest"
        assert seen[2].entries[2].item.message == said[2], "nothing is lost"
        assert [edit.because for edit in seen[2].edits] == ["digest"]
        assert not seen[3].edits

    def test_tells_no_name_that_another_message_in_view_holds(self) -> None:
        said = turns(("book", {}, FILLER + "REF_4711 and REF_4712"), *idle(1))
        said.append(assistant("I booked REF_4711."))
        assert "REF_4711" not in last(
            windows([*said, user("Go on.")], Digest(see_results=2))[-1], 2
        )

    def test_one_of_two_results_keeps_the_name_that_both_hold(self) -> None:
        said = turns(("a", {}, FILLER + "REF_4711"), ("b", {}, FILLER + "REF_4711"), *idle(2))
        shown = windows(said, Digest())[-1]
        assert sum("REF_4711" in text for text in texts(shown)) == 1

    def test_short_results_and_words_of_people_stay(self) -> None:
        said = turns(("a", {}, "REF_4711 is ready"), *idle(3), task=FILLER)
        assert all(w.messages == tuple(said[: len(w.messages)]) for w in windows(said, Digest()))

    def test_a_file_read_by_a_tool_of_its_own_stays_to_be_quoted(self) -> None:
        read = ("read_file", {"path": "src/main_loop.py"}, FILLER)
        assert seen_whole(turns(read, *idle(24)), Digest()) == 20
        assert seen_whole(turns(read, *idle(16)), Digest(see_reads=4)) == 4

    def test_a_file_read_in_a_shell_stays_as_long(self) -> None:
        read = ("bash", {"command": "cat src/main_loop.py"}, FILLER)
        assert seen_whole(turns(read, *idle(12)), Digest(see_reads=5)) == 5

    @pytest.mark.parametrize("command", ["git diff", "git show HEAD~2", "git -C src diff main"])
    def test_a_diff_waits_as_a_read_does(self, command: str) -> None:
        diff = "--- a/m.py\n+++ b/m.py\n@@ -1,9 +1,9 @@\n" + FILLER
        said = turns(("bash", {"command": command}, diff), *idle(12))
        assert seen_whole(said, Digest(see_reads=7)) == 7

    def test_a_digest_keeps_the_lines_that_a_cut_would_show(self) -> None:
        lines = [f"worker {at} took item {at * 7} from the queue" for at in range(80)]
        lines[41] = "zápis do deníku selhal, disk je plný"
        said = turns(("bash", {"command": "./run.sh"}, "\n".join(lines)), *idle(6))
        assert lines[41] in last(windows(said, Digest())[-1], 2)

    def test_a_larger_text_has_a_larger_digest(self) -> None:
        names = " ".join(f"REF_{n:05}" for n in range(2_000))
        said = turns(("shell", {"command": "make"}, f"{FILLER}{names}"), *idle(2))
        short, long = (
            len(last(windows(said, Digest(most_text=most, least=0))[-1], 2)) for most in (800, 900)
        )
        assert 80 <= long - short <= 120
        assert short > 800 + len(names) // 100 - 60

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("Edit", {"file_path": "src/main_loop.py", "old_string": "a", "new_string": "b"}),
            ("str_replace_editor", {"command": "str_replace", "path": "src/main_loop.py"}),
        ],
    )
    def test_what_an_edit_shows_of_its_file_is_no_read(
        self, name: str, arguments: dict[str, Any]
    ) -> None:
        assert seen_whole(turns((name, arguments, FILLER), *idle(12)), Digest()) == 1

    def test_a_view_by_an_editor_is_a_read(self) -> None:
        view = ("str_replace_editor", {"command": "view", "path": "src/main_loop.py"}, FILLER)
        assert seen_whole(turns(view, *idle(16)), Digest(see_reads=9)) == 9

    def test_a_result_whose_names_do_not_fit_stays_a_little(self) -> None:
        crowded = " ".join(f"user_name_{n}" for n in range(200))
        assert seen_whole(turns(("find", {}, crowded), *idle(5)), Digest()) == 4
        larger = " ".join(f"user_name_{n}" for n in range(2_000))
        assert seen_whole(turns(("find", {}, larger), *idle(5)), Digest()) == 1

    def test_keeps_within_its_share(self) -> None:
        data = json.dumps([{"id": f"user_{n}", "note": "word " * 9} for n in range(400)])
        output = " ".join(f"guest_{n} walks" for n in range(900))
        said = turns(("get", {}, data), ("bash", {"command": "run"}, output), *idle(4))
        shown = windows(said, Digest())[-1]
        assert 3_000 < len(last(shown, 2)) <= 4_000 + 120
        assert 1_500 < len(last(shown, 4)) <= 2_000 + len(output) // 50 + 120

    def test_pictures_and_marks_of_a_result_stay(self) -> None:
        call = ToolCall("c", "plot", "{}")
        mark = Opaque("openai", "with", '{"cache_control": {"type": "ephemeral"}}')
        chart = picture(png(), name="chart.png")
        result = Message("tool", (Text(FILLER), mark, chart, Text("more")), (), "c")
        said = [user("Plot."), assistant("", calls=[call]), result, *turns(*idle(2))[1:]]
        shown = windows(said, Digest())[-1].messages[2]
        assert [type(part) for part in shown.parts] == [Text, Opaque, type(chart)]
        assert shown.tool_call_id == "c"

    def test_what_is_pinned_waits(self) -> None:
        said = turns(("a", {}, FILLER), *idle(6))
        conversation = Conversation([Digest()])
        for number, message in enumerate(said[:3]):
            conversation.append(Item(f"id{number}", message, message.role))
        conversation.pin("id2", until=4)
        whole = 0
        for number, message in enumerate(said[3:], 3):
            whole += message.role == "assistant" and conversation.window().messages[2] == said[2]
            conversation.append(Item(f"id{number}", message, message.role))
        assert whole == 3
        assert conversation.window().messages[2] != said[2]

    @given(conversations(max_turns=6), st.integers(1, 3))
    def test_every_window_is_valid_sticky_and_the_same_again(
        self, said: list[Message], after: int
    ) -> None:
        policy = Digest(see_results=after, min_chars=1, least=20)
        holds_for_every_window(_longer(said), policy)

    @given(conversations(max_turns=5, min_turns=3))
    def test_a_name_in_view_stays_in_view_where_there_is_room(self, said: list[Message]) -> None:
        said = _longer(said)
        for window in windows(said, Digest(share_text=1, share_records=1, least=4_000)):
            shown = "\n".join(texts(window))
            for entry in window.entries:
                if entry.edited:
                    assert f"ref_{entry.item.id}_9" in shown


class TestMasking:
    @pytest.mark.req("AC-43", "AC-38")
    def test_small_results_and_all_that_is_no_result_stay(self) -> None:
        said = turns(("a", {}, "short"), *idle(5), task=FILLER)
        assert windows(said, Masking(mask_observations_after=3))[-1].messages == tuple(said)

    @given(conversations(max_turns=6), st.integers(1, 4))
    def test_every_window_is_valid_sticky_and_the_same_again(
        self, said: list[Message], after: int
    ) -> None:
        holds_for_every_window(
            _longer(said), Masking(mask_observations_after=after, min_masked_chars=1)
        )


def _longer(said: list[Message]) -> list[Message]:
    """The same with results long enough to be shortened, each with a name of its own."""
    return [
        message.with_parts(*message.parts, Text(f"{FILLER}ref_id{at}_9 done"))
        if message.role == "tool"
        else message
        for at, message in enumerate(said)
    ]


@pytest.mark.parametrize("at", [0, 30, 300, 560, 700])
def test_a_long_error_line_keeps_its_beginning_its_error_and_its_end(at: int) -> None:
    line = f"node-07.example:8443 {'x' * at} Error: refused {'y' * (800 - at)} code 0x2f11"
    short = error_lines(f"ok\n{line}\nok", 400)
    assert short.startswith("node-07.example:8443")
    assert short.endswith("code 0x2f11")
    assert "Error" in short
    assert len(short) <= LINE_CHARS
