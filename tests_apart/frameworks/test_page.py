"""The samples of `docs/frameworks.md`, as they stand, and what it says of others."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anthropic
import openai
import pydantic
import pytest
from tests.providers.model_server import reads_logs
from tests.providers.thinking_server import Body, Say

import windlass
from tests_apart.frameworks.work import TASK, TURNS, Wrap, measure, read_log

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
SAMPLES = re.findall(
    r"^## ([^\n]+)$|^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
)


def samples() -> list[Any]:
    """Each sample, with the title above it; some belong to the other environment."""
    title, listed = "", []
    for heading, code in SAMPLES:
        title = heading or title
        if code:
            absent = not all(
                map(_is_here, re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE))
            )
            marks = [pytest.mark.skip("in the other environment")] if absent else []
            listed.append(pytest.param(code, id=title, marks=marks))
    return listed


def _is_here(package: str) -> bool:
    return find_spec("google.adk" if package == "google" else package) is not None


@pytest.mark.parametrize("code", samples())
def test_a_sample_runs_as_it_stands_and_is_billed_less(
    code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(wrap: Wrap) -> None:
        def wrapped(client: Any) -> Any:
            made = wrap(client)
            if made is client:
                vars(client)["windlass"] = None
            return made

        with monkeypatch.context() as patch:
            patch.setattr(windlass, "wrap", wrapped)
            given = {"__name__": "sample", "task": TASK, "read_log": read_log}
            exec(compile(code, str(PAGE), "exec"), given)

    plain, wrapped = (measure(run, reads_logs(TURNS), wrapped=wrapped) for wrapped in (False, True))
    assert plain.server.refused == wrapped.server.refused == []
    assert len(plain.server.billed) == len(wrapped.server.billed) == TURNS + 1
    assert wrapped.bill < 0.75 * plain.bill
    assert f"{TURNS + 1} calls in 1 conversation" in capsys.readouterr().out


@pytest.mark.skipif(not find_spec("instructor"), reason="in the other environment")
@pytest.mark.parametrize("sdk", ["anthropic", "openai"])
def test_instructor_takes_a_client(sdk: str) -> None:
    import instructor

    class Found(pydantic.BaseModel):
        number: int

    def script(body: Body) -> Say:
        assert body["tools"]
        return Say("", [("Found", {"number": 7})])

    def run(wrap: Wrap) -> None:
        kind: Any = anthropic.Anthropic if sdk == "anthropic" else openai.OpenAI
        with kind() as client:
            asked: Any = getattr(instructor, f"from_{sdk}")(wrap(client))
            answer = asked.create(
                model="claude-haiku-4-5" if sdk == "anthropic" else "gpt-5",
                messages=[{"role": "user", "content": "Which order is late?"}],
                response_model=Found,
                max_tokens=1_000,
            )
        assert answer.number == 7

    done = measure(run, script, wrapped=True)
    ((call,),) = (report.calls for report in done.reports)
    assert call.usage is not None
    assert call.usage.tokens_in == done.server.billed[0].tokens
