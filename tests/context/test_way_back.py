"""Loops that offer no way back: only what a tool gives again is shortened, and notes say how."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.context import loops
from tests.providers.model_server import ModelServer, log, model_server, reads_logs
from tests.providers.thinking_server import Say
from tests.support.context_documented_windows import called, idle, result, user
from windlass.context.bound import forget

CLIENTS: dict[str, Callable[[], Any]] = {
    "anthropic": anthropic.Anthropic,
    "openai": openai.OpenAI,
    "responses": openai.OpenAI,
    "gemini": genai.Client,
}
AT_ONCE = {"commit": "at_once"}
PROSE = "\n".join(f"Line {at} says that all is well with it, as before." for at in range(900))
CLAUDE, BOUND = "anthropic/claude-sonnet-4-5", "anthropic/claude-opus-5-5"
TWICE = {"idempotentHint": True}
NOTE = re.compile(r"\[(?:Cut from ([\d,]+) characters|(\d+) chars): ([^\]]*)\]")


def definition(name: str, about: str = "", **more: Any) -> dict[str, Any]:
    """A tool of Anthropic's form; `more` are its parameters and its annotations."""
    annotations = {"annotations": more.pop("annotations")} if "annotations" in more else {}
    properties = {key: {"type": "string"} for key in more.get("takes", ())}
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": about, "input_schema": schema, **annotations}


def window(
    name: str, arguments: dict[str, Any], text: str = PROSE, turns: int = 30, **options: Any
) -> str:
    """What the last call sees of a result, with so many turns behind it."""
    said = [user("Go."), called(1, name, arguments), result(1, text), *idle(turns)]
    shown = windlass.bound(said, policy=AT_ONCE, **options).messages[2]["content"]
    assert isinstance(shown, str)
    return shown


