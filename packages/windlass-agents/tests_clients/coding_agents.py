"""Coding agents, each run without a terminal in a home of its own, against the scripted model."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import windlass
import windlass_agents
from tests_clients import many_lines
from tests_clients.model_server import MODEL, REFERENCE, Exchange, ModelServer
from tests_clients.plans import write_project
from tests_clients.responses_model import MODEL as CODEX_MODEL
from windlass_agents import client
from windlass_agents.agents import EVENTS
from windlass_agents.installing import hook_command
from windlass_agents.mod_files import mod_files

ROOT = Path(__file__).parents[3]
MODULES = ROOT / ".venv-clients" / "node_modules"
CLAUDE = {"2.1.121": "claude-code-oldest", "2.1.331": "claude-code-newest"}
"""The versions of Claude Code that are tried, and the folder of each."""
OPENCODE = "1.18.33"
CODEX = "0.171.0"
AGENTS = (*(f"Claude Code {version}" for version in CLAUDE), f"opencode {OPENCODE}")
WINDLASS = Path(sys.executable).with_name("windlass")
HOOK = f"{WINDLASS} agent run claude-code"
PACKAGES = os.pathsep.join(
    str(Path(each.__file__ or "").parents[1]) for each in (windlass, windlass_agents)
)
LONGEST_S = 120
_STREAMS = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")

_BARRED = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1",
}


def claude_binary(version: str) -> Path:
    """The program of a version. Raises FileNotFoundError where it is not installed."""
    folder = MODULES / CLAUDE[version] / "node_modules" / "@anthropic-ai"
    for path in sorted(folder.glob("claude-code-*/claude*")):
        return path
    raise FileNotFoundError(f"no Claude Code {version} in {folder}: run `make clients`")


OPENCODE_BINARY = MODULES / "opencode-linux-x64" / "bin" / "opencode"
CODEX_BINARY = MODULES / "codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"


def is_installed(agent: str) -> bool:
    """Whether an agent is here: some are pinned for Linux on x86-64 alone."""
    name = agent.partition(" ")[0]
    return {"opencode": OPENCODE_BINARY, "Codex": CODEX_BINARY}.get(name, MODULES).exists()


@dataclass(frozen=True)
class Noted:
    """A line of the journal, as far as it is looked at here."""

    session: str
    call_id: str
    tool: str
    outcome: str
    thread: str = ""
    because: str = ""
    original: str = ""
    shown: str = ""
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass
class Talk:
    """A user and an agent that runs without a terminal, as the vendor's SDK runs it."""

    words: IO[str]
    events: IO[str]
    session: str = ""
    statuses: list[str] = field(default_factory=list)
    """What mods showed on the user's line."""

    def say(self, prompt: str) -> None:
        """Say something, and wait for the end of the turn."""
        message = {"role": "user", "content": prompt}
        self.words.write(json.dumps({"type": "user", "message": message}) + "\n")
        self.words.flush()
        self.wait("result")

    def wait(self, kind: str) -> Mapping[str, Any]:
        """Wait for an event of a type or subtype."""
        for line in self.events:
            event = json.loads(line)
            self.session = event.get("session_id") or self.session
            if event.get("subtype") == "ui_status":
                self.statuses.append(event["text"])
            if kind in (event.get("type"), event.get("subtype")):
                return dict(event)
        raise AssertionError(f"the agent ended before {kind}")


