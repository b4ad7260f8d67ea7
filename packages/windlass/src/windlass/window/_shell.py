"""What a shell command shows and touches, where its shape is plain; nothing is run.

Knows the few shapes in which agents read and write files: `cat`, `nl`, `sed -n`, `head`,
here-documents, `>` and `sed -i`. Any other command is a `command` that touches nothing known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, TypeAlias

ShellKind: TypeAlias = Literal["search", "file", "command", "log", "listing", "diff"]


@dataclass(frozen=True, slots=True)
class Shell:
    """What a command shows (`kind`) and touches: lines of a file read, a path written.

    `last` 0: to the end. Empty paths: nothing known. `whole`: what was in the written file
    before is gone.
    """

    kind: ShellKind
    reads: str = ""
    first: int = 1
    last: int = 0
    writes: str = ""
    whole: bool = False


_PLAIN: Final = Shell("command")
_MAX_CHARS: Final = 2_000
"""Longer commands are programs; only a here-document at their head is looked for."""
_TOKEN: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\|\||&&|[|;\n&]|[^\s'\"|;&]+|\s+")
_HEREDOC: Final = re.compile(
    r"\s*cat\s+(?:<<-?\s*['\"]?\w+['\"]?\s*(>>?)\s*([^\s;|&<>]+)"
    r"|(>>?)\s*([^\s;|&<>]+)\s*<<-?\s*['\"]?\w+['\"]?)\s*\n"
)
_BEGINNING: Final = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n")
"""The beginning of a here-document: the word that ends it, to the end of the line."""
_SED: Final = re.compile(r"(\d+)(?:,(\d+|\$))?p")
_COUNT: Final = re.compile(r"-(?:n\s*)?(\d+)|--lines=(\d+)")
_KINDS: Final[dict[str, ShellKind]] = {
    **dict.fromkeys(("cat", "nl", "head", "tail", "bat", "less", "more"), "file"),
    **dict.fromkeys(("ls", "find", "tree", "fd", "du"), "listing"),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "ag", "ack"), "search"),
    "diff": "diff",
    "journalctl": "log",
    "dmesg": "log",
}
_FILTERS: Final = frozenset({"head", "tail", "sort", "uniq", "wc", "cut", "tr", "tee", "cat", "nl"})
"""What, at the end of a pipe, shows what went in."""
_SILENT: Final = frozenset({"cd", "export", "source", ".", "set", "pwd", "true", "mkdir"})
_READERS: Final = (
    _KINDS.keys() | _FILTERS | {"cd", "pwd", "true", "stat", "file", "jq", "echo", "git", "sed"}
) - {"tee"}
"""Programs that change nothing, but by the options below."""
_GIT_READS: Final = frozenset(
    {"log", "diff", "show", "status", "blame", "grep", "ls-files", "ls-tree", "cat-file"}
)
_OPTIONS_OF: Final[Mapping[str, str]] = {
    "find": r"-(?:delete|exec(?:dir)?|ok(?:dir)?|fprint\w*|fls)",
    "fd": r"-[xX].*|--exec.*",
    **dict.fromkeys(("rg", "ag", "ack", "bat"), r"--(?:pager|pre|hostname-bin)(?:=.*)?"),
    "sort": r"-\w*[oR].*|--[ocr].*",
    "tail": r"-\w*[fF]|--(?:follow|retry).*",
    "tree": r"-\w*[oR].*",
    "journalctl": r"-\w*f|--(?:follow|vacuum|rotate|flush|sync|relinquish|setup).*",
    "dmesg": r"-\w*[cCDEnw].*|--(?:clear|read-clear|console|follow).*",
    "git": r"--(?:output|ext-diff|open-files-in-pager).*|-O.*",
    "less": r"-[oO].*|--(?:log-file|LOG-FILE).*",
    "file": r"-C|--compile",
}
"""Options by which a reader writes, runs a program, waits for more, or leaves things to chance."""


_READS: Final = re.compile(
    r"(?:^|[;&(\n]|\|\||\b(?:do|then|else)\s|\bcmd[\"']?\s*[:=]\s*[\"'`])\s*"
    r"(?:sed\s+-n\b|(?:cat|nl)\s+(?!\s*[<>|&;)])|head\s+[^\s=<>|&;)]"
    r"|git\s+(?:--no-pager\s+|-C\s+\S+\s+)*show\s+(?:-\S+\s+)*[^\s:;|&]+:[^\s:;|&])"
)
"""A reader of files at the beginning of a command, or of one of a chain; behind a single `|` it
reads no file."""


@lru_cache(maxsize=256)
def reads_files(command: str) -> bool:
    """Return whether a command, or a call of one in code, prints files among other things."""
    return "<<" not in command and bool(_READS.search(command, 0, 4 * _MAX_CHARS))


@lru_cache(maxsize=512)
def read_shell(command: str) -> Shell:
    """Return what the command shows and touches."""
    here = _HEREDOC.match(command)
    if here:
        append = (here[1] or here[3]) == ">>"
        return Shell("command", writes=here[2] or here[4], whole=not append)
    if len(command) > _MAX_CHARS or "<<" in command:
        return _PLAIN
    jobs = _jobs(command.strip())
    if jobs is None:
        return _PLAIN
    folder = ""
    shown: list[Shell] = []
    for pipe in jobs:
        verb = pipe[0][0]
        if verb == "cd" and len(pipe[0]) > 1:
            folder = _joined(folder, pipe[0][1])
        elif verb not in _SILENT:
            shown.append(_in_folder(_of_pipe(pipe), folder))
    if len(shown) == 1:
        return shown[0]
    kinds = {one.kind for one in shown}
    # Several commands: what was read is not told apart in the result, what was written is.
    wrote = next((one for one in reversed(shown) if one.writes), _PLAIN)
    kind = kinds.pop() if len(kinds) == 1 else "command"
    return Shell(kind, writes=wrote.writes, whole=wrote.whole)


@lru_cache(maxsize=512)
def only_reads(command: str) -> bool:
    """Whether every program of a command reads and does nothing else, as far as its words show."""
    if len(command) > _MAX_CHARS or any(sign in command for sign in ("<<", "$(", "`", "<(", ">(")):
        return False
    jobs = _jobs(command.strip())
    return jobs is not None and all(_reads(words) for pipe in jobs for words in pipe)


def _reads(words: list[str]) -> bool:
    verb, *others = words
    verb = verb.rsplit("/", 1)[-1]
    if verb not in _READERS or any(">" in word for word in words):
        return False
    if any(word.startswith("/dev/") and word != "/dev/null" for word in others):
        return False  # what a device gives is gone, or is chance
    if verb == "sed":
        return _is_sed(words) and _cut(words[:3]) is not None
    if verb == "uniq" and len([word for word in others if not word.startswith("-")]) > 1:
        return False  # the second is a file that it writes
    if verb == "git":
        while others[:1] in (["-C"], ["--no-pager"]):
            del others[: 2 if others[0] == "-C" else 1]
        if not _GIT_READS.issuperset(others[:1] or [""]):
            return False
    effects = _OPTIONS_OF.get(verb)
    return effects is None or not any(re.fullmatch(effects, word) for word in others)


def with_body(command: str, change: Callable[[str], str]) -> str:
    """Give the command with what `change` makes of the text of the here-document it begins with."""
    here = _BEGINNING.search(command) if _HEREDOC.match(command) else None
    if here is None:
        return command
    word = here[1]
    start = end = at = here.end()
    for line in command[start:].split("\n"):
        bare = line.strip()
        if bare == word:
            return f"{command[:start]}{change(command[start:end])}\n{command[end:]}"
        at += len(line) + 1
        if bare:
            end = at  # blank lines before the word that ends it are no part of the text
    return command


def _jobs(command: str) -> list[list[list[str]]] | None:
    """Return the pipes of a command, each a list of commands, each its words; None: not plain."""
    jobs: list[list[list[str]]] = [[[]]]
    word = ""
    end = 0
    for token in _TOKEN.finditer(command):
        if token.start() != end:
            return None  # an open quote
        end = token.end()
        piece = token[0]
        if piece.isspace() and piece != "\n":
            word = _close(jobs, word)
        elif piece in ("||", "&&", ";", "\n", "&", "|"):
            if piece == "&" and word.endswith((">", "1", "2")):
                word += piece  # 2>&1
                continue
            word = _close(jobs, word)
            if piece == "|":
                jobs[-1].append([])
            elif jobs[-1] != [[]]:
                jobs.append([[]])
        elif piece[0] in "'\"":
            word += piece[1:-1]
        else:
            word += piece
    _close(jobs, word)
    if jobs[-1] == [[]]:
        jobs.pop()
    whole = end == len(command) and jobs and all(words for pipe in jobs for words in pipe)
    return jobs if whole else None


def _close(jobs: list[list[list[str]]], word: str) -> str:
    if word and not re.fullmatch(r"2>(?:&1|/dev/null)|2>&|>&2", word):
        jobs[-1][-1].append(word)
    return ""


def _of_pipe(pipe: list[list[str]]) -> Shell:
    first, *rest = (_of_words(words) for words in pipe)
    if not rest:
        return first
    if all(words[0] in _FILTERS or _is_sed(words) for words in pipe[1:]):
        if len(rest) == 1 and first.reads and first.first == 1 and not first.last:
            cut = _cut(pipe[1])
            return replace(first, first=cut[0], last=cut[1]) if cut else Shell(first.kind)
        return Shell(first.kind)
    return Shell(rest[-1].kind)


def _of_words(words: list[str]) -> Shell:
    verb, *others = words
    verb = verb.rsplit("/", 1)[-1]
    if ">" in words or any(word.startswith(">") for word in others):
        return _written(words)
    names = [word for word in others if not word.startswith("-")]
    if verb in ("sed", "perl") and any(re.fullmatch(r"-\w*i\S*|--in-place\S*", w) for w in others):
        return Shell("command", writes=names[-1] if len(names) > 1 else "")
    if verb == "git":
        return Shell(_git(names[0] if names else ""))
    if verb == "tee" and len(names) == 1:
        return Shell("command", writes=names[0], whole="-a" not in others)
    if verb == "sed":
        cut = _cut(words[:3])
        if cut and len(words) == 4 and words[1] == "-n":  # noqa: PLR2004 - sed -n 1,5p file
            return Shell("file", words[3], *cut)
        return Shell("file" if "-n" in words else "command")
    kind = _KINDS.get(verb, "command")
    if verb in ("cat", "nl") and len(names) == 1 and not _has_glob(names[0]):
        return Shell("file", names[0])
    if verb == "head":
        cut, names = _cut(words), [name for name in names if not name.isdigit()]
        if cut and len(names) == 1 and not _has_glob(names[0]):
            return Shell("file", names[0], *cut)
    return Shell(kind)


def _written(words: list[str]) -> Shell:
    text = " ".join(words)
    match = re.search(r"(?<![\d&])(>>?)\s*([^\s&>]+)$", text)
    return Shell("command", writes=match[2], whole=match[1] == ">") if match else _PLAIN


def _git(verb: str) -> ShellKind:
    if verb in ("diff", "show"):
        return "diff"
    return "log" if verb == "log" else "search" if verb == "grep" else "command"


def _is_sed(words: list[str]) -> bool:
    return words[0] == "sed" and words[1:2] == ["-n"]


def _cut(words: list[str]) -> tuple[int, int] | None:
    """Return the lines that `sed -n A,Bp` or `head -n N` let through, 0 for the end.

    None: unknown.
    """
    text = " ".join(words[1:])
    if _is_sed(words):
        match = _SED.fullmatch(words[2]) if len(words) > 2 else None  # noqa: PLR2004
        if not match:
            return None
        last = match[2] or match[1]
        return int(match[1]), 0 if last == "$" else int(last)
    if words[0] != "head":
        return (1, 0) if words[0] in ("cat", "nl") and len(words) < 3 else None  # noqa: PLR2004
    counted = _COUNT.match(text)
    if counted:
        return 1, int(counted[1] or counted[2])
    return None if text.startswith("-") else (1, 10)


def _has_glob(name: str) -> bool:
    return any(sign in name for sign in "*?[$`{(<>")


def _in_folder(shell: Shell, folder: str) -> Shell:
    if not folder or not (shell.reads or shell.writes):
        return shell
    return replace(
        shell,
        reads=shell.reads and _joined(folder, shell.reads),
        writes=shell.writes and _joined(folder, shell.writes),
    )


def _joined(folder: str, path: str) -> str:
    if not folder or path.startswith(("/", "~")):
        return path
    return f"{folder.rstrip('/')}/{path.removeprefix('./')}"
