"""MCP servers and allowed hosts in a cascade: what may be said, and what is told of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cascade.making import Toolbox, cascade, loaded
from windlass.cascade.check import check
from windlass.cascade.model import Cascade
from windlass.cascade.published_schema import json_schema
from windlass.cascade.tools_named import has_tool, servers_named
from windlass.errors import CascadeError
from windlass.tools.registry import builtin

DEMO: dict[str, Any] = {"demo": {"command": ["python", "server.py"]}}


def told(*phases: dict[str, Any], **more: Any) -> list[str]:
    """What `check` says of a cascade of these phases."""
    return [each.text for each in check(loaded(cascade(*phases, **more)), tools=builtin())]


class TestTackle:
    @pytest.mark.parametrize("name", ["demo.x", "demo.*", "demo.a.b"])
    @pytest.mark.parametrize("tools", [None, Toolbox(), builtin()])
    def test_a_tool_of_a_declared_server_is_taken_on_trust(self, name: str, tools: Any) -> None:
        made = loaded(cascade({"name": "a", "tackle": [name]}, mcp_servers=DEMO))
        assert check(made, tools=tools) == ()

    def test_of_another_it_is_a_mistake_that_names_the_servers(self) -> None:
        (said,) = told({"name": "a", "tackle": ["dmeo.x"]}, mcp_servers=DEMO)
        assert said == (
            "phase 'a', tackle[0]: 'dmeo.x' would be a tool of the MCP server 'dmeo', which"
            " neither the cascade nor the settings declare in 'mcp_servers'; did you mean 'demo'?"
            " known: demo"
        )
        (said,) = told({"name": "a", "rules": {"loop_until": "demo.x"}})
        assert said.endswith("none are known here")

    def test_a_server_that_is_declared_wrongly_is_one_mistake(self) -> None:
        (said,) = told({"name": "a", "tackle": ["demo.x"]}, mcp_servers={"demo": {"comand": ["x"]}})
        assert said == (
            "mcp_servers.demo: unknown key 'comand'; did you mean 'command'?"
            " known: command, env, headers, url"
        )

    @pytest.mark.parametrize(
        ("tackle", "choice", "fine"),
        [
            (["demo.x"], "demo.x", True),
            (["demo.*"], "demo.x", True),
            (["demo.x"], "x", False),
            (["demo.x"], "demo.y", False),
            (["demo.*"], "other.x", False),
        ],
    )
    def test_one_can_be_forced(self, tackle: list[str], choice: str, *, fine: bool) -> None:
        phase = {"name": "a", "tackle": tackle, "tool_choice": choice}
        assert bool(told(phase, mcp_servers=DEMO)) is not fine


class TestNeeded:
    @pytest.mark.parametrize(
        ("phase", "needed"),
        [
            ({}, []),
            ({"tackle": ["set_state", "m.n:f"]}, []),
            ({"tackle": ["b.x", "b.y", "a.*"]}, ["a", "b"]),
            ({"rules": {"loop_until": "b.judge"}}, ["b"]),
            ({"tackle": "manifest"}, ["a", "b", "c"]),
        ],
    )
    def test_are_the_servers_that_a_phase_names(
        self, phase: dict[str, Any], needed: list[str]
    ) -> None:
        servers = dict.fromkeys("abc", DEMO["demo"])
        made = Cascade.model_validate(cascade({"name": "p", **phase}, mcp_servers=servers))
        assert servers_named(made) == needed

    @pytest.mark.parametrize(
        ("phase", "needed"),
        [
            ({}, []),
            ({"tackle": ["mine.x", "a.*"]}, ["a", "mine"]),
            ({"rules": {"loop_until": "mine.judge"}}, ["mine"]),
            ({"tackle": "manifest"}, ["a"]),
            ({"tackle": "manifest", "rules": {"loop_until": "mine.judge"}}, ["a", "mine"]),
        ],
    )
    def test_of_the_settings_only_those_that_are_named(
        self, phase: dict[str, Any], needed: list[str]
    ) -> None:
        data = cascade({"name": "p", **phase}, mcp_servers={"a": DEMO["demo"]})
        made = Cascade.model_validate(data)
        assert servers_named(made, ["mine", "a", "other"]) == needed

    def test_a_server_of_the_settings_may_be_named(self) -> None:
        made = loaded(cascade({"name": "a", "tackle": ["mine.x", "demo.y"]}, mcp_servers=DEMO))
        assert check(made, tools=builtin(), servers=["mine"]) == ()
        (said,) = check(made, tools=builtin(), servers=["mien"])
        assert said.text.endswith("did you mean 'mien'? known: demo, mien")

    @pytest.mark.parametrize(
        ("phase", "has"),
        [
            ({}, False),
            ({"tackle": ["set_state"]}, False),
            ({"tackle": ["web_search"]}, True),
            ({"tackle": ["windlass.tools.searching:web_search"]}, True),
            ({"tackle": "manifest"}, True),
            ({"rules": {"loop_until": "web_search"}}, True),
        ],
    )
    def test_a_tool_that_a_phase_may_call(self, phase: dict[str, Any], *, has: bool) -> None:
        made = Cascade.model_validate(cascade({"name": "p"}, {"name": "q", **phase}))
        assert has_tool(made, "web_search") is has


class TestDeclarations:
    @pytest.mark.parametrize(
        ("server", "said"),
        [
            ({}, "write either 'command' (a program to start) or 'url' (one that runs)"),
            ({"command": ["x"], "url": "http://h/"}, "write either 'command'"),
            ({"command": "python server.py"}, "list"),
            ({"url": "localhost:8000"}, "'localhost:8000' is not an address; write it in full"),
            ({"url": "http://me:pw@h/mcp"}, "put what proves who you are into 'headers'"),
            ({"url": "http://h/", "env": {"A": "b"}}, "'env' is for a 'command'"),
            ({"command": ["x"], "headers": {"A": "b"}}, "'headers' are for a 'url'"),
            ({"command": ["x"], "env": {"MY_API_KEY": "abc"}}, "'${MY_API_KEY}'"),
            ({"url": "http://h/", "headers": {"Authorization": "Bearer a"}}, "'${AUTHORIZATION}'"),
        ],
    )
    def test_that_are_wrong_are_told_in_one_sentence(
        self, server: dict[str, Any], said: str
    ) -> None:
        (found,) = told({"name": "a"}, mcp_servers={"demo": server})
        assert said in found
        assert found.startswith("mcp_servers")

    @pytest.mark.parametrize("name", ["a.b", "1a", "", "a b", "x" * 33])
    def test_names_can_stand_before_a_dot(self, name: str) -> None:
        data = cascade({"name": "a", "tackle": [f"{name}.x"]}, mcp_servers={name: DEMO["demo"]})
        with pytest.raises(CascadeError, match="is not a name for a server"):
            _ = loaded(data).cascade
        assert not Draft202012Validator(json_schema()).is_valid(data)

    def test_variables_stay_as_they_are_written(self) -> None:
        server = {"url": "http://h/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
        made = loaded(cascade({"name": "a"}, mcp_servers={"demo": server})).cascade
        assert "Bearer ${TOKEN}" in made.model_dump_json()

    def test_hosts_are_listed_once(self) -> None:
        (said,) = told({"name": "a"}, http_allow=["h", "h"])
        assert "'h' is listed twice" in said
