"""A cascade with what is not there, run on the command line with and without --lenient."""

from __future__ import annotations

from tests.cli.conftest import CommandLine
from tests.engine.harness import cascade, phase


def test_a_lenient_run_leaves_out_what_is_not_there(windlass: CommandLine) -> None:
    made = phase("a", tackle=["set_state", "lenses"], wards={"post": ["no_such_ward"]})
    windlass.write("c.json", cascade(made, nonsense=1))
    assert windlass("run", "c.json").code == 2
    assert windlass.requests == []
    said = windlass("run", "c.json", "--lenient")
    assert said.code == 0, said.err
    for name in ("lenses", "no_such_ward", "nonsense"):
        (told,) = [line for line in said.err.splitlines() if repr(name) in line]
        assert "left out" in told
    (request,) = windlass.requests
    assert [tool.name for tool in request.tools] == ["set_state"]
