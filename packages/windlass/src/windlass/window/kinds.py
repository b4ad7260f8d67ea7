"""What a tool result is, and what its call read or wrote.

This module knows names of tools, shapes of shell commands and looks of texts. It decides
nothing: how a kind is shortened, and when, is the affair of the policies. What it does not
recognise is `text`, and touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, get_args

from windlass.messages import ToolCall
from windlass.safety.foreign import parse_json
from windlass.window._shell import Shell, only_reads, read_shell, reads_files

Kind: TypeAlias = Literal[
    "search",
    "file",
    "command",
    "test",
    "build",
    "api",
    "json",
    "page",
    "log",
    "listing",
    "diff",
    "table",
    "text",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
DATA: Final[frozenset[Kind]] = frozenset({"search", "api", "json", "page", "table", "text"})
"""Kinds that are data: nobody patches them or counts their lines. The others stay letter for
letter."""
END: Final = 10**9
"""The last line of what is read to its end."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is declared of a tool: the kind of its results, and what it touches.

    `kind` is one of `KINDS` (None: found out from the name and the text). `reads` and
    `writes` name the argument that holds what is read or written (a path, a key).
    """

    kind: str | None = None
    reads: str | None = None
    writes: str | None = None


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a file, counted from 1, `last` included (`END`: to the end of the file)."""

    path: str
    first: int = 1
    last: int = END

    def covers(self, other: Lines) -> bool:
        """Return whether all of the other lines are among these."""
        return self.path == other.path and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True, slots=True)
class FileAccess:
    """What a call read (these lines of a file) and wrote (a path).

    `whole`: what was there before the write is gone, all of it.
    """

    reads: Lines | None = None
    writes: str | None = None
    whole: bool = False


NOTHING: Final = FileAccess()


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool as its name tells; `reads` and `writes` name arguments."""

    kind: Kind
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    whole: bool = False
    is_shell: bool = False


_PATHS: Final = ("path", "file_path", "filename", "file", "notebook_path", "target_file")
_READ: Final = _Tool("file", reads=_PATHS)
_EDIT: Final = _Tool("file", writes=_PATHS)
_WRITE: Final = _Tool("file", writes=_PATHS, whole=True)
_LISTING: Final = _Tool("listing")
_SEARCH: Final = _Tool("search")
_SHELL: Final = _Tool("command", is_shell=True)
_CODE: Final = _Tool("command")
_API: Final = _Tool("api")
_TABLE: Final = _Tool("table")

_NAMES: Final[tuple[tuple[_Tool, str], ...]] = (
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
    (_CODE, "python run_python execute_python ipython run_code execute_code"),
    (_API, "webfetch web_fetch fetch fetch_url http_get http_request call_api get_webpage"),
    (_TABLE, "run_sql sql execute_sql read_query run_query query_database"),
)
_TOOLS: Final[Mapping[str, _Tool]] = {
    name: tool for tool, names in _NAMES for name in names.split()
}
_JOINT: Final = re.compile(r"__|\.|/|:")
_SHELLS: Final = re.compile(r"bash|shell|terminal|exec|command|cmd|ssh|console")
"""Found in the name of a tool that is not known and runs shell commands."""
_PROCESSES: Final = re.compile(
    r"bash|shell|terminal|exec(?:ute)?_|command|cmd|ssh|console|std(?:in|out|err)|task_?output"
    r"|(?:process(?:es)?|kernel|interpreter|pane)(?:_(?:output|logs?))?$"
)
"""Found in the name of a tool that is not known and shows what a program prints."""
_SCREENS: Final = re.compile(
    r"browser|playwright|puppeteer|chrome|computer|screen|snapshot|(?:^|_)(?:click|scroll|hover"
    r"|navigate|dom|(?:get|read|view)_page)(?:_|$)"
)
"""Found in the name of such a tool, or of its server, that shows a page or a screen."""
_SHAPED: Final[frozenset[Kind]] = frozenset({"json", "diff", "log", "command"})
"""Looks that tell more of a result than that a program or a page shows it."""
_SQL: Final = ("sql", "query", "statement")
_SQL_READS: Final = re.compile(
    r"\s*\(*\s*(?:select|with|show|describe|desc|explain|values)\b", re.IGNORECASE
)
_SQL_EFFECTS: Final = re.compile(
    r"\b(?:insert|update|delete|merge|create|drop|alter|truncate|grant|call|exec|execute|into|copy"
    r"|nextval|random|rand|newid|uuid\w*|gen_random_uuid|lock|attach|vacuum)\b|;\s*\S",
    re.IGNORECASE,
)
_ANY_METHOD: Final = frozenset({"http_request", "call_api"})
GETS: Final = ("", "GET", "HEAD")
"""Methods of requests to web servers that only read; where none is given it is GET."""
_SENT: Final = ("body", "data", "json", "payload", "files", "form")
"""Arguments of a request to a web server by which it sends something."""
COMMANDS: Final = ("command", "cmd", "script")
"""Arguments that hold a shell command."""
_EDITOR_VERBS: Final = frozenset({"view", "create", "str_replace", "insert", "undo_edit"})


def kind_of(call: ToolCall | None, text: str, facts: Facts | None = None) -> Kind:
    """What the text, the result of the call, is: as declared, by the tool's name, by its look."""
    if facts is not None and facts.kind in KINDS:
        return facts.kind
    if call is None:
        return look_of(text)
    tool = _TOOLS.get(plain_name(call.name))
    shell = _shell(call, tool)
    if shell is not None:
        return _of_shell(shell, command_in(arguments_of(call)), text)
    if tool is None:
        return "file" if facts is not None and facts.writes else _of_machine(call.name, text)
    if tool.kind == "file" and tool.reads:
        return "file"
    if tool.kind == "command":
        return "file" if any(map(reads_files, _texts_of(call))) else "command"
    if tool.kind in ("file", "listing"):
        return tool.kind
    looks = look_of(text)
    alike = tool.kind in ("api", "table", "search") and looks in ("json", "text", "table", "log")
    return tool.kind if alike else looks


