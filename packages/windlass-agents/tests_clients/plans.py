"""What the scripted model does, and the project in which it does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests_clients.model_server import Call, Plan

MODULES = ("orders", "prices", "stock", "clients", "mail", "ledger")
_TESTS = """\
i=1
while [ $i -le 700 ]; do
  if [ $i -eq 431 ]; then
    echo "tests/test_ledger.py::test_case_$i FAILED"
  else
    echo "tests/test_orders.py::test_case_$i PASSED [ $((i / 7))%]"
  fi
  i=$((i + 1))
done
echo "E   AssertionError: assert 41 == 42"
echo "1 failed, 699 passed in 12.34s"
"""


def write_project(folder: Path) -> None:
    """Files that read and run the same every time."""
    for module in MODULES:
        lines = [f'"""All about {module}."""', ""]
        for number in range(120):
            lines += [
                f"def {module}_{number}(amount: int) -> int:",
                f'    """The {module} of step {number}."""',
                f"    return amount * {number} + {len(module)}",
                "",
            ]
        path = folder / "src" / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines), encoding="utf-8")
    for number in range(90):
        path = folder / "docs" / f"chapter_{number:02}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Chapter {number}\n", encoding="utf-8")
    (folder / "run_tests.sh").write_text(_TESTS, encoding="utf-8")


def build_log(lines: int) -> str:
    """A command that prints a build log of so many lines."""
    said = 'printf "[%4d/%d] Compiling unit_%d.c with -O2 -Wall -g -fPIC\\n"'
    return (
        f"i=1; while [ $i -le {lines} ]; do {said} $i {lines} $i; i=$((i + 1)); done; echo Built."
    )


def claude_plan(folder: Path) -> Plan:
    """25 answers of a model in Claude Code: each of its tools with long results."""

    def read(module: str) -> Call:
        return "Read", {"file_path": str(folder / "src" / f"{module}.py")}

    def grep(pattern: str) -> Call:
        given = {"pattern": pattern, "path": str(folder / "src"), "output_mode": "content"}
        return "Grep", given

    def mcp(count: int) -> Call:
        return "mcp__table__records", {"count": count}

    def bash(command: str) -> Call:
        return "Bash", {"command": command}

    files: Call = ("Glob", {"pattern": "docs/*.md"})
    return _turns(read, grep, mcp, bash, [[files], [files]])


INNER: Plan = [[("Bash", {"command": build_log(300 + 100 * at)})] for at in range(6)]
"""What a subagent does."""


def work_plans(folder: Path) -> dict[str, Plan]:
    """25 answers with a subagent: `all` of them, or the `first` 15 and the `rest`.

    Tools of MCP wait behind the search for tools, as they do where nothing is set.
    """
    search: Call = ("ToolSearch", {"query": "select:mcp__table__records"})
    given = {"description": "logs", "prompt": "plan:inner", "subagent_type": "general-purpose"}
    plan = list(claude_plan(folder))
    plan[0], plan[10] = [search], [("Agent", given)]
    return {"all": plan, "first": plan[:15], "rest": plan[15:], "inner": INNER}


def opencode_plan(folder: Path) -> Plan:
    """The same in opencode, without the tools for which it fetches another program."""

    def read(module: str) -> Call:
        return "read", {"filePath": str(folder / "src" / f"{module}.py")}

    def grep(pattern: str) -> Call:
        return bash(f"grep -rn '{pattern}' src")

    def mcp(count: int) -> Call:
        return "table_records", {"count": count}

    def bash(command: str) -> Call:
        return "bash", {"command": command, "description": "a step"}

    files = bash("find docs | sort")
    return _turns(read, grep, mcp, bash, [[files], [files]])


def codex_plan() -> Plan:
    """15 answers of a model in Codex, which does nearly all in a shell."""

    def shell(command: str) -> Call:
        return "exec_command", {"cmd": command}

    patch = "*** Begin Patch\n*** Add File: src/notes.py\n+NOTES = 1\n*** End Patch\n"
    return [
        [shell("git status --short; ls -R src docs")],
        [shell("grep -rn 'def ' src")],
        [shell("cat src/orders.py")],
        [shell("sh run_tests.sh")],
        [shell("sed -n 1,80p src/ledger.py"), shell("grep -n ledger_11 src/ledger.py")],
        [("apply_patch", {"input": patch})],
        [shell("sh run_tests.sh; exit 1")],
        [shell(build_log(400))],
        [shell("cat src/prices.py")],
        [shell("grep -rn 'return' src/mail.py")],
        [shell(build_log(2_000))],
        [shell("cat src/orders.py")],
        [shell("sh run_tests.sh")],
        [shell("cat docs/*.md")],
        [shell("cat src/notes.py")],
    ]


def _turns(
    read: Callable[[str], Call],
    grep: Callable[[str], Call],
    mcp: Callable[[int], Call],
    bash: Callable[[str], Call],
    found: list[list[Call]],
) -> Plan:
    tests = bash("sh run_tests.sh")
    return [
        *found,
        [grep("def ")],
        [read("orders")],
        [tests],
        [bash("sh run_tests.sh; exit 1")],
        [mcp(300)],
        [read("orders"), grep("return")],
        [bash(build_log(400))],
        [read("prices")],
        [tests],
        [bash("git log")],
        [mcp(300)],
        [bash(build_log(2_000))],
        [read("stock")],
        [bash("cat src/stock.py")],
        [grep("ledger")],
        [read("ledger"), tests],
        [mcp(80)],
        [bash("cat docs/*.md")],
        [read("mail")],
        [bash("ls src docs")],
        [grep("mail_1")],
        [tests],
        [bash("echo done")],
    ]


def only(name: str, *calls: tuple[str, dict[str, Any]]) -> dict[str, Plan]:
    """A plan with one call an answer."""
    return {name: [[call] for call in calls]}
