"""Try each door of the packages that are installed, and print a line for each.

    .venv-wheel/bin/python -I scripts/doors.py [--plugins]

`make wheel` runs it in an environment that holds the wheel of the core and what it needs, and
nothing else, where each plugin is told with what installs it; and once more with all plugins.
The model is a server on the loopback for the command line, and a function for the library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import windlass
from windlass.providers.scripted import Scripted

SOURCE: Final = Path(__file__).resolve().parent.parent / "packages"
COMMAND: Final = Path(sys.executable).with_name("windlass")
CASCADE: Final[dict[str, Any]] = {
    "cascade_id": "notes",
    "phases": [
        {"name": "collect", "instructions": "List what changed in {{ input.file }}."},
        {"name": "write", "instructions": "Write it up.", "context": {"from": ["collect"]}},
    ],
}
TASK: Final = """<task type="sequential">
  <description>Write the notes</description>
  <steps>
    <task type="atomic" name="collect"><description>List what changed.</description></task>
    <task type="atomic" name="write"><description>Write it up.</description></task>
  </steps>
</task>
"""
SETTINGS: Final = """
[providers.near]
base_url = "http://127.0.0.1:{port}/v1"
stream = false
window = 32000
"""
MESSAGES: Final[list[dict[str, Any]]] = [
    {"role": "user", "content": "Why does the date parser fail for Ann?"},
    {"role": "assistant", "content": "It reads the day before the month."},
    {"role": "user", "content": "And the weather?"},
    {"role": "assistant", "content": "Rain."},
]


class Model(BaseHTTPRequestHandler):
    """A server in OpenAI's format that says the same to every request."""

    def do_POST(self) -> None:
        """Answer a request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "the parser was mended"}
        body = {
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 40, "completion_tokens": 5, "total_tokens": 45},
        }
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def command(*arguments: str) -> str:
    """What a command printed. Raises CalledProcessError where it failed."""
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        done.check_returncode()
    return done.stdout


def try_command_line(folder: Path) -> None:
    """Run a cascade and a task by the commands that a user types, and look at the record."""
    (folder / "notes.json").write_text(json.dumps(CASCADE))
    (folder / "notes.xml").write_text(TASK)
    server = HTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (folder / "windlass.toml").write_text(SETTINGS.format(port=server.server_port))
    assert "run" in command("--help")
    assert windlass.__version__ in command("--version")
    command("check", "notes.json")
    command("check", "notes.xml")
    assert "cascade_id" in command("schema")
    model = ("--model", "near/any", "--json")
    result = json.loads(command("run", "notes.json", "-i", "file=CHANGES", *model))
    assert result["status"] == "completed", result
    assert result["output"] == "the parser was mended", result
    assert "the parser was mended" in command("show", result["session_id"], "--call", "2")
    assert "the parser was mended" in command("export", result["session_id"], "--as", "html")
    result = json.loads(command("evaluate", "notes.xml", *model))
    assert result["status"] == "completed", result
    command("verify")
    server.shutdown()


def try_library() -> None:
    """Shorten a list, grow a context, and choose from a session."""
    assert windlass.bound(MESSAGES, "anthropic/claude-sonnet-4-5").messages == MESSAGES
    context = windlass.Context("openai/gpt-5")
    for message in MESSAGES:
        context.append(message)
    assert context.window().wire("anthropic")["messages"]
    selection = windlass.select(MESSAGES, "Why does the date parser fail?", max_tokens=30)
    assert selection.messages == MESSAGES[:2]


def try_cascade() -> None:
    """Run a cascade from Python with a model that is a function."""
    scripted = {"scripted": Scripted(lambda request: f"said {request.messages[-1].text}")}
    result = windlass.run_sync(
        CASCADE, input={"file": "CHANGES"}, model="scripted/any", providers=scripted
    )
    assert result.status == "completed", result.error
    assert (result.output or "").startswith("said "), result.output
    assert windlass.query_unified("session_id = ?", [result.session_id])


def try_tasks() -> None:
    """Run a task file from Python."""
    scripted = {"scripted": Scripted(lambda _: "done")}
    result = windlass.evaluate_sync("notes.xml", model="scripted/any", providers=scripted)
    assert (result.status, result.output) == ("completed", "done"), result.error


TRAJECTORY: Final = [
    {"type": "thread.started", "thread_id": "t1"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "0", "type": "agent_message", "text": "Done."}},
    {"type": "turn.completed", "usage": {"input_tokens": 90, "output_tokens": 9}},
]
"""What `codex exec --json` prints."""
QUERY: Final[dict[str, Any]] = {
    "cascade_id": "sums",
    "phases": [{"name": "sum", "tool": "sql:sum.sql", "inputs": {"least": 2}}],
}
PLUGINS: Final[dict[tuple[str, ...], str]] = {
    ("serve", "--help"): "serve",
    ("sessions", "--store", "chdb://kept"): "chdb",
    ("sessions", "--store", "clickhouse://h/db?blobs=b"): "clickhouse",
    ("schema", "clickhouse"): "clickhouse",
    ("export", "latest", "--as", "otel"): "otel",
    ("import", "exec.jsonl", "--as", "codex-exec"): "importers",
    ("run", "sums.json"): "tools",
    ("run", "notes.json", "-i", "file=CHANGES", "--model", "local/smollm2"): "local",
    ("run", "notes.json", "-i", "file=CHANGES", "--otel", "on", "--model", "near/any"): "otel",
    ("evaluate", "sums.xml", "--engine", "ray", "--model", "near/any"): "ray",
}
"""Commands that plugins add to, each with the extra that installs its plugin."""
REDUCE: Final = """<task type="reduce"><description>Sum up</description>
  <inputs><file split="lines">rows.csv</file></inputs>
  <inner_task><description>Say {{ input.item }}.</description></inner_task>
  <reduction_task><description>Add.</description></reduction_task>
