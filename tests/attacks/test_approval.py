"""The door of approval: a reply, or a record, must not let a tool run that nobody let run."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import windlass
import windlass_local
from tests.cli.conftest import CommandLine
from tests.cli.terminal import read_terminal
from tests.engine.harness import House, Ran, asked_by, call, calls, cascade, phase
from tests.tasks.making import atomic
from tests.tools.mcp_running import PLAIN, ROOT
from tests.validators import anthropic as anthropic_rules
from tests.validators import gemini as gemini_rules
from tests.validators import openai as openai_rules
from windlass.api.engine import Engine
from windlass.cli.output import progress
from windlass.engine.turn import send
from windlass.errors import CascadeError, TaskFileError, UsageError
from windlass.history.base import NodeType
from windlass.history.row_details import Approval
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.providers.scripted import Scripted
from windlass.settings.trust import trust
from windlass.wire import anthropic, gemini, openai_chat
from windlass.wire.base import Request

DANGER = '''
from pathlib import Path

from windlass.tools.registry import tool


def danger(path: str) -> str:
    """Remove it.

    Args:
        path: What.
    """
    with Path("gone").open("a", encoding="utf-8") as file:
        file.write(f"{path}\\n")
    return f"{path} is gone"


@tool(name="renamed")
def plain(path: str) -> str:
    """Remove it, under another name.

    Args:
        path: What.
    """
    return danger(path)


def harmless(path: str) -> str:
    """Look at it.

    Args:
        path: What.
    """
    return f"{path} is well"
'''
KEPT = cascade(phase("a", tackle=["my:danger", "ask_human"], rules={"approve": ["danger"]}))


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A folder with a module of tools; what they removed stands in the file `gone`."""
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text(DANGER, encoding="utf-8")
    trust(tmp_path)  # what only a record names is another door's affair
    made = House(tmp_path)
    yield made
    made.close()


