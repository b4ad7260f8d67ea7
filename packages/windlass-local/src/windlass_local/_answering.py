"""How the local model comes to one reply: text, JSON, or a call that is known to be good.

The model was never trained for tools. Left alone it does not call any; held to a
grammar it always does. So where the choice is its own, the first token decides, with
some weight given to a call; then it writes either free text or, under the grammar of
the tools, one call. (Free text needs to be free: under a grammar the runtime does not
let the model end before the grammar is used up.) Whatever it wrote is checked against
the schema as the tool declares it, and made again where it does not hold.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from windlass.public import (
    BadPattern,
    BadRequest,
    Finish,
    ProviderError,
    Request,
    ToolSpec,
    Usage,
    did_you_mean,
    parse_json,
    validator_for,
)
from windlass_local._grammar import OPEN, call_grammar, json_grammar, read_call
from windlass_local._prompt import LocalCounter
from windlass_local._runtime import WINDOW, Completion, LocalEngine, too_long

_SIMPLE: Final = (False, False, True)
"""The tries until a call or a JSON reply holds: the last one without patterns and formats."""

_LEAN: Final = 3.5
"""Added to the logit of `<` at the first token, where the model may call or talk.

Of 8 questions that need a tool it then called one for 4, of 6 that do not for none;
with 0 it never called, with 4 it called for a third of the small talk.
"""

_ROOM: Final = 256
"""Output tokens that a call or JSON gets at least: half of one is worth nothing to anybody."""

_MORE_ROOM: Final = 1_024
"""Tokens added for the one repetition of a call that the output limit cut."""

_RETRY_TEMPERATURE: Final = 0.8
"""A repetition at temperature 0 would only give the same reply again."""

Check: TypeAlias = Callable[[str], "LocalAnswer | str"]
"""From what the model wrote to the answer, or to what is wrong with it."""


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """What the model came to: text, or text and a call as (tool name, arguments' text)."""

    text: str
    finish: Finish
    call: tuple[str, str] | None = None
    usage: Usage = field(default=Usage(0, 0))


class Answering:
    """One request on its way to an answer, in the engine's thread."""

    def __init__(
        self,
        engine: LocalEngine,
        counter: LocalCounter,
        request: Request,
        stop: threading.Event,
        on_text: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._counter = counter
        self._vocabulary = counter.vocabulary
        self._request = request
        self._stop = stop
        self._on_text = on_text
        self._usage: Usage | None = None

    def answer(self) -> LocalAnswer:
        """Return the answer to the request, with the usage of all that was generated for it.

        Raises ContextTooLong before anything is generated; BadRequest for a tool choice
        or a schema that makes no sense; ProviderError when no try holds.
        """
        tools = callable_tools(self._request)
        ids = self._counter.prompt(self._request.messages, self._request.tools)
        if len(ids) >= WINDOW:
            raise too_long(len(ids))
        if self._request.output_schema is not None:
            _validator(self._request.output_schema, "the output schema")
        forced = self._request.tool_choice != "auto"
        if tools and (forced or self._leans_to_call(ids)):
            answer = self._call(ids, tools)
        elif self._request.output_schema is not None:
            answer = self._json(ids, self._request.output_schema)
        else:
            answer = self._text(ids, tools)
        return replace(answer, usage=self._usage or Usage(len(ids), 0))

    @property
    def _answers_tool(self) -> bool:
        messages = self._request.messages
        return bool(messages) and messages[-1].role == "tool"

    # ---- the three kinds ------------------------------------------------------------

    def _leans_to_call(self, ids: list[int]) -> bool:
        """Return whether the first token, with weight given to a call, begins one."""
        if self._answers_tool:
            return False  # it has what it asked for; a pushed model would ask for ever
        opening = self._vocabulary.encode("<")[0]
        first = self._complete(ids, limit=1, counted=False, logit_bias=[[opening, _LEAN]])
        return first.text == "<"

    def _text(self, ids: list[int], tools: tuple[ToolSpec, ...]) -> LocalAnswer:
        """Free text, streamed; a call that begins in it is made under the grammar."""
        text = ""
        sent = 0

        def take(piece: str) -> bool:
            nonlocal text, sent
            text += piece
            safe = _before_call(text) if tools else len(text)
            if safe > sent:
                self._on_text(text[sent:safe])
                sent = safe
            return bool(tools) and OPEN in text

        # After a tool result the model would often begin by repeating it, tags and all.
        opening = self._vocabulary.encode("<")[0]
        bias = [[opening, False]] if self._answers_tool else []
        done = self._complete(ids, take, logit_bias=bias)
        if tools and OPEN in text:
            before = text[:sent]
            answer = self._call([*ids, *self._vocabulary.encode(before)], tools)
            return replace(answer, text=before)
        if sent < len(text):
            self._on_text(text[sent:])
        return LocalAnswer(text, "length" if done.cut else "stop")

    def _json(self, ids: list[int], schema: Mapping[str, Any]) -> LocalAnswer:
        """Return JSON text of `schema`; handed on when it is whole, since a try may fail."""

        def check(text: str) -> LocalAnswer | str:
            return _problem(text, schema, "the output schema") or LocalAnswer(text, "stop")

        answer = self._tried(
            ids,
            "JSON of the output schema",
            [json_grammar(schema, simple=simple) for simple in _SIMPLE],
            check,
        )
        self._on_text(answer.text)
        return answer

    def _call(self, ids: list[int], tools: tuple[ToolSpec, ...]) -> LocalAnswer:
        """Exactly one call of one of `tools`."""
        for spec in tools:
            _validator(spec.parameters, f"the parameters of the tool {spec.name!r}")

        def check(text: str) -> LocalAnswer | str:
            call = read_call(text, tools)
            if call is None:
                return "no whole call"
            spec, arguments = call
            what = f"the parameters of the tool {spec.name!r}"
            wrong = _problem(arguments, spec.parameters, what)
            return wrong or LocalAnswer("", "tool_calls", (spec.name, arguments))

        return self._tried(
            ids,
            "a valid call of " + " or ".join(repr(spec.name) for spec in tools),
            [call_grammar(tools, simple=simple) for simple in _SIMPLE],
            check,
            opening=OPEN,
        )

    # ---- generating -----------------------------------------------------------------

    def _tried(
        self, ids: list[int], form: str, grammars: list[str], check: Check, *, opening: str = ""
    ) -> LocalAnswer:
        """Return the first try that `check` accepts, one with each of `grammars`.

        `opening` is what a right reply begins with: text that does not was written
        without the grammar, which the runtime could not compile, and is stopped.
        """
        limit = max(_ROOM, self._request.max_output_tokens)
        problem = ""
        for number, grammar in enumerate(grammars):
            text = ""

            def astray(piece: str) -> bool:
                nonlocal text
                text += piece
                return not (text.startswith(opening) or opening.startswith(text))

            done = self._complete(ids, astray, limit, try_number=number, grammar=grammar)
            if done.cut and limit < (room := WINDOW - len(ids)):
                limit, text = min(limit + _MORE_ROOM, room), ""
                done = self._complete(ids, astray, limit, try_number=number, grammar=grammar)
            checked = "cut by the output limit" if done.cut else check(done.text)
            if isinstance(checked, LocalAnswer):
                return checked
            problem = checked
        raise ProviderError(
            f"the local model did not write {form} in {len(grammars)} tries: {problem};"
            " simplify the schema or give it more room (max_output_tokens)"
        )

    def _complete(
        self,
        ids: list[int],
        look: Callable[[str], bool] = lambda _: False,
        limit: int | None = None,
        *,
        try_number: int = 0,
        counted: bool = True,
        grammar: str | None = None,
        logit_bias: Sequence[Sequence[float]] = (),
    ) -> Completion:
        """Return one generation; the first one's input counts as the request's.

        `counted`: whether what it writes is a part of the reply.
        """
        temperature = self._request.temperature or 0.0
        body: dict[str, Any] = {
            "prompt": ids,
            "n_predict": limit or max(1, self._request.max_output_tokens),
            "temperature": max(temperature, _RETRY_TEMPERATURE) if try_number else temperature,
            "seed": try_number,
        }
        if grammar is not None:
            body["grammar"] = grammar
        if logit_bias:
            body["logit_bias"] = logit_bias
        completion = self._engine.complete(body, lambda piece: self._stop.is_set() or look(piece))
        if self._stop.is_set():
            raise ProviderError("the generation was stopped")
        tokens_out = completion.tokens_out if counted else 0
        before = self._usage or Usage(completion.tokens_in, 0, completion.tokens_cached)
        self._usage = replace(before, tokens_out=before.tokens_out + tokens_out)
        return completion


def callable_tools(request: Request) -> tuple[ToolSpec, ...]:
    """Return the tools that the reply may call.

    Raises BadRequest where the choice names none of them.
    """
    match request.tool_choice:
        case "none":
            return ()
        case "auto":
            return request.tools
        case "required" if request.tools:
            return request.tools
        case "required":
            raise BadRequest("tool_choice is 'required', but the request has no tools")
        case name:
            chosen = tuple(spec for spec in request.tools if spec.name == name)
            if not chosen:
                alternatives = did_you_mean(name, (spec.name for spec in request.tools))
                raise BadRequest(
                    f"tool_choice names {name!r}, which the request lacks: {alternatives}"
                )
            return chosen


def _before_call(text: str) -> int:
    """Where a call begins in `text`, or may begin in its last characters."""
    whole = text.find(OPEN)
    if whole >= 0:
        return whole
    part = next(size for size in range(len(OPEN) - 1, -1, -1) if text.endswith(OPEN[:size]))
    return len(text) - part


def _validator(schema: Mapping[str, Any], what: str) -> Any:
    from jsonschema import SchemaError

    try:
        return validator_for(schema)
    except SchemaError as error:
        raise BadRequest(f"{what} are not a valid JSON Schema: {error.message}") from error


def _problem(text: str, schema: Mapping[str, Any], what: str) -> str:
    """Return what is wrong with the JSON `text` by `schema`; empty where nothing is."""
    from referencing.exceptions import Unresolvable

    try:
        value = parse_json(text)
    except ValueError as error:
        return f"no JSON ({error})"
    try:
        wrong = next(_validator(schema, what).iter_errors(value), None)
    except (Unresolvable, BadPattern, TimeoutError) as error:
        raise BadRequest(f"{what} cannot be checked: {error}") from error
    return "" if wrong is None else str(wrong.message)