def _of_machine(name: str, text: str) -> Kind:
    """Return what a tool shows that is not known: no file, where a program or a page shows it."""
    looks = look_of(text)
    if looks in _SHAPED:
        return looks
    if not _PROCESSES.search(plain_name(name)):
        return "page" if _shows_screen(name) else looks
    if looks not in ("file", "text", "page"):
        return looks
    return "diff" if _is_mostly_diff(text) else "build" if builds(text) else "command"


@lru_cache(maxsize=512)
def _shows_screen(name: str) -> bool:
    return bool(_SCREENS.search(name.casefold().replace("-", "_")))


def _of_shell(shell: Shell, command: str, text: str) -> Kind:
    """Return what a shell command printed.

    Files that were read among other things are to be quoted.
    """
    if shell.kind not in ("command", "log"):
        return shell.kind
    ran = what_runs(command) if shell.kind == "command" else None
    if ran is not None:
        return ran
    looks: Kind = look_of(text) if shell.kind == "command" else shell.kind
    if looks not in ("command", "log") and looks not in DATA:
        return looks
    if reads_files(command):
        return "file"
    if _is_mostly_diff(text):
        return "diff"
    if looks == "log":
        return looks
    return "build" if builds(text) else "command"


def _is_mostly_diff(text: str) -> bool:
    """Return whether half of a text or more is a diff of git, whatever stands before it."""
    at = text.find("diff --git ")
    return 0 <= at <= len(text) / 2 and "\n@@ -" in text


def _texts_of(call: ToolCall) -> Iterator[str]:
    return (value for value in arguments_of(call).values() if isinstance(value, str))


