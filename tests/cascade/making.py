"""Generators of cascades as plain data, and ways to damage them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import strategies as st

from windlass.cascade.load import Format, LoadedCascade, parse
from windlass.errors import UsageError
from windlass.messages import ToolSpec
from windlass.tools.base import Tool
from windlass.tools.registry import Registry

TOOLS = ("create_chart", "run_sql", "set_state")


class Toolbox(Registry):
    """A registry of a few tools that can be given more."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.listed = list(names or TOOLS)

    def names(self) -> tuple[str, ...]:
        return tuple(self.listed)

    def resolve(self, dotted: str) -> Any:
        if dotted.startswith("bad"):
            raise UsageError(f"cannot import {dotted!r}")
        name = dotted.rpartition(":")[2]
        self.listed.append(name)
        return Tool(ToolSpec(name, "", {}), print)

    def add_module(self, dotted: str) -> None:
        self.resolve(f"{dotted}:of_module")


WORDS = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=12)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,9}", fullmatch=True).filter(
    lambda name: name not in {"all", "first", "previous"}
)
COUNTS = st.integers(1, 50)


def cascade(*phases: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A cascade of these phases; instructions are made up where there are none."""
    return {
        "cascade_id": "c",
        "phases": [{"instructions": "Do it.", **phase} for phase in phases],
        **more,
    }


def loaded(data: Any, form: Format = "json") -> LoadedCascade:
    """The data as a file would be loaded."""
    return parse(dump(data, form), name=f"c.{form}", format=form)


def dump(data: Any, form: Format) -> str:
    """The data as the text of a file, one key a line."""
    if form == "json":
        return json.dumps(data, indent=2)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of these keys."""
    return st.fixed_dictionaries({}, optional=fields)


def settings() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "model": WORDS,
        "max_output_tokens": COUNTS,
        "temperature": st.floats(0, 2) | st.integers(0, 2),
        "reasoning_effort": st.sampled_from(["minimal", "low", "medium", "high"]),
        "output_schema": st.just({"type": "object", "properties": {"x": {"type": "number"}}}),
    }


@st.composite
def sources(draw: st.DrawFn, earlier: list[str]) -> Any:
    """A source that a phase after `earlier` may name."""
    phase = draw(st.sampled_from([*earlier, "previous", "first", "all"]))
    if draw(st.booleans()):
        return phase
    kinds = st.sampled_from(["images", "output", "messages", "state"])
    source: dict[str, Any] = {"phase": phase} | draw(
        some(
            include=st.lists(kinds, min_size=1, unique=True),
            images_filter=st.sampled_from(["all", "last"]),
            as_role=st.sampled_from(["user", "system"]),
        )
    )
    if draw(st.booleans()):
        source |= {"images_filter": "last_n", "images_count": draw(COUNTS)}
    if draw(st.booleans()):
        key = draw(st.sampled_from(["filter", "messages_filter"]))
        source[key] = draw(st.sampled_from(["all", "assistant_only", "last_turn"]))
    if draw(st.booleans()):
        source[draw(st.sampled_from(["if", "condition"]))] = "{{ state.wanted }}"
    return source


