"""What tests of engine injectors build their cases of; others use it, too."""

from __future__ import annotations

from tests.engine.harness import call, calls

PLAN = calls(call("plan", '{"goal":"Ship it","steps":["one","two"]}'))


DONE = calls(call("todo", '{"step":1,"status":"done","conclusion":"found 7"}'))


TACKLE = ["plan", "todo", "read_file"]