@dataclass
class Desk:
    """A home, a project in it, and the model that is asked there.

    Args:
        home: An empty folder.
        model: The scripted model; it runs.
        state: The folder of the process that answers hooks; several homes may share it.
    """

    home: Path
    model: ModelServer
    state: Path
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.project = self.home / "project"
        write_project(self.project)

    @property
    def exchanges(self) -> list[Exchange]:
        """The steps of the agents so far."""
        return [one for one in self.model.exchanges if one.calls_tools]

    def environment(self) -> dict[str, str]:
        """All variables that an agent gets."""
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join((str(WINDLASS.parent), os.environ["PATH"])),
            "XDG_STATE_HOME": str(self.state),
            "PYTHONPATH": PACKAGES,
            **_BARRED,
            **self.variables,
        }

    def lines(self, agent: str, session: str) -> list[Noted]:
        """What the hook noted of a session."""
        path = self.project / ".windlass" / "hooks" / agent / f"{session}.jsonl"
        written = path.read_text(encoding="utf-8") if path.exists() else ""
        told = [json.loads(line) for line in written.splitlines()]
        names = Noted.__dataclass_fields__.keys()
        return [Noted(**{name: line[name] for name in names & line.keys()}) for line in told]

    def windlass(self, *words: str, folder: Path | None = None) -> str:
        """What a command of Windlass prints in the project, or in another folder."""
        ended = subprocess.run(
            [WINDLASS, *words],
            cwd=folder or self.project,
            env=self.environment(),
            capture_output=True,
            check=True,
        )
        return ended.stdout.decode()

    def recall(self, ref: str, folder: Path | None = None) -> str:
        """What `windlass recall` prints in the project, or in another folder."""
        return self.windlass("recall", ref, folder=folder)

    def recall_all(self, folder: Path | None = None) -> dict[str, str]:
        """What stands behind each reference that any model was shown here."""
        shown = (json.dumps(step.said) for step in self.exchanges)
        refs = {ref for text in shown for ref in REFERENCE.findall(text)}
        return {ref: self.recall(ref, folder) for ref in sorted(refs)}

    def git(self, *words: str) -> None:
        """Run git in the project, which is a repository with a commit."""
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        if not (self.project / ".git").exists():
            for first in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "all")):
                subprocess.run(["git", *first], cwd=self.project, check=True)
        subprocess.run(["git", *words], cwd=self.project, check=True)

    def mcp_command(self) -> list[str]:
        """The command of the MCP server with the long results."""
        return [sys.executable, "-I", str(Path(many_lines.__file__))]

    def end(self) -> None:
        """End what Codex leaves running, a copy of itself in each home, and remove these copies."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "exe").readlink().is_relative_to(self.home):
                    os.kill(int(process.name), signal.SIGKILL)
        shutil.rmtree(self.home / ".codex" / "packages", ignore_errors=True)

    # ---- Claude Code ------------------------------------------------------------------

    def set_hooks(
        self, *commands: str, timeout: int = 10, folder: Path | None = None, only: str = ""
    ) -> None:
        """Write the settings of Claude Code, into the project unless another folder is named.

        `only`: what is in the names of the events.
        """
        hooks = [
            {"type": "command", "command": command, "timeout": timeout} for command in commands
        ]
        entries = {
            event: [{**({"matcher": "*"} if "ToolUse" in event else {}), "hooks": hooks}]
            for event in EVENTS
            if only in event
        }
        path = (folder or self.project) / ".claude" / "settings.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"hooks": entries}), encoding="utf-8")

    def mod_options(self, *words: str) -> tuple[str, str]:
        """The options of Claude Code that load the mod; `words` are how it shortens results.

        It waits longer than a user would: several things run on this machine.
        """
        command = shlex.join([*hook_command(), "agent", "run", "claude-code"])
        socket = client.mod_socket(str(self.state / "windlass"))
        folder = self.home / "mod"
        for name, shipped in mod_files(socket, command, {"": words}).items():
            text = shipped.replace("const WAIT_MS = 300", "const WAIT_MS = 5_000")
            text = text.replace("const COMPACT_MS = 3_000", "const COMPACT_MS = 30_000")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        return "--plugin-dir", str(folder / "windlass")

    def start_claude(
        self, version: str, prompt: str | None, *options: str
    ) -> subprocess.Popen[str]:
        """Start Claude Code without a terminal; None: what the user says comes as events."""
        command, *arguments = self.mcp_command()
        servers = {"mcpServers": {"table": {"command": command, "args": arguments}}}
        return subprocess.Popen(
            [
                str(claude_binary(version)),
                *(("-p", prompt, "--output-format", "json") if prompt else _STREAMS),
                *options,
                *("--allowedTools", "Bash Read Grep Glob Agent Task mcp__table mcp__windlass"),
                *("--mcp-config", json.dumps(servers)),
            ],
            cwd=self.project,
            env={
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.model.port}",
                "ANTHROPIC_API_KEY": "sk-test",
                "ANTHROPIC_MODEL": MODEL,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "ENABLE_TOOL_SEARCH": "false",  # as it is where the address is none of the vendor's
                **self.environment(),
            },
            stdin=subprocess.PIPE if prompt is None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if prompt else subprocess.DEVNULL,
            text=True,
        )

    @contextmanager
    def talk(self, version: str, *options: str) -> Iterator[Talk]:
        """Run Claude Code for as long as a user has something to say."""
        agent = self.start_claude(version, None, *options)
        assert agent.stdin is not None
        assert agent.stdout is not None
        try:
            yield Talk(agent.stdin, agent.stdout)
            agent.stdin.close()
            assert agent.wait(LONGEST_S) == 0
        finally:
            agent.kill()
            agent.wait()
            agent.stdout.close()

    def claude(self, version: str, prompt: str, *options: str) -> str:
        """Run Claude Code to its end; the name of the session."""
        return session_of(self.start_claude(version, prompt, *options))

    # ---- opencode ---------------------------------------------------------------------

    @property
    def plugin(self) -> Path:
        """The file of the plugin for opencode."""
        return self.home / ".config" / "opencode" / "plugin" / "windlass.js"

    def opencode(self, prompt: str, *more: str) -> str:
        """Run opencode to its end; the session."""
        configured = self.home / ".config" / "opencode"
        for folder in (configured, self.project / ".opencode"):
            # It waits for the types of plugins to be installed, unless they seem to be.
            (folder / "node_modules").mkdir(parents=True, exist_ok=True)
            packages = {"": {"dependencies": {"@opencode-ai/plugin": OPENCODE}}}
            locked = json.dumps({"packages": packages})
            (folder / "package-lock.json").write_text(locked, encoding="utf-8")
        options = {"baseURL": f"http://127.0.0.1:{self.model.port}/v1", "apiKey": "sk-test"}
        said = {
            "model": f"anthropic/{MODEL}",
            "small_model": f"anthropic/{MODEL}",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"*": "allow"},
            "mcp": {"table": {"type": "local", "command": self.mcp_command()}},
            "provider": {"anthropic": {"options": options, "models": {MODEL: {}}}},
        }
        (self.project / "opencode.json").write_text(json.dumps(said), encoding="utf-8")
        started = subprocess.Popen(
            [str(OPENCODE_BINARY), "run", "--format", "json", *more, prompt],
            cwd=self.project,
            env={
                **self.environment(),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return session_of(started)

    # ---- Codex ------------------------------------------------------------------------

    def codex_environment(self) -> dict[str, str]:
        """The variables of Codex, whose settings are written where they are not there yet."""
        path = self.home / ".codex" / "config.toml"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text(_CODEX.format(port=self.model.port), encoding="utf-8")
        return {**self.environment(), "OPENAI_API_KEY": "sk-test", "TERM": "xterm-256color"}

    def codex(self, prompt: str, *words: str, model: str = CODEX_MODEL) -> str:
        """Run Codex to its end without a terminal; the session.

        `words` stand between `codex exec` with its options and the prompt.
        """
        options = ("--json", "--skip-git-repo-check", "--sandbox", "danger-full-access")
        started = subprocess.Popen(
            [str(CODEX_BINARY), "exec", "--model", model, *options, *words, prompt],
            cwd=self.project,
            env=self.codex_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return session_of(started)

    def trust_in_codex(self) -> list[str]:
        """Do in Codex's terminal what its user does about new hooks; what was asked, in order."""
        asked: list[str] = []
        until = time.monotonic() + LONGEST_S
        while not self._is_trusted():
            assert time.monotonic() < until, asked
            self._answer_codex(asked, until)
        return asked

    def _is_trusted(self) -> bool:
        self.codex_environment()
        settings = self.home / ".codex" / "config.toml"
        return "trusted_hash" in settings.read_text(encoding="utf-8")

    def _answer_codex(self, asked: list[str], until: float) -> None:
        """Answer what Codex asks in a terminal, for as long as it runs and until it trusts."""
        terminal, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("4H", 45, 120, 0, 0))
        agent = subprocess.Popen(
            [str(CODEX_BINARY), "--model", CODEX_MODEL],
            cwd=self.project,
            env=self.codex_environment(),
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)
        shown, answered = "", dict[str, float]()
        # On a slow machine it ends where its questions to the terminal are answered late.
        with suppress(OSError):
            while not self._is_trusted():
                assert time.monotonic() < until, shown[-2_000:]
                is_written = select.select([terminal], [], [], 0.2)[0]
                data = os.read(terminal, 1 << 16) if is_written else b""
                # A terminal says where its cursor is when it is asked.
                for _ in range(data.count(b"\x1b[6n")):
                    os.write(terminal, b"\x1b[1;1R")
                shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", " ", data.decode(errors="replace"))
                for what, (words, keys) in _TRUST.items():
                    is_asked = re.search(words.replace(" ", r"\s+"), shown)
                    # A key that came too early is typed again, at the last question alone.
                    is_last = bool(answered) and what == list(answered)[-1]
                    is_late = is_last and time.monotonic() > answered[what] + _TRY_AGAIN_S
                    if is_asked and (what not in answered or is_late):
                        asked += [] if what in asked else [what]
                        for key in keys:
                            time.sleep(0.5)
                            os.write(terminal, key)
                        answered[what] = time.monotonic()
        agent.kill()
        agent.wait()
        os.close(terminal)


