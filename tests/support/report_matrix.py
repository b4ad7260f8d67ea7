"""Records of sessions that no run would make so densely: any windows, edits and soundings."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from tests.history.builders import row, start
from windlass.history.base import (
    Batch,
    CallRecord,
    EditRecord,
    NodeType,
    Row,
    ShownMessage,
    request_hash,
)
from windlass.history.decisions import SoundingsDecided, VisitBegun
from windlass.history.details import CallDetails
from windlass.history.row_details import ReplyDetails
from windlass.history.sqlite import SqliteStore
from windlass.messages import Message, assistant, system, user

EDITS: Final = ("digest", "mask", "expire", "fold", "summarise", "prune", "encode")
PRICED: Final = "anthropic/claude-sonnet-4-5"
SESSION: Final = "any"


@dataclass
class Writer:
    """Writes a session piece by piece as `draw` decides, and remembers what was said."""

    store: SqliteStore
    draw: st.DrawFn
    said: list[tuple[str, Message]] = field(default_factory=list)
    edits: int = 0
    sounding: int | None = None
    last: tuple[int | None, str] = (None, "")
    """The sounding and the id of what was said last."""
    phase: str = "a"
    sounded: bool = False
    """Whether the phase of soundings ran before."""
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    def append(self, row_: Row, **others: Any) -> str | None:
        """Append a row and what stands beside it."""
        (ident,) = self.store.append(Batch(SESSION, rows=[row_], **others))
        if ident is not None and row_.message is not None:
            self.said.append((ident, row_.message))
            self.last = self.sounding, ident
        return ident

    def row(self, message: Message | None = None, **columns: Any) -> Row:
        """A row of the phase and the sounding that it is in."""
        return row(
            message, phase=self.phase, sounding_index=self.sounding, turn=1, attempt=1, **columns
        )

    def say(self) -> None:
        """A message of any kind that is no reply."""
        text = f"text {next(self.numbers)} " * self.draw(st.integers(1, 9))
        kind = self.draw(st.sampled_from(["user", "user", "system", "brought in"]))
        message = system(text) if kind == "system" else user(text)
        node = {"node_type": NodeType.CONTEXT_INJECTION} if kind == "brought in" else {}
        self.append(self.row(message, **node))

    def edit(self) -> None:
        """An edit of any message; nothing says that a window follows it."""
        if not self.said:
            return
        ident, _ = self.draw(st.sampled_from(self.said))
        because = self.draw(st.sampled_from(EDITS))
        kind: Any = self.draw(st.sampled_from(["replace", "drop"]))
        body = user(f"short {because}") if kind == "replace" else None
        self.append(self.row(), edits=[EditRecord(ident, kind, because, "why", body)])
        self.edits += 1

    def shown(self, ident: str) -> tuple[ShownMessage, Message | None]:
        """A message as a window has it: as it was said, edited, or with a block."""
        because = self.draw(st.sampled_from([None, None, "inject", *EDITS]))
        if because in EDITS and self.draw(st.booleans()):
            because = f"{because}, inject"
        body = None if because is None else user(f"instead of {ident}")
        tokens = self.draw(st.integers(0, 40))
        key = None if body is None else body.key
        return ShownMessage(ident, "said before", tokens, key, because), body

    def call(self) -> None:
        """A call that was sent any of what was said, which may go on from a cut reply."""
        chosen = [one for one in self.said if self.draw(st.booleans())]
        pairs = [self.shown(ident) for ident, _ in chosen]
        cut = [self.last[1]] if self.last[0] == self.sounding and self.said else []
        reply = self.row(
            assistant(f"reply {next(self.numbers)}"),
            tokens_in=(told := self.draw(st.integers(0, 300))),
            tokens_cached=(cached := self.draw(st.integers(0, told))),
            tokens_out=1,
            cost=self.draw(st.sampled_from([None, 0.25])),
            details=ReplyDetails(
                tokens_written=self.draw(st.integers(0, told - cached)),
                continues=self.draw(st.sampled_from([None, None, *cut])),
            ),
        )
        edits = None if self.draw(st.integers(0, 9)) == 0 else self.edits
        bodies = tuple({body.key: body for _, body in pairs if body is not None}.values())
        sent = sum(shown.tokens for shown, _ in pairs) + self.draw(st.integers(0, 50))
        shown = tuple(shown for shown, _ in pairs)
        keys = [shown.shown_as or dict(self.said)[shown.message_id].key for shown, _ in pairs]
        record = CallRecord(
            reply.trace_id, PRICED, shown, request_hash(keys, ()), (), sent, sent, bodies,
            details=CallDetails(edits=edits),
        )  # fmt: skip
        self.append(reply, calls=[record])

    def visit(self) -> None:
        """The phase begins again."""
        self.append(self.row(text="again", details=VisitBegun(2, 1)))

    def soundings(self) -> None:
        """A phase in soundings side by side, of which one is taken, or none is."""
        self.phase = "s"
        if self.sounded:
            self.visit()
        self.sounded = True
        number = self.draw(st.integers(1, 3))
        order = [index for index in range(number) for _ in range(self.draw(st.integers(1, 2)))]
        for index in self.draw(st.permutations(order)):
            self.sounding = index
            self.say()
            self.call()
        if self.draw(st.booleans()):
            self.sounding, self.phase = None, "b"
            self.call()  # nothing is taken yet
            self.phase = "s"
        if self.draw(st.booleans()):
            self.sounding = self.draw(st.integers(0, number))
            self.call()  # it may refine another
        if self.draw(st.integers(0, 3)):
            self.sounding = None
            winner = self.draw(st.integers(0, number - 1))
            self.append(self.row(text="taken", details=SoundingsDecided(winner)))
        self.phase, self.sounding = "b", None


@st.composite
def sessions(draw: st.DrawFn, folder: Path) -> SqliteStore:
    """A store with one session, named `SESSION`."""
    store = SqliteStore(folder)
    try:
        store.append(Batch(SESSION, start=start()))
        writer = Writer(store, draw)
        steps = st.sampled_from(
            ["say", "say", "call", "call", "edit", "visit", "soundings", "soundings"]
        )
        for step in draw(st.lists(steps, min_size=2, max_size=14)):
            getattr(writer, step)()
        writer.call()
    except BaseException:  # hypothesis gives up what it draws that way
        store.close()
        raise
    return store
