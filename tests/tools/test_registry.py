"""Functions become tools: schema from the signature, words from the docstring."""

import dataclasses
import functools
import json
import re
import subprocess
import sys
import types
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from windlass.errors import UsageError
from windlass.messages import ToolSpec
from windlass.tools.base import TIMEOUT_S, Tool, ToolContext
from windlass.tools.registry import Registry, builtin, make_tool, sent_name, tool


def weigh(context: ToolContext, title: str, grams: int = 3, kind: Literal["a", "b"] = "a") -> str:
    """Weigh a thing
    with care.

    More words that the model is not told.

    Args:
        context: Not shown.
        title: What it is,
            at length.
        grams (int): How much.

    Returns:
        Nothing of interest.
    """
    return f"{title} {grams} {kind}"


class TestSchema:
    def test_comes_from_signature_and_docstring(self) -> None:
        spec = make_tool(weigh).spec
        assert spec.name == "weigh"
        assert spec.description == "Weigh a thing with care."
        assert spec.parameters == {
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "What it is, at length."},
                "grams": {"type": "integer", "description": "How much.", "default": 3},
                "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
            },
            "required": ["title"],
        }

    def test_only_of_a_tool_that_takes_nothing_it_says_that_it_takes_no_more(self) -> None:
        """What is unknown is refused in a sentence; to say it before costs tokens at each call."""

        def now() -> str:
            return "noon"

        assert make_tool(now).spec.parameters["additionalProperties"] is False
        assert "additionalProperties" not in make_tool(weigh).spec.parameters
        parse = make_tool(weigh).parse
        assert parse is not None
        with pytest.raises(ValueError, match="'colour' is unknown"):
            parse({"title": "a", "colour": "red"})

    def test_a_default_that_is_empty_says_no_more_than_that_it_may_be_left_out(self) -> None:
        def look(place: str, grep: str = "", lines: int = 0) -> str:
            return place + grep + str(lines)

        properties = make_tool(look).spec.parameters["properties"]
        assert "default" not in properties["grep"]
        assert properties["lines"]["default"] == 0

    def test_has_the_same_bytes_each_time(self) -> None:
        first, second = (json.dumps(make_tool(weigh).spec.parameters) for _ in range(2))
        assert first == second
        assert first.startswith('{"type": "object", "properties": {"title": ')

    def test_leaves_the_context_out_and_says_which_parameter_it_is(self) -> None:
        made = make_tool(weigh)
        assert made.context_parameter == "context"
        assert "context" not in made.spec.parameters["properties"]

    def test_of_a_nested_model_keeps_fields_called_title(self) -> None:
        class Book(BaseModel):
            title: str

        def shelve(book: Book) -> str:
            return book.title

        schema = make_tool(shelve).spec.parameters
        assert schema["$defs"]["Book"]["properties"] == {"title": {"type": "string"}}

    @pytest.mark.parametrize("name", ["schema", "model_config", "_x", "copy", "json", "self_"])
    def test_takes_names_that_pydantic_keeps_for_itself(self, name: str) -> None:
        space: dict[str, Any] = {}
        exec(f"def echo({name}: str) -> str:\n    return {name}", space)
        made = make_tool(space["echo"])
        assert list(made.spec.parameters["properties"]) == [name]
        assert made.parse is not None
        assert made.function(**made.parse({name: "v"})) == "v"

    def test_takes_descriptions_and_limits_from_annotations(self) -> None:
        def cut(length: Annotated[int, Field(gt=0, description="In metres.")]) -> int:
            return length

        told = make_tool(cut).spec.parameters["properties"]["length"]
        assert told == {"type": "integer", "description": "In metres.", "exclusiveMinimum": 0}

    def test_leaves_out_a_default_that_json_cannot_say(self) -> None:
        marker = object()

        def odd(value: Any = marker) -> bool:
            return value is marker

        made = make_tool(odd)
        assert made.spec.parameters["properties"]["value"] == {}
        assert made.parse is not None
        assert made.function(**made.parse({})) is True


