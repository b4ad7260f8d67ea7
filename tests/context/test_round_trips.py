"""Lists with every kind of part: the same in their own form; in another all is there or told."""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass
from tests.strategies import png
from tests.validators import anthropic as anthropic_rules
from tests.validators import gemini as gemini_rules
from tests.validators import openai as openai_rules
from tests.validators import responses as responses_rules
from windlass.errors import SequenceError

PNG = base64.b64encode(png(2, 3)).decode()
PDF = "JVBERi0="
URL = f"data:image/png;base64,{PNG}"
Objects = list[dict[str, Any]]


def _chat(draw: st.DrawFn, turn: int) -> Objects:
    said = draw(
        st.lists(
            st.sampled_from(
                [
                    {"type": "text", "text": f"words {turn}"},
                    {"type": "image_url", "image_url": {"url": URL}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                    {"type": "file", "file": {"file_id": f"file_{turn}"}},
                    {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}},
                ]
            ),
            min_size=1,
            max_size=3,
        )
    )
    user = {"role": "user", "content": said}
    calls = [
        {"id": f"c{turn}{at}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for at in range(draw(st.integers(0, 2)))
    ]
    words: Any = draw(st.sampled_from([f"reply {turn}", [{"type": "refusal", "refusal": "no"}]]))
    reply: dict[str, Any] = {"role": "assistant", "content": words}
    if calls:
        reply |= {"tool_calls": calls}
    elif draw(st.booleans()):
        reply |= {"content": None, "function_call": {"name": "old", "arguments": "{}"}}
    results = [{"role": "tool", "tool_call_id": one["id"], "content": "seen"} for one in calls]
    return [user, reply, *results]


def _anthropic(draw: st.DrawFn, turn: int) -> Objects:
    image = {"type": "base64", "media_type": "image/png", "data": PNG}
    document = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    said = [
        {"type": "text", "text": f"words {turn}"},
        {"type": "image", "source": image},
        {"type": "document", "source": document, "title": f"paper {turn}"},
        {"type": "document", "source": {"type": "file", "file_id": f"f{turn}"}},
        {"type": "container_upload", "file_id": f"up{turn}"},
    ]
    user = {"role": "user", "content": draw(st.lists(st.sampled_from(said), min_size=1))}
    search = {"type": "server_tool_use", "id": f"s{turn}", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": f"s{turn}", "content": []}
    own: Any = draw(
        st.sampled_from(
            [
                [{"type": "text", "text": f"reply {turn}"}],
                [{"type": "thinking", "thinking": "hm", "signature": f"sig{turn}"}],
                [{"type": "redacted_thinking", "data": f"red{turn}"}],
                [search, found, {"type": "text", "text": f"reply {turn}"}],
            ]
        )
    )
    before = draw(st.sampled_from(["", "paused", "beside"]))
    run = {"type": "mcp_tool_use", "id": f"m{turn}", "name": "run", "input": {}}
    run |= {"server_name": "host"}
    ran = {"type": "mcp_tool_result", "tool_use_id": f"m{turn}", "content": [], "is_error": False}
    count = draw(st.integers(1, 2))
    calls = [
        {"type": "tool_use", "id": f"t{turn}_{at}", "name": "look", "input": {"at": at}}
        for at in range(count)
    ]
    content: Any = draw(
        st.sampled_from(
            ["seen", [{"type": "image", "source": image}], [{"type": "document", **user}]]
        )
    )
    if isinstance(content, list) and content[0]["type"] == "document":
        content = [{"type": "document", "source": document}]
    failed = draw(st.sampled_from([{}, {"is_error": True}]))
    results = [
        {"type": "tool_result", "tool_use_id": one["id"], "content": content, **failed}
        for one in calls
    ]
    done = [{"type": "text", "text": f"done {turn}"}]
    reply = [*own, *([run] if before == "beside" else []), *calls]
    listed: Objects = [user]
    if before == "paused":  # and went on in the next request
        listed.append({"role": "assistant", "content": [run]})
        reply = [ran, *reply]
    return [
        *listed,
        {"role": "assistant", "content": reply},
        {"role": "user", "content": results},
        {"role": "assistant", "content": [*([ran] if before == "beside" else []), *done]},
    ]


_OTHER_CALLS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"type": "shell_call", "action": {"commands": ["cat a", "make"]}, "status": "completed"},
        {
            "type": "shell_call_output",
            "max_output_length": 4_000,
            "output": [
                {"stdout": "seen", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                {"stdout": "made", "stderr": "no rule", "outcome": {"type": "timeout"}},
            ],
        },
    ),
    (
        {"type": "local_shell_call", "id": "ls", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "output": '{"output": "seen", "exit_code": 2}'},
    ),
    (
        {"type": "local_shell_call", "id": "ls", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "output": "[1,\n2]"},
    ),
    (
        {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a.py"}},
        {"type": "apply_patch_call_output", "status": "failed", "output": "no such file"},
    ),
    (
        {"type": "computer_call", "actions": [{"type": "screenshot"}], "status": "completed"},
        {
            "type": "computer_call_output",
            "output": {"type": "computer_screenshot", "image_url": URL},
        },
    ),
    ({"type": "lamp_call", "brightness": 3}, {"type": "lamp_call_output", "output": {"lit": 1}}),
]
"""Calls of the caller's machine, the last of a kind that there is not."""


def _responses(draw: st.DrawFn, turn: int) -> Objects:
    said = [
        {"type": "input_text", "text": f"words {turn}"},
        {"type": "input_image", "image_url": URL, "detail": "auto"},
        {"type": "input_file", "file_id": f"file_{turn}"},
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": f"data:application/pdf;base64,{PDF}",
        },
    ]
    content = draw(st.lists(st.sampled_from(said), min_size=1, max_size=3))
    items: Objects = [{"role": "user", "content": content}]
    if draw(st.booleans()):
        thought = {"type": "reasoning", "id": f"rs_{turn}", "summary": []}
        items.append({**thought, "encrypted_content": f"enc{turn}"})
    if draw(st.booleans()):
        action = {"type": "search", "query": "x"}
        search = {"type": "web_search_call", "id": f"ws_{turn}", "status": "completed"}
        items.append({**search, "action": action})
    calls: Objects = []
    for at in range(draw(st.integers(0, 2))):
        kind = draw(st.sampled_from(["function_call", "custom_tool_call"]))
        key, value = ("arguments", "{}") if kind == "function_call" else ("input", "*** x")
        calls.append({"type": kind, "call_id": f"c{turn}{at}", "name": "look", key: value})
    outputs = [
        {"type": f"{one['type']}_output", "call_id": one["call_id"], "output": "seen"}
        for one in calls
    ]
    for at in range(draw(st.integers(0, 2))):
        call, output = draw(st.sampled_from(_OTHER_CALLS))
        calls.append({**call, "call_id": f"o{turn}{at}"})
        outputs.append({**output, "call_id": f"o{turn}{at}"})
    text = {"type": "output_text", "text": f"reply {turn}", "annotations": []}
    answer = {"type": "message", "id": f"msg_{turn}", "role": "assistant", "content": [text]}
    return [*items, *calls, *outputs, {**answer, "status": "completed"}]