class TestWhatIsGivenAgain:
    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("read_file", {"path": "a.py"}),
            ("Read", {"file_path": "a.py", "offset": 1, "limit": 900}),
            ("str_replace_editor", {"command": "view", "path": "a.py"}),
            ("mcp__files__read_text_file", {"path": "a.txt"}),
            ("read_log", {"number": 3}),
            ("get_order_details", {"order_id": "7"}),
            ("github_list_commits", {"sha": "main"}),
            ("searchDocs", {"query": "late"}),
            ("wiki_lookup", {"title": "Order"}),
            ("grep", {"pattern": "x"}),
            ("WebFetch", {"url": "https://x.org", "prompt": "all"}),
            ("http_request", {"method": "GET", "url": "https://x.org"}),
            ("run_sql", {"query": "WITH late AS (SELECT 1) SELECT * FROM late;"}),
            ("bash", {"command": "cd src && cat a.py 2>/dev/null | grep -n def | head -900"}),
            ("bash", {"command": "git -C repo log --stat -- src; ls -la"}),
            ("shell", {"command": ["bash", "-lc", "sed -n 1,900p a.py"]}),
            ("shell", {"command": ["grep", "-rn", "late order", "src"]}),
            ("local_shell", {"action": {"commands": ["cat a.py", "ls"]}}),
            ("exec_command", {"cmd": "rg --files | sort"}),
        ],
    )
    def test_a_call_that_only_reads_is_shortened(
        self, name: str, arguments: dict[str, Any]
    ) -> None:
        shown = window(name, arguments)
        assert len(shown) < len(PROSE) / 2
        assert f"again with {name}" in shown or f"call {name} again" in shown

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("send_email", {"to": "a@x.org"}),
            ("transfer_funds", {"amount": 7}),
            ("write_file", {"path": "a.py"}),
            ("edit_file", {"path": "a.py"}),
            ("str_replace_editor", {"command": "create", "path": "a.py"}),
            ("ask_user", {"question": "Which?"}),
            ("get_user_input", {"question": "Which?"}),
            ("Task", {"prompt": "Look into it."}),
            ("query_research_agent", {"question": "Why?"}),
            ("get_random_orders", {}),
            ("get_next_job", {}),
            ("read_queue", {}),
            ("mark_message_read", {"id": "7"}),
            ("get_or_create_customer", {"name": "Ann"}),
            ("read_and_delete", {"id": "7"}),
            ("get", {"item": "lamp"}),
            ("weather", {"city": "Bern"}),
            ("searching", {"q": "x"}),
            ("get_orders", {"method": "POST"}),
            ("query_data", {"text": "DELETE FROM orders"}),
            ("search_mail", {"query": "x", "mark_as_read": True}),
            ("list_notes", {"content": "Remember this."}),
            ("http_request", {"method": "POST", "url": "https://x.org"}),
            ("http_request", {"url": "https://x.org"}),
            ("fetch", {"url": "https://x.org", "body": "{}"}),
            ("run_sql", {"query": "WITH x AS (DELETE FROM a RETURNING *) SELECT * FROM x"}),
            ("run_sql", {"query": "SELECT 1; DROP TABLE a"}),
            ("python", {"code": "print(1)"}),
            ("BashOutput", {"bash_id": "1"}),
            ("bash", {"command": "make test"}),
            ("bash", {"command": "cat a.py > b.py"}),
            ("bash", {"command": "cat a.py | tee b.py"}),
            ("bash", {"command": "cat $(rm -v a.py)"}),
            ("bash", {"command": "find . -name a.py -delete"}),
            ("bash", {"command": "find . -exec rm {} +"}),
            ("bash", {"command": "sed -i s/a/b/ a.py"}),
            ("bash", {"command": "sort -o a.txt a.txt"}),
            ("bash", {"command": "sort -R a.txt"}),
            ("bash", {"command": "uniq a.txt b.txt"}),
            ("bash", {"command": "git checkout main"}),
            ("bash", {"command": "git diff --output=a.txt"}),
            ("bash", {"command": "head -c 900 /dev/urandom"}),
            ("bash", {"command": "tail -f a.log"}),
            ("bash", {"command": "ls; ./deploy.sh"}),
            ("shell", {"command": ["rm", "-v", "a.py"]}),
            ("shell", {"command": ["grep", "a' ; rm b '"]}),
            ("local_shell", {"action": {"commands": ["cat a.py", "make"]}}),
            ("bash", {"restart": True}),
            ("bash", {"command": "python - <<'E'\nprint(1)\nE"}),
            ("bash", {"command": 'echo "unfinished'}),
        ],
    )
    def test_what_may_have_effects_or_answer_once_stays_whole(
        self, name: str, arguments: dict[str, Any]
    ) -> None:
        assert window(name, arguments) == PROSE
        assert len(window(name, arguments, recall=True)) < len(PROSE) / 2

    @pytest.mark.parametrize(
        ("tool", "again"),
        [
            (definition("weather", annotations={"readOnlyHint": True}), True),
            (definition("Task", annotations={"readOnlyHint": True}), True),
            (
                definition("put", annotations={"idempotentHint": True, "destructiveHint": False}),
                True,
            ),
            (definition("put", annotations=TWICE), False),
            (definition("read_file", annotations={"readOnlyHint": False}), False),
            (definition("read_box", annotations={"destructiveHint": True}), False),
            (definition("get_lot", annotations={"readOnlyHint": True}), True),
            (definition("get_random_lot", annotations={"readOnlyHint": True}), False),
            (definition("get_lot", "Draws a lot."), True),
            (definition("get_lot", "A lot drawn at random."), False),
            (definition("get_lot", "Returns a code for one-time use."), False),
            (definition("get_lot", "Issues a refund."), False),
            (definition("get_job", "Get a job and remove it from the list."), False),
            (definition("get_job", "Run a search for jobs."), True),
            (definition("get_job", takes=("id", "since")), True),
            (definition("get_job", takes=("id", "delete_after")), False),
            (definition("get_job", takes=("recipient",)), False),
        ],
    )
    def test_the_list_of_tools_says_more(self, tool: dict[str, Any], again: bool) -> None:
        for tools in ([tool], [{"type": "function", "function": _in_chat(tool)}]):
            shown = window(tool["name"], {"id": "7"}, tools=tools)
            assert (len(shown) < len(PROSE) / 2) is again
            assert again or shown == PROSE

    def test_words_pictures_and_old_versions_stay(self) -> None:
        """No tool gives them again."""
        words = "I look at the next part of it. " * 200
        said = [user("Go."), {"role": "assistant", "content": words}, user("On.")]
        given = {"path": "a.py", "content": PROSE}
        for number in (1, 2):
            said += [called(number, "write_file", given), result(number, "ok")]
        said += idle(14)
        assert windlass.bound(said, policy=AT_ONCE).messages == said
        shown = windlass.bound(said, policy=AT_ONCE, recall=True).messages
        assert [each["content"] for each in shown[:3]] != [each["content"] for each in said[:3]]
        assert "recall result_" in str(shown[1]["content"])
        assert "written anew later; recall result_" in str(shown[3])

    def test_what_settings_ask_for_is_done(self) -> None:
        for options in ({"max_input_tokens": 2_000}, {"keep_recent_turns": 2}, {"fold_after": 2}):
            shown = windlass.bound(
                [user("Go."), called(1, "send_all", {}), result(1, PROSE), *idle(14)],
                policy={**AT_ONCE, **options},
            )
            assert PROSE not in str(shown.messages)

    def test_a_limit_takes_first_what_a_tool_gives_again(self) -> None:
        said = [user("Go.")]
        for number, name in enumerate(("send_all", "read_all", "read_all", "send_all")):
            said += [called(number, name, {"number": number}), result(number, f"{number}\n{PROSE}")]
        off = {"see_results": None, "cuts": None, "compress": None, "repeats": False}
        policy = {**AT_ONCE, **off}
        shown = windlass.bound([*said, *idle(2)], policy=policy, max_input_tokens=40_000).messages
        whole = [PROSE in str(one["content"]) for one in shown if one["role"] == "tool"][:4]
        assert whole == [True, False, False, True]

    def test_the_documents_numbers_hold_whatever_the_tools(self) -> None:
        policy = {**AT_ONCE, "profile": "spec"}
        said = [user("Go."), called(1, "send_all", {}), result(1, PROSE), *idle(4)]
        assert windlass.bound(said, policy=policy).messages[2]["content"].startswith("[Tool text")


