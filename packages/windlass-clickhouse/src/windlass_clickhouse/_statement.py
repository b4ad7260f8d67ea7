"""What a user's SELECT may say on a ClickHouse store.

An engine in process has all the rights of the process, and a server those of its network: tables
may be files and addresses, and functions may ask them. So the statement is read token by token as
ClickHouse reads it, what it could read in another way is refused, and what is handed on is what was
read: without comments, and outside quotes in plain ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias

from windlass.public import UsageError

ONLY: Final = "only one SELECT can be run here"

Kind: TypeAlias = Literal["text", "name", "word", "space", "mark", "sign"]

_TOKEN: Final = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*+')
      | (?P<name>`(?:[^`]|``)*+`|"(?:[^"]|"")*+")
      | (?P<space>[\ \t\r\n\f\v]++|--[^\n]*+|\#[\ !][^\n]*+|/\*(?:(?!/\*|\*/).)*+\*/)
      | (?P<word>\w++)
      | (?P<mark>\?)
      | (?P<sign>(?!//|/\*)(?:->|::|\|\||[<>!=]=|<>|[()\[\],.+\-*/%<>=:;]))
    """,
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_PLAIN: Final = re.compile(r"\w+", re.ASCII)
_BEGINNINGS: Final = ("select", "with")
_ENDS: Final = frozenset({"group", "order", "limit", "select"})
"""Clauses behind tables whose commas do not part tables."""
_WAITING: Final = frozenset(
    {
        *("and", "as", "between", "case", "else", "ilike", "in", "is", "like", "not", "on", "or"),
        *("regexp", "rlike", "then", "using", "when"),
    }
)
"""Words behind which any word is a name, and no clause begins."""
_SETTINGS_ENDS: Final = frozenset({"except", "format", "intersect", "into", "parallel", "union"})
_NO_CALLS: Final = frozenset(
    {
        *("all", "and", "any", "as", "by", "case", "distinct", "else", "except", "exists", "from"),
        *("having", "in", "intersect", "join", "not", "on", "or", "prewhere", "select", "then"),
        *("union", "using", "when", "where"),
    }
)
"""Words whose brackets hold no arguments."""
_TABLES: Final = frozenset(
    {
        *("format", "generaterandom", "generateseries", "generate_series", "null", "numbers"),
        *("numbers_mt", "primes", "values", "view", "zeros", "zeros_mt"),
    }
)
"""Table functions that reach nothing outside the database."""
_REACHING: Final = re.compile(
    r"ai|dict|catboost|file|generateserialid|hascolumnintable|joinget|reversedns"
)
"""How functions begin that ask models, servers, files or dictionaries, or count there."""
_SCHEMA: Final = frozenset(
    {
        *("columns", "data_skipping_indices", "data_type_families", "databases", "formats"),
        *("functions", "numbers", "numbers_mt", "one", "parts", "settings", "table_functions"),
        *("tables", "zeros", "zeros_mt"),
    }
)
"""Tables of `system` that tell what a store is made of, and nothing of who else uses the server."""


class Token(NamedTuple):
    """A piece of a statement; `value` is a name without its quotes, a word in small letters."""

    kind: Kind
    written: str
    value: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A SELECT that may be run, but for what only the server knows.

    `parts` are its text between the marks that stand for parameters. `called` are the functions
    that it calls anywhere, `qualified` the pairs of names with a dot between them.
    """

    parts: tuple[str, ...]
    called: frozenset[str]
    qualified: frozenset[tuple[str, str]]


def read_statement(sql: str) -> Statement:
    """Read one SELECT. Raises UsageError for anything else, and for what reaches further."""
    tokens = list(_tokens(sql.replace("\0", " ")))
    said = [token for token in tokens if token.kind != "space"]
    while said and said[-1].written == ";":
        said.pop()
    if not said or said[0].value not in _BEGINNINGS:
        _refuse("this is none" if said else "there is none")
    if any(token.written == ";" for token in said):
        raise UsageError(f"{ONLY} at a time: leave out what follows the semicolon")
    _check_clauses(said)
    _check_tables(said)
    called = {one.value.lower() for one, after in pairwise(said) if _calls(one, after)}
    if reaching := sorted(name for name in called if _REACHING.match(name)):
        _refuse(f"{reaching[0]}() reaches beyond the store")
    triples = zip(said, said[1:], said[2:], strict=False)
    dotted = {(_name(a), _name(b)) for a, dot, b in triples if dot.written == "." and _names(a)}
    text = "".join("\0" if token.kind == "mark" else _sent(token) for token in tokens)
    return Statement(tuple(text.split("\0")), frozenset(called), frozenset(dotted))


def reaching_database(first: str, second: str) -> bool:
    """Say whether a pair of names means what may not be asked, where the first is a database's."""
    if first.lower() == "information_schema":
        return False
    return first != "system" or second.lower() not in _SCHEMA


def harmless_tables() -> list[str]:
    """Return the table functions that reach nothing outside the database."""
    return sorted(_TABLES)


