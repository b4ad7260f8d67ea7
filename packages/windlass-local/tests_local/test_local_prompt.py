"""What the local model reads and how it is held to a form: without loading the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.strategies import conversations, rough_texts

from windlass.errors import ProviderError
from windlass.messages import (
    Message,
    ToolCall,
    ToolSpec,
    assistant,
    system,
    tool,
    user,
)
from windlass.text.tokens import request_tokens
from windlass_local import weights
from windlass_local._grammar import (
    call_grammar,
    json_grammar,
    narrowed,
    read_call,
)
from windlass_local._prompt import LocalCounter, call_text
from windlass_local._vocabulary import Vocabulary

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
SUB = ToolSpec("sub", "Subtracts.", {"type": "object", "properties": {"b": {"type": "number"}}})
CALL = ToolCall("c1", "add", '{"a": 1}')


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(weights())


@pytest.fixture(scope="module")
def counter(vocabulary: Vocabulary) -> LocalCounter:
    return LocalCounter(vocabulary)


def spelled(counter: LocalCounter, ids: Sequence[int]) -> str:
    """What a model reads as these tokens."""
    tokens = {number: token for token, number in counter.vocabulary._ids.items()}
    letters = {letter: byte for byte, letter in enumerate(counter.vocabulary._letters)}
    return bytes(letters[letter] for number in ids for letter in tokens[number]).decode()


def test_prompt_letter_for_letter(counter: LocalCounter) -> None:
    said = [system("Be brief."), user("Add 1."), assistant(calls=[CALL]), tool(CALL, "1")]
    assert spelled(counter, counter.prompt(said, [])) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nAdd 1.<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'
        "<|im_end|>\n"
        '<|im_start|>tool\n<tool_response name="add">\n1\n</tool_response><|im_end|>\n'
        "<|im_start|>assistant\n"
    )


def test_weights_of_another_kind_are_refused(tmp_path: Path) -> None:
    for data in (b"", b"GGUF", b"not at all a model, but long enough to have a header"):
        path = tmp_path / "w.gguf"
        path.write_bytes(data)
        with pytest.raises(ProviderError, match="cannot be read"):
            Vocabulary(path)


@given(conversations(), st.sampled_from([(), (ADD,), (ADD, SUB)]))
def test_count_is_the_sum_of_its_parts(
    vocabulary: Vocabulary, messages: list[Message], tools: tuple[ToolSpec, ...]
) -> None:
    counter = LocalCounter(vocabulary)
    counted = request_tokens(counter, messages, tools)
    assert counted == len(LocalCounter(vocabulary).prompt(messages, tools))
    assert counted == request_tokens(counter, messages, tools)  # from the memo
    assert counter.exact


@given(rough_texts())
def test_any_text_has_a_count(vocabulary: Vocabulary, text: str) -> None:
    assert 0 <= vocabulary.count(text) == len(vocabulary.encode(text))


# ---- grammars -----------------------------------------------------------------------

EVERYTHING = {
    "type": "object",
    "properties": {
        "free": {"type": "string"},
        "short": {"type": "string", "maxLength": 500},
        "list": {"type": "array", "items": {"type": "string"}},
        "long": {"type": "array", "items": {"type": "integer"}, "maxItems": 50},
        "sizes": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        "node": {"$ref": "#/$defs/Node"},
        "either": {"oneOf": [{"type": "integer"}, {"type": "null"}]},
        "maybe": {"type": ["string", "null"], "minLength": 300},
        "code": {"type": "string", "pattern": "^(?!x)[a-z]{2}$"},
        "both": {"allOf": [{"$ref": "#/$defs/Named"}, {"required": ["n"]}]},
        "any": {},
        "nowhere": {"$ref": "#/$defs/Nothing"},
    },
    "required": ["free", "extra"],
    "$defs": {
        "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}},
        "Named": {"type": "object", "properties": {"n": {"const": 1}}},
    },
}


def test_only_supported_keywords_and_no_references_are_left() -> None:
    schema = {**EVERYTHING, "not": {"required": ["z"]}, "if": {}, "title": "T", "minProperties": 1}
    text = json.dumps(narrowed(schema))
    for word in ("$ref", "$defs", "allOf", "oneOf", "not", "if", "title", "minProp", "unique"):
        assert f'"{word}' not in text
    Draft202012Validator.check_schema(narrowed(schema))
    assert "pattern" not in json.dumps(narrowed(schema, simple=True))


def test_an_impossible_schema_still_gives_a_grammar() -> None:
    endless = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert narrowed(endless) == {"type": "null"}
    assert json_grammar({"anyOf": [False]}).startswith("%llguidance {}\nstart: %json ")


def test_a_call_has_the_same_bytes_in_grammar_and_prompt() -> None:
    odd = ToolSpec('say "hi"', "", {"type": "object"})
    call = ToolCall("c", odd.name, '{"a": "}</tool_call>"}')
    assert read_call(call_text(call), [ADD, odd]) == (odd, call.arguments)
    assert json.dumps('{"name": "say \\"hi\\"", "arguments": ') in call_grammar([odd])
    assert read_call(call_text(call)[:-1], [odd]) is None
    assert read_call("<tool_call>{}</tool_call>", [odd]) is None