def _in_chat(tool: dict[str, Any]) -> dict[str, Any]:
    return {**tool, "parameters": tool["input_schema"]}


class TestNotes:
    """How a note says to get the rest again, by the same tool and with true numbers."""

    RANGES = ("file_path", "offset", "limit")

    def lines(self, note: str) -> tuple[int, int]:
        match = re.search(r"lines (\d+)-(\d+)", note)
        assert match
        return int(match[1]), int(match[2])

    @pytest.mark.parametrize("gutter", [True, False])
    @pytest.mark.parametrize("first", [1, 500])
    def test_a_file_says_which_lines(self, gutter: bool, first: int) -> None:
        numbers = range(first, first + 2_000)
        lines = {n: f"value_{n} = call_of_{n * 7}()  # part {n} of it" for n in numbers}
        text = "\n".join(f"{n:6}\t{line}" if gutter else line for n, line in lines.items())
        arguments = {"file_path": "a.py", "offset": first, "limit": 2_000}
        shown = window(
            "Read", arguments, text, turns=0, tools=[definition("Read", takes=self.RANGES)]
        )
        low, high = self.lines(shown)
        assert f"read lines {low}-{high} again with Read, result_" in shown
        assert high - low > 500
        assert not any(lines[n] in shown for n in range(low, high + 1))
        assert lines[low - 1] in shown
        assert lines[high + 1] in shown

    def test_times_before_lines_are_no_numbers_of_them(self) -> None:
        lines = [f"{12 + n // 60}:{n % 60:02}:00 worker {n * 7} took an item" for n in range(2_000)]
        arguments = {"file_path": "a.log", "offset": 1, "limit": 2_000}
        tools = [definition("Read", takes=self.RANGES)]
        shown = window("Read", arguments, "\n".join(lines), turns=0, tools=tools)
        low, high = self.lines(shown.rpartition("Full data: ")[2])
        assert not any(line in shown for line in lines[low - 1 : high])
        assert lines[low - 2] in shown

    def test_a_tool_without_ranges_is_called_again(self) -> None:
        text = "\n".join(f"value_{n} = call_of_{n * 7}()  # part {n} of it" for n in range(2_000))
        tools = [definition("read_file", takes=("path",))]
        shown = window("read_file", {"path": "a.py"}, text, turns=0, tools=tools)
        assert "Full data: call read_file again for all of it, result_" in shown

    @pytest.mark.parametrize("command", ["cat -n a.py", "git log -p"])
    def test_a_command_says_which_lines_of_its_output(self, command: str) -> None:
        lines = [f"value_{n} = call_of_{n * 7}({n * 3})" for n in range(2_000)]
        shown = window("bash", {"command": command}, "\n".join(lines), turns=0)
        low, high = self.lines(shown)
        how = f"run it again with bash and a filter: lines {low}-{high} by sed -n '{low},{high}p'"
        assert f"{how}, result_" in shown
        assert not any(line in shown for line in lines[low - 1 : high])
        assert lines[low - 2] in shown

    def test_lines_are_not_told_where_they_are_not_known(self) -> None:
        lines = [f"src/a.py:{n * 3}:value_{n} = call_of_{n * 7}()" for n in range(2_000)]
        text = "<returncode>0</returncode>\n<output>\n" + "\n".join(lines)
        shown = window("bash", {"command": "grep -rn value src"}, text, turns=0)
        assert "run it again with bash, filtered or the same for all of it, result_" in shown

    def test_each_kind_says_what_helps(self) -> None:
        hits = json.dumps(
            [{"title": f"Title {n}", "snippet": f"text {n} " * 9} for n in range(300)]
        )
        less = "again, for less or the same for all of it, result_"
        for name, arguments, text, note in (
            ("web_search", {"query": "x"}, hits, "call web_search again, narrower or the same for"),
            ("list_orders", {"state": "open"}, hits, f"call list_orders {less}"),
            ("fetch_url", {"url": "https://x.org"}, PROSE, f"call fetch_url {less}"),
        ):
            assert note in window(name, arguments, text, turns=0)
        tools = [definition("list_orders", takes=("state",))]
        shown = window("list_orders", {"state": "open"}, hits, turns=0, tools=tools)
        assert "call list_orders again for all of it, result_" in shown

    def test_the_same_call_again_shows_all_of_it(self) -> None:
        said = [user("Go."), called(1, "read_log", {"number": 3}), result(1, PROSE)]
        first = windlass.bound(said, policy=AT_ONCE).messages[2]["content"]
        assert "call read_log again" in first
        for arguments in ({"number": 3}, {"number": 4}):
            more = [*said, called(2, "read_log", arguments), result(2, PROSE)]
            shown = windlass.bound(more, policy=AT_ONCE).messages[-1]["content"]
            missing = [line for line in PROSE.split("\n") if line not in first]
            assert missing
            is_all = all(line in shown for line in missing)
            assert is_all is (arguments == {"number": 3})
        again = windlass.bound([*more, *idle(14)], policy=AT_ONCE).messages[4]["content"]
        assert len(again) < 500  # it grows old as any other does

    def test_with_a_way_back_it_stays_what_it_was(self) -> None:
        said = [user("Go."), called(1, "read_log", {"number": 3}), result(1, PROSE)]
        said += [called(2, "read_log", {"number": 3}), result(2, PROSE)]
        for options, hint in (
            ({"recall": True}, "recall result_"),
            ({"tools": [windlass.recall_tool("anthropic")]}, "recall result_"),
            ({"way_back": "windlass recall"}, "windlass recall result_"),
            ({"way_back": ""}, "characters: result_"),
        ):
            forget()
            first, second = windlass.bound(said, policy=AT_ONCE, **options).messages[2::2]
            assert hint in first["content"]
            assert second["content"].startswith("[Same as read_log")

    def test_a_tool_of_that_name_for_something_else_is_none(self) -> None:
        tools = [definition("recall", takes=("query",))]
        assert window("send_all", {"id": "7"}, tools=tools) == PROSE


