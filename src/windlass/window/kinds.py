"""What a tool result is, and what its call read or wrote.

This module knows names of tools, shapes of shell commands and looks of texts. It decides
nothing: how a kind is shortened, and when, is the affair of the policies. What it does not
recognise is `text`, and touches nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import filterfalse, islice
from math import ceil
from typing import Any, Final, Literal, TypeAlias, get_args

from windlass.messages import ToolCall
from windlass.window.proposals import Facts
from windlass.window.shell import Shell, read_shell

Kind: TypeAlias = Literal[
    "search", "file", "command", "api", "json", "log", "listing", "diff", "table", "text"
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
DATA: Final[frozenset[Kind]] = frozenset({"search", "api", "json", "table", "text"})
"""Kinds that are data: nobody patches them or counts their lines. The others stay letter for
letter."""
END: Final = 10**9
"""The last line of what is read to its end."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a file, counted from 1, `last` included (`END`: to the end of the file)."""

    path: str
    first: int = 1
    last: int = END

    def covers(self, other: Lines) -> bool:
        """Whether all of the other lines are among these."""
        return self.path == other.path and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True, slots=True)
class Touched:
    """What a call read (these lines of a file) and wrote (a path).

    `whole`: what was there before the write is gone, all of it.
    """

    reads: Lines | None = None
    writes: str | None = None
    whole: bool = False


NOTHING: Final = Touched()


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a tool by its name; `reads` and `writes` name arguments."""

    kind: Kind
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    whole: bool = False
    is_shell: bool = False


_PATHS: Final = ("path", "file_path", "filename", "file", "notebook_path", "target_file")
_READ: Final = _Known("file", reads=_PATHS)
_EDIT: Final = _Known("file", writes=_PATHS)
_WRITE: Final = _Known("file", writes=_PATHS, whole=True)
_LISTING: Final = _Known("listing")
_SEARCH: Final = _Known("search")
_SHELL: Final = _Known("command", is_shell=True)
_CODE: Final = _Known("command")
_API: Final = _Known("api")
_TABLE: Final = _Known("table")

_NAMES: Final[tuple[tuple[_Known, str], ...]] = (
    (
        _READ,
        """read read_file read_text_file view view_file open_file cat_file get_file_contents
        sandbox_read fs_read notebookread""",
    ),
    (_WRITE, "write write_file create_file sandbox_write fs_write write_to_file"),
    (
        _EDIT,
        """edit multiedit edit_file notebookedit str_replace_editor replace_in_file
        str_replace_based_edit_tool apply_diff apply_patch insert create_or_update_file""",
    ),
    (
        _LISTING,
        """ls glob list_files list_directory list_directory_with_sizes directory_tree list_dir
        find_file find_files get_file_info""",
    ),
    (
        _SEARCH,
        """grep websearch web_search search brave_web_search tavily_search search_web
        google_search search_code grep_search codebase_search search_dir search_file
        search_context search_files find_string""",
    ),
    (
        _SHELL,
        """bash shell sh run_command execute_command run_shell_command sandbox_run terminal
        run_terminal_cmd exec exec_command execute_bash local_shell""",
    ),
    (_CODE, "python run_python execute_python ipython run_code execute_code bashoutput"),
    (_API, "webfetch web_fetch fetch fetch_url http_get http_request call_api get_webpage"),
    (_TABLE, "run_sql sql execute_sql read_query run_query query_database"),
)
_TOOLS: Final[Mapping[str, _Known]] = {
    name: known for known, names in _NAMES for name in names.split()
}
_KEPT_CHARS: Final = 50_000
"""Of texts of at most so many characters the kind is remembered: it is asked for several times."""
_JOINT: Final = re.compile(r"__|\.|/|:")
_COMMANDS: Final = ("command", "cmd", "script")
"""Arguments that hold a shell command."""
_EDITOR_VERBS: Final = frozenset({"view", "create", "str_replace", "insert", "undo_edit"})


def kind_of(call: ToolCall | None, text: str, facts: Facts | None = None) -> Kind:
    """What the text, the result of the call, is: as declared, by the tool's name, by its look."""
    find = _kind_of if len(text) <= _KEPT_CHARS else _kind_of.__wrapped__
    return find(call and call.name, call.arguments if call else "", text, facts)


@lru_cache(maxsize=64)
def _kind_of(tool: str | None, argued: str, text: str, facts: Facts | None) -> Kind:
    if facts is not None:
        for kind in KINDS:
            if facts.kind == kind:
                return kind
    if tool is None:
        return look_of(text)
    known = _TOOLS.get(plain_name(tool))
    shell = _shell(argued, known)
    if shell is not None:
        if shell.kind != "command":
            return shell.kind
        looks = look_of(text)
        return "command" if looks in DATA else looks
    if known is None:
        return "file" if facts is not None and facts.writes else look_of(text)
    if known.kind == "file" and known.reads:
        return "file"
    if known.kind in ("file", "command", "listing"):
        return known.kind
    looks = look_of(text)
    alike = known.kind in ("api", "table", "search") and looks in ("json", "text", "table", "log")
    return known.kind if alike else looks


def touched(call: ToolCall | None, facts: Facts | None = None) -> Touched:
    """What the call read and wrote, where that is declared or known; else `NOTHING`."""
    return NOTHING if call is None else _touched(call.name, call.arguments, facts)