@lru_cache(maxsize=256)
def file_access(call: ToolCall | None, facts: Facts | None = None) -> FileAccess:
    """Return what the call read and wrote, where that is declared or known; else `NOTHING`."""
    if call is None:
        return NOTHING
    tool = _TOOLS.get(plain_name(call.name))
    shell = _shell(call, tool)
    if shell is not None:
        reads = shell.reads and Lines(shell.reads, shell.first, shell.last or END)
        return FileAccess(reads or None, shell.writes or None, shell.whole)
    arguments = arguments_of(call)
    if facts is not None and (facts.reads or facts.writes):
        read_path = _text_of(arguments, (facts.reads or "",))
        written_path = _text_of(arguments, (facts.writes or "",))
        whole = tool is not None and tool.whole
    elif tool is None:
        return NOTHING
    elif arguments.get("command") == "view":
        read_path, written_path, whole = _text_of(arguments, _PATHS), "", False
    else:
        read_path, written_path = _text_of(arguments, tool.reads), _text_of(arguments, tool.writes)
        whole = bool(written_path) and (tool.whole or arguments.get("command") == "create")
    read = _lines(read_path, arguments) if read_path else None
    return FileAccess(read, written_path or None, whole)


@lru_cache(maxsize=256)
def reads_only(call: ToolCall) -> bool | None:
    """Return whether the call only reads, so that the same one may be made again.

    None: not known.
    """
    name = plain_name(call.name)
    tool, arguments = _TOOLS.get(name), arguments_of(call)
    if command := command_of(call):
        return only_reads(command)
    if tool is None:
        return None
    match tool.kind:
        case "file":
            return bool(tool.reads) or arguments.get("command") == "view"
        case "api":
            method = str(arguments.get("method") or "").upper()
            sends = any(arguments.get(name) for name in _SENT)
            return method in GETS and not sends and (bool(method) or name not in _ANY_METHOD)
        case "table":
            text = _text_of(arguments, _SQL)
            return bool(_SQL_READS.match(text)) and not _SQL_EFFECTS.search(text)
        case _:
            return tool.kind in ("listing", "search")


@lru_cache(maxsize=256)
def command_of(call: ToolCall) -> str:
    """Return the command that a call of a shell runs; empty: the tool is none, or runs none."""
    name = plain_name(call.name)
    tool = _TOOLS.get(name)
    is_shell = tool.is_shell or tool.kind == "listing" if tool else _SHELLS.search(name)
    arguments = arguments_of(call)
    given = arguments.get("action") or arguments  # OpenAI's own shells
    return command_in(given) if is_shell and isinstance(given, Mapping) else ""


@lru_cache(maxsize=512)
def plain_name(name: str) -> str:
    """A tool's name without its server (`mcp__files__read_file`: `read_file`), in small letters."""
    return bare_name(name).casefold().replace("-", "_")


def bare_name(name: str) -> str:
    """Return a tool's name without its server, as it is written."""
    return _JOINT.split(name)[-1]


