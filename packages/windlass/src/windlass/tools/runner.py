"""Running tools: arguments in, one result out, whatever the tool does.

A tool that fails, hangs, is unknown or is called wrongly gives a result with
`error=True`, which the model sees; only the user's interruption and a cancelled run
pass through. The runner knows neither history nor provider.

What a call of a tool reads and writes, by name.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from windlass.errors import (
    PersonNeeded,
    RunLimitReached,
    StepDiffers,
    StoreError,
    ToolError,
    did_you_mean,
)
from windlass.messages import Picture, ToolCall, clean_text
from windlass.safety.fairness import start_thread
from windlass.safety.foreign import decode_text
from windlass.safety.interrupting import Cancellation
from windlass.safety.patterns import BadPattern
from windlass.safety.schemas import validator_for
from windlass.text.pictures import picture
from windlass.tools.base import Tool, ToolContext, ToolOutput

PARALLEL: Final = 4
"""Tools of one reply that run at the same time."""


async def run_tools(
    calls: Sequence[ToolCall],
    registry_tools: Mapping[str, Tool],
    context: ToolContext,
    limit: int = PARALLEL,
) -> list[ToolOutput]:
    """Run the calls of one reply, at most `limit` at a time; results in the order of the calls.

    Each failure is its own result. The tools share `context.state`: a single
    assignment is whole, but which of two writers of the same key comes last is not
    defined.
    """
    gate = asyncio.Semaphore(limit)

    async def output_of(call: ToolCall) -> ToolOutput:
        tool = registry_tools.get(call.name)
        if tool is None:
            return _failure(
                f"unknown tool {call.name!r}: {did_you_mean(call.name, registry_tools)}"
            )
        async with gate:
            return await run_tool(tool, call, context)

    ended = await asyncio.gather(*map(output_of, calls), return_exceptions=True)
    outputs = [each for each in ended if isinstance(each, ToolOutput)]
    if failed := [each for each in ended if isinstance(each, BaseException)]:
        raise failed[0]  # what ends a cascade below ends this one, once the others have ended
    return outputs


async def run_tool(tool: Tool, call: ToolCall, context: ToolContext) -> ToolOutput:
    """Run one call within the tool's time limit.

    A plain function runs in a daemon thread of its own, so that one which never
    returns holds up neither the run nor the end of the interpreter; an async one runs
    as a task and must not block the event loop.
    """
    arguments = await _checked_arguments(tool, call)
    if isinstance(arguments, ToolOutput):
        return arguments
    cancellation = Cancellation()
    if tool.context_parameter is not None:
        own = dataclasses.replace(context, cancellation=cancellation, call=call)
        arguments[tool.context_parameter] = own
    task = asyncio.ensure_future(_guarded(tool, arguments))
    try:
        done, _ = await asyncio.wait({task}, timeout=tool.timeout_s)
    except asyncio.CancelledError:
        task.cancel()
        cancellation.cancel()
        raise
    if done:
        return task.result()
    # Not awaited: a task that swallows its cancellation would hang the run after all.
    task.cancel()
    cancellation.cancel()
    return _failure(
        f"{tool.spec.name!r} did not finish within its time limit of {tool.timeout_s:g} s; "
        "it was abandoned and has no result"
    )


async def wrong_arguments(tool: Tool, call: ToolCall) -> ToolOutput | None:
    """Return the failure that wrong arguments are (None: the tool takes them)."""
    arguments = await _checked_arguments(tool, call)
    return arguments if isinstance(arguments, ToolOutput) else None


async def _checked_arguments(tool: Tool, call: ToolCall) -> dict[str, Any] | ToolOutput:
    try:
        # By a schema, because that may search for patterns that others wrote, and wait.
        if tool.parse is None:
            return await asyncio.to_thread(_arguments, tool, call)
        return _arguments(tool, call)
    except ValueError as problem:
        return _failure(str(problem))


def _arguments(tool: Tool, call: ToolCall) -> dict[str, Any]:
    # Imported here, because pydantic comes with it.
    from windlass.tools.argument_schema import expectation

    try:
        given = call.parsed()
        return _checked(tool, given) if tool.parse is None else tool.parse(given)
    except ValueError as problem:
        reason = str(problem)
    except RecursionError:
        reason = f"the arguments of {tool.spec.name!r} are nested too deeply"
    raise ValueError(f"{reason}; {expectation(tool.spec)}")


def _checked(tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    from jsonschema import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        errors = [each.message for each in validator_for(tool.spec.parameters).iter_errors(given)]
    except TimeoutError as error:
        raise ValueError(
            f"the arguments of {tool.spec.name!r} cannot be checked: {error}"
        ) from error
    except (SchemaError, Unresolvable, BadPattern) as error:
        # The tool's own fault, and its result: a run must not end by it.
        raise ValueError(f"the parameters of {tool.spec.name!r} are not a valid schema") from error
    if errors:
        raise ValueError(f"wrong arguments for {tool.spec.name!r}: " + "; ".join(errors))
    return given


async def _guarded(tool: Tool, arguments: dict[str, Any]) -> ToolOutput:
    """The tool's result, or its failure as a result: the one place that meets foreign code."""
    try:
        if inspect.iscoroutinefunction(tool.function):
            result = await tool.function(**arguments)
        else:
            thread = start_thread(_call(tool, arguments), f"tool {tool.spec.name}")
            result = await asyncio.wrap_future(thread)
            if inspect.isawaitable(result):
                result = await result
        return to_output(result, tool.spec.name)
    except (PersonNeeded, RunLimitReached, StepDiffers, StoreError) as ends:
        if tool.cascade:
            raise  # a run below waits or ends by it, and so does this one
        return _failure(f"{type(ends).__name__}: {ends}")
    except ToolError as problem:
        return _failure(str(problem) or "the tool failed without saying why")
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a tool may raise anything
        return _failure(f"{type(problem).__name__}: {problem}".removesuffix(": "))


