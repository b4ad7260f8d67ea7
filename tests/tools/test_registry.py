"""Functions become tools: schema from the signature, words from the docstring."""

import dataclasses
import functools
import subprocess
import sys
import types
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import UsageError
from windlass.messages import ToolSpec
from windlass.tools.base import TIMEOUT_S, Tool, ToolContext
from windlass.tools.registry import Registry, make_tool, sent_name, tool


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
    def test_must_be_parameters(self) -> None:
        @tool(reads=("sorce",))
        def read(source: str) -> str:
            """Read."""
            return ""

        with pytest.raises(UsageError, match="'sorce' is none; did you mean 'source'"):
            make_tool(read)


class TestSentNames:
    def test_long_ones_stay_apart(self) -> None:
        long = "server." + "x" * 80
        assert sent_name(long + "1") != sent_name(long + "2")

    def test_two_tools_may_not_share_one(self) -> None:
        registry = Registry()
        registry.register(dataclasses.replace(make_tool(weigh), spec=ToolSpec("a.b", "", {})))
        with pytest.raises(UsageError, match=r"'a\.b' and 'a__b' would both be sent as 'a__b'"):
            registry.register(dataclasses.replace(make_tool(weigh), spec=ToolSpec("a__b", "", {})))


class TestBuiltins:
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
