"""A file of another program gets one sentence that says what it looks like."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import CommandLine

CREW = """
researcher:
  role: Senior researcher
  goal: Find what is new
  backstory: You dig.
writer:
  role: Writer
  goal: Write it down
  backstory: You write.
"""
TASKS = "find:\n  description: Look\n  expected_output: A list\n  agent: researcher\n"
DIFY = (
    "app: {name: a, mode: workflow}\nkind: app\nversion: 0.1.5\n"
    "workflow: {graph: {nodes: [], edges: []}}\n"
)
N8N = {
    "name": "n",
    "nodes": [{"type": "n8n-nodes-base.set", "parameters": {}}],
    "connections": {},
    "settings": {},
}
PROMPTFLOW = (
    "inputs:\n  q: {type: string}\noutputs:\n  a: {reference: '${ask.output}'}\n"
    "nodes:\n- name: ask\n  type: llm\n  source: {type: code, path: ask.jinja2}\n"
)
HAYSTACK = (
    "components:\n  llm:\n    type: haystack.components.generators.OpenAIGenerator\n"
    "    init_parameters: {}\nconnections:\n- {sender: a.x, receiver: b.y}\n"
)
ACTIONS = "name: ci\non: [push]\njobs:\n  test:\n    runs-on: x\n    steps: [{run: make}]\n"


@pytest.mark.parametrize("flags", [(), ("--lenient",)])
@pytest.mark.parametrize(
    ("file", "text", "named"),
    [
        ("agents.yaml", CREW, "agents of CrewAI"),
        ("tasks.yaml", TASKS, "tasks of CrewAI"),
        ("app.yml", DIFY, "an app of Dify"),
        ("n8n.json", json.dumps(N8N), "a workflow of n8n"),
        ("flow.dag.yaml", PROMPTFLOW, "a flow of promptflow"),
        ("pipeline.yaml", HAYSTACK, "a pipeline of Haystack"),
        ("langflow.json", '{"data": {"nodes": [], "edges": []}, "name": "f"}', "Langflow"),
        ("flowise.json", '{"nodes": [], "edges": []}', "Flowise"),
        ("red.json", '[{"id": "1", "type": "tab", "wires": []}]', "Node-RED"),
        ("ci.yml", ACTIONS, "GitHub Actions"),
        ("ip.tool.json", '{"tool_id": "ip", "type": "http"}', "a tool of another runner"),
        ("play.yml", "- hosts: all\n  tasks: []\n", "Ansible"),
        ("chat.json", '[{"role": "user", "content": "Hi"}]', "a list of messages"),
    ],
)
def test_one_sentence_says_what_it_looks_like(
    windlass: CommandLine, file: str, text: str, named: str, flags: tuple[str, ...]
) -> None:
    windlass.write(file, text)
    for command in ("check", "run"):
        said = windlass(command, file, *flags)
        assert said.code == 2
        assert said.complaint.startswith(f"windlass: {file}:")
        assert "this is no cascade (it looks like " in said.complaint
        assert named in said.complaint
        assert len(said.err) < 200, said.err


def test_what_looks_like_nothing_known_is_told_by_its_keys(windlass: CommandLine) -> None:
    windlass.write("c.json", '{"blocks": [], "wiring": {}}')
    said = windlass("check", "c.json").err
    assert said == (
        "windlass: c.json:1: this is no cascade: it has 'blocks', 'wiring', and neither"
        " 'cascade_id' nor 'phases'\n"
    )


@pytest.mark.parametrize("key", ["phase", "cascade", "phases"])
def test_a_misspelt_cascade_is_told_its_mistakes(windlass: CommandLine, key: str) -> None:
    windlass.write("c.json", {key: [], "nodes": [], "connections": {}})
    assert "is missing" in windlass("check", "c.json").err