_TRY_AGAIN_S = 15
_CODEX = """\
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
[analytics]
enabled = false
"""
_TRUST = {
    "folder": ("Trust this folder|if you trust these files|decision will be saved", [b"\r"]),
    "model": ("Try new model|Use existing model", [b"2", b"\r"]),
    "hooks": ("are new or changed|Trust all and continue|won't run", [b"2", b"\r"]),
}
"""What Codex asks in a new folder, by its words, and what its user answers.

A terminal is sent what differs from what it shows, so that not all of them need come in one piece.
"""


_AHEAD = """
import time
real = time.time
time.time = lambda: real() + {}
from windlass_agents import server
server.main()
"""


@contextmanager
def answering(
    state: Path, *, ahead_s: float = 0.0, home: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process that answers hooks whose `XDG_STATE_HOME` this is, and end it.

    `ahead_s`: the seconds by which its clock is ahead of the agents' clocks; `home`: the user's
    (None: none that an agent of these tests has).
    """
    environment = {
        **os.environ,
        "HOME": str(home or state),
        "XDG_STATE_HOME": str(state),
        "PYTHONPATH": PACKAGES,
    }
    result = {"stdout": "one line\n" * 3_000, "stderr": "", "interrupted": False}
    event = {
        "hook_event_name": "PostToolUse",
        "session_id": "first",
        "cwd": str(state),
        "tool_name": "Bash",
        "tool_input": {"command": "yes"},
        "tool_response": result,
    }
    begun = ("-c", _AHEAD.format(ahead_s)) if ahead_s else ("-m", "windlass_agents.server")
    server = subprocess.Popen([sys.executable, "-P", *begun], env=environment)
    try:
        until = time.monotonic() + LONGEST_S
        while not list(state.glob("windlass/*.socket")):  # else a hook starts another one
            assert time.monotonic() < until
            time.sleep(0.1)
        answered, tries = "", 0
        while not answered:
            assert time.monotonic() < until
            tries += 1
            answered = subprocess.run(
                HOOK.split(),
                input=json.dumps({**event, "tool_use_id": f"call{tries}"}),
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        yield server
    finally:
        server.terminate()
        server.wait()


def session_of(agent: subprocess.Popen[str]) -> str:
    """Wait for an agent that must succeed; the name of its session."""
    try:
        output, errors = agent.communicate(timeout=LONGEST_S)
    finally:
        agent.kill()
    assert agent.returncode == 0, f"{output[-2_000:]}\n{errors[-2_000:]}"
    told: Mapping[str, Any] = json.loads(output.splitlines()[0])
    names = (told.get(name) for name in ("session_id", "sessionID", "thread_id"))
    return next(str(name) for name in names if name)


def asked(exchanges: Sequence[Exchange], session: str, agent: str = "") -> list[Exchange]:
    """The steps of one conversation."""
    return [one for one in exchanges if one.thread == (session, agent)]