</task>
"""


def write_files(folder: Path) -> None:
    """Write what those commands read."""
    (folder / "exec.jsonl").write_text("".join(json.dumps(one) + "\n" for one in TRAJECTORY))
    (folder / "rows.csv").write_text("n\n1\n2\n3\n")
    (folder / "sum.sql").write_text("SELECT sum(n) AS sum FROM rows WHERE n >= {{ inputs.least }}")
    (folder / "sums.json").write_text(json.dumps(QUERY))
    (folder / "sums.xml").write_text(REDUCE)


def try_without_plugins() -> None:
    """Ask for what plugins add: one sentence tells what installs it."""
    for words, extra in PLUGINS.items():
        done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False)
        assert f"pip install 'windlass[{extra}]'" in done.stderr, (words, done.stderr)
        assert done.returncode == 2, (words, done.stderr)  # noqa: PLR2004 - a mistake of the user's


def try_plugins() -> None:
    """Ask for what plugins add where they are installed, as far as no server is needed."""
    assert "serve" in command("--help")
    assert "ENGINE" in command("schema", "clickhouse")
    assert "browser" in command("serve", "--help")
    assert "codex-exec" in command("import", "exec.jsonl")
    spans = command("export", "latest", "--as", "otel")
    assert "resourceSpans" in spans
    result = json.loads(command("run", "sums.json", "--json"))
    assert result["status"] == "completed", result
    assert "5" in json.dumps(result), result


def main(arguments: list[str]) -> int:
    """Try them in an empty folder, with an empty home; the exit code."""
    assert SOURCE not in Path(windlass.__file__).resolve().parents, "this is the source"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for variable in [one for one in os.environ if one.startswith(("WINDLASS_", "XDG_"))]:
            del os.environ[variable]
        os.environ["HOME"] = name
        os.chdir(folder)
        write_files(folder)
        try_command_line(folder)
        print("command line: passed")
        if "--plugins" in arguments:
            try_plugins()
            print("plugins: passed")
        else:
            try_without_plugins()
            print("each plugin that is missing is told: passed")
        try_library()
        print("library: passed")
        try_cascade()
        print("cascade: passed")
        try_tasks()
        print("tasks: passed")
        os.chdir(SOURCE.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