class TestRefusedFunctions:
    def refused(self, function: Any) -> str:
        with pytest.raises(UsageError) as caught:
            make_tool(function)
        text = str(caught.value)
        assert "\n" not in text
        return text

    def test_say_function_file_and_parameter(self) -> None:
        def loose(thing) -> str:  # type: ignore[no-untyped-def]
            return str(thing)

        text = self.refused(loose)
        assert "loose" in text
        assert __file__ in text
        assert "'thing' has no type annotation" in text

    def test_with_star_arguments(self) -> None:
        def many(*things: str, **more: str) -> str:
            return f"{things}{more}"

        assert "instead of '*things'" in self.refused(many)

    def test_with_positional_only_parameters(self) -> None:
        def first(thing: str, /) -> str:
            return thing

        assert "'thing' must be usable by name" in self.refused(first)

    def test_with_a_type_that_has_no_schema(self) -> None:
        def run(thread: types.FrameType) -> str:
            return str(thread)

        assert "run" in self.refused(run)

    def test_with_an_annotation_that_names_nothing(self) -> None:
        def lost(thing: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821
            return str(thing)

        assert "Nowhere" in self.refused(lost)

    def test_without_a_usable_name(self) -> None:
        assert "give one of letters" in self.refused(lambda: "x")
        assert make_tool(lambda: "x", name="fine").spec.name == "fine"

    def test_that_are_none(self) -> None:
        assert "is not a function" in self.refused("text")

    def test_with_a_time_limit_of_nothing(self) -> None:
        with pytest.raises(UsageError, match="more than 0"):
            make_tool(weigh, timeout_s=0)


class TestDecorator:
    def test_leaves_the_function_as_it_is(self) -> None:
        assert tool(weigh) is weigh
        assert weigh.__name__ == "weigh"

    def test_names_and_limits(self) -> None:
        @tool(name="other", timeout_s=2)
        def plain() -> str:
            return ""

        made = make_tool(plain)
        assert (made.spec.name, made.timeout_s) == ("other", 2.0)
        assert make_tool(plain, name="third", timeout_s=5).timeout_s == 5.0

    def test_without_a_limit_gives_the_default(self) -> None:
        assert make_tool(weigh).timeout_s == TIMEOUT_S == 60


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    made = types.ModuleType("shop_tools")

    @tool
    def price(item: str) -> str:
        return item

    def unmarked(item: str) -> str:
        return item

    made.__dict__.update(price=price, unmarked=unmarked)
    monkeypatch.setitem(sys.modules, "shop_tools", made)
    return made


class TestRegistry:
    def test_takes_the_marked_functions_of_a_module(self, module: types.ModuleType) -> None:
        known = Registry()
        known.add_module("shop_tools")
        known.add_module("shop_tools")
        assert known.names() == ("price",)

    def test_resolves_a_dotted_path(self, module: types.ModuleType) -> None:
        known = Registry()
        made = known.resolve("shop_tools:unmarked")
        assert made.function is module.unmarked
        assert known.get("shop_tools:unmarked").function is module.unmarked
        assert known.names() == ("unmarked",)

    @pytest.mark.parametrize(
        ("dotted", "said"),
        [
            ("no_such_module:f", "no module 'no_such_module'"),
            ("shop_tools:unmarke", "did you mean 'unmarked'"),
            ("shop_tools:", "expected 'package.module:function'"),
            ("shop_tools", "expected 'package.module:function'"),
        ],
    )
    def test_says_what_is_wrong_with_a_path(
        self, module: types.ModuleType, dotted: str, said: str
    ) -> None:
        with pytest.raises(UsageError, match=said):
            Registry().resolve(dotted)

    def test_translates_a_module_that_fails(
        self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "broken_tools.py").write_text("1 / 0")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(UsageError, match="ZeroDivisionError: division by zero"):
            Registry().add_module("broken_tools")

    def test_names_both_origins_of_a_name_used_twice(self) -> None:
        def weigh() -> str:
            return ""

        known = Registry()
        known.register(make_tool(weigh))
        with pytest.raises(UsageError) as caught:
            known.register(make_tool(globals()["weigh"]))
        assert f"{__name__}:weigh (" in str(caught.value)
        assert "<locals>.weigh (" in str(caught.value)

    def test_helps_with_an_unknown_name(self) -> None:
        with pytest.raises(UsageError, match="unknown tool 'run_sq': did you mean 'run_sql'"):
            installed().get("run_sq")

    def test_needs_a_marked_function_in_a_module(self) -> None:
        with pytest.raises(UsageError, match="no function marked with @tool"):
            Registry().add_module("windlass.errors")


def installed() -> Registry:
    """The tools of the core and of the packages beside it."""
    known = builtin()
    known.load_entry_points()
    return known


class TestEntryPoints:
    def add(self, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> Registry:
        from importlib.metadata import EntryPoint, EntryPoints

        entry = EntryPoint(name, value, "windlass.tools")
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: EntryPoints([entry]))
        known = Registry()
        known.load_entry_points()
        return known

    def test_bring_functions_under_their_names(
        self, monkeypatch: pytest.MonkeyPatch, module: types.ModuleType
    ) -> None:
        assert self.add(monkeypatch, "cost", "shop_tools:unmarked").names() == ("cost",)

    def test_bring_whole_modules(
        self, monkeypatch: pytest.MonkeyPatch, module: types.ModuleType
    ) -> None:
        assert self.add(monkeypatch, "shop", "shop_tools").names() == ("price",)

    def test_that_fail_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(UsageError, match="'cost' of an unknown package cannot be loaded"):
            self.add(monkeypatch, "cost", "nowhere:f")


class TestOrigin:
    def test_of_a_partial_and_of_an_object(self) -> None:
        class Counter:
            def __call__(self, by: int) -> int:
                return by

        made = make_tool(functools.partial(weigh, grams=5), name="heavy")
        assert made.origin.startswith(f"{__name__}:weigh (")
        assert "Counter" in make_tool(Counter(), name="count").origin


class TestReadsAndWrites:
    def test_are_declared_by_parameter(self) -> None:
        @tool(reads=("source",), writes=["target"])
        def copy(source: str, target: str) -> str:
            """Copy."""
            return ""

        made = make_tool(copy)
        assert (made.reads, made.writes) == (("source",), ("target",))

    def test_must_be_parameters(self) -> None:
        @tool(reads=("sorce",))
        def read(source: str) -> str:
            """Read."""
            return ""

        with pytest.raises(UsageError, match="'sorce' is none; did you mean 'source'"):
            make_tool(read)

    def test_of_those_that_are_there(self) -> None:
        registry = installed()
        told = {name: registry.get(name) for name in registry.names()}
        declared = {n: (t.reads, t.writes) for n, t in told.items() if t.reads or t.writes}
        assert declared == {
            "create_chart": (("file",), ()),
            "forecast": (("file",), ()),
            "list_files": (("folder",), ()),
            "read_file": (("path",), ()),
            "run_sql": (("query",), ()),
            "write_file": ((), ("path",)),
        }


class TestSentNames:
    @pytest.mark.parametrize("name", ["a.b", "a.b.c", "a.b/c d", "s." + "x" * 200, "ü.ä"])
    def test_are_such_as_every_provider_takes(self, name: str) -> None:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", sent_name(name))

    def test_long_ones_stay_apart(self) -> None:
        long = "server." + "x" * 80
        assert sent_name(long + "1") != sent_name(long + "2")

    def test_of_plain_names_are_themselves(self) -> None:
        assert [sent_name(name) for name in installed().names()] == list(installed().names())

    def test_two_tools_may_not_share_one(self) -> None:
        registry = Registry()
        registry.register(dataclasses.replace(make_tool(weigh), spec=ToolSpec("a.b", "", {})))
        with pytest.raises(UsageError, match=r"'a\.b' and 'a__b' would both be sent as 'a__b'"):
            registry.register(dataclasses.replace(make_tool(weigh), spec=ToolSpec("a__b", "", {})))


class TestBuiltins:
    def test_are_these(self) -> None:
        own = ("http_get", "list_files", "read_file", "set_state", "web_search", "write_file")
        assert builtin().names() == own
        assert set(installed().names()) == {*own, "create_chart", "forecast", "run_sql"}

    def test_describe_every_parameter_and_receive_the_context(self) -> None:
        known = installed()
        for name in known.names():
            made = known.get(name)
            assert made.spec.description, name
            assert made.context_parameter == "context", name
            for parameter, schema in made.spec.parameters["properties"].items():
                assert schema.get("description"), f"{name}.{parameter}"
            jsonschema.Draft202012Validator.check_schema(dict(made.spec.parameters))

    def test_do_not_import_their_optional_packages(self) -> None:
        code = (
            "import sys; from windlass.tools.registry import builtin; "
            "assert 'pydantic' not in sys.modules; builtin().load_entry_points(); "
            "print(sorted({'duckdb', 'matplotlib', 'numpy'} & set(sys.modules)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]"


def everything(
    *,
    text: str,
    count: int,
    share: float,
    flag: bool,
    kind: Literal["x", "y"],
    many: list[int],
    named: dict[str, str],
    maybe: str | None = None,
) -> dict[str, Any]:
    """Take one of each."""
    return dict(locals())


CALLED = make_tool(everything)
ARGUMENTS = st.fixed_dictionaries(
    {
        "text": st.text(),
        "count": st.integers(-(2**63), 2**63),
        "share": st.floats(allow_nan=False, allow_infinity=False),
        "flag": st.booleans(),
        "kind": st.sampled_from(["x", "y"]),
        "many": st.lists(st.integers(-9, 9)),
        "named": st.dictionaries(st.text(), st.text()),
    },
    optional={"maybe": st.none() | st.text()},
)


@given(ARGUMENTS)
def test_whatever_the_schema_allows_reaches_the_function_unchanged(given_: dict[str, Any]) -> None:
    jsonschema.validate(given_, dict(CALLED.spec.parameters))
    assert CALLED.parse is not None
    assert CALLED.function(**CALLED.parse(given_)) == {"maybe": None} | given_


def test_a_tool_made_by_hand_needs_no_parser() -> None:
    made = Tool(ToolSpec("hand", "", {"type": "object"}), dict)
    assert made.parse is None
    assert made.timeout_s == TIMEOUT_S
