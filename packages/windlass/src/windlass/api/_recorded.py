"""What only the record of a session names: it counts with trust, and while nobody edited it.

A store may come from somebody else. Whoever goes on with a session of it named the session, and
not what its record names: modules, servers, tools, hosts, folders. Root, addresses, keys and limits
are never taken from a record.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Self

from windlass.api.loading import (
    PLAIN,
    ReadingOptions,
    add_tools,
    load_cascade,
    load_program,
    modules_of,
)
from windlass.api.options import Tools
from windlass.errors import OtherCascade, TrustNeeded, UsageError
from windlass.history.base import RAN
from windlass.settings.settings import Settings
from windlass.settings.trust import is_trusted

if TYPE_CHECKING:
    from windlass.api.opening import EngineCall
    from windlass.cascade.model import Cascade
    from windlass.cascade.ready import ReadyCascade
    from windlass.history.base import SessionStart
    from windlass.tasks.compile import Program
    from windlass.tasks.model import TaskFile
    from windlass.tools.registry import Registry


@dataclass(frozen=True, slots=True)
class RecordedWork:
    """What a session ran, as only its record names it.

    `store` is the folder of its store, `trust` the user's word for all that it names. `way` says
    how the user names it himself (empty: there is no way).
    """

    session_id: str
    store: Path
    settings: Settings
    tools: Tools = ()
    trust: bool = False
    way: str = ""

    @classmethod
    def of(cls, call: EngineCall, session_id: str, settings: Settings) -> Self:
        """What a session of the call's store ran, with the tools and the trust of its engine."""
        options, store = call.options, call.resources.store(existing=True)
        tools, trust = options["tools"], options["trust"]
        return cls(session_id, store.folder, settings, tools, trust)

    def named_by(self, file: object) -> RecordedWork:
        """Return the same of a cascade that the user can name, by its file if that is there."""
        name = "CASCADE"
        if isinstance(file, str) and file.isprintable() and Path(file or ".").is_file():
            name = quote(file)
        return replace(self, way=f"windlass run {name} --resume {self.session_id}")

    def load_cascade(
        self,
        cascade: Cascade | Mapping[str, Any] | str | Path,
        *,
        auto: bool,
        how: ReadingOptions = PLAIN,
        input: Collection[str] | None = None,  # noqa: A002  (the DSL's word)
        warn: Callable[[str], None] | None = None,
    ) -> ReadyCascade:
        """Return the cascade as `loading.load_cascade` gives it. Raises TrustNeeded."""
        how = replace(how, record=self._asked)
        ready = load_cascade(
            cascade, self.settings, self.tools, auto=auto, how=how, input=input, warn=warn
        )
        self._check(list(ready.walk()))
        return ready

    def load_program(self, task: TaskFile, *, auto: bool) -> tuple[Program, Registry]:
        """Return the task as `loading.load_program` gives it. Raises TrustNeeded."""
        from windlass.cascade.ready import ReadyCascade

        program, registry = load_program(
            task, self.settings, self.tools, auto=auto, record=self._asked
        )
        self._check([ReadyCascade(program.cascade, registry, {})])
        return program, registry

    @property
    def _asked(self) -> Path | None:
        return None if self.trust else self.store

    def _check(self, family: Sequence[ReadyCascade]) -> None:
        """Raise TrustNeeded for what nobody trusts."""
        if self.trust:
            return
        modules = [each.registry.modules for each in family]
        wanted = [f"the module {name}" for each in modules for name in each.unchecked]
        untrusted = [folder for each in modules for folder in each.untrusted]
        if not is_trusted(self.store):
            untrusted.insert(0, self.store)
            given = add_tools(_empty_registry(), self.tools).names()
            for each in family:
                wanted += _reached(each.cascade, each.registry, self.settings, given)
        if not wanted:
            return
        named = f"name it yourself ({self.way}), or " if self.way else ""
        raise TrustNeeded(
            f"session {self.session_id!r} wants {', '.join(dict.fromkeys(wanted))}; only its record"
            f" says so, and a record may be somebody else's: {named}look at it, then mark the"
            f" folder{'s' if len(places := _places(untrusted)) > 1 else ''}",
            places,
        )


def check_same_cascade(
    cascade: Cascade, session_id: str, start: SessionStart, way: str = ""
) -> None:
    """Raise OtherCascade where a session is another cascade's; `way` is another way out."""
    own = start.cascade_id
    if cascade.cascade_id != own:
        file = start.cascade.get(RAN, {}).get("file")
        named = f" ({file})" if isinstance(file, str) and file and file.isprintable() else ""
        raise OtherCascade(session_id, f"{own!r}{named}", cascade.cascade_id, start.timestamp, way)


def check_same_task(task: str | Path, session_id: str, recorded: bytes) -> None:
    """Raise UsageError where a task file is not, byte for byte, what a session ran."""
    try:
        same = Path(task).read_bytes() == recorded
    except OSError as error:
        raise UsageError(f"{str(task)!r} cannot be read: {error.strerror}") from error
    if not same:
        raise UsageError(
            f"{str(task)!r} is not the task that session {session_id!r} ran; leave out --resume to"
            " run it anew, or the file to go on with what the record holds"
        )


def warn_of_other_root(
    session_id: str, recorded: object, settings: Settings, warn: Callable[[str], None] | None
) -> None:
    """Say where the folder of tools is another one than that of the run: that of now counts."""
    now = str(settings.root.resolve())
    if isinstance(recorded, str) and recorded != now:
        flag = f"; the folder of then: --root {quote(recorded)}" if recorded.isprintable() else ""
        text = (
            f"session {session_id!r} worked in {recorded!r}; from now on its tools work in {now!r}"
            f"{flag}"
        )
        (warn or (lambda said: warnings.warn(said, stacklevel=2)))(text)


def _empty_registry() -> Registry:
    from windlass.tools.registry import Registry

    return Registry(modules_of(None))


def _reached(
    cascade: Cascade, registry: Registry, settings: Settings, given: Sequence[str]
) -> Iterator[str]:
    """Yield what a cascade reaches beside the builtin tools and its root, in words.

    `given` are the tools that the user hands in now.
    """
    from windlass.cascade.model import tool_names
    from windlass.cascade.tools_named import (
        chooses_tools,
        has_tool,
        judges_of,
        servers_named,
        tools_of,
    )

    for name in servers_named(cascade, tuple(settings.mcp_servers)):
        yield f"the MCP server {name}"
    if cascade.http_allow and has_tool(cascade, "http_get"):
        yield f"http_get of {', '.join(map(repr, cascade.http_allow))}"
    named = tool_names(judges_of(cascade))
    for phase in cascade.phases:
        named += registry.names() if chooses_tools(phase) else tool_names(tools_of(phase))
    for name in dict.fromkeys(named):
        known = name in registry.names() and name not in given
        if known and registry.get(name).effects == "external":
            yield f"the tool {name}"


def _places(folders: Sequence[Path]) -> list[str]:
    """Return the folders to mark: the current one stands for those in it."""
    here = Path.cwd().resolve()
    real = [folder.resolve() for folder in folders]
    marked = [here if each.is_relative_to(here) else each for each in real if not is_trusted(each)]
    return list(dict.fromkeys(map(str, marked)))
