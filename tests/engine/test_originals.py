"""The originals of what a window shortens: their files, and `recall`."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import House, call, calls, cascade, phase
from tests.engine.logs import asks, log, logs, lookup, reading, results_of, shown
from windlass.engine.session_tools import recall
from windlass.history.base import NodeType
from windlass.history.bodies_at_once import FILE
from windlass.messages import Message
from windlass.text.tokens import FamilyCounter
from windlass.tools.registry import make_tool
from windlass.window.originals import RECALL
from windlass.wire.base import Request


def _ref(text: str) -> str | None:
    found = re.search(r"characters; (result_\w+)\]", text)
    return found[1] if found else None


class TestOriginals:
    @pytest.mark.parametrize(
        ("part", "told"),
        [
            ("/(a+)+$/", "no line matches"),
            ("/(?=a)b/", "has lookahead or lookbehind"),
            (" / " * 3_000, "at most 4,000 characters"),
        ],
    )
    async def test_a_models_pattern_holds_nothing_up(
        self, house: House, part: str, told: str
    ) -> None:
        bomb = "a" * 10_000 + "!"

        def build_log() -> str:
            """The log of the build."""
            return bomb

        def script(request: Request) -> Message | str:
            results = [message for message in request.messages if message.role == "tool"]
            if not results:
                return calls(call("build_log"))
            if len(results) == 1:
                ref = f"result_{request.messages[-1].content_hash}"
                return calls(call("recall", json.dumps({"ref": ref, "part": part})))
            return "ok"

        began = time.process_time()
        ran = await house.run(
            cascade(phase("a", tackle=["build_log", "recall"])), script, tools=[build_log]
        )
        assert told in shown(ran, 3)[1]
        assert time.process_time() - began < 5

    @pytest.mark.req("CE-31", "CE-32", "CE-33", "CE-47")
    async def test_lie_in_a_file_that_read_file_opens(self, house: House) -> None:
        said: list[str] = []

        def script(request: Request) -> Message | str:
            number = len(said)
            said.append("")
            if number < 2:
                return asks(str(number))
            if number == 2:
                path = re.search(r"chars: (\S+?\.json)\]", results_of(request)[0])
                assert path is not None
                said[0] = path[1]
                return calls(call("read_file", json.dumps({"path": path[1]})))
            if number == 3:
                folder = json.dumps({"folder": str(Path(said[0]).parent)})
                return calls(call("list_files", folder))
            return "ok"

        first = phase("a", tackle=["build_log", "read_file", "list_files"])
        ran = await house.run(cascade(first, auto_context={}), script, tools=[logs()])
        opened, listed = shown(ran, 4)[-1], shown(ran, 5)[-1]
        assert json.loads(opened)["content"] == log("0")
        assert re.fullmatch(r"\S+storage/tool_results/result_[0-9a-f]{16}\.json", said[0])
        assert (house.folder / said[0]).read_text() == opened
        refs = {line.split()[0].rsplit("/", 1)[-1] for line in listed.splitlines()}
        assert Path(said[0]).name in refs
        edits = [edit for edit in ran.store.edits(ran.session) if edit.because == "digest"]
        assert len(refs) <= len(edits)
        assert ran.has_no_damage()

    def test_a_model_is_told_of_recall_in_few_words_and_the_same_ones_everywhere(self) -> None:
        spec = make_tool(recall).spec
        assert spec == RECALL
        for word in ("result_", "lines 10-40", "/regex/", "JSON path"):
            assert word in spec.description
        counter = FamilyCounter("gpt-4o")
        assert counter.tools([spec]) - counter.tools([]) <= 72

    @pytest.mark.req("CE-33")
    async def test_of_another_session_cannot_be_read(self, house: House) -> None:
        first = await house.run(
            cascade(lookup(), auto_context={}), reading("1", "2"), tools=[logs()]
        )
        (file,) = (house.store / "storage" / "tool_results").iterdir()
        path = json.dumps({"path": str(file)})
        near = json.dumps({"path": str(file.relative_to(house.folder))})
        folder = json.dumps({"folder": str(file.parent)})
        every = json.dumps({"pattern": "**/*.json"})
        data = json.dumps({"path": f"store/{FILE}"})
        asked = [
            *(call("read_file", arguments) for arguments in (path, near, data)),
            *(call("list_files", arguments) for arguments in (folder, every)),
        ]
        ran = await house.run(
            cascade(phase("a", tackle=["read_file", "list_files"]), auto_context={}),
            {"a": [calls(*asked), "ok"]},
        )
        assert first.result.status == ran.result.status == "completed"
        refused = shown(ran, 2)
        assert all("not open to tools" in text for text in refused[:4]), refused
        assert "no file" in refused[4]
        assert not any("module_1.py" in text for text in refused)

    @pytest.mark.req("CE-33", "AC-2")
    async def test_come_back_by_recall_and_stay(self, house: House) -> None:
        def script(request: Request) -> Message | str:
            results = results_of(request)
            if len(results) < 2:
                return asks(str(len(results)))
            ref = re.search(r"chars: (result_\w+)\]", results[0])
            if len(results) == 2 and ref:
                return calls(call("recall", json.dumps({"ref": ref[1]})))
            return asks(str(len(results))) if len(results) < 6 else "ok"

        ran = await house.run(cascade(lookup(), auto_context={}), script, tools=[logs()])
        assert shown(ran, 4)[2] == log("0")
        last = shown(ran, -1)
        assert last[2] == log("0")  # never shortened again in the phase
        assert last[0] != log("0")
        assert last[3] != log("3")

    @pytest.mark.req("CE-33")
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ({"part": "/ERROR/"}, "61: ERROR: build 0 failed in module_0.py"),
            ({"part": "2-3"}, "2: b0: step 1 went as it always goes here\n3: b0: step 2"),
            ({"part": "lines 2-3 /step 2/"}, "3: b0: step 2"),
            ({"part": "x"}, "the original is no JSON"),
            ({"part": "/(/"}, "is not a regular expression"),
        ],
    )
    async def test_come_back_in_parts(
        self, house: House, arguments: dict[str, str], told: str
    ) -> None:
        def script(request: Request) -> Message | str:
            results = results_of(request)
            if not results:
                return asks("0")
            if len(results) == 1:
                ref = f"result_{request.messages[-1].content_hash}"
                return calls(call("recall", json.dumps({"ref": ref, **arguments})))
            return "ok"

        ran = await house.run(cascade(lookup(), auto_context={}), script, tools=[logs()])
        assert told in shown(ran, 3)[1]

    @pytest.mark.req("CE-33")
    async def test_a_json_original_is_recalled_by_path(self, house: House) -> None:
        def find() -> dict[str, Any]:
            """Find."""
            return {"results": [{"title": "one"}, {"title": "two"}]}

        def script(request: Request) -> Message | str:
            results = results_of(request)
            if not results:
                return calls(call("find"))
            if len(results) == 1:
                ref = f"result_{request.messages[-1].content_hash}"
                return calls(
                    call("recall", json.dumps({"ref": ref, "part": "results[1].title"})),
                    call("recall", json.dumps({"ref": ref, "part": "results[9]"})),
                )
            return "ok"

        ran = await house.run(
            cascade(phase("a", tackle=["find"]), auto_context={}), script, tools=[find]
        )
        found, missing = shown(ran, 3)[1:]
        assert found == "two"
        assert "no 9 at results, a list of 2" in missing

    async def test_an_unknown_reference_names_the_known_ones(self, house: House) -> None:
        ran = await house.run(
            cascade(lookup(), auto_context={}),
            {"a": [asks("1"), calls(call("recall", '{"ref": "result_0"}')), "ok"]},
            tools=[logs()],
        )
        (stored, _) = ran.rows(NodeType.TOOL_RESULT)
        assert stored.row.message is not None
        assert f"known: result_{stored.row.message.content_hash[:8]}" in shown(ran, 3)[1]

    @pytest.mark.req("AC-2")
    async def test_recall_of_an_answer_gives_its_calls_too(self, house: House) -> None:
        wrote = calls(call("set_state", '{"key": "k", "value": "long"}'), text="I keep it.")
        ref = json.dumps({"ref": f"result_{wrote.content_hash}"})
        ran = await house.run(
            cascade(phase("a", tackle=["set_state", "recall"])),
            {"a": [wrote, calls(call("recall", ref)), "ok"]},
        )
        assert shown(ran, 3)[1] == 'I keep it.\nset_state({"key": "k", "value": "long"})'

    async def test_recall_of_a_source_that_expired(self, house: House) -> None:
        long = "word " * 400

        def script(request: Request) -> Message | str:
            texts = [message.text for message in request.messages]
            if texts[-1] == "Do a.":
                return long
            found = next((ref for text in texts if (ref := _ref(text))), None)
            if found and not any(message.tool_calls for message in request.messages[-2:-1]):
                return "ok"
            if found:
                return calls(call("recall", json.dumps({"ref": found})))
            return calls(call("set_state", '{"key": "k", "value": "v"}'))

        second = phase(
            "b", context={"from": ["a"]}, tackle=["set_state", "recall"], context_ttl={"user": 1}
        )
        ran = await house.run(cascade(phase("a"), second), script)
        assert "known:" not in "".join(shown(ran, -1, "b"))
        assert long.strip() in shown(ran, -1, "b")[-1]