@lru_cache(maxsize=256)
def _touched(tool: str, argued: str, facts: Facts | None) -> Touched:
    known = _TOOLS.get(plain_name(tool))
    shell = _shell(argued, known)
    if shell is not None:
        reads = shell.reads and Lines(shell.reads, shell.first, shell.last or END)
        return Touched(reads or None, shell.writes or None, shell.whole)
    if known is None and facts is None:
        return NOTHING
    arguments = _parsed(argued)
    if facts is not None and (facts.reads or facts.writes):
        read = _text_of(arguments, (facts.reads,)) if facts.reads else ""
        wrote = _text_of(arguments, (facts.writes,)) if facts.writes else ""
        whole = known is not None and known.whole
        return Touched(_lines(read, arguments) if read else None, wrote or None, whole)
    if known is None:
        return NOTHING
    if arguments.get("command") == "view":
        path = _text_of(arguments, _PATHS)
        return Touched(_lines(path, arguments)) if path else NOTHING
    read, wrote = _text_of(arguments, known.reads), _text_of(arguments, known.writes)
    whole = known.whole or arguments.get("command") == "create"
    return Touched(_lines(read, arguments) if read else None, wrote or None, whole and bool(wrote))


@lru_cache(maxsize=512)
def plain_name(name: str) -> str:
    """A tool's name without its server (`mcp__files__read_file`: `read_file`), in small letters."""
    return _JOINT.split(name)[-1].casefold().replace("-", "_")


def is_command(argument: str) -> bool:
    """Whether an argument of this name holds a shell command."""
    return argument in _COMMANDS


def arguments_of(call: ToolCall) -> Mapping[str, Any]:
    """The arguments; none where they are no JSON object."""
    return _parsed(call.arguments)


@lru_cache(maxsize=256)
def _parsed(argued: str) -> Mapping[str, Any]:
    try:
        values = json.loads(argued or "{}")
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _shell(argued: str, known: _Known | None) -> Shell | None:
    """The shell command that a call with these arguments runs, if it runs one."""
    if known is not None and not known.is_shell and '"command"' not in argued:
        return None
    arguments = _parsed(argued)
    command = _text_of(arguments, _COMMANDS)
    if not command or (command in _EDITOR_VERBS and len(arguments) > 1):
        return None
    if known is not None and not known.is_shell and known.kind != "listing":
        return None
    return read_shell(command)


def _text_of(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _lines(path: str, arguments: Mapping[str, Any]) -> Lines:
    """The lines that a read asked for, by the argument names in use."""
    match arguments:
        case {"view_range": [int(first), int(last)]}:
            return Lines(path, first, END if last < 0 else last)
        case {"offset": int(first), "limit": int(count)}:
            return Lines(path, max(first, 1), max(first, 1) + count - 1)
        case {"limit": int(count)} | {"head": int(count)}:
            return Lines(path, 1, count)
        case {"offset": int(first)}:
            return Lines(path, max(first, 1))
        case {"tail": int()}:
            return Lines(path, END)  # covers nothing: where it begins is not known
        case _:
            begin, end = arguments.get("start_line"), arguments.get("end_line")
            return Lines(
                path,
                begin if isinstance(begin, int) and begin > 0 else 1,
                end if isinstance(end, int) and end > 0 else END,
            )


# ---- by the look of the text ------------------------------------------------------------

_HEAD: Final = 4_000
"""Characters that a look takes in: what a text is shows in its first lines."""
_LOOKED_LINES: Final = 20
_FEW: Final = 3
_DIFF: Final = re.compile(r"^(?:diff --git |Index: |--- .*\n\+\+\+ |@@ -\d+)", re.MULTILINE)
_STAMPED: Final = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
    r"|\[?(?:DEBUG|INFO|WARN|WARNING|ERROR|FATAL|TRACE)\b)"
)
_LISTED: Final = re.compile(r"[-dlcbps][-rwxsStT]{9}|(?:\.{0,2}/)?[\w@.+~-]+(?:/[\w@.+~-]+)*/?$")
_FOUND: Final = re.compile(r"[\w@.+~/-]+[:-]\d+[:-]")
_GUTTER: Final = re.compile(r"\s*\d+(?:→|\t|: ?|\| ?)")
_RAN: Final = re.compile(r"<returncode>|Exit code:? \d|exit code:? \d|Traceback \(most recent")
_ROW: Final = re.compile(r"[^|]*\||[^\t]*\t|(?:[^,]*,){2}")


def look_of(text: str) -> Kind:
    """What a text is by its look alone."""
    head = text[:_HEAD].lstrip()
    if not head:
        return "text"
    if _is_json(head, text[-20:].rstrip()[-1:]):
        return "json"
    if _RAN.match(head):
        return "command"
    if _DIFF.match(head):
        return "diff"
    lines = list(filter(str.strip, head.split("\n", _LOOKED_LINES)[:_LOOKED_LINES]))
    if len(lines) < _FEW:
        return "text"
    strangers = len(lines) - ceil(0.7 * len(lines))
    for kind, shape in _LOOKS:
        others = filterfalse(shape.match, lines)
        if next(islice(others, strangers, None), None) is None:  # no more of them than that
            return kind
    return "text"


_LOOKS: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = (
    ("log", _STAMPED),
    ("search", _FOUND),
    ("file", _GUTTER),
    ("listing", _LISTED),
    ("table", _ROW),
)


def _is_json(head: str, last: str) -> bool:
    """Whether it begins and ends like a JSON object or array; nothing is parsed."""
    if head[0] == "{":
        return last == "}" and head[1:].lstrip()[:1] in ('"', "}")
    return (
        head[0] == "["
        and last == "]"
        and bool(re.match(r'\[\s*(?:[\[{"\d\-\]]|true|false|null)', head))
    )