@st.composite
def phases(draw: st.DrawFn, name: str, earlier: list[str]) -> dict[str, Any]:
    """A valid phase after `earlier`."""
    ttl = COUNTS | st.none()
    phase: dict[str, Any] = {
        "name": name,
        "instructions": "Use {{ input.x }} {{ state.y }}",
    } | draw(
        some(
            system=WORDS.filter(lambda text: "{" not in text),
            rules=some(max_turns=COUNTS, max_attempts=COUNTS, loop_until=st.sampled_from(TOOLS)),
            context_retention=st.sampled_from(["full", "output_only"]),
            context_ttl=some(tool_results=ttl, images=ttl, assistant=ttl, user=ttl),
            output_extraction=st.just({"pattern": "(.)", "store_as": "x", "format": "json"}),
            max_input_tokens=COUNTS
            | st.builds(lambda n: {"limit": n, "on_exceed": "fail"}, COUNTS),
            tool_choice=st.sampled_from(["auto", "none"]),
            intra_context=window_options(),
            callouts=st.dictionaries(NAMES, st.sampled_from(["^DECISION:", "a|b"]), max_size=2),
            memory=memories(),
            tackle=st.just("manifest") | st.lists(st.sampled_from(TOOLS), unique=True),
            **settings(),
        )
    )
    uses_output = draw(st.booleans())
    if earlier and uses_output:
        phase["instructions"] += f" {{{{ outputs[{draw(st.sampled_from(earlier))!r}] }}}}"
    listed = st.lists(sources(earlier), max_size=3)
    match draw(st.integers(0, 3)):
        case 1:
            phase["context"] = {"from": draw(listed)} | draw(
                some(include_input=st.booleans(), exclude=st.lists(st.sampled_from([name])))
            )
        case 2:
            position = some(position=st.sampled_from(["start", "end"]))
            phase |= {"inject_from": draw(listed)} | draw(position)
        case 3:
            strategies = ["fresh", "minimal", "full", "sliding", "recent"]
            phase["context_strategy"] = draw(st.sampled_from(strategies))
            if phase["context_strategy"] == "recent":
                phase |= draw(some(turns=COUNTS))
    return phase


def window_options() -> st.SearchStrategy[Any]:
    """What `intra_context` may say."""
    return st.booleans() | some(
        profile=st.sampled_from(["default", "lean", "careful", "spec"]),
        enabled=st.booleans(),
        commit=st.sampled_from(["priced", "at_once"]),
        window=COUNTS,
        mask_observations_after=COUNTS | st.none(),
        guard=st.sampled_from([1, 1.5]),
        compress=st.booleans() | st.none() | some(above_chars=COUNTS, file_lines=COUNTS),
        decay=st.booleans() | st.none() | some(full=COUNTS, fold=COUNTS),
        keep_recent_turns=st.integers(0, 9),
    )


def memories() -> st.SearchStrategy[Any]:
    """What `memory` may say, whether or not a tool uses it: a bare name needs one."""
    banks = st.lists(NAMES, min_size=1, max_size=3, unique=True)
    return banks | st.fixed_dictionaries({"read": banks}, optional={"write": banks})


def servers() -> st.SearchStrategy[dict[str, Any]]:
    """MCP servers, by a command or by an address."""
    values = st.dictionaries(st.sampled_from(["PORT", "API_KEY"]), st.just("${X}"))
    started = st.fixed_dictionaries(
        {"command": st.lists(WORDS, min_size=1)}, optional={"env": values}
    )
    url = st.just("http://127.0.0.1:1/mcp")
    return started | st.fixed_dictionaries({"url": url}, optional={"headers": values})


@st.composite
def cascades(draw: st.DrawFn) -> dict[str, Any]:
    """Any valid cascade."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    top = draw(
        some(
            description=WORDS,
            tools=st.just(["json"]),
            http_allow=st.lists(WORDS, unique=True),
            auto_context=st.booleans()
            | some(
                profile=st.sampled_from(["lean", "spec"]),
                commit=st.just("at_once"),
                intra_phase=window_options(),
            ),
            memory=memories(),
            mcp_servers=st.dictionaries(NAMES, servers(), max_size=2),
            **settings(),
        )
    )
    made = [draw(phases(name, names[:index])) for index, name in enumerate(names)]
    return {"cascade_id": draw(NAMES), **top, "phases": made}


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside `data`."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A valid cascade in which some values were put in the place of others."""
    data = copy.deepcopy(draw(cascades()))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(data))))
        holder = data
        for step in path[:-1]:
            holder = holder[step]
        new = draw(JSON | st.sampled_from(["{{", "{{ nope }}", "previous", "a b"]))
        if isinstance(holder, dict) and draw(st.booleans()):
            holder[draw(st.text(max_size=5) | st.sampled_from(["if", "from_", "soundings"]))] = new
        else:
            holder[path[-1]] = new
    return data
