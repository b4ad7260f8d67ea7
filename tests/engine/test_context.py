"""What a phase sees, as the context-injection document says it: the messages that are sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.harness import House, asked_by, call, calls, cascade, phase
from tests.support.engine_context import BLUE, GREEN, RED, draw, look_up, url
from windlass.engine.events import Noted
from windlass.errors import StoreError
from windlass.history.base import NodeType, StoredRow
from windlass.history.row_details import json_of
from windlass.history.sqlite import SqliteStore
from windlass.messages import assistant
from windlass.text.pictures import picture
from windlass.tools.base import ToolContext
from windlass.wire.base import Request
from windlass.wire.openai import to_openai


def note(context: ToolContext, key: str, value: str) -> str:
    """Keep a value."""
    context.state[key] = value
    return "kept"


TOOLS = (draw, look_up, note)


def draws(*colours: str) -> list[Any]:
    """Replies of a phase that draws, one call a turn, and then says so."""
    asked = [calls(call("draw", json.dumps({"colour": colour}))) for colour in colours]
    return [*asked, "drawn"]


def drawing(name: str = "a", **keys: Any) -> dict[str, Any]:
    return phase(name, tackle=["draw"], **keys)


class TestSnowball:
    @pytest.mark.req("CI-1", "CI-30", "CI-41", "CA-11")
    @pytest.mark.parametrize("keys", [{}, {"context_strategy": "full"}])
    async def test_all_that_was_said_flows_on_with_one_system_prompt_in_front(
        self, house: House, keys: dict[str, Any]
    ) -> None:
        ran = await house.run(cascade(phase("a"), phase("b"), phase("c", **keys), system="Be."))
        assert ran.chat("c") == [
            {"role": "system", "content": "Be."},
            {"role": "user", "content": "Do a."},
            {"role": "assistant", "content": "ok a"},
            {"role": "user", "content": "Do b."},
            {"role": "assistant", "content": "ok b"},
            {"role": "user", "content": "Do c."},
        ]

    @pytest.mark.req("CI-1")
    async def test_tool_pairs_and_pictures_flow_on(self, house: House) -> None:
        ran = await house.run(cascade(drawing(), phase("b")), {"a": draws("red")}, tools=TOOLS)
        roles = [message["role"] for message in ran.chat("b")]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]
        assert url(RED) in ran.chat("b")[2]["content"]

    @pytest.mark.req("CI-30", "CA-32")
    async def test_a_snowball_keeps_its_prefix_from_phase_to_phase(self, house: House) -> None:
        ran = await house.run(cascade(phase("a"), phase("b"), system="Be."))
        before, after = ran.request("a"), ran.request("b")
        assert after.messages[: len(before.messages)] == before.messages
        prefixes = [recorded.details.as_json()["prefix"] for recorded in ran.calls()]
        assert [prefix["new_prefix"] for prefix in prefixes] == [False, False]
        assert prefixes[1]["shared_tokens"] == ran.calls()[0].sent_tokens

    @pytest.mark.req("CA-32")
    async def test_a_phases_own_system_prompt_and_tools_start_a_new_prefix(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(
                phase("a"),
                phase("b", system="Be b."),
                phase("c", system="Be b.", tackle=["look_up"]),
                system="Be.",
            ),
            tools=TOOLS,
        )
        assert [ran.seen(name)[0] for name in "abc"] == [
            ("system", "Be."),
            ("system", "Be b."),
            ("system", "Be b."),
        ]
        assert [role for role, _ in ran.seen("c")].count("system") == 1
        assert [spec.name for spec in ran.request("c").tools] == ["look_up"]
        broken = [recorded.details.as_json()["prefix"]["broken_by"] for recorded in ran.calls()]
        assert broken == [None, "message 0", "tools"]
        told = [json_of(stored.row)["new_prefix"] for stored in ran.rows(NodeType.SYSTEM)]
        assert told == [False, True, True]

    async def test_what_a_snowball_would_have_sent_is_what_a_snowball_sends(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(drawing(), phase("b"), phase("c", tackle=["look_up"]), system="Be."),
            {"a": draws("red"), "c": [calls(call("look_up")), "found"]},
            tools=TOOLS,
        )
        for recorded, request in zip(ran.calls(), ran.model.requests, strict=True):
            assert recorded.full_tokens == recorded.sent_tokens, request
        assert ran.result.saved == 0
        sent = sum(recorded.sent_tokens for recorded in ran.calls())
        assert sent == ran.result.usage.tokens_in


class TestSelective:
    @pytest.mark.req("CI-2", "CI-3", "CI-6", "CI-8", "CI-10", "CI-11", "CI-29")
    async def test_input_then_injections_then_instructions_behind_the_system_prompt(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(drawing(), phase("b"), phase("c", context={"from": ["a"]}), system="Be."),
            {"a": draws("red")},
            {"x": 1},
            tools=TOOLS,
        )
        images = [{"type": "text", "text": "[Images from a]:"}, url(RED)]
        assert ran.chat("c") == [
            {"role": "system", "content": "Be."},
            {"role": "user", "content": '[Original Input]:\n{\n  "x": 1\n}'},
            {"role": "user", "content": images},
            {"role": "user", "content": "[Output from a]:\ndrawn"},
            {"role": "user", "content": "Do c."},
        ]

    @pytest.mark.req("CI-4", "CI-7")
    async def test_sources_stand_in_the_order_written(self, house: House) -> None:
        wanted = [{"phase": "b", "include": ["output"]}, "a"]
        ran = await house.run(
            cascade(phase("a"), phase("b"), phase("c", context={"from": wanted})), None, {"x": 1}
        )
        texts = [text for _, text in ran.seen("c")]
        assert texts[1:] == ["[Output from b]:\nok b", "[Output from a]:\nok a", "Do c."]

    @pytest.mark.req("CI-9")
    @pytest.mark.parametrize(
        ("include", "heads"),
        [
            (None, ["[Images from a]:", "[Output from a]:\ndrawn"]),
            (["output", "images"], ["[Output from a]:\ndrawn", "[Images from a]:"]),
        ],
    )
    async def test_parts_of_a_source_follow_include_and_pictures_share_a_message(
        self, house: House, include: Any, heads: list[str]
    ) -> None:
        source = {"phase": "a"} | ({} if include is None else {"include": include})
        ran = await house.run(
            cascade(drawing(), phase("b", context={"from": [source]})),
            {"a": draws("red", "blue")},
            {"x": 1},
            tools=TOOLS,
        )
        assert [text for _, text in ran.seen("b")][1:-1] == heads
        images = next(m for m in ran.chat("b") if isinstance(m["content"], list))
        assert images["content"][1:] == [url(RED), url(BLUE)]

    @pytest.mark.req("CI-11")
    async def test_the_output_is_the_last_text_the_phase_said(self, house: House) -> None:
        replies = ["not this", calls(call("look_up"), text="but this"), calls(call("look_up"))]
        ran = await house.run(
            cascade(
                phase("a", tackle=["look_up"], rules={"max_turns": 2}),
                phase("b", context={"from": ["a"], "include_input": False}),
            ),
            {"a": replies[1:]},
            tools=TOOLS,
        )
        told = "[Output from a, status: incomplete]:\nbut this"
        told += "\n\n[Result of look_up()]:\nx means something"
        assert ran.seen("b") == [("user", told), ("user", "Do b.")]
        assert ran.result.outputs["a"] == "but this"

    @pytest.mark.req("CI-11")
    async def test_a_phase_without_a_word_is_skipped_and_that_is_recorded(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(
                phase("a", tackle=["look_up"], rules={"max_turns": 1}),
                phase("b", context={"from": ["a"], "include_input": False}),
            ),
            {"a": [calls(call("look_up"))]},
            tools=TOOLS,
        )
        assert ran.seen("b") == [("user", "Do b.")]
        (skipped,) = ran.decisions("source skipped")
        assert "'a' skipped: the phase said no text" in skipped["text"]

    @pytest.mark.req("CI-12", "CI-60")
    async def test_messages_are_the_whole_conversation_with_its_roles_calls_and_results(
        self, house: House
    ) -> None:
        ran = await house.run(
            cascade(
                phase("a", tackle=["look_up"]),
                phase("b", context={"from": [{"phase": "a", "include": ["messages"]}]}),
            ),
            {"a": [calls(call("look_up", '{"word": "keel"}', id_="c1"), text="Hm."), "A beam."]},
            {"x": 1},
            tools=TOOLS,
        )
        function = {"name": "look_up", "arguments": '{"word": "keel"}'}
        asked = [{"id": "c1", "type": "function", "function": function}]
        found = "keel means something"
        assert ran.chat("b")[1:] == [
            {"role": "user", "content": "[Conversation from a]:"},
            {"role": "user", "content": "Do a."},
            {"role": "assistant", "content": "Hm.", "tool_calls": asked},
            {"role": "tool", "content": found, "tool_call_id": "c1", "name": "look_up"},
            {"role": "assistant", "content": "A beam."},
            {"role": "user", "content": "Do b."},
        ]

    @pytest.mark.req("CI-13")
    async def test_state_is_what_that_phase_set_as_json(self, house: House) -> None:
        def sets(key: str) -> list[Any]:
            return [calls(call("note", json.dumps({"key": key, "value": key.upper()}))), "ok"]

        ran = await house.run(
            cascade(
                phase("a", tackle=["note"]),
                phase("b", tackle=["note"]),
                phase("c", context={"from": [{"phase": "b", "include": ["state"]}]}),
            ),
            {"a": sets("one"), "b": sets("two")},
            {"x": 1},
            tools=TOOLS,
        )
        assert ran.seen("c")[1] == ("user", '[State from b]:\n{\n  "two": "TWO"\n}')
        assert len(ran.seen("c")) == 3

    @pytest.mark.req("CI-14", "CI-15")
    @pytest.mark.parametrize(
        ("options", "shown"),
        [
            ({}, [RED, BLUE, GREEN]),
            ({"images_filter": "last"}, [GREEN]),
            ({"images_filter": "last_n"}, [GREEN]),
            ({"images_filter": "last_n", "images_count": 2}, [BLUE, GREEN]),
        ],
    )
    async def test_pictures_are_filtered(
        self, house: House, options: dict[str, Any], shown: list[bytes]
    ) -> None:
        source = {"phase": "a", "include": ["images"], **options}
        ran = await house.run(
            cascade(drawing(), phase("b", context={"from": [source]})),
            {"a": draws("red", "blue", "green")},
            {"x": 1},
            tools=TOOLS,
        )
        assert ran.chat("b")[1]["content"][1:] == [url(data) for data in shown]

    @pytest.mark.req("CI-16", "CI-17", "CI-60")
    async def test_messages_are_filtered(self, house: House) -> None:
        replies = [
            calls(call("look_up", '{"word": "keel"}'), text="First."),
            calls(call("look_up", '{"word": "mast"}')),
            "Last.",
        ]

        def replayed(name: str, option: dict[str, str]) -> dict[str, Any]:
            source = {"phase": "a", "include": ["messages"], **option}
            return phase(name, context={"from": [source], "include_input": False})

        ran = await house.run(
            cascade(
                phase("a", tackle=["look_up"]),
                replayed("b", {"filter": "assistant_only"}),
                replayed("c", {"messages_filter": "last_turn"}),
            ),
            {"a": replies},
            tools=TOOLS,
        )
        words = ran.seen("b")
        assert [role for role, _ in words[1:-1]] == ["assistant"] * 3
        assert words[1][1] == 'First.\n[Called look_up(word="keel") -> 20 characters]'
        assert words[3][1] == "Last."
        assert not any(message.tool_calls for message in ran.request("b").messages)
        roles = [role for role, _ in ran.seen("c")]
        assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]
        assert ("user", "Do a.") not in ran.seen("c")

    @pytest.mark.req("CI-16")
    async def test_the_last_turn_goes_back_to_the_user_message_before_it(
        self, house: House
    ) -> None:
        answers = iter([False, True])
        source = {"phase": "a", "include": ["messages"], "filter": "last_turn"}
        ran = await house.run(
            cascade(
                phase("a", rules={"loop_until": "judge_it"}),
                phase("b", context={"from": [source], "include_input": False}),
            ),
            {"a": ["bad", "good"]},
            tools=[_named("judge_it", lambda output: next(answers))],
        )
        heads = ("user", "[Conversation from a]:"), ("assistant", "good"), ("user", "Do b.")
        assert tuple(ran.seen("b")) == heads

    @pytest.mark.req("CI-18")
    async def test_as_role_sets_the_role_of_told_text_only(self, house: House) -> None:
        source = {"phase": "a", "include": ["images", "output", "messages", "state"]}
        context = {"from": [source | {"as_role": "system"}], "include_input": False}
        note_call = calls(call("note", '{"key": "k", "value": "v"}'))
        replies = [note_call, *draws("red")]
        parts = cascade(phase("a", tackle=["draw", "note"]), phase("b", context=context))
        ran = await house.run(parts, {"a": replies}, tools=TOOLS)
        roles = [role for role, _ in ran.seen("b")]
        replay = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
        assert roles == ["user", "system", "system", *replay, "system", "user"]

        # A provider that takes a system prompt in the first place only.
        other = await house.run(
            parts, {"a": replies}, tools=TOOLS, model={"system_anywhere": False}
        )
        assert "system" not in [role for role, _ in other.seen("b")]
        assert [text for _, text in other.seen("b")] == [text for _, text in ran.seen("b")]
        marked = [
            json_of(stored.row).get("as_role")
            for stored in other.rows(NodeType.CONTEXT_INJECTION, phase="b")
        ]
        assert marked == [None, *["system, sent as user"] * 3]

    @pytest.mark.req("CI-19")
    @pytest.mark.parametrize(
        ("condition", "taken"),
        [
            ("{{ input.want }}", True),
            ("{{ input.want == 'no' }}", False),
            ("{{ state.k }}", True),
            ("{{ state.never_set }}", False),
            ("{{ 'ok' in outputs.a }}", True),
            (" NO ", False),
        ],
    )
    @pytest.mark.parametrize("spelling", ["if", "condition"])
    async def test_a_condition_decides_over_input_state_and_outputs(
        self, house: House, spelling: str, condition: str, taken: bool
    ) -> None:
        source = {"phase": "a", spelling: condition}
        ran = await house.run(
            cascade(phase("a", tackle=["note"]), phase("b", context={"from": [source]})),
            {"a": [calls(call("note", '{"key": "k", "value": "v"}')), "ok"]},
            {"want": "yes"},
            tools=TOOLS,
        )
        told = '[Output from a]:\nok\n\n[Result of note(key="k", value="v")]:\nkept'
        assert (("user", told) in ran.seen("b")) is taken
        skipped = [told["text"] for told in ran.decisions("source skipped")]
        assert bool(skipped) is not taken
        assert all("its condition" in text and "is false" in text for text in skipped)

    @pytest.mark.req("CI-19")
    async def test_an_error_in_a_condition_fails_the_phase_with_file_and_line(
        self, house: House
    ) -> None:
        file = house.folder / "wrong.yaml"
        file.write_text(
            "cascade_id: c\nphases:\n- {name: a, instructions: Do a.}\n"
            "- name: b\n  instructions: Do b.\n  context:\n    from:\n"
            "    - phase: a\n      if: '{{ 1 // (state.nothing | length) }}'\n",
            encoding="utf-8",
        )
        ran = await house.run(file)
        assert ran.result.status == "failed"
        assert f"{file}:8, phases[1].context.from[0]" in str(ran.result.error)
        assert ran.requests("b") == []

    @pytest.mark.req("CI-20", "CI-22")
    @pytest.mark.parametrize(
        ("context", "seen"),
        [
            ({"from": []}, ['[Original Input]:\n{\n  "x": 1\n}', "Do b."]),
            ({"from": [], "include_input": False}, ["Do b."]),
        ],
    )
    async def test_a_clean_slate_has_nothing_but_the_input(
        self, house: House, context: dict[str, Any], seen: list[str]
    ) -> None:
        ran = await house.run(cascade(phase("a"), phase("b", context=context)), None, {"x": 1})
        assert [text for _, text in ran.seen("b")] == seen

    @pytest.mark.req("CI-31")
    async def test_one_phase_twice_with_other_filters_is_two_messages(self, house: House) -> None:
        wanted = [
            {"phase": "a", "include": ["images"], "images_filter": "last"},
            {"phase": "a", "include": ["output"]},
        ]
        ran = await house.run(
            cascade(drawing(), phase("b", context={"from": wanted, "include_input": False})),
            {"a": draws("red", "blue")},
            tools=TOOLS,
        )
        assert ran.chat("b")[0]["content"][1:] == [url(BLUE)]
        assert ran.chat("b")[1]["content"] == "[Output from a]:\ndrawn"

    @pytest.mark.req("CI-34")
    async def test_no_picture_is_injected_twice(self, house: House) -> None:
        wanted = [{"phase": "a", "include": ["images"]}] * 2
        wanted += [{"phase": "a", "include": ["messages"]}]
        ran = await house.run(
            cascade(drawing(), phase("b", context={"from": wanted})),
            {"a": draws("red", "red", "blue")},
            tools=TOOLS,
        )
        shown = [p.sha256 for message in ran.request("b").messages for p in message.pictures]
        assert len(shown) == len(set(shown)) == 2
        assert "in this window already" in ran.decisions("source skipped")[0]["text"]

    @pytest.mark.req("AC-67")
    async def test_exclude_takes_phases_out_of_all(self, house: House) -> None:
        context = {"from": ["all"], "exclude": ["b"], "include_input": False}
        ran = await house.run(
            cascade(phase("a"), phase("b"), phase("c"), phase("d", context=context))
        )
        assert [text for _, text in ran.seen("d")] == [
            "[Output from a]:\nok a",
            "[Output from c]:\nok c",
            "Do d.",
        ]


class TestSkipping:
    @pytest.mark.req("CI-32")
    async def test_a_phase_that_did_not_run_is_skipped_said_and_recorded(
        self, house: House
    ) -> None:
        context = {"from": ["a", "b"], "include_input": False}
        ran = await house.run(
            cascade(
                phase("pick", handoffs=["a", "b"]),
                phase("a", handoffs=["c"]),
                phase("b", handoffs=["c"]),
                phase("c", context=context),
            ),
            {"pick": ["b"]},
        )
        assert ran.result.status == "completed"
        assert ran.seen("c") == [("user", "[Output from b]:\nok b"), ("user", "Do c.")]
        (skipped,) = ran.decisions("source skipped")
        assert skipped["text"] == "source 'a' skipped: the phase did not run"
        assert skipped["place"] == "phases[3].context.from[0]"
        assert skipped["text"] in [e.text for e in ran.events if isinstance(e, Noted)]


class TestInject:
    @pytest.mark.req("CI-23", "CI-24", "CI-30")
    async def test_injections_stand_before_the_snowball_or_before_the_instructions(
        self, house: House
    ) -> None:
        source = {"phase": "a", "include": ["images"], "images_filter": "last"}
        ran = await house.run(
            cascade(
                drawing(context_retention="output_only"),
                phase("b"),
                phase("c", inject_from=[source]),
                phase("d", inject_from=[source], position="end"),
                system="Be.",
            ),
            {"a": draws("red", "blue")},
            tools=TOOLS,
        )
        images = "[Images from a]:"
        said = ["drawn", "Do b.", "ok b"]
        assert [text for _, text in ran.seen("c")] == ["Be.", images, *said, "Do c."]
        more = [*said, "Do c.", "ok c"]
        assert [text for _, text in ran.seen("d")] == ["Be.", *more, images, "Do d."]
        assert ran.chat("c")[1]["content"][1:] == [url(BLUE)]

    @pytest.mark.req("CI-24")
    async def test_the_record_states_what_both_places_cost(self, house: House) -> None:
        source = {"phase": "a", "include": ["output"]}
        ran = await house.run(
            cascade(
                phase("a", tackle=["look_up"]),
                phase("b"),
                phase("c", inject_from=[source], position="start"),
                phase("d", inject_from=[source], position="end"),
            ),
            {"a": [calls(call("look_up")), "ok a"]},
            tools=TOOLS,
        )
        first, second, third, at_start, at_end = ran.calls()
        assert "position" not in third.details.as_json()
        figures = at_start.details.as_json()
        told = figures["position"]
        assert told["chosen"] == "start"
        assert told["start"]["tokens"] == told["end"]["tokens"] == at_start.sent_tokens
        # At the end, all of the request before still stands; in front, only the tools do.
        assert told["end"]["shared_tokens"] == third.sent_tokens
        assert told["start"]["shared_tokens"] == figures["prefix"]["shared_tokens"]
        assert told["start"]["shared_tokens"] < told["end"]["shared_tokens"]
        told = at_end.details.as_json()["position"]
        assert told["chosen"] == "end"
        assert told["end"]["shared_tokens"] == at_end.details.as_json()["prefix"]["shared_tokens"]
        del first, second

    @pytest.mark.req("CI-34")
    async def test_what_the_injection_shows_is_told_in_the_snowball(self, house: House) -> None:
        source = {"phase": "a", "include": ["messages"]}
        ran = await house.run(
            cascade(drawing(), phase("b"), phase("c", inject_from=[source])),
            {"a": draws("red")},
            tools=TOOLS,
        )
        messages = ran.request("c").messages
        assert sum(len(message.pictures) for message in messages) == 1
        ids = [made.id for message in messages for made in message.tool_calls]
        assert len(ids) == len(set(ids)) == 1


class TestTheRecord:
    @pytest.mark.req("CI-5")
    async def test_sources_are_read_from_the_record(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # What the record says is changed behind the run's back, not what it has in memory.
        read = SqliteStore.rows

        def rewritten(store: SqliteStore, session: str, **options: Any) -> Iterator[StoredRow]:
            for stored in read(store, session, **options):
                if stored.row.message == assistant("ok a"):
                    told = replace(stored.row, message=assistant("from the record"))
                    yield replace(stored, row=told)
                else:
                    yield stored

        source = {"phase": "a", "include": ["output", "messages"]}
        instructions = "Do b. {{ outputs.a }}"
        ran = await house.run(
            cascade(
                phase("a"),
                {**phase("b", context={"from": [source]}), "instructions": instructions},
                phase("c"),
            ),
            before={"b": lambda: monkeypatch.setattr(SqliteStore, "rows", rewritten)},
        )
        texts = [text for _, text in ran.seen("b")]
        assert "[Output from a]:\nfrom the record" in texts
        assert texts.count("from the record") == 1
        assert "Do b. from the record" in texts
        assert ("assistant", "from the record") in ran.seen("c")

    @pytest.mark.req("CI-35")
    async def test_a_picture_is_read_when_a_provider_writes_it_and_not_before(
        self, house: House
    ) -> None:
        """Its file holds other bytes but while a request that shows it is written."""
        away: list[tuple[Path, Path]] = []

        def take() -> None:
            for folder in ("blobs", "images"):
                for path in list((house.store / folder).rglob("*")):
                    if path.is_file():
                        aside = house.folder / f"away_{len(away)}"
                        away.append((path, path.rename(aside)))
                        path.write_bytes(b"no picture")

        def put_back() -> None:
            while away:
                path, aside = away.pop()
                aside.replace(path)

        shows: dict[str, int] = {}

        def script(request: Request) -> Any:
            pictures = [part for message in request.messages for part in message.pictures]
            assert all(picture.data is None for picture in pictures)
            shows[asked_by(request)] = len(pictures)
            if pictures and away:
                assert request.load
                with pytest.raises(StoreError):
                    request.load(pictures[0].sha256)
                put_back()
            wire = [to_openai(message, request.load) for message in request.messages]
            assert json.dumps(wire).count("data:image/png;base64,") == len(pictures)
            return calls(call("draw")) if request.messages[-1].text == "Do a." else "drawn"

        ran = await house.run(
            cascade(
                drawing(),
                phase("b", context={"from": []}),
                phase("c", context={"from": [{"phase": "a", "include": ["output"]}]}),
                phase("d", context={"from": ["a"]}),
                phase("e"),
            ),
            script,
            tools=TOOLS,
            before={"b": take, "e": take},
        )
        assert (ran.result.status, ran.result.error) == ("completed", None)
        assert {name: shows[name] for name in "bcde"} == {"b": 0, "c": 0, "d": 1, "e": 1}

    @pytest.mark.req("CI-36")
    async def test_a_phases_pictures_are_files_of_its_folder(self, house: House) -> None:
        ran = await house.run(cascade(drawing()), {"a": draws("red", "blue")}, tools=TOOLS)
        folder = house.store / "images" / ran.session / "a"
        files = sorted(folder.iterdir())
        assert [file.name for file in files] == ["image_0.png", "image_1.png"]
        assert [file.read_bytes() for file in files] == [RED, BLUE]

    @pytest.mark.req("CI-38", "CI-39")
    async def test_outputs_and_phases_stand_in_the_record(self, house: House) -> None:
        ran = await house.run(cascade(phase("a"), phase("b")))
        sql = "SELECT phase, output FROM lineage WHERE phase IS NOT NULL"
        told = [{"phase": name, "output": f"ok {name}"} for name in "ab"]
        assert ran.store.query(sql) == told
        phases = [(stored.row.phase, stored.row.turn) for stored in ran.rows(NodeType.AGENT)]
        assert phases == [("a", 1), ("b", 1)]
        assert all(stored.row.phase for stored in ran.rows())

    @pytest.mark.req("CI-39")
    async def test_each_message_has_its_phase_turn_and_attempt(self, house: House) -> None:
        def good(output: str) -> Mapping[str, Any]:
            """Want a good one."""
            return {"valid": output == "good", "reason": "no"}

        ran = await house.run(
            cascade(
                phase("a", tackle=["look_up"], rules={"loop_until": "good", "max_attempts": 2}),
                phase("b", context={"from": ["a"]}),
            ),
            {"a": [calls(call("look_up")), "bad", calls(call("look_up")), "good"]},
            {"x": 1},
            tools=[look_up, good],
        )
        told = ran.store.query(
            "SELECT node_type, phase_name, turn_number, attempt_number FROM unified_logs"
            " WHERE content_hash IS NOT NULL"
        )
        assert [tuple(row.values()) for row in told] == [
            ("user", "a", 0, 1),
            ("agent", "a", 1, 1),
            ("tool_result", "a", 1, 1),
            ("follow_up", "a", 2, 1),
            ("user", "a", 2, 2),
            ("agent", "a", 3, 2),
            ("tool_result", "a", 3, 2),
            ("follow_up", "a", 4, 2),
            ("context_injection", "b", 0, None),
            ("context_injection", "b", 0, None),
            ("user", "b", 0, 1),
            ("agent", "b", 1, 1),
        ]

    @pytest.mark.req("AC-30")
    async def test_nothing_that_a_window_leaves_out_is_missing_from_the_record(
        self, house: House
    ) -> None:
        long = "word " * 400
        ran = await house.run(
            cascade(
                phase("a", tackle=["tell"], context_ttl={"tool_results": 1}),
                phase("b", context={"from": []}, context_retention="output_only"),
                phase("c", context_strategy="sliding", max_input_tokens=20),
            ),
            {"a": [calls(call("tell")), calls(call("tell"), text="Once more."), "done"]},
            tools=[_named("tell", lambda: long)],
        )
        said = [m for r in ran.model.requests for m in r.messages]
        assert any("expired" in message.text for message in said)
        results = ran.rows(NodeType.TOOL_RESULT)
        assert [stored.row.message.text for stored in results if stored.row.message] == [long] * 2
        agents = ran.rows(NodeType.AGENT, NodeType.FOLLOW_UP)
        assert [stored.row.phase for stored in agents] == ["a", "a", "a", "b", "c"]
        assert len(ran.store.edits(ran.session)) == 1
        # What each call saw can be made again, byte for byte.
        for view, request in zip(
            [view for name in "abc" for view in ran.views(name)], ran.model.requests, strict=True
        ):
            assert tuple(seen.message for seen in view.seen) == request.messages
        assert ran.has_no_damage()

    @pytest.mark.req("CI-59", "CA-30")
    async def test_what_was_not_carried_is_visible_in_tokens(self, house: House) -> None:
        ran = await house.run(
            cascade(drawing(), phase("b", context={"from": [], "include_input": False})),
            {"a": draws("red")},
            tools=TOOLS,
        )
        recorded = ran.calls()[-1]
        assert recorded.full_tokens - recorded.sent_tokens > 255  # the picture alone
        (row,) = ran.rows(NodeType.AGENT, phase="b")
        assert row.row.tokens_saved == recorded.full_tokens - recorded.sent_tokens
        assert ran.result.saved == row.row.tokens_saved
        assert (row.row.context_size, row.row.full_history_size) == (1, 5)

    async def test_why_each_message_is_there_is_recorded(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a"), phase("b", inject_from=["a"]), system="Be."), None, {"x": 1}
        )
        (view,) = ran.views("b")
        assert [(seen.role, seen.reason) for seen in view.seen] == [
            ("system", "the system prompt"),
            ("user", "output of a"),
            ("user", "snowball: said in a"),
            ("assistant", "snowball: said in a"),
            ("user", "said in this phase"),
        ]


class TestTemplates:
    @pytest.mark.req("CI-40", "CA-14")
    async def test_instructions_see_input_state_and_outputs(self, house: House) -> None:
        asked = (
            "Do b. {{ input.x }} {{ state.k }} {{ outputs.a }} {{ outputs.a.state.k }}"
            " {{ outputs.a.images | join }} {{ outputs.a.tool_results.look_up }}"
        )
        replies = [
            calls(call("note", '{"key": "k", "value": "v"}')),
            calls(call("look_up", '{"word": "keel"}')),
            calls(call("draw")),
            "said",
        ]
        ran = await house.run(
            cascade(
                phase("a", tackle=["note", "draw", "look_up"]),
                {**phase("b", context={"from": []}), "instructions": asked},
            ),
            {"a": replies},
            {"x": "in"},
            tools=TOOLS,
        )
        told = "Do b. in v said v draw.png, 2x3 keel means something"
        assert ran.seen("b")[-1] == ("user", told)

    @pytest.mark.req("CA-14")
    async def test_a_stored_result_is_injected_by_its_reference(self, house: House) -> None:
        long = "word " * 400
        tell = _named("tell", lambda: long)
        first = await house.run(
            cascade(phase("a", tackle=["tell"])),
            {"a": [calls(call("tell", id_="c1")), "ok"]},
            tools=[tell],
        )
        (stored,) = first.rows(NodeType.TOOL_RESULT)
        assert stored.row.message is not None
        ref = f"result_{stored.row.message.content_hash}"
        asked = {**phase("b", context={"from": []})}
        asked["instructions"] = "Do b. {{ outputs.a.tool_results." + ref + " }}"
        ran = await house.run(
            cascade(phase("a", tackle=["tell"]), asked),
            {"a": [calls(call("tell", id_="c1")), "ok"]},
            tools=[tell],
        )
        assert ran.seen("b")[-1] == ("user", f"Do b. {long}")

    async def test_instructions_that_come_to_nothing_fail_the_phase(self, house: House) -> None:
        ran = await house.run(
            cascade({"name": "a", "instructions": "{{ input.x }}"}), None, {"x": " "}
        )
        assert "renders to nothing" in str(ran.result.error)
        assert ran.model.requests == []

    async def test_a_system_prompt_that_comes_to_nothing_is_none(self, house: House) -> None:
        ran = await house.run(
            cascade(phase("a"), system="{% if input.x %}Be.{% endif %}"), None, {"x": 0}
        )
        assert ran.seen("a") == [("user", "Do a.")]


class TestStrategies:
    @pytest.mark.req("CA-9", "CA-10")
    @pytest.mark.parametrize(
        ("strategy", "seen"),
        [
            ("fresh", ["Be.", '[Original Input]:\n{\n  "x": 1\n}', "Do c."]),
            ("minimal", ["Be.", "[Output from b]:\nok b", "Do c."]),
        ],
    )
    async def test_are_shorthands(self, house: House, strategy: str, seen: list[str]) -> None:
        ran = await house.run(
            cascade(phase("a"), phase("b"), phase("c", context_strategy=strategy), system="Be."),
            None,
            {"x": 1},
        )
        assert [text for _, text in ran.seen("c")] == seen

    @pytest.mark.req("CA-12")
    async def test_sliding_keeps_the_newest_whole_turns_that_fit(self, house: House) -> None:
        names = [f"p{number}" for number in range(8)]
        last = phase("z", context_strategy="sliding", max_input_tokens=63)
        ran = await house.run(
            cascade(*(phase(name) for name in names), last, system="Be."),
        )
        sent = [text for _, text in ran.seen("z")]
        kept = (len(sent) - 2) // 2
        assert 0 < kept < len(names)
        tail = [text for name in names[-kept:] for text in (f"Do {name}.", f"ok {name}")]
        assert sent == ["Be.", *tail, "Do z."]
        recorded = ran.calls()[-1]
        assert recorded.sent_tokens <= 63 < recorded.full_tokens

    @pytest.mark.req("CA-12")
    async def test_sliding_ends_at_a_turn_that_is_too_large(self, house: House) -> None:
        last = phase("z", context_strategy="sliding", max_input_tokens=63)
        ran = await house.run(
            cascade(phase("a"), phase("b"), phase("c"), last), {"b": ["word " * 100]}
        )
        assert [text for _, text in ran.seen("z")] == ["Do c.", "ok c", "Do z."]

    @pytest.mark.req("CA-12")
    async def test_sliding_takes_a_share_of_the_window_where_no_limit_is_set(
        self, house: House
    ) -> None:
        long = "word " * 450
        last = phase("z", context_strategy="sliding")
        ran = await house.run(
            cascade(phase("a"), phase("b"), phase("c"), last, max_output_tokens=16),
            {"a": [long], "b": [long], "c": [long]},
            model={"window": 2_100},
        )
        recorded = ran.calls()[-1]
        assert recorded.sent_tokens <= 0.6 * 2_100 < recorded.full_tokens < 2_100 - 16
        assert ran.seen("z")[0][1] == "Do b."

    async def test_sliding_never_begins_in_the_middle_of_a_loop_of_calls(
        self, house: House
    ) -> None:
        long = "word " * 40
        ran = await house.run(
            cascade(
                phase("a", tackle=["tell"]),
                *(
                    phase(f"z{limit}", context_strategy="sliding", max_input_tokens=limit)
                    for limit in range(60, 330, 30)
                ),
            ),
            {"a": [calls(call("tell")), calls(call("tell")), calls(call("tell")), "done"]},
            tools=[_named("tell", lambda: long)],
        )
        assert ran.result.status == "completed"
        for request in ran.model.requests:
            assert request.messages[0].role == "user"


def _named(name: str, function: Any) -> Any:
    """The function under a tool's name."""
    function.__name__ = name
    function.__annotations__ = {"output": str, "return": Any}
    return function


def test_the_pictures_of_these_tests_differ() -> None:
    assert len({picture(data).sha256 for data in (RED, BLUE, GREEN)}) == 3