def _refuse(reason: str) -> NoReturn:
    raise UsageError(f"{ONLY}, and {reason}")


def _tokens(sql: str) -> Iterator[Token]:
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        if found is None:
            _refuse(
                f"{sql[at : at + 20]!r} is not read: outside quotes there are plain ASCII letters,"
                " digits and signs, and comments do not stand in each other"
            )
        at = found.end()
        kind: Kind = found.lastgroup  # type: ignore[assignment]
        written = value = found[0]
        if kind == "name":
            value = written[1:-1].replace(written[0] * 2, written[0])
            if "\\" in value or not value.isprintable():
                _refuse(f"the name {written[:40]} has a backslash or a control character")
        yield Token(kind, written, value.lower() if kind == "word" else value)


def _sent(token: Token) -> str:
    """Return what the server is sent of a token."""
    if token.kind == "space":
        return " "
    return "" if token.written == ";" else token.written


def _name(token: Token) -> str:
    """Return a name as it is written, without its quotes."""
    return token.value if token.kind == "name" else token.written


def _names(token: Token) -> bool:
    return token.kind in ("name", "word")


def _calls(token: Token, after: Token) -> bool:
    return after.written == "(" and _names(token)


def _check_clauses(said: list[Token]) -> None:
    """Raise UsageError for what changes where rows go, or how the server is set up."""
    words = [token.value if token.kind == "word" else "" for token in said]
    if {"outfile", "infile"} & {*words}:
        _refuse("this would use a file (INTO OUTFILE, FROM INFILE)")
    end = Token("sign", ")", ")")
    for word, after, behind in zip(words, [*said[1:], end], [*said[2:], end, end], strict=True):
        if not _names(after) or after.value in ("asc", "desc"):
            continue
        # `SETTINGS a` is short for `SETTINGS a = 1`.
        if word == "settings" and (behind.written in "=,.)" or behind.value in _SETTINGS_ENDS):
            _refuse("settings are not changed by it (SETTINGS)")
        if word == "format" and (behind.written == ")" or behind.value == "settings"):
            _refuse("its rows have one form (FORMAT)")


class _Level(NamedTuple):
    """A bracket that is open, or the statement itself.

    `place`: `table` where one may stand next, `from` behind one, empty elsewhere. `is_call`: these
    are arguments, where FROM may mean something else. `has_values`: what stands at a table's place
    may be a value (ARRAY JOIN, WITH FILL FROM), so functions may be called there.
    """

    place: Literal["", "table", "from"] = ""
    is_call: bool = False
    has_values: bool = False


def _check_tables(said: list[Token]) -> None:
    """Raise UsageError for a table that is no plain name, or a function that reaches further.

    Where two readings are possible, the one with more tables is taken.
    """
    above, level, before = list[_Level](), _Level(), Token("sign", "(", "(")
    for token, after in pairwise([*said, Token("sign", "", "")]):
        at_table = level.place == "table"
        if at_table and token.kind == "text":
            _refuse(f"the table {token.written[:40]} is no name: tables are not files")
        odd = token.kind == "name" and not _PLAIN.fullmatch(token.value)
        if odd and (at_table or before.value == "in"):
            _refuse(f"the table {token.written[:40]} is no plain name")
        is_function = at_table and not level.has_values and _calls(token, after)
        if is_function and token.value.lower() not in _TABLES:
            _refuse(f"{token.value}() reaches beyond the store")
        word = token.value if token.kind == "word" else ""
        if token.written in ("(", "["):
            above.append(level._replace(place="from") if at_table else level)
            is_call = _names(before) and before.value not in _NO_CALLS
            place: Literal["table", ""] = "table" if at_table and token.written == "(" else ""
            level = _Level(place, is_call, level.has_values)
        elif token.written in (")", "]"):
            level = above.pop() if above else _Level()
        elif before.written == "(" and _begins_rows(word, after):
            level = _Level()
        elif word == "join" or (word == "from" and _begins_tables(level, before)):
            level = level._replace(place="table", has_values=before.value in ("array", "fill"))
        elif word in _ENDS and not at_table and _may_begin(before, after, level):
            level = level._replace(place="", is_call=level.is_call and word != "select")
        elif token.written == "," and level.place == "from":
            level = level._replace(place="table")
        elif at_table:
            level = level._replace(place="from")
        before = token


def _begins_rows(word: str, after: Token) -> bool:
    """Return whether a bracket that begins with a word holds rows of its own."""
    return word in ("select", "with", "explain") or (word == "values" and after.written == "(")


def _begins_tables(level: _Level, before: Token) -> bool:
    """Return whether tables follow a FROM, and not what a function is given."""
    return before.written == "(" or not level.is_call


def _may_begin(before: Token, after: Token, level: _Level) -> bool:
    """Return whether a clause may begin between two tokens.

    Behind tables a word may be a name, too.
    """
    if level.place != "from":
        return True
    is_value = before.written in (")", "]") or before.kind in ("text", "name", "mark")
    return after.written != "," and (is_value or (_names(before) and before.value not in _WAITING))
