"""What a tool is: a Python function with a schema, a time limit, and what it may use.

A tool function is plain or async. Its parameters become the schema; one annotated
`ToolContext` is not shown to the model and receives what the run provides. It
returns text, any JSON value, the bytes of a picture, or a `ToolOutput`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from windlass.messages import Picture, ToolCall, ToolSpec
from windlass.safety.interrupting import Cancellation
from windlass.settings.modules import Modules
from windlass.wire.base import Usage
from windlass.wire.web_search import SearchReply

Effects: TypeAlias = Literal["none", "idempotent", "external"]

RunCascade: TypeAlias = Callable[[ToolCall, Mapping[str, Any]], Awaitable[str]]
"""Runs the cascade that a call names, on the call's arguments, and gives its output."""

TIMEOUT_S: Final = 60.0
"""Seconds a tool may take unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class WebSearch:
    """A provider's own search of the web: `model` is who searches, as `provider/model`.

    `find` takes the query and the number of pages wanted, and raises a WindlassError where
    the provider fails.
    """

    model: str
    find: Callable[[str, int], Awaitable[SearchReply]]


@dataclass(frozen=True, slots=True)
class MemoryCallbacks:
    """The banks that a phase may use, as its tools see them.

    `remember(text, bank, key, expires)` keeps a text, `search(query, bank, most)` finds some (0:
    as many as one search brings); both
    answer in words and raise ToolError where the phase may not, or the bank is unknown. Empty
    text leaves key, expiry and bank open.
    """

    remember: Callable[[str, str, str, str], str]
    search: Callable[[str, str, int], str]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may use of the run.

    `root` is the only folder that file tools may touch. `state` is the attempt's own
    copy of the cascade's state. `readable` are further folders and files that may only be
    read; `closed` is a folder in which nothing else is open to tools (the store).
    `modules` knows which files Python could run: they are not written to.
    `http_allow` are the hosts that `http_get` may ask, and `http_limit` those beyond which
    it never goes (empty: no such limit).
    `ask` puts a question to the person who runs this, with the answers to choose from, and by
    keyword what else a question has.
    `recall` gives the original text behind a reference of this session, or with a second text
    the part of it that a model asks for; it raises KeyError where the reference is unknown, and
    ValueError where the part is. `search_folder` is the folder `web_search` looks in, and
    `search` the provider that searches the web for it: there only where a phase has that
    tool, because a run names every model that will see content.
    `search_session` finds what was said in this session, by words and a number of results.
    `callout` marks the message that a reference names under a name and raises UsageError;
    `memory` are the phase's banks (None: it has none). `skill` gives the instructions of a
    skill, `look` shows a picture or file of the session again, and `describe` keeps what the
    model says of one; all raise ToolError for what is not known.
    `cancellation` tells that the call was given up, by its time limit or with its run: what a
    tool does then goes nowhere.
    `call` is the call, and `run_cascade` runs a cascade that it names (None: they are no tools
    here).
    """

    session_id: str
    phase: str
    root: Path
    state: MutableMapping[str, Any]
    readable: tuple[Path, ...] = ()
    closed: Path | None = None
    modules: Modules = field(default_factory=Modules)
    recall: Callable[..., str] | None = None
    ask: Callable[..., str] | None = None
    search_folder: Path | None = None
    search: WebSearch | None = None
    http_allow: tuple[str, ...] = ()
    http_limit: tuple[str, ...] = ()
    callout: Callable[[str, str], str] | None = None
    memory: MemoryCallbacks | None = None
    skill: Callable[[str], str] | None = None
    look: Callable[[str], ToolOutput] | None = None
    describe: Callable[[str, str], str] | None = None
    search_session: Callable[[str, int], str] | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)
    call: ToolCall | None = None
    run_cascade: RunCascade | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a tool's own call of a model used: it is recorded with the result and counted.

    `model` is `provider/model`. `dollars` is the price in US dollars where the provider told it
    (None: the table of prices says).
    """

    model: str
    usage: Usage
    dollars: float | None = None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's result: text, pictures, whether it is a failure, and what a model took for it."""

    text: str
    pictures: tuple[Picture, ...] = ()
    error: bool = False
    spent: Spent | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A registered tool. `origin` says where it was defined, for messages to the user.

    `parse` turns the model's arguments into the function's keyword arguments, coerced
    by its signature; it raises ValueError whose text tells the model what is wrong.
    Without it the arguments are checked against the schema and passed on as they are.
    `reads` and `writes` name the arguments that say what is read and written: paths, or
    what stands for one. `effects` says what running it twice does: `none` and `idempotent` come
    to the same, `external` may not. `cascade` is the file of the cascade that it runs (empty:
    it is a function).
    """

    spec: ToolSpec
    function: Callable[..., Any] = field(repr=False)
    timeout_s: float = TIMEOUT_S
    context_parameter: str | None = None
    origin: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    effects: Effects = "external"
    cascade: str = ""
    parse: Callable[[dict[str, Any]], dict[str, Any]] | None = field(
        default=None, repr=False, compare=False
    )
