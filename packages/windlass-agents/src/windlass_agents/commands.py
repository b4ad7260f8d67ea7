"""Commands for coding agents: agent, recall, mcp."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from windlass.public import (
    CommandGroup,
    Processes,
    StoreOption,
    UsageError,
    command,
    note,
    out,
    printed_as_json,
    progress,
)

if TYPE_CHECKING:
    from windlass_agents.agent_files import FileChange, Scope
    from windlass_agents.options import HookOptions


_Agent = Annotated[str, Argument(help="claude-code, codex or opencode.")]
_Policy = Annotated[
    str | None, Option(help="A profile, OPTION=VALUE,… or a file with an auto_context.")
]
_ForProject = Annotated[
    bool, Option("--project", help="For this folder alone (the default), for you alone.")
]
_ForUser = Annotated[bool, Option("--user", help="For all of your folders.")]
_DryRun = Annotated[bool, Option("--dry-run", help="Show the difference and write nothing.")]


@command(name="try")
def try_(
    recording: Annotated[
        str | None,
        Argument(
            help="A session of an agent, a file or a folder of transcripts (default: all that"
            " Claude Code keeps on this machine)."
        ),
    ] = None,
    *,
    policy: _Policy = None,
    workers: Processes = None,
) -> None:
    """Say what it would have saved or cost on your own sessions. Nothing is installed."""
    import os

    from windlass.public import override, read_settings
    from windlass_agents.hook_text import print_proof
    from windlass_agents.trial import prove, recordings_named, transcripts_named

    skipped: list[str] = []
    with override(read_settings(None).prices):
        found = recordings_named(recording, note)
        told = transcripts_named(recording)
        proof = prove(found, policy, workers or os.cpu_count() or 1, skipped, told)
    for text in skipped:
        note(text)
    if not printed_as_json(proof):
        print_proof(proof)


@dataclass(frozen=True, kw_only=True)
class _ResultOptions:
    """How results are shortened."""

    holdout: Annotated[
        str, Option(help="The share of sessions that stay as they are, for comparison: 10%.")
    ] = "0%"
    redact: Annotated[bool, Option("--redact", help="Replace credentials in results by ***.")] = (
        False
    )
    policy: _Policy = None

    def options(self, agent: str, store: str | None) -> HookOptions:
        """Return what `windlass agent run` is called with."""
        from windlass_agents.options import HookOptions, read_share

        return HookOptions(agent, store, self.policy, read_share(self.holdout), self.redact)


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """What is installed."""

    plugin: Annotated[
        Path | None, Option(help="Write a plugin for Claude Code into this folder, to be shared.")
    ] = None
    mcp: Annotated[
        bool, Option("--mcp", help="Install the MCP server as well, for the tool `recall`.")
    ] = False
    hook: Annotated[
        bool, Option("--hook", help="In Claude Code, the hook also where a mod would do.")
    ] = False


@command(has_json=False)
def install(
    agent: _Agent,
    *,
    project: _ForProject = False,
    user: _ForUser = False,
    dry_run: _DryRun = False,
    parts: _Parts,
    results: _ResultOptions,
    store: StoreOption = None,
) -> None:
    """Install mod or hook: results of tools are shortened before the model sees them."""
    from windlass_agents import client, installing, mod_installing
    from windlass_agents.hook_text import print_notes_of_install

    if results.policy is not None:
        from windlass.public import policy_of

        policy_of(results.policy)
    if store is not None and "://" in store:
        raise UsageError("--store: a hook writes into a folder; an address cannot be one")
    place = None if store is None else str(Path(store).expanduser().absolute())
    options = results.options(_known(agent), place)
    scope, is_mod = _scope(project=project, user=user), False
    if parts.plugin is not None:
        if agent != "claude-code":
            raise UsageError("--plugin: only Claude Code has plugins of this kind")
        changes = installing.plugin_files(parts.plugin, options, mcp=parts.mcp)
    else:
        if agent != "claude-code":
            changes = installing.install(agent, scope, options)
        elif parts.hook or (why := mod_installing.why_no_mod(installing.agent_version(agent))):
            note("the hook is installed: " + ("--hook" if parts.hook else why))
            changes = mod_installing.install_hook(scope, options)
        else:
            is_mod = True
            changes = mod_installing.install(scope, options)
        if parts.mcp:
            changes += installing.install_mcp(agent, scope, options)
    _make(changes, "it is installed so already", dry_run=dry_run)
    if not dry_run:
        if parts.plugin is None:
            with suppress(OSError):  # the first event starts it
                client.start()
        if is_mod:
            from windlass_agents.tool_uses import read_sessions

            with suppress(OSError):  # else it is read when a session begins
                read_sessions()
        print_notes_of_install(agent, scope, parts.plugin, is_mod=is_mod)


@command(has_json=False)
def uninstall(
    agent: _Agent,
    *,
    project: _ForProject = False,
    user: _ForUser = False,
    dry_run: _DryRun = False,
) -> None:
    """Take away what install wrote, and nothing else."""
    from windlass_agents import installing, mod_installing

    scope = _scope(project=project, user=user)
    if _known(agent) == "claude-code":
        changes = mod_installing.uninstall(scope)
    else:
        changes = installing.uninstall(agent, scope)
    _make(changes, f"there is no hook of Windlass for this {scope}", dry_run=dry_run)
    if changes and not dry_run:
        out.print("what it recorded stays: windlass sessions, windlass recall")


@command()
def status(*, store: StoreOption = None) -> None:
    """Say which door of which agent is open and why, and whether short forms were taken."""
    import time

    from windlass.public import read_settings
    from windlass_agents.hook_text import print_status
    from windlass_agents.installing import installed_store
    from windlass_agents.outcome import hook_store
    from windlass_agents.status import hook_status

    found = hook_status(hook_store(read_settings(store or installed_store())), time.time())
    if not printed_as_json(found):
        print_status(found)


@command()
def report(
    *,
    since: Annotated[
        str, Option(help="Only sessions that began since: 2026-01-31, 12h, 7d.")
    ] = "7d",
    store: StoreOption = None,
) -> None:
    """Say what was saved, from what happened, beside what sending everything would cost."""
    from windlass.public import override, read_settings, read_time
    from windlass_agents.hook_text import print_hook_report
    from windlass_agents.installing import installed_store
    from windlass_agents.outcome import hook_report

    settings = read_settings(store or installed_store())
    with override(settings.prices):
        found = hook_report(settings, read_time("--since", since), note)
    if not printed_as_json(found):
        print_hook_report(found)


@command(has_json=False)
def run(
    agent: Annotated[str, Argument(help="claude-code, codex, opencode or plain.")],
    *,
    results: _ResultOptions,
    store: StoreOption = None,
) -> None:
    """Answer one event on standard input: agents call this, people do not.

    It always ends with 0, and prints nothing where a result stays as it is. Other clients: see
    docs/hook.md for the plain contract.
    """
    from windlass_agents.client import run as answer

    answer(results.options(agent, store).arguments())


_COMMANDS = [try_, install, status, report, uninstall, run]
agent = CommandGroup(
    name="agent",
    help="Shorten tool results of coding agents before their models see them.",
    commands=_COMMANDS,
    no_args_is_help=True,
    rich_markup_mode=None,
)
hook = CommandGroup(
    name="hook",
    help="The former name of `windlass agent`, for one release.",
    commands=_COMMANDS,
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _known(agent: str) -> str:
    from windlass.public import did_you_mean

    known = ("claude-code", "codex", "opencode")
    if agent in known:
        return agent
    if agent in _WITHOUT_A_DOOR:
        raise UsageError(_WITHOUT_A_DOOR[agent])
    raise UsageError(
        f"there is no installation for {agent!r}; {did_you_mean(agent, known)}; other agents"
        " call `windlass agent run plain` (docs/hook.md)"
    )


_MCP_INSTEAD = "`windlass mcp` lets it search and fetch what is recorded (docs/mcp.md)"
_WITHOUT_A_DOOR = {
    "gemini-cli": "the model of Gemini CLI reads what a hook says in the place of a result as an"
    f" error, so no hook is installed; {_MCP_INSTEAD}",
    "qwen-code": f"Qwen Code has no hook that replaces a result; {_MCP_INSTEAD}",
    "cline": f"there is no plugin of Windlass for Cline; {_MCP_INSTEAD}",
    "openhands": f"OpenHands has no hook that replaces a result; {_MCP_INSTEAD}",
    "aider": "aider has neither hooks nor MCP: there is nothing to install",
}
"""Agents in which nothing is installed, and why."""


def _scope(*, project: bool, user: bool) -> Scope:
    if project and user:
        raise UsageError("--project and --user: give one of them")
    return "user" if user else "project"


def _make(changes: Sequence[FileChange], nothing: str, *, dry_run: bool) -> None:
    """Show the changes of files, and make them; `nothing` says why there are none."""
    if not changes:
        out.print(nothing)
    for change in changes:
        if not change.is_own:
            out.print(change.difference or f"{change.path}: empty")
    for change in changes:
        if not dry_run:
            change.make()
        if not dry_run or change.is_own:
            will = "to be " if dry_run else ""
            out.print(f"{will}{'removed' if change.after is None else 'written'}: {change.path}")


@command()
def recall(
    ref: Annotated[
        str, Argument(help="What stands in place of a shortened result, such as result_1a2b3c4d.")
    ],
    path: Annotated[
        str, Argument(help="What the reference names besides: a path such as content.")
    ] = "",
    *,
    grep: Annotated[
        str, Option(help="Only lines that match this regular expression, with their numbers.")
    ] = "",
    lines: Annotated[str, Option(help="Only these lines, counted from 1: 10:40, 10: or 12.")] = "",
    store: Annotated[
        str | None,
        Option(
            help="The history (default: WINDLASS_STORE, or the nearest .windlass here or above)."
        ),
    ] = None,
) -> None:
    """Print the original of a result that was shortened."""
    from windlass_agents.recalled import Recall, print_text, recalled

    asked = Recall(ref, grep, lines, store, path)
    text = recalled(asked)
    if not printed_as_json({"ref": ref, "text": text}):
        print_text(text, asked, out.file)


@command(has_json=False)
def mcp(
    *,
    write: Annotated[
        bool, Option("--write", help="Also offer the tool that writes to memory banks.")
    ] = False,
    all_folders: Annotated[
        bool, Option("--all-folders", help="Also sessions of other projects in the store.")
    ] = False,
    store: Annotated[
        str | None,
        Option(
            help="The history (default: WINDLASS_STORE, or the nearest .windlass here or above)."
        ),
    ] = None,
) -> None:
    """Serve recall, search and cost to an agent, over MCP on standard input and output."""
    import io
    import os
    import sys

    from windlass.public import INSTALL, read_settings, run_interruptibly
    from windlass_agents.recalled import nearest_store, project_of

    try:
        from windlass_agents.mcp_server import serve_tools
    except ModuleNotFoundError as error:
        raise UsageError(f"the MCP server needs the package mcp: {INSTALL}") from error
    place = nearest_store(store)
    settings = read_settings(place)
    project = None if all_folders else project_of(place)
    if sys.stdin.isatty():
        where = "all of it" if project is None else f"sessions of {project}"
        progress.print(
            f"serving {settings.store}, {where}: a client is to start this; Ctrl-C ends it"
        )
    answers = os.fdopen(os.dup(out.file.fileno()), "wb")
    with io.TextIOWrapper(answers, encoding="utf-8", newline="\n") as output:
        run_interruptibly(serve_tools(settings, project, output, write=write))