def _call(tool: Tool, arguments: dict[str, Any]) -> Callable[[], Any]:
    """Return the call of a plain function, with the context variables of the task that calls it."""
    inherited = contextvars.copy_context()

    def call() -> Any:
        try:
            return inherited.run(tool.function, **arguments)
        except StopIteration as problem:
            # A future cannot carry it: it would end the coroutine that awaits.
            raise RuntimeError(f"StopIteration: {problem}") from problem

    return call


def to_output(result: Any, name: str) -> ToolOutput:
    """Return what a tool returned, as text and pictures; `name` names a picture without one."""
    match result:
        case ToolOutput():
            return dataclasses.replace(result, text=clean_text(result.text))
        case None:
            return ToolOutput("done")
        case str():
            return ToolOutput(clean_text(result))
        case Picture():
            return ToolOutput(f"picture {result.describe()}", (result,))
        case bytes() | bytearray() | memoryview():
            return _from_bytes(bytes(result), name)
        case _:
            return ToolOutput(clean_text(json.dumps(result, default=_plain, ensure_ascii=False)))


def _from_bytes(data: bytes, name: str) -> ToolOutput:
    try:
        image = picture(data)
    except ValueError:
        text = decode_text(data)
        if text is None:
            text = f"({len(data)} bytes that are neither text nor a picture, not shown)"
        return ToolOutput(text)
    extension = image.media_type.removeprefix("image/").replace("jpeg", "jpg")
    named = dataclasses.replace(image, name=f"{name}.{extension}")
    return ToolOutput(f"picture {named.describe()}", (named,))


def _plain(value: Any) -> Any:
    """Return what JSON has no form for: fields of a dataclass or pydantic model, else `str`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return str(value)


def _failure(text: str) -> ToolOutput:
    return ToolOutput(clean_text(text), error=True)


LONGEST_NAME: Final = 500
"""Characters of an argument that is taken for the name of what was read or written."""


def names_touched(tool: Tool | None, call: ToolCall) -> dict[str, list[str]]:
    """Return the names under `reads` and `writes`, as far as the tool declares any.

    An argument that was left out counts with its default; long text is no name of
    anything and is left out.
    """
    if tool is None or not (tool.reads or tool.writes):
        return {}
    try:
        given = call.parsed()
    except ValueError:
        return {}
    properties = tool.spec.parameters["properties"]
    touched: dict[str, list[str]] = {}
    for key, names in (("reads", tool.reads), ("writes", tool.writes)):
        values = [given.get(name, properties[name].get("default")) for name in names]
        flat = [
            each for value in values for each in (value if isinstance(value, list) else [value])
        ]
        if named := [v for v in flat if isinstance(v, str) and 0 < len(v) <= LONGEST_NAME]:
            touched[key] = named
    return touched
