"""The engine: every method respects every option, and what it holds is opened and closed once."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

import windlass
from tests.engine.harness import call, calls, cascade, phase
from tests.tasks.making import atomic, sequential
from windlass import Engine
from windlass.api import _run_setup as _setup
from windlass.api.options import EngineOptions, RunLimits
from windlass.engine.result import Result
from windlass.errors import TrustNeeded, UsageError
from windlass.providers.scripted import Scripted
from windlass.providers.spending import LIMITS, Allowance
from windlass.wire.base import Request

TOOLS: Final = ("look", "web_search", "ask_human")
WORKS: Final = cascade(phase("a"), phase("b", tackle=[*TOOLS]))
TASK: Final = sequential(
    atomic("a"),
    atomic("b", f"<tools>{''.join(f'<tool>{name}</tool>' for name in TOOLS)}</tools>"),
)
ASKS: Final = '{"question": "Which city?"}'


def look() -> str:
    """Look."""
    return "it is well"


@dataclass
class Model:
    """Calls every tool that it is offered once, then ends; keeps what it was sent."""

    requests: list[Request] = field(default_factory=list)
    closed: int = 0

    def provider(self) -> Scripted:
        outer = self

        class Closing(Scripted):
            async def close(self) -> None:
                outer.closed += 1

        return Closing(self._answer)

    def _answer(self, request: Request) -> Any:
        self.requests.append(request)
        if request.messages[-1].role == "tool" or not request.tools:
            return "done"
        return calls(
            call("look"), call("web_search", '{"query": "needle"}'), call("ask_human", ASKS)
        )

    @property
    def results(self) -> str:
        """The text of all results of tools that it saw."""
        every = [each for request in self.requests for each in request.messages]
        return "\n".join(each.text for each in every if each.role == "tool")


async def by_run(engine: Engine) -> Result:
    return await engine.run(WORKS)


async def by_resume(engine: Engine) -> Result:
    return await engine.resume("s", WORKS)


async def by_fork(engine: Engine) -> Result:
    return await engine.fork("s", 1)


async def by_evaluate(engine: Engine) -> Result:
    return await engine.evaluate("t.xml")


async def by_resume_task(engine: Engine) -> Result:
    return await engine.resume_task("t", "t.xml")


async def by_session(engine: Engine) -> Result:
    return await engine.session(WORKS).send("Go on.")


async def by_batch(engine: Engine) -> Mapping[str, Any]:
    done = await engine.batch(WORKS, [{}], out="b.jsonl")
    (line,) = done.read()
    return line


async def by_compare(engine: Engine) -> Mapping[str, Any]:
    await engine.compare(WORKS, [{}], ["everything", "lean"], out="c.jsonl")
    lines = [json.loads(line) for line in Path("c.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    reasons = [line for line in lines if line["reason"]]
    return dict((reasons or lines)[0])


Method = Callable[[Engine], Awaitable[Any]]
METHODS: Final[dict[str, Method]] = {
    "run": by_run,
    "resume": by_resume,
    "fork": by_fork,
    "evaluate": by_evaluate,
    "resume_task": by_resume_task,
    "session": by_session,
    "batch": by_batch,
    "compare": by_compare,
}


@dataclass
class House:
    """A folder with sessions that a limit broke off, and the options of an engine for them."""

    folder: Path
    model: Model
    events: list[Any] = field(default_factory=list)
    cascades: list[Any] = field(default_factory=list)

    @property
    def options(self) -> dict[str, Any]:
        return {
            "model": "s/x",
            "store": self.folder / "store",
            "root": self.folder,
            "search_folder": self.folder / "texts",
            "tools": [look],
            "providers": {"s": self.model.provider()},
            "on_question": lambda _: "Bern",
            "on_event": self.events.append,
        }


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sessions; each test has a copy."""
    folder = tmp_path_factory.mktemp("house")
    (folder / "t.xml").write_text(TASK)
    (folder / "texts").mkdir()
    (folder / "texts" / "hay.txt").write_text("a needle in it")
    options: dict[str, Any] = {**House(folder, Model()).options, "max_turns": 1}
    del options["on_question"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        windlass.run_sync(WORKS, session_id="s", **options)
        windlass.evaluate_sync("t.xml", session_id="t", **options)
    return folder


@pytest.fixture
def house(broken_off: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(broken_off, tmp_path, dirs_exist_ok=True)
    made = House(tmp_path, Model())
    prepare = _setup.prepare  # type: ignore[attr-defined]

    def watched(of: Any, *arguments: Any, **more: Any) -> Any:
        made.cascades.append(of.cascade)
        return prepare(of, *arguments, **more)

    monkeypatch.setattr(_setup, "prepare", watched)
    return made


def raised(text: str) -> Callable[[House, Any], None]:
    def check(house: House, ended: Any) -> None:
        assert isinstance(ended, UsageError), ended
        assert text in str(ended)

    return check


def stopped(reason: str) -> Callable[[House, Any], None]:
    def check(house: House, ended: Any) -> None:
        said = ended["reason"] if isinstance(ended, dict) else ended.reason
        assert said == reason

    return check


def shown(text: str) -> Callable[[House, Any], None]:
    """What a tool answered where the option holds."""

    def check(house: House, ended: Any) -> None:
        assert text in house.model.results

    return check


def told(house: House, ended: Any) -> None:
    assert house.events


def shortened(house: House, ended: Any) -> None:
    assert all(each.auto_context is not None for each in house.cascades)


OPTIONS: Final[dict[str, tuple[Callable[[House], Any], Callable[[House, Any], None]]]] = {
    "model": (lambda _: "nobody/x", raised("there is no provider 'nobody'")),
    "through": (lambda _: "nobody", raised("there is no provider 'nobody'")),
    "store": (lambda house: house.folder / "t.xml", raised("is a file")),
    "root": (lambda house: house.folder / "gone", raised("gone")),
    "search_folder": (lambda house: house.folder / "texts", shown("needle")),
    "tools": (lambda _: [look], shown("it is well")),
    "providers": (lambda _: {}, raised("there is no provider 's'")),
    "on_event": (lambda house: house.events.append, told),
    "auto": (lambda _: True, shortened),
    "trust": (lambda _: False, raised("needs your trust")),
    "limits": (lambda _: {"max_turns": 1}, stopped("turns")),
    "allowances": (lambda _: [Allowance("the house", max_turns=1)], stopped("turns")),
    "approve": (lambda _: ["nothing"], raised("approve 'nothing'")),
    "on_question": (lambda _: lambda _: "Basel", shown("Basel")),
    "otel": (lambda _: "loud", raised("otel must be off, on, or content")),
}
"""For each option a value, and how one sees that a method respects it."""


async def ended_by(method: Method, options: Mapping[str, Any]) -> Any:
    try:
        return await method(Engine(**options))
    except UsageError as error:
        return error


def test_every_option_is_asked_for() -> None:
    assert {*OPTIONS, "lenient"} == EngineOptions.__annotations__.keys() == Engine().options.keys()
    assert RunLimits.__annotations__.keys() == LIMITS.keys()


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", METHODS)
async def test_every_method_respects_every_option(house: House, name: str, option: str) -> None:
    value, check = OPTIONS[option]
    if option == "trust":
        (house.folder / "windlass.toml").write_text('tools = ["evil"]\n')
    ended = await ended_by(METHODS[name], {**house.options, option: value(house)})
    check(house, ended)
    if option == "trust":
        assert isinstance(ended, TrustNeeded)
        (house.folder / "evil.py").write_text("")
        loaded = await ended_by(METHODS[name], {**house.options, "trust": True})
        raised("module 'evil' has no function")(house, loaded)


@pytest.mark.parametrize("name", ["run", "session", "batch", "compare"])
async def test_every_method_that_reads_a_cascade_may_leave_out_what_is_unknown(
    house: House, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORKS, "weather", "fine")
    raised("unknown key 'weather'")(house, await ended_by(METHODS[name], house.options))
    assert house.model.requests == []
    await METHODS[name](Engine(**house.options, lenient=True))
    assert house.model.requests


@pytest.mark.parametrize("name", METHODS)
async def test_every_method_checks_the_model_of_cards_before_anything_is_paid_for(
    house: House, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_CARDS_SUMMARISER", "nowhere/x")
    raised("there is no provider 'nowhere'")(house, await ended_by(METHODS[name], house.options))
    assert house.model.requests == []


@pytest.mark.parametrize("name", METHODS)
async def test_a_wrong_limit_is_a_mistake_of_every_method(house: House, name: str) -> None:
    for limits, text in (
        ({"budget": 0}, "budget 0 must be a number of US dollars above 0"),
        ({"bugdet": 1}, "there is no limit 'bugdet'; did you mean 'budget'?"),
        ("none", "limits must be a mapping"),
    ):
        raised(text)(house, await ended_by(METHODS[name], {**house.options, "limits": limits}))


class TestOptions:
    @pytest.mark.parametrize("name", [*METHODS, "Engine"])
    async def test_an_unknown_one_is_a_type_error(self, name: str) -> None:
        if name in ("Engine", "session"):
            with pytest.raises(TypeError, match="'modle'; did you mean 'model'"):
                Engine(modle="s/x")  # type: ignore[call-arg]
            return
        for call_it in (getattr(Engine(), name), getattr(windlass, name)):
            given: tuple[Any, ...] = {"batch": ("c.json", []), "compare": ("c.json", [], [])}.get(
                name, ("s", 1)
            )
            needed = {"out": "r.jsonl"} if name in ("batch", "compare") else {}
            with pytest.raises(TypeError, match="unexpected keyword argument 'modle'"):
                await call_it(*given[: 2 if name == "fork" else len(given)], **needed, modle="s/x")

    async def test_none_is_as_good_as_left_out(self, house: House) -> None:
        named = ("model", "store", "root", "search_folder", "on_event", "on_question")
        options = {**house.options, **dict.fromkeys(named)}
        assert Engine(**options).flags == Engine().flags
        one = cascade(phase("a"), model="s/x")
        assert (await Engine(**options).run(one)).status == "completed"

    async def test_a_method_takes_others_for_one_call(self, house: House) -> None:
        one = cascade(phase("a"), model="s/x")
        async with Engine(**house.options) as engine:
            first = await engine.run(one, max_turns=5)
            assert engine.options["limits"] == house.options.get("limits", {})
            ended = await engine.run(one, limits={"max_tokens": 1})
            other = await engine.run(one, store=house.folder / "other")
            assert (await engine.run(one)).status == first.status == other.status == "completed"
        assert (ended.status, ended.reason) == ("incomplete", "tokens")
        assert (house.folder / "other").is_dir()

    async def test_limits_may_stand_alone_in_a_function(self, house: House) -> None:
        options = {**house.options, "limits": {"max_turns": 9, "max_tokens": 10**6}}
        result = await windlass.run(WORKS, **options, max_turns=1)
        assert (result.status, result.reason) == ("incomplete", "turns")


class TestOpen:
    async def test_what_calls_share_is_closed_once(self, house: House) -> None:
        async with Engine(**house.options) as engine:
            first, second = await asyncio.gather(engine.run(WORKS), engine.run(WORKS))
            talked = await first.session.send("Go on.") if first.session else None
            await engine.resume("s", WORKS)
            assert house.model.closed == 0
        assert first.session_id != second.session_id
        assert talked is not None
        assert talked.session_id == first.session_id
        assert house.model.closed == 1

    async def test_without_it_each_call_opens_and_closes(self, house: House) -> None:
        engine = Engine(**house.options)
        result = await engine.run(WORKS)
        assert house.model.closed == 1
        assert result.session is not None
        assert (await result.session.send("Go on.")).status == "completed"
        assert house.model.closed == 2

    async def test_it_is_opened_once_at_a_time_and_may_be_opened_again(self, house: House) -> None:
        engine = Engine(**house.options)
        async with engine:
            with pytest.raises(UsageError, match="the engine is open already"):
                await engine.__aenter__()
        async with engine:
            assert (await engine.run(WORKS)).status == "completed"

    async def test_a_session_outlives_the_engine(self, house: House) -> None:
        async with Engine(**house.options) as engine:
            result = await engine.run(WORKS)
        assert result.session is not None
        assert (await result.session.send("Go on.")).status == "completed"

    async def test_each_run_is_told_to_its_own_listener(self, house: House) -> None:
        def fails(event: Any) -> None:
            house.events.append(event)
            raise ValueError("not that")

        async with Engine(**{**house.options, "on_event": fails}) as engine:
            for _ in range(2):
                with pytest.raises(ValueError, match="not that"):
                    await engine.run(WORKS)
        assert len(house.events) == 2, "a run that ended so does not silence the next one"