@lru_cache(maxsize=256)
def arguments_of(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments; none where they are no JSON object."""
    try:
        values = parse_json(call.arguments or "{}")
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


_MANAGERS: Final = (
    "cargo|go|npm|npx|yarn|pnpm|bun|deno|mvn|gradlew?|dotnet|docker|swift|rake|uv|poetry|pip3?"
    "|apt|apt-get|brew|conda|gem|bundle|composer|setup\\.py|make"
)
"""Programs that run tests or build something, as their next word says."""
_BEGINS: Final = r"(?:^|[\s;&|(/])"
_TESTS: Final = re.compile(
    rf"{_BEGINS}(?:(?:pytest|py\.test|tox|nosetests|unittest|jest|vitest|mocha|rspec|phpunit|ctest"
    rf"|bin/test|runtests\.py|manage\.py\s+test)(?![\w.-]|/)"
    rf"|(?:{_MANAGERS})\s+(?:run\s+)?tests?(?![\w./]))"
)
_BUILDS: Final = re.compile(
    rf"{_BEGINS}(?:(?:make|cmake|ninja|gcc|g\+\+|clang|tsc|webpack|vite|javac|msbuild)(?![\w.-]|/)"
    rf"|(?:{_MANAGERS})\s+(?:run\s+|pip\s+|-\S+\s+)*(?:build\w*|install|add|check|clippy|compile|ci"
    r"|sync|update|upgrade|vet|package|lint|tsc)(?![\w./]))"
)


@lru_cache(maxsize=256)
def what_runs(command: str) -> Literal["test", "build"] | None:
    """Return whether a shell command runs tests, or builds or installs something."""
    if _TESTS.search(command, 0, _MOST_COMMAND):
        return "test"
    return "build" if _BUILDS.search(command, 0, _MOST_COMMAND) else None


_BUILT: Final = re.compile(
    r"(?:Get|Hit|Ign):\d|(?:Fetched|Setting up|Unpacking|Selecting previously|Preparing to unpack"
    r"|Processing triggers|update-alternatives:|Reading package|Building|Collecting|Downloading"
    r"|Downloaded|Requirement already|Installing|Compiling|Checking|Linking|Created symlink"
    r"|Successfully) |Step \d+/\d+|#\d+ |\[ *\d+(?:/\d+|%)\]|npm (?:warn|WARN|notice)"
    r"|make(?:\[\d+\])?: |\s+(?:CC|LD|AR) |added \d+ packages"
)
"""How lines of builds and installations begin, by the tools in use."""
_LOOKED_PLACES: Final = (0.1, 0.4, 0.7)
_BUILT_SHARE: Final = 0.3


def builds(text: str) -> bool:
    """Whether a text looks like the log of a build or an installation, in some of its places."""
    lines: list[str] = []
    for share in _LOOKED_PLACES:
        at = int(share * len(text))
        lines += text[at : at + _HEAD].split("\n", _LOOKED_LINES + 1)[1 : _LOOKED_LINES + 1]
    lines = list(filter(str.strip, lines))
    return len(list(filter(_BUILT.match, lines))) > _BUILT_SHARE * len(lines)


def _shell(call: ToolCall, tool: _Tool | None) -> Shell | None:
    """Return the shell command that a call runs, if it runs one."""
    if _shows_screen(call.name) if tool is None else not (tool.is_shell or tool.kind == "listing"):
        return None
    arguments = arguments_of(call)
    command = command_in(arguments)
    if not command or (command in _EDITOR_VERBS and len(arguments) > 1):
        return None
    return read_shell(command)


def command_in(arguments: Mapping[str, Any]) -> str:
    r"""Return the shell command among the arguments of a call; empty: there is none.

    OpenAI's shells have it in a list: of commands, or of the words of one.

    >>> command_in({"commands": ["cd src", "ls"]}), command_in({"command": ["bash", "-lc", "ls"]})
    ('cd src\nls', 'ls')
    """
    if command := _text_of(arguments, COMMANDS):
        return command
    for name in (*COMMANDS, "commands"):
        words = arguments.get(name)
        if isinstance(words, list) and words and all(isinstance(one, str) for one in words):
            if name == "commands":
                return "\n".join(words)
            is_script = _SCRIPT.fullmatch(" ".join(words[:2])) and len(words) > 2  # noqa: PLR2004
            return str(words[2]) if is_script else " ".join(map(_quoted, words))
    return ""


_SCRIPT: Final = re.compile(r"(?:\S*/)?(?:ba|z|da|k)?sh -l?c")
_PLAIN_WORD: Final = re.compile(r"[\w@%+=:,./-]+")


def _quoted(word: str) -> str:
    """Return a word of a command in quotes, where it needs them.

    A quote in it stays: some shells join the words, so such a command may be more than one.
    """
    return word if _PLAIN_WORD.fullmatch(word) else f"'{word}'"


def _text_of(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _lines(path: str, arguments: Mapping[str, Any]) -> Lines:
    """Return the lines that a read asked for, by the argument names in use."""
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
            return Lines(path, END)  # covers nothing: where it begins is not tool
        case _:
            begin, end = arguments.get("start_line"), arguments.get("end_line")
            return Lines(
                path,
                begin if isinstance(begin, int) and begin > 0 else 1,
                end if isinstance(end, int) and end > 0 else END,
            )


# ---- by the look of the text ------------------------------------------------------------

_MOST_COMMAND: Final = 2_000
"""Characters of a command that are looked at for what it runs."""
_HEAD: Final = 4_000
"""Characters that a look takes in: what a text is shows in its first lines."""
_LOOKED_LINES: Final = 20
_FEW: Final = 3
_MOST_LINES: Final = 0.7
"""The share of its lines that have the look of a kind."""
_DIFF: Final = re.compile(r"^(?:diff --git |Index: |--- .*\n\+\+\+ |@@ -\d+)", re.MULTILINE)
_STAMPED: Final = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
    r"|\[?(?:DEBUG|INFO|WARN|WARNING|ERROR|FATAL|TRACE)\b)"
)
_LISTED: Final = re.compile(r"[-dlcbps][-rwxsStT]{9}|(?:\.{0,2}/)?[\w@.+~-]+(?:/[\w@.+~-]+)*/?$")
_FOUND: Final = re.compile(r"[\w@.+~/-]+[:-]\d+[:-]")
_GUTTER: Final = re.compile(r"\s*\d+(?:→|\t|: ?|\| ?)")
_GUTTERS: Final = re.compile(r"^\s*(\d{1,9})(?=→|\t|: ?|\| ?)", re.MULTILINE)
_NUMBERS: Final = 60
"""Numbers before lines that are looked at."""
_RAN: Final = re.compile(r"<returncode>|Exit code:? \d|exit code:? \d|Traceback \(most recent")
_NODE: Final = re.compile(
    r"\s*(?:- )?(?:\[\w+\]\s*)?\w+(?: \"[^\"]*\")?(?: \[[\w=]+\])+|\s*<\w+|\s*- /url:"
)
_ROW: Final = re.compile(r"[^|]*\||[^\t]*\t|(?:[^,]*,){2}")


def look_of(text: str) -> Kind:
    """Return what a text is by its look alone."""
    return _look_of(text[:_HEAD].lstrip(), text[-20:].rstrip()[-1:])


@lru_cache(maxsize=64)
def _look_of(head: str, last: str) -> Kind:
    if not head:
        return "text"
    if _is_json(head, last):
        return "json"
    if _RAN.match(head):
        return "command"
    if _DIFF.match(head):
        return "diff"
    lines = list(filter(str.strip, head.split("\n", _LOOKED_LINES)[:_LOOKED_LINES]))
    if len(lines) < _FEW:
        return "text"
    for kind, shape in _LOOKS:
        if len(list(filter(shape.match, lines))) >= _MOST_LINES * len(lines) and (
            kind != "file" or _rises([int(number) for number in _GUTTERS.findall(head)])
        ):
            return kind
    return "text"


def _rises(numbers: Sequence[int]) -> bool:
    """Return whether most of the first numbers are one or two more than those before them."""
    steps = [after - number for number, after in pairwise(numbers[:_NUMBERS])]
    return sum([step in (1, 2) for step in steps]) >= _MOST_LINES * len(steps)


_LOOKS: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = (
    ("log", _STAMPED),
    ("search", _FOUND),
    ("page", _NODE),
    ("file", _GUTTER),
    ("listing", _LISTED),
    ("table", _ROW),
)


def _is_json(head: str, last: str) -> bool:
    """Return whether it begins and ends like a JSON object or array; nothing is parsed."""
    if head[0] == "{":
        return last == "}" and head[1:].lstrip()[:1] in ('"', "}")
    return (
        head[0] == "["
        and last == "]"
        and bool(re.match(r'\[\s*(?:[\[{"\d\-\]]|true|false|null)', head))
    )