def _gemini(draw: st.DrawFn, turn: int) -> Objects:
    said = [
        {"text": f"words {turn}"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}},
        {"inlineData": {"mimeType": "application/pdf", "data": PDF}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": f"gs://bucket/{turn}"}},
    ]
    user = {"role": "user", "parts": draw(st.lists(st.sampled_from(said), min_size=1))}
    own: Any = draw(
        st.sampled_from(
            [
                [{"text": f"reply {turn}"}],
                [{"text": "hm", "thought": True}],
                [
                    {"executableCode": {"language": "PYTHON", "code": f"print({turn})"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": f"{turn}"}},
                ],
            ]
        )
    )
    calls = [
        {"functionCall": {"name": "look", "args": {"at": at}}}
        for at in range(draw(st.integers(1, 2)))
    ]
    if draw(st.booleans()):
        calls[0]["thoughtSignature"] = f"c2ln{turn}"  # type: ignore[assignment]
    response = draw(st.sampled_from([{"output": "seen"}, {"rows": [1, turn]}, {"error": "no"}]))
    results = [{"functionResponse": {"name": "look", "response": response}} for _ in calls]
    return [
        user,
        {"role": "model", "parts": [*own, *calls]},
        {"role": "user", "parts": results},
        {"role": "model", "parts": [{"text": f"done {turn}"}]},
    ]


FORMS: dict[str, Callable[[st.DrawFn, int], Objects]] = {
    "openai": _chat,
    "anthropic": _anthropic,
    "responses": _responses,
    "gemini": _gemini,
}
KEYS = {
    "openai": "messages",
    "anthropic": "messages",
    "responses": "input",
    "gemini": "contents",
}


@st.composite
def lists(draw: st.DrawFn, most: int = 3) -> tuple[str, Objects]:
    """A list in one of the forms, with every kind of part; its last word is the user's."""
    form = draw(st.sampled_from(sorted(FORMS)))
    turns = range(draw(st.integers(1, most)))
    listed = [one for turn in turns for one in FORMS[form](draw, turn)]
    last = {"parts": [{"text": "on"}]} if form == "gemini" else {"content": "on"}
    return form, [*listed, {"role": "user", **last}]


def in_turns(listed: Objects) -> Objects:
    """The list with a reply that was paused and its continuation as the one turn that they are."""
    turns: Objects = []
    for one in listed:
        if turns and one.get("role") == turns[-1].get("role") == "assistant" and "type" not in one:
            turns[-1] = {**one, "content": [*turns[-1]["content"], *one["content"]]}
        else:
            turns.append(one)
    return turns


def pieces(value: Any) -> list[str]:
    """The whole texts, data and ids in an object of a list."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [each for key, one in value.items() if key != "type" for each in pieces(one)]
    return [each for one in value for each in pieces(one)] if isinstance(value, list) else []


def refused(form: str, messages: Objects) -> list[str]:
    """What the provider would refuse of messages in its form, names of tools left aside."""
    match form:
        case "openai":
            top = {"model": "m", "messages": messages}
            found = openai_rules.problems(top)
        case "anthropic":
            found = anthropic_rules.problems({"model": "m", "max_tokens": 1, "messages": messages})
        case "responses":
            found = responses_rules.problems(messages)
        case _:
            found = gemini_rules.problems({"contents": messages})
    return [one for one in found if not re.search("defined|declared|tool_choice|tools", one)]


@given(lists())
def test_the_same_form_gives_the_same(given_list: tuple[str, Objects]) -> None:
    form, listed = given_list
    window = windlass.bound(listed, policy={"enabled": False})
    assert window.messages == in_turns(listed)
    whole = [one for one in listed if one in window.messages]
    assert all(any(one is each for each in window.messages) for one in whole)
    written = json.dumps(window.wire(form)[KEYS[form]])  # type: ignore[arg-type]
    for one in listed:
        for piece in pieces(one):
            assert json.dumps(piece)[1:-1] in written, piece


@given(lists(), st.sampled_from(sorted(FORMS)))
def test_another_form_has_all_or_says_what_it_has_not(
    given_list: tuple[str, Objects], target: str
) -> None:
    form, listed = given_list
    window = windlass.bound(listed, policy={"enabled": False})
    try:
        body = window.wire(target)  # type: ignore[arg-type]
    except SequenceError as error:
        assert re.match(r"message \d+, part \d+: ", str(error))  # noqa: PT017
        assert form != target
        return
    written = body[KEYS[target]]
    assert refused(target, written) == []
    shown = json.dumps(written, ensure_ascii=False)
    told = {one.position: one.reason for one in window.entries}
    for at, one in enumerate(listed):
        for text in re.findall(r"(?:words|reply|done) \d", json.dumps(one)):
            assert text in shown
        if PDF in json.dumps(one):
            assert PDF in shown
        if PNG in json.dumps(one):
            assert PNG in shown
        for aside in ("thinking", "redacted_thinking", "encrypted_content", "refusal"):
            if re.search(rf'"{aside}":|"type": "{aside}"', json.dumps(one)) and aside not in shown:
                reasons = " ".join(reason for reason in told.values())
                name = "reasoning" if aside == "encrypted_content" else aside
                assert name in reasons, (aside, told, at)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, Objects]:
    """A list of which objects are lost, doubled or moved, and texts are blank or empty."""
    form, listed = draw(lists())
    damages = st.sampled_from(["lose", "double", "move", "blank", "part"])
    for damage in draw(st.lists(damages, min_size=1, max_size=3)):
        at = draw(st.integers(0, len(listed) - 1))
        one = copy.deepcopy(listed[at])
        match damage:
            case "lose" if len(listed) > 1:
                del listed[at]
            case "double":
                listed.insert(at, one)
            case "move":
                listed.insert(draw(st.integers(0, len(listed) - 1)), listed.pop(at))
            case "part":
                key = "parts" if form == "gemini" else "content"
                if isinstance(one.get(key), list):
                    part = draw(st.sampled_from([{"type": "text", "text": ""}, *one[key]]))
                    if form == "gemini":
                        part = draw(st.sampled_from([{"text": ""}, *one[key]]))
                    listed[at] = {**one, key: [*one[key], part]}
            case "blank" if isinstance(one.get("content"), str):
                listed[at] = {**one, "content": draw(st.sampled_from(["", " ", None]))}
            case _:
                pass
    return form, listed


@given(damaged())
def test_damaged_lists_hold_nothing_that_the_provider_refuses(
    given_list: tuple[str, Objects],
) -> None:
    form, listed = given_list
    try:
        window = windlass.bound(listed, policy={"enabled": False})
    except SequenceError as error:
        assert re.match(r"message \d+\b|the list of messages", str(error))  # noqa: PT017
        return
    wrong = [one for one in refused(form, window.messages) if not _AT_THE_ENDS.search(one)]
    assert wrong == []
    assert windlass.bound(window.messages, policy={"enabled": False}).messages == window.messages


MODELS = {
    "openai": "openai/gpt-5",
    "responses": "openai/gpt-5",
    "anthropic": "anthropic/claude-opus-4-6",
    "gemini": "gemini/gemini-2.5-pro",
}


def repairs_of(form: str, listed: Objects) -> tuple[str, ...]:
    context = windlass.Context(MODELS[form], {"enabled": False})
    context.listed.use_form(form)  # type: ignore[arg-type]
    for one in listed:
        context.append(one)
    return context.repairs


@given(lists())
def test_a_list_that_the_provider_takes_needs_no_repair(given_list: tuple[str, Objects]) -> None:
    assert repairs_of(*given_list) == ()


@given(damaged())
def test_of_a_list_that_the_provider_refuses_a_repair_is_told(
    given_list: tuple[str, Objects],
) -> None:
    form, listed = given_list
    try:
        told = repairs_of(form, listed)
    except SequenceError:
        return
    # Repeated turns are merged by the API itself.
    assert told or [one for one in refused(form, listed) if "alternate" not in one] == []


POLICIES: list[tuple[Any, dict[str, Any]]] = [
    ("default", {}),
    ("lean", {}),
    ("spec", {}),
    ({"profile": "default", "keep_recent_turns": 1}, {}),
    ({"profile": "default", "keep_recent_turns": 2}, {}),
    ({"profile": "lean", "fold_after": 1, "commit": "at_once"}, {}),
    ({"profile": "spec", "decay": {"full": 1, "fold": 1}, "commit": "at_once"}, {}),
    ({"enabled": False, "keep_recent_images": 1}, {}),
    ("default", {"max_input_tokens": 900}),
    ("lean", {"max_input_tokens": 2_000}),
]


def lengthened(value: Any, turn: str = "0") -> Any:
    """The same with long outputs, no two alike, in the place of short ones."""
    match value:
        case "seen" | "made":
            lines = [f"{turn}.{at} berth {at % 7} holds load {at * 37}" for at in range(90)]
            return "\n".join(lines)
        case str() if value.startswith('{"output"'):
            return json.dumps(lengthened(json.loads(value), turn))
        case dict():
            return {key: lengthened(one, turn) for key, one in value.items()}
        case list():
            return [lengthened(one, f"{turn}{at}") for at, one in enumerate(value)]
        case _:
            return value


@given(lists(most=6), st.sampled_from(POLICIES))
def test_under_each_policy_nothing_is_sent_that_the_provider_refuses(
    given_list: tuple[str, Objects], policy: tuple[Any, dict[str, Any]]
) -> None:
    form, listed = given_list
    listed = lengthened(listed)
    window = windlass.bound(listed, MODELS[form], policy[0], **policy[1])
    assert refused(form, window.messages) == []
    assert refused(form, window.wire(form)[KEYS[form]]) == []  # type: ignore[arg-type]
    context = windlass.Context(MODELS[form], policy[0], **policy[1])
    for one in listed:
        context.append(one)
    assert context.window().messages == window.messages


@given(damaged(), st.sampled_from(POLICIES))
def test_under_each_policy_damaged_lists_are_mended(
    given_list: tuple[str, Objects], policy: tuple[Any, dict[str, Any]]
) -> None:
    form, listed = given_list
    try:
        window = windlass.bound(lengthened(listed), MODELS[form], policy[0], **policy[1])
        body = window.wire(form)  # type: ignore[arg-type]
    except SequenceError as error:
        assert re.match(r"message \d+\b|the list of messages|the end", str(error))  # noqa: PT017
        return
    assert refused(form, body[KEYS[form]]) == []


_AT_THE_ENDS = re.compile("has no name|max_|first message|last message|must end|prefill|begin with")


@pytest.mark.parametrize("form", ["anthropic", "responses", "gemini"])
def test_what_a_result_without_its_call_held_stays_in_view(form: str) -> None:
    document = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    file = {"type": "input_file", "filename": "a.pdf", "file_data": f"data:x;base64,{PDF}"}
    match form:
        case "anthropic":
            content = [{"type": "document", "source": document}, {"type": "tool_reference"}]
            result: Any = {"type": "tool_result", "tool_use_id": "x", "content": content}
            listed: Objects = [{"role": "user", "content": [result]}]
        case "responses":
            output = {"type": "function_call_output", "call_id": "x", "output": [file]}
            listed = [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}, output]
        case _:
            parts = [{"inlineData": {"mimeType": "application/pdf", "data": PDF}}]
            response = {"name": "look", "response": {"output": "seen"}, "parts": parts}
            listed = [{"role": "user", "parts": [{"functionResponse": response}]}]
    window = windlass.bound(listed)
    reason = window.entries[-1].reason
    if form == "gemini":
        assert reason.endswith("parts left out")
    else:
        assert PDF in json.dumps(window.messages)
    if form == "anthropic":
        assert reason.endswith("tool_reference left out")