READERS = ("read_log", "get_order", "bash", "grep")
OTHERS = ("send_log", "ask_user", "get_next_job", "Task", "weather")
TURNS = st.lists(
    st.tuples(
        st.sampled_from((*READERS, *OTHERS)),
        st.integers(0, 3),
        st.sampled_from([1, 12, 120, 900]),
        st.sampled_from(["", "I look.", "I look at the next part of it. " * 100]),
    ),
    min_size=1,
    max_size=14,
)


@pytest.mark.parametrize("profile", ["default", "lean", "careful"])
@given(TURNS, st.sampled_from(["priced", "at_once"]), st.sampled_from([None, CLAUDE, BOUND]))
def test_whatever_is_shortened_can_be_had_again(
    profile: str, turns: list[tuple[str, int, int, str]], commit: str, model: str | None
) -> None:
    """Call by call: what may not be given again stays, and each note names its result's tool."""
    context = windlass.Context(model, {"profile": profile, "commit": commit})
    context.append(user("Find out which order is late."))
    tools: list[str] = []
    for number, (name, given_, lines, words) in enumerate(turns):
        text = "\n".join(f"{name} {given_}: line_{line} is well" for line in range(lines))
        arguments = {"command": f"cat {given_}.log"} if name == "bash" else {"number": given_}
        tools.append(name)
        for message in (called(number, name, arguments, words), result(number, text)):
            context.append(message)
        window = context.window()
        for entry in window.entries:
            if entry.action == "shown" or entry.because in ("repeat", "encode"):
                continue
            assert entry.position is not None
            assert entry.position > 0
            assert tools[(entry.position - 1) // 2] in READERS
            if entry.action == "replaced":
                assert entry.position % 2 == 0
        for message in window.messages:
            for note in NOTE.finditer(str(message["content"])):
                assert re.match(
                    r"(?:call|run it again with|read (?:it|lines [\d-]+) again with) "
                    rf"(?:{'|'.join(READERS)})\b.*, result_[0-9a-f]{{8}}$",
                    note[3],
                ), note[0]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server(reads_logs(6)) as served:
        served.lead(monkeypatch)
        yield served


@pytest.mark.parametrize("form", CLIENTS)
class TestWrapped:
    def run(self, form: str, served: ModelServer) -> str:
        """A wrapped loop as it is; what was sent last."""
        client = CLIENTS[form]()
        loops.LOOPS[form](windlass.wrap(client, {"profile": "lean", **AT_ONCE}))
        client.close()
        assert served.refused == []
        return json.dumps(served.asked[-1].body)

    def test_notes_name_the_tool_that_was_called(self, form: str, server: ModelServer) -> None:
        sent = self.run(form, server)
        hints = [match[3] for match in NOTE.finditer(sent)]
        assert len(hints) >= 5
        for hint in hints:
            assert re.fullmatch(r"call read_log again( for all of it)?, result_[0-9a-f]{8}", hint)

    def test_what_cannot_be_had_again_is_sent_as_it_is(
        self, form: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The same loop with another name for its tool."""

        def sends(body: Any) -> Say:
            said = reads_logs(6)(body)
            return Say(said.text, [("send_log", given) for _, given in said.calls])

        server.script[:] = [sends]
        for (tool,) in (loops.CLAUDE_TOOLS, loops.CHAT_TOOLS, loops.FLAT_TOOLS):
            about: Any = tool
            monkeypatch.setitem(about.get("function", about), "name", "send_log")
        monkeypatch.setitem(loops.ABOUT, "name", "send_log")
        sent = self.run(form, server)
        assert NOTE.search(sent) is None
        assert all(json.dumps(log(number))[1:-1] in sent for number in range(6))
