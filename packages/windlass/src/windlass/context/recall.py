"""The tool `recall` of a loop: its definition in each form, and answers to calls of it.

The tools of a conversation: the caller's, in their form, and `recall` where it is offered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

from windlass.context.lists import Chat
from windlass.errors import UsageError, did_you_mean
from windlass.messages import Message, Text
from windlass.safety.foreign import parse_json
from windlass.window.blocks import tools_needed
from windlass.window.originals import RECALL, meant, part_of, reference
from windlass.wire.forms import LIST_MODULES, FormName
from windlass.wire.tools import read_tools, tools_form, with_tool, write_tools

_WITH_PICTURES: Final = ("anthropic", "responses")
"""Forms in which a result has a place for pictures."""
_PARTS: Final = ("part", "grep", "lines", "path")
"""Arguments that ask for less than an original."""


class Originals(Protocol):
    """What a call of `recall` asks."""

    def recall(
        self, ref: str, grep: str = "", lines: str = "", path: str = "", part: str = ""
    ) -> str:
        """Return the original behind a reference, or the part of it that is asked for."""
        ...

    def original(self, ref: str) -> Message | None:
        """Return the message behind a reference (None: none, or several)."""
        ...


def recall_tool(form: FormName) -> Any:
    """The definition of the tool `recall`, which gives a model the originals of shortened messages.

    Put it among the tools of your requests, and answer its calls with `answer` of
    `client.windlass`, a `Context` or a window. Notes of shortened results name it then.

    Args:
        form: `anthropic`, `openai` (chat completions), `responses` or `gemini`.

    Gives a dict that the official clients take beside their own types. Raises UsageError for
    another form.
    """
    if form not in LIST_MODULES:
        raise UsageError(f"unknown form {form!r}; {did_you_mean(str(form), LIST_MODULES)}")
    (tool,) = write_tools((RECALL,), {RECALL.name: RECALL.name}, form)
    return deepcopy(tool)


def answer_call(block: Any, originals: Originals) -> Any:
    """Return the result of a model's call of `recall`, in the form of the call.

    None: it is no such call.

    Raises UsageError for what is neither an object of a client nor its JSON.
    """
    if block is None or isinstance(block, str | bytes | int | float | list | tuple):
        raise UsageError(
            "answer takes one call of a model, as its client or its JSON has it,"
            f" not {type(block).__name__}"
        )
    call = _call_in(block)
    if call is None or call.name != RECALL.name:
        return None
    return call.result(*_answered(call, originals))


def recalled(originals: Mapping[str, Message], asked: Mapping[str, Any]) -> str:
    """Return the original behind a reference, or the part of it that is asked for.

    `originals` are known by their content hash, `asked` are all arguments of `recall`. What a model
    may get wrong is answered with a sentence for it. Raises UsageError where an argument is not
    what JSON can hold.
    """
    for name, value in asked.items():
        if isinstance(value, str):
            continue
        wrong = f"recall: {name} is a text, not {value!r:.80}"
        if value is not None and not isinstance(value, bool | int | float | list | dict):
            raise UsageError(wrong)
        return wrong  # which a model may send
    ref = asked["ref"]
    try:
        original = originals[meant(ref, originals)]
    except KeyError as error:
        results = [message for message in originals.values() if message.role == "tool"]
        listed = ", ".join(map(reference, results[-10:])) or "none yet"
        return f"The reference {ref!r:.200} names no message here: {error.args[0]}; known: {listed}"
    try:
        return part_of(original, **{key: asked[key] for key in _PARTS})
    except ValueError as error:
        return f"Nothing is found: {error}"


@dataclass(frozen=True, slots=True)
class _Call:
    """A call in one of the forms. `arguments` are an object, or its text."""

    form: FormName
    id: str | None
    name: str
    arguments: Any

    def result(self, text: str, original: Message | None) -> dict[str, Any]:
        """A result that says this, with the pictures of an original where the form has a place."""
        output: Any = text
        if original is not None and original.pictures and self.form in _WITH_PICTURES:
            message = Message("tool", (Text(text), *original.pictures), tool_call_id=self.id)
            (item,) = import_module(LIST_MODULES[self.form]).write([message])
            output = item["output"] if "output" in item else item["content"][0]["content"]
        match self.form:
            case "anthropic":
                return {"type": "tool_result", "tool_use_id": self.id, "content": output}
            case "openai":
                return {"role": "tool", "tool_call_id": self.id, "content": output}
            case "responses":
                return {"type": "function_call_output", "call_id": self.id, "output": output}
            case "gemini":
                ident = {"id": self.id} if self.id else {}
                response = {**ident, "name": self.name, "response": {"output": output}}
                return {"functionResponse": response}


def _answered(call: _Call, originals: Originals) -> tuple[str, Message | None]:
    """Return what a call asks for, and the original where all of it is asked for.

    What a model wrote wrongly is answered with a sentence for it.
    """
    given = call.arguments
    try:
        given = parse_json(given or "{}") if isinstance(given, str) else given
    except ValueError as error:
        return f"{RECALL.name}: the arguments are no JSON ({error})", None
    if not isinstance(given, Mapping):
        return f"{RECALL.name}: the arguments are no object, but {str(given)[:80]!r}", None
    asked = {str(name): value for name, value in given.items() if value is not None}
    if unknown := [name for name in asked if name not in ("ref", *_PARTS)]:
        return f"{RECALL.name} takes ref and part, not {unknown[0][:80]!r}", None
    if "ref" not in asked:
        return f"{RECALL.name} takes ref, a reference such as result_0123abcd", None
    whole = not any(asked.get(name) for name in _PARTS)
    return originals.recall(**asked), originals.original(asked["ref"]) if whole else None


def _call_in(block: Any) -> _Call | None:
    """Return the call that an object or its JSON is; None: it is something else."""
    inner = _held(block, "functionCall", "function_call")
    if inner is not None:
        return _of_gemini(inner)
    kind, name, ident = (_held(block, key) for key in ("type", "name", "id"))
    function = _held(block, "function")
    if function is not None:
        return _call("openai", ident, _held(function, "name"), _held(function, "arguments"))
    call_id, given = _held(block, "call_id"), _held(block, "input")
    if kind == "function_call" or (kind is None and call_id is not None):
        return _call("responses", call_id, name, _held(block, "arguments"))
    if kind == "tool_use" or (kind is None and given is not None):
        return _call("anthropic", ident, name, given)
    return _of_gemini(block) if kind is None else None


def _of_gemini(call: Any) -> _Call | None:
    return _call("gemini", _held(call, "id"), _held(call, "name"), _held(call, "args") or {})


def _call(form: FormName, ident: Any, name: Any, arguments: Any) -> _Call | None:
    if not isinstance(name, str):
        return None
    return _Call(form, None if ident is None else str(ident), name, arguments)


def _held(holder: Any, *names: str) -> Any:
    """Return the first of these that an object or a dict has."""
    for name in names:
        one = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
        if one is not None:
            return one
    return None


class OfferedTools:
    """The caller's tools, and `recall` beside them where the loop offers it and has none.

    Args:
        given: The caller's, in OpenAI's, Anthropic's or Gemini's form.
        recall: Whether the loop offers `recall`.
    """

    def __init__(self, given: Sequence[Chat], *, recall: bool) -> None:
        self._given, specs = read_tools(given)
        own = next((one for one in specs if one.name == RECALL.name), None)
        self.adds_recall = recall and own is None
        """Whether `recall` is offered beside the caller's tools."""
        taken = own.parameters.get("properties") if own else None
        self.recalls = recall or "ref" in (taken or ())
        """Whether the loop offers `recall`, added or among the caller's tools."""
        self.specs = (*specs, RECALL) if self.adds_recall else specs
        """Their definitions."""
        self.needed = self.specs
        """The same, and those that messages call, without which they are not sent."""

    def note_calls(self, answer: Message) -> None:
        """Define what an answer called, too."""
        if self.needed:
            self.needed = tools_needed(self.needed, [answer], {})

    def in_form(self, form: FormName) -> list[dict[str, Any]]:
        """The caller's tools, in `form` where none were given, and `recall` if it is offered."""
        tools = list(self._given)
        return with_tool(tools, RECALL, tools_form(tools) or form) if self.adds_recall else tools