@pytest.fixture
def line(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line in that folder."""
    made = CommandLine(house.folder, monkeypatch, capsys)
    monkeypatch.setattr(windlass_local, "LocalProvider", made.model)
    monkeypatch.setattr(progress, "quiet", False)
    made.write("c.json", KEPT)
    return made


def gone() -> list[str]:
    """What was removed."""
    return Path("gone").read_text(encoding="utf-8").split() if Path("gone").exists() else []


def removes(*paths: str, ids: Sequence[str] = (), name: str = "danger") -> Message:
    """A reply that removes these in one turn, with calls of these ids."""
    given = ids or [f"c{at}" for at in range(len(paths))]
    told = [json.dumps({"path": path}) for path in paths]
    return assistant(
        "", calls=[ToolCall(*one) for one in zip(given, [name] * 9, told, strict=False)]
    )


def turns(*replies: Message) -> Any:
    """A script that makes these replies, one after the results of the other, then says `done`."""

    def script(request: Request) -> Message | str:
        made = sum(bool(message.tool_calls) for message in request.messages)
        return replies[made] if made < len(replies) else "done"

    return script


async def resumed(house: House, script: Any, session: str = "s", **options: Any) -> Ran:
    model = Scripted(script)
    result = await windlass.resume(
        session,
        model="scripted/x",
        store=house.store,
        root=house.folder,
        providers={"scripted": model},
        **options,
    )
    return Ran(result, model, house.open_store(), [])


def waits_for(ran: Ran) -> dict[str, Any]:
    assert ran.result.status == "waiting"
    return dict(ran.result.notes["question"])


def refusals(ran: Ran) -> list[str]:
    rows = ran.rows(NodeType.TOOL_RESULT)
    return [stored.row.message.text for stored in rows if stored.row.message is not None]


REPEATED = [("c", "c"), ("", ""), ("c", "c", "c_2"), ("c_2", "c", "c"), ("call_1", "", "")]


# ---- an approval is for one call ------------------------------------------------------------


@pytest.mark.parametrize("ids", [("c", "c"), ("", "")])
async def test_a_yes_to_one_call_is_none_to_another_with_its_id(
    house: House, ids: tuple[str, ...]
) -> None:
    script = turns(removes("/tmp", "/etc", ids=ids))
    ran = await house.run(
        KEPT, script, session_id="s", on_question=lambda q: "yes" if "/tmp" in q.text else None
    )
    assert "/etc" in waits_for(ran)["question"]
    assert gone() == []  # nothing of the turn is done before all of it is answered
    ran = await resumed(house, script, approve={"danger": False})
    assert (ran.result.status, gone()) == ("completed", ["/tmp"])
    assert refusals(ran) == ["/tmp is gone", "[not run: the user refused]"]
    assert ran.has_no_damage()


@pytest.mark.parametrize("ids", REPEATED)
async def test_repeated_ids_are_mended_before_a_tool_runs_and_the_next_request_is_valid(
    house: House, ids: tuple[str, ...]
) -> None:
    paths = [f"/{at}" for at in range(len(ids))]
    script = turns(removes(*paths, ids=ids), removes(*paths, ids=ids))
    ran = await house.run(KEPT, script, session_id="s", approve="all")
    assert (ran.result.status, sorted(gone())) == ("completed", sorted(paths * 2))
    request = ran.request("a", -1)
    said = [message for message in request.messages if message.tool_calls]
    results = [message for message in request.messages if message.role == "tool"]
    asked = [each.id for message in said for each in message.tool_calls]
    assert [message.tool_call_id for message in results] == asked
    assert [message.text for message in results] == [f"{path} is gone" for path in paths * 2]
    for message in said:
        found = [each.id for each in message.tool_calls]
        assert all(found)
        assert len(set(found)) == len(found)
    assert openai_rules.problems(openai_chat.body(request)) == []
    assert anthropic_rules.problems(anthropic.body(request)) == []
    assert gemini_rules.problems(gemini.body(request)) == []
    assert ran.has_no_damage()


@pytest.mark.parametrize("form", [openai_chat, anthropic, gemini])
def test_a_history_with_repeated_ids_is_sent_so_that_each_result_has_its_call(form: Any) -> None:
    twins = [ToolCall("c", "danger", '{"path": "/tmp"}'), ToolCall("c", "danger", "{}")]
    held = [user("Go."), assistant("", calls=twins), tool("c", "one"), tool("c", "two")]
    body = form.body(Request(model="m", messages=tuple(held), max_output_tokens=9))
    rules = {openai_chat: openai_rules, anthropic: anthropic_rules, gemini: gemini_rules}[form]
    wrong = [each for each in rules.problems(body) if "define" not in each and "declar" not in each]
    assert wrong == []


@pytest.mark.parametrize("second", ["/etc", "/tmp"])
async def test_a_call_of_a_later_turn_inherits_no_yes(house: House, second: str) -> None:
    script = turns(removes("/tmp", ids=["c"]), removes(second, ids=["c"]))
    seen: list[Any] = []

    def once(question: Any) -> str | None:
        seen.append(question.call)
        return "yes" if len(seen) == 1 else None

    ran = await house.run(KEPT, script, session_id="s", on_question=once)
    assert second in waits_for(ran)["question"]
    assert (gone(), len(set(seen))) == (["/tmp"], 2)
    ran = await resumed(house, script, approve={seen[0]: True})
    assert (waits_for(ran)["call"], gone()) == (seen[1], ["/tmp"])
    ran = await resumed(house, script, approve=[seen[1]])
    assert (ran.result.status, gone()) == ("completed", ["/tmp", second])


async def test_a_yes_is_for_the_arguments_that_were_shown(house: House) -> None:
    script = turns(removes("/tmp"))
    first = waits_for(await house.run(KEPT, script, session_id="s"))["call"]
    for other in (turns(removes("/TMP")), turns(removes(" /tmp")), turns(removes("/x", "/tmp"))):
        ran = await house.run(KEPT, other, approve=[first])
        assert ran.result.status == "waiting"
    ran = await house.run(KEPT, script, approve=[first])  # another session's is another call
    assert (ran.result.status, gone()) == ("waiting", [])
    spaced = call("danger", '{ "path" :  "/tmp", "path": "/etc" }')
    told = waits_for(await house.run(KEPT, turns(calls(spaced))))["question"]
    assert told == 'May the tool danger run with {"path": "/etc"}?', "what counts is shown"
    hidden = call("danger", json.dumps({"path": "/a\u202eb\u009b"}, ensure_ascii=False))
    told = waits_for(await house.run(KEPT, turns(calls(hidden))))["question"]
    assert told.isprintable()


async def test_an_approval_of_an_older_record_counts_for_the_only_call_of_its_id(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_id_alone(said: Approval) -> dict[str, Any]:
        told = {"step": str(said.step), "call": said.call, "tool": said.tool}
        return {"kind": said.kind, **told, "answer": said.answer}

    def as_before(ids: Sequence[str], session: str) -> Any:
        """A record in which an approval holds the id alone, and calls stand as they came."""
        script = turns(removes("/tmp", "/etc", ids=ids))
        with monkeypatch.context() as older:
            older.setattr(Approval, "as_json", by_id_alone)
            older.setattr(send, "with_own_ids", list)
            said = house.run(
                KEPT,
                script,
                session_id=session,
                on_question=lambda q: "yes" if "/tmp" in q.text else None,
            )
            yield said
        yield script

    for ids, session, asked in ((("c", "d"), "s", ["/etc"]), (("c", "c"), "t", ["/tmp", "/etc"])):
        steps = as_before(ids, session)
        assert waits_for(await next(steps))["tool"] == "danger"
        script, seen = next(steps), list[str]()

        def ask(question: Any, seen: list[str] = seen) -> str:
            seen.append("/tmp" if "/tmp" in question.text else "/etc")
            return "no"

        ran = await resumed(house, script, session, on_question=ask)
        assert (ran.result.status, seen) == ("completed", asked)


def test_an_imported_conversation_with_repeated_ids_has_calls_that_can_be_told_apart(
    line: CommandLine,
) -> None:
    called = {"id": "c", "type": "function", "function": {"name": "danger", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [called, called]}
    results = [{"role": "tool", "tool_call_id": "c", "content": text} for text in ("one", "two")]
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    record = {
        "request": {"model": "m", "messages": [{"role": "user", "content": "Go."}, said, *results]},
        "response": {
            "id": "r",
            "model": "m",
            "choices": [{"message": {"role": "assistant", "content": "ok"}}],
            "usage": usage,
        },
    }
    line.write("log.jsonl", json.dumps(record) + "\n")
    assert line("import", "log.jsonl").code == 0
    with SqliteStore.open_existing(Path(".windlass")) as store:
        (info,) = store.sessions()
        rows = [stored.row.message for stored in store.rows(info.session_id)]
    messages = [message for message in rows if message is not None]
    assert [(each.tool_call_id, each.text) for each in messages if each.role == "tool"] == [
        ("c", "one"),
        ("c_2", "two"),
    ]
    assert line("import", "log.jsonl", "--json").json["sessions"][0]["state"] == "unchanged"


async def test_a_phase_that_is_told_in_words_keeps_each_result_with_its_own_call(
    house: House,
) -> None:
    first = removes("/tmp", ids=["c"])
    second = removes("/longer/than/that", "/etc", ids=["d", "c"])
    phases = [
        phase("a", tackle=["my:danger"]),
        phase("b", context={"from": [{"phase": "a", "include": ["messages"]}]}),
    ]
    phases[1]["context"]["from"][0]["messages_filter"] = "assistant_only"
    removing = turns(first, second)

    def script(request: Request) -> Any:
        return removing(request) if asked_by(request) == "a" else "ok"

    ran = await house.run(cascade(*phases), script)
    assert ran.result.status == "completed"
    told = "\n".join(text for _, text in ran.seen("b"))
    for path in ("/tmp", "/etc", "/longer/than/that"):
        size = len(f"{path} is gone")
        assert f'[Called danger(path="{path}") -> {size} characters]' in told


# ---- what runs is what is approved ----------------------------------------------------------


@pytest.mark.parametrize(
    ("tackle", "approve", "called"),
    [
        ("manifest", "my:danger", "danger"),
        ("manifest", "my:plain", "renamed"),
        (["my:danger"], "my:danger", "danger"),
        (["my:plain"], "my:plain", "renamed"),
        (["my:plain"], "renamed", "renamed"),
    ],
)
async def test_a_tool_is_approved_by_its_name_and_by_its_dotted_path(
    house: House, tackle: Any, approve: str, called: str
) -> None:
    asks = cascade(phase("a", tackle=tackle, rules={"approve": [approve]}))
    removing = turns(removes("/etc", name=called))

    def script(request: Request) -> Any:
        chosen = json.dumps({"tools": [called]})
        return chosen if request.output_schema is not None else removing(request)

    ran = await house.run(asks, script)
    assert waits_for(ran)["tool"] == called
    assert gone() == []
    for name in (approve, called):
        ran = await house.run(asks, script, approve=[name])
        assert ran.result.status == "completed"
    assert gone() == ["/etc", "/etc"]


async def test_a_tool_of_a_server_is_approved_also_by_all_of_its_server(house: House) -> None:
    servers = {"demo": {"command": PLAIN, "env": {"PYTHONPATH": str(ROOT)}}}
    script = turns(calls(call("demo__echo", '{"text": "hello"}')))
    asks = cascade(
        phase("a", tackle=["demo.*"], rules={"approve": ["demo.*"]}), mcp_servers=servers
    )
    assert waits_for(await house.run(asks, script))["tool"] == "demo.echo"
    ran = await house.run(asks, script, approve=["demo.echo"])
    assert ran.result.status == "completed"
    asks["phases"][0]["rules"] = {"approve": ["demo.ech"]}
    ran = await house.run(asks, script)
    assert isinstance(ran.result.error, UsageError)
    assert "'demo.ech', which is no tool; did you mean 'demo.echo'?" in str(ran.result.error)
    assert ran.model.requests == []


@pytest.mark.parametrize(
    ("tackle", "name"),
    [
        ("manifest", "my:dangr"),
        ("manifest", "dangr"),
        (["my:danger"], "dangr"),
        (["my:danger"], "my:dangr"),
        (["my:danger"], "my:harmless"),
        (["my:plain"], "plain"),
        (["my:danger"], "Danger"),
    ],
)
def test_a_name_that_means_no_tool_is_told_with_its_line(
    line: CommandLine, tackle: Any, name: str
) -> None:
    wrong = cascade(phase("a", tackle=tackle, rules={"approve": [name]}), tools=["my:danger"])
    line.write("wrong.json", wrong)
    at = Path("wrong.json").read_text(encoding="utf-8").splitlines().index(f'          "{name}"')
    for words in (("check", "wrong.json", "--trust"), ("run", "wrong.json", "-m", "local/m")):
        said = line(*words)
        assert said.code == 2
        assert f"wrong.json:{at + 1}: " in said.err + said.out
        assert f"{name.partition(':')[2] or name}'" in said.err + said.out
    assert line.requests == []


def test_so_it_is_in_a_task_in_xml(line: CommandLine) -> None:
    inside = "<tools>manifest</tools>\n<rules><approve>{}</approve></rules>"
    line.write("t.xml", atomic("a", inside.format("my:dangr")))
    said = line("evaluate", "t.xml", "-m", "local/m")
    assert said.code == 2
    assert "t.xml:2: " in said.complaint
    line.write("t.xml", atomic("a", inside.format("my:danger")))

    def script(request: Request) -> Any:
        chosen = '{"tools": ["danger"]}'
        return chosen if request.output_schema is not None else turns(removes("/etc"))(request)

    line.script = script
    said = line("evaluate", "t.xml", "-m", "local/m", "--session", "t1")
    assert (said.code, gone()) == (3, [])
    said = line("evaluate", "--resume", "t1", "-m", "local/m", "--approve", "my:danger")
    assert (said.code, gone()) == (0, ["/etc"])
    line.write("t.xml", atomic("a", inside.format("my:dangr")))
    with pytest.raises(TaskFileError, match="no function or class 'dangr'"):
        windlass.evaluate_sync("t.xml", model="scripted/x")


async def test_so_it_is_in_sub_cascades_and_batches(house: House) -> None:
    Path("child.json").write_text(json.dumps({**KEPT, "cascade_id": "child"}), encoding="utf-8")
    Path("p.json").write_text(
        json.dumps(cascade(phase("p", sub_cascades=[{"ref": "child.json"}]))), encoding="utf-8"
    )
    script = turns(removes("/etc"))
    ran = await house.run(Path("p.json"), script, session_id="s")
    ident = waits_for(ran)["call"]
    with pytest.raises(UsageError, match=r"approve 'dangr': .* did you mean 'danger'"):
        await house.run(Path("p.json"), script, approve=["dangr"])
    ran = await resumed(house, script, approve=[ident])
    assert (ran.result.status, gone()) == ("completed", ["/etc"])
    options: dict[str, Any] = {"model": "scripted/x", "store": house.store, "out": "r.jsonl"}
    options["providers"] = {"scripted": Scripted(script)}
    with pytest.raises(UsageError, match="approve 'dangr'"):
        await windlass.batch(KEPT, [{"n": 1}], approve=["dangr"], **options)
    done = await windlass.batch(KEPT, [{"n": 1}], approve={"danger": "no"}, **options)
    assert (done.completed, gone()) == (1, ["/etc"])
    options["out"] = "q.jsonl"
    done = await windlass.batch(KEPT, [{"n": 1}], **options)
    assert (done.completed, done.troubles[0].status) == (0, "waiting")
    done = await windlass.batch(
        KEPT, [{"n": 2}], approve=["danger"], **{**options, "out": "o.jsonl"}
    )
    assert (done.completed, gone()) == (1, ["/etc", "/etc"])
    wrong = cascade(phase("a", tackle=["my:danger"], rules={"approve": ["dangr"]}))
    with pytest.raises(CascadeError, match="dangr"):
        await windlass.batch(wrong, [{"n": 1}], **options)


# ---- an answer is no approval, and an approval no answer ------------------------------------


@pytest.mark.parametrize(
    "answers",
    [
        ["1"],
        ["yes"],
        [True],
        {"danger": "yes"},
        {'May the tool danger run with {"path": "/etc"}?': "yes"},
        {'may the tool DANGER run with  {"path": "/etc"}?': "yes"},
    ],
)
async def test_no_answer_lets_a_tool_run(house: House, answers: Any) -> None:
    ran = await house.run(KEPT, turns(removes("/etc")), answers=answers)
    assert waits_for(ran)["tool"] == "danger"
    assert gone() == []


async def test_no_approval_answers_a_question(house: House) -> None:
    asks = turns(calls(call("ask_human", '{"question": "danger", "options": ["yes", "no"]}')))
    ran = await house.run(KEPT, asks, approve={"all": True, "danger": "yes"})
    assert (waits_for(ran)["tool"], waits_for(ran)["question"]) == (None, "danger")
    both = turns(
        calls(
            call("danger", '{"path": "/etc"}'),
            call("ask_human", '{"question": "Which?", "options": ["no", "yes"]}'),
        )
    )
    ran = await house.run(KEPT, both, answers=["1"], approve=["danger"])
    assert refusals(ran) == ["/etc is gone", "no"]


@pytest.mark.parametrize("said", ["1", "y", "Y", "YES", "Yes", "yes ", " yes", "true", "ok", "", 1])
async def test_only_yes_to_the_letter_is_a_yes(house: House, said: Any) -> None:
    ran = await house.run(KEPT, turns(removes("/etc")), on_question=lambda _: said)
    assert "write 'yes' to let it run" in waits_for(ran)["why"]
    with pytest.raises(UsageError, match="write 'yes' to let it run"):
        await house.run(KEPT, turns(removes("/etc")), approve={"danger": said})
    assert gone() == []


@pytest.mark.parametrize("name", ["Danger", "danger ", "DANGER", "dang", "", "a" * 31])
async def test_names_of_approvals_are_compared_to_the_letter(house: House, name: str) -> None:
    with pytest.raises(UsageError, match="approve"):
        await house.run(KEPT, turns(removes("/etc")), approve=[name])
    assert gone() == []


@pytest.mark.parametrize("wrong", [5, None, {"danger": None}, {"danger": 2.5}, [7], [["danger"]]])
async def test_approvals_that_are_none_are_told_before_the_run(house: House, wrong: Any) -> None:
    with pytest.raises(UsageError, match="approve"):
        await house.run(KEPT, turns(removes("/etc")), approve=wrong)
    assert not house.store.exists()


async def test_what_is_said_of_one_goes_before_what_is_said_of_all(house: House) -> None:
    script = turns(removes("/tmp", "/etc"))
    first = waits_for(await house.run(KEPT, script, session_id="s"))["call"]
    ran = await resumed(house, script, approve={"all": True, first: "not that one"})
    assert (ran.result.status, gone()) == ("completed", ["/etc"])
    assert refusals(ran)[0] == "[not run: the user refused: not that one]"
    ran = await house.run(KEPT, script, approve={"all": True, "danger": False})
    assert gone() == ["/etc"]


async def test_forks_and_chats_take_approvals_and_inherit_none(house: House) -> None:
    script = turns(removes("/tmp", ids=["c"]), removes("/etc", ids=["c"]))
    options: dict[str, Any] = {"store": house.store, "root": house.folder, "model": "scripted/x"}
    options["providers"] = {"scripted": Scripted(script)}
    ran = await house.run(KEPT, script, session_id="s", approve=["danger"])
    assert (ran.result.status, gone()) == ("completed", ["/tmp", "/etc"])
    forked = await windlass.fork("s", 1, **options)
    assert forked.status == "waiting"
    forked = await windlass.fork("s", 2, approve={"danger": False}, **options)
    assert (forked.status, gone()) == ("completed", ["/tmp", "/etc"])
    talks = {"scripted": Scripted(turns(*[removes("/home", ids=["c"])] * 9))}
    options["providers"] = talks
    with pytest.raises(UsageError, match="approve 'dangr'"):
        await Engine(approve=["dangr"], **options).session(KEPT).send("Go.")
    assert (await Engine(**options).session(KEPT).send("Go.")).status == "waiting"
    said = Engine(approve={"danger": "no"}, **options).session(KEPT)
    await said.send("Go.")
    assert gone() == ["/tmp", "/etc"]


async def test_a_chat_behind_a_waiting_call_closes_it_though_its_id_came_before(
    house: House,
) -> None:
    script = turns(removes("/tmp", ids=["c"]), removes("/etc", ids=["c"]))
    seen: list[str] = []

    def once(question: Any) -> str | None:
        seen.append(question.text)
        return "yes" if len(seen) == 1 else None

    ran = await house.run(KEPT, script, session_id="s", on_question=once)
    assert waits_for(ran)["tool"] == "danger"
    options: dict[str, Any] = {"store": house.store, "root": house.folder, "model": "scripted/x"}
    options["providers"] = {"scripted": Scripted(lambda _: "well")}
    said = await Engine(**options).session(resume="s").send("And now?")
    assert (said.status, said.output, said.error) == ("completed", "well", None)
    assert gone() == ["/tmp"]


# ---- on the command line --------------------------------------------------------------------


def printed(said: str, flag: str) -> list[str]:
    """The words of the printed command that has a flag, without `windlass`."""
    _, _, behind = said.partition("let it run: ")
    lines = [each.partition("windlass ")[2] for each in behind.split(", or refuse it: ")]
    return shlex.split(next(each for each in lines if flag in each))


def test_the_printed_command_lets_the_one_call_run(line: CommandLine) -> None:
    line.script = turns(removes("/tmp"), removes("/etc"))
    said = line("run", "c.json", "-m", "local/m", "--session", "s1")
    assert said.code == 3
    first = printed(said.complaint, "--approve")
    assert first[:5] == ["run", "c.json", "--resume", "s1", "--approve"]
    assert first[5] in line("show", "s1").out
    said = line(*first, "-m", "local/m")
    assert (said.code, gone()) == (3, ["/tmp"])
    said = line(*first, "-m", "local/m")  # said again, it is said of no other call
    assert (said.code, gone()) == (3, ["/tmp"])
    said = line(*printed(said.complaint, "--deny"), "-m", "local/m")
    assert (said.code, gone()) == (0, ["/tmp"])


def test_the_flags_are_apart(line: CommandLine) -> None:
    line.script = turns(removes("/etc"))
    run = ("run", "c.json", "-m", "local/m")
    Path("yes.json").write_text('{"danger": "yes"}', encoding="utf-8")
    for words in (("--answer", "1"), ("--answer", "yes"), ("--answers", "yes.json")):
        said = line(*run, *words)
        assert (said.code, gone()) == (3, [])
    said = line(*run, "--deny", "danger=use another", "--json")
    assert (said.code, gone()) == (0, [])
    assert "[not run: the user refused: use another]" in line.requests[-1].messages[-1].text
    said = line(*run, "--approve", "all", "--deny", "danger")
    assert (said.code, gone()) == (0, [])
    said = line(*run, "--approve", "danger", "--deny", "danger")
    assert (said.code, gone()) == (2, [])
    assert "'danger' is approved and denied" in said.complaint
    said = line(*run, "--approve", "dangr")
    assert (said.code, gone()) == (2, [])
    assert "did you mean 'danger'?" in said.complaint
    assert line(*run, "--approve", "all").code == 0
    assert gone() == ["/etc"]


def test_batches_forks_and_chats_have_them_too(line: CommandLine) -> None:
    line.script = turns(removes("/etc"))
    Path("rows.jsonl").write_text('{"n": 1}\n', encoding="utf-8")
    batch = ("batch", "c.json", "rows.jsonl", "-m", "local/m", "--out")
    assert line(*batch, "1.jsonl").code == 3
    assert line(*batch, "2.jsonl", "--deny", "danger").code == 0
    assert gone() == []
    assert line(*batch, "3.jsonl", "--approve", "danger").code == 0
    assert gone() == ["/etc"]
    assert line("fork", "latest", "--at", "1", "-m", "local/m", "--approve", "danger").code == 0
    assert gone() == ["/etc", "/etc"]
    line.script = turns(*[removes("/home")] * 2)
    line.patch.setattr(sys, "stdin", io.StringIO("Go.\n"))
    chat = ("chat", "c.json", "-m", "local/m")
    assert re.search(r"chat --session \S+ --approve danger, or refuse it", line(*chat).err)
    assert gone() == ["/etc", "/etc"]
    line.script = turns(*[removes("/home")] * 2)
    line.patch.setattr(sys, "stdin", io.StringIO("Go.\n"))
    assert line(*chat, "--approve", "danger").code == 0
    assert gone()[2:] == ["/home", "/home"]


MAIN = """
from tests.attacks.test_approval import removes, turns
from windlass.cli import main
import windlass_local as local
from windlass.providers.scripted import Scripted

local.LocalProvider = lambda: Scripted(turns(removes("/etc")))
main()
"""


def test_at_a_terminal_a_number_is_no_yes(house: House) -> None:
    Path("c.json").write_text(json.dumps(KEPT), encoding="utf-8")
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", "c.json", "-m", "local/m"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={
            **os.environ,
            "TERM": "xterm",
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
            ),
            "WINDLASS_STORE": str(house.store),
        },
    )
    os.close(theirs)
    assert "May the tool danger run" in read_terminal(ours, "> ")
    os.write(ours, b"1\n")
    assert "write 'yes' to let it run" in read_terminal(ours, "> ")
    assert gone() == []
    os.write(ours, b"yes\n")
    read_terminal(ours)
    run.communicate(timeout=60)
    assert (run.returncode, gone()) == (0, ["/etc"])
    os.close(ours)
