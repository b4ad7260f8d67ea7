"""What can be replayed: files and folders of other programs, sessions of a store, lists."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from windlass.errors import UsageError
from windlass.history.base import CallRecord, Store, StoredRow
from windlass.history.lanes import Lane, Lanes
from windlass.history.nesting import nest_with_totals, sessions_below
from windlass.history.row_details import ReplyDetails
from windlass.importing.base import read_list
from windlass.importing.recording import Grade, RecordedCall, Recording
from windlass.importing.storing import RESULTS_AS_WORDS, imported_from
from windlass.importing.streams import recordings
from windlass.ledger.charges import CALLS
from windlass.messages import Message, ToolSpec
from windlass.tasks.model import OPERATORS
from windlass.wire.base import Usage
from windlass.wire.forms import as_json, form_of_list, has_objects

Replayable: TypeAlias = str | Path | Sequence[Mapping[str, Any]]
"""A session of the store, a file, a folder, or a list of messages."""


def recordings_of(
    source: Replayable,
    model: str | None,
    store: Callable[[], Store],
    on_skip: Callable[[str], None],
    check_ended: Callable[[Store, str], None],
) -> Iterator[Recording]:
    """Yield the recordings that `source` stands for, one at a time.

    Args:
        source: A path, where there is one; else the name of a session.
        model: The model of a list of messages.
        store: Opens the store.
        on_skip: Gets a sentence for each file of a folder that is not read.
        check_ended: Raises where a session is still running.

    Raises UsageError where there is no such thing, it cannot be read, or it is still running.
    """
    if not isinstance(source, str | Path):
        yield recording_of_list(source, model)
    elif Path(source).exists():
        yield from recordings(source, on_skip=on_skip if Path(source).is_dir() else None)
    else:
        yield from _recordings_of_session(*_find_session(source, store), check_ended)


def _find_session(source: str | Path, store: Callable[[], Store]) -> tuple[Store, str]:
    name = str(source)
    is_path = isinstance(source, Path) or "/" in name or bool(Path(name).suffix)
    try:
        history = store()
    except UsageError as error:
        raise UsageError(f"there is no file or folder {name!r}, nor a session: {error}") from error
    try:
        return history, history.find_session(name)
    except UsageError as error:
        if is_path:
            raise UsageError(f"there is no file, folder or session {name!r}") from error
        raise


def recording_of_list(messages: Sequence[Mapping[str, Any]], model: str | None) -> Recording:
    """Return the recording of a list of messages, in any provider's form; each answer was a call.

    Raises UsageError where the list holds no answer.
    """
    if isinstance(messages, Mapping) or not isinstance(messages, Sequence):
        raise UsageError(
            "a recording is a session, a file, a folder or a list of messages, not"
            f" {type(messages).__name__}"
        )
    objects = [as_json(one) if has_objects(one) else one for one in messages]
    skipped: Counter[str] = Counter()
    conversation = read_list(form_of_list(objects) or "openai", objects, skipped)
    calls = tuple(
        RecordedCall(at, model or "unknown")
        for at, message in enumerate(conversation)
        if message.role == "assistant"
    )
    if not calls:
        raise UsageError("the list of messages holds no answer of a model, so there is no call")
    return Recording(
        "messages",
        "messages",
        "A",
        model or "unknown",
        tuple(conversation),
        calls,
        tools=(),
        skipped=skipped,
    )


def _recordings_of_session(
    store: Store, session_id: str, check_ended: Callable[[Store, str], None]
) -> Iterator[Recording]:
    """Yield the conversations of a session and of the sessions below it.

    Raises UsageError where they made no call.
    """
    below = nest_with_totals(sessions_below(store, [session_id]))
    names = [session_id, *(info.session_id for info in below)]
    for name in names:
        check_ended(store, name)
    conversations = [recording for name in names for recording in conversations_of(store, name)]
    if not conversations:
        raise UsageError(f"session {session_id!r} made no call that can be replayed")
    first, *others = conversations
    yield replace(first, beside=sum(_beside(store, names)))
    yield from others


def conversations_of(store: Store, session_id: str) -> Iterator[Recording]:
    """Yield the conversations of a session, without those below it.

    A message that a window had shortened stands there whole. A phase that was sent all that was
    said before goes on with that conversation; soundings are conversations of their own.
    """
    rows = list(store.rows(session_id))
    definition = store.start(session_id).cascade
    imported = imported_from(definition)
    grade: Grade = imported.get("grade", "A")
    as_words = bool(imported.get(RESULTS_AS_WORDS))
    lanes = Lanes(rows, tasks=OPERATORS in definition)
    conversations: list[_Conversation] = []
    newest: dict[Lane, _Conversation] = {}
    ids = {stored.id: stored for stored in rows if stored.id is not None}
    replies = {stored.row.trace_id: stored for stored in rows}
    for call in store.calls(session_id):
        reply = replies.get(call.trace_id)
        if reply is None:
            continue
        sent = [shown.message_id for shown in call.shown]
        lane = lanes.lane(reply)
        above = (each for each in lane.chain() if each.sounding is None)
        goes_on = (lane,) if lane.sounding is not None else above
        before = ((newest[each], each != lane) for each in goes_on if each in newest)
        found = (one for one, is_whole in before if one.continues(sent, is_whole=is_whole))
        conversation = next(found, None)
        if conversation is None:
            conversation = _Conversation()
            conversations.append(conversation)
        newest[lane] = conversation
        conversation.add(call, sent, reply, ids)
    for number, conversation in enumerate(conversations, start=1):
        alone = len(conversations) == 1
        name = session_id if alone else f"{session_id}, conversation {number}"
        yield replace(conversation.recording(store, name, grade), results_as_words=as_words)


def _beside(store: Store, names: Sequence[str]) -> Iterator[float]:
    """Yield what the requests of sessions cost that are no calls, in US dollars."""
    for stored in itertools.chain.from_iterable(map(store.rows, names)):
        row = stored.row
        if row.model is not None and row.node_type not in CALLS and row.cost:
            yield row.cost


@dataclass(slots=True)
class _Conversation:
    """A conversation of a session: each call was sent what the call before was, and more.

    A call of the same lane that was sent less belongs to it, too: a window left something out.
    """

    ids: list[str] = field(default_factory=list[str])
    """The ids of `messages`."""
    messages: list[Message] = field(default_factory=list[Message])
    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    tools: Sequence[Mapping[str, Any]] = ()
    specs: tuple[ToolSpec, ...] = ()
    model: str = ""

    def continues(self, sent: Sequence[str], *, is_whole: bool) -> bool:
        """Whether a call that was sent these messages continues it; `is_whole`: and all of it."""
        if not sent or (is_whole and not {*self.ids[1:]} <= {*sent}):
            return False
        earlier = {*self.ids, sent[0]}
        new = [one not in earlier for one in sent]
        return _content_of(sent[0]) == _content_of(self.ids[0]) and new == sorted(new)

    def add(
        self,
        call: CallRecord,
        sent: Sequence[str],
        reply: StoredRow,
        rows: Mapping[str, StoredRow],
    ) -> None:
        """Take in the next call."""
        bodies = {body.key: body for body in call.bodies}
        earlier = {*self.ids, *sent[: 1 if self.ids else 0]}
        for shown in call.shown:
            if shown.message_id in earlier:
                continue
            stored = rows.get(shown.message_id)
            message = stored.row.message if stored is not None else None
            message = message or bodies.get(shown.shown_as or "")
            if message is not None:
                self.ids.append(shown.message_id)
                self.messages.append(message)
        row = reply.row
        details, usage = ReplyDetails.read(row) or ReplyDetails(), None
        is_whole = len(sent) >= len(self.messages) and not any(one.shown_as for one in call.shown)
        if row.tokens_in is not None and is_whole:  # else it is that of a shortened request
            usage = Usage(
                row.tokens_in,
                row.tokens_out or 0,
                row.tokens_cached or 0,
                details.tokens_written,
                details.tokens_written_long,
                details.searches,
                details.tier,
            )
        self.model = self.model or call.model
        if call.tools != self.tools:
            self.tools = call.tools
            self.specs = tuple(ToolSpec(**tool["function"]) for tool in call.tools)
        self.calls.append(
            RecordedCall(
                len(self.messages),
                call.model,
                usage,
                row.cost,
                row.timestamp,
                row.trace_id,
                details.tokens_out_estimated,
                self.specs,
            )
        )
        if row.message is not None and reply.id is not None and reply.id not in sent:
            self.ids.append(reply.id)
            self.messages.append(row.message)

    def recording(self, store: Store, name: str, grade: Grade) -> Recording:
        """Return the whole conversation, with the bytes of its pictures."""
        tools = self.specs
        return Recording(
            name,
            "session",
            grade,
            self.model,
            tuple(_with_pictures(message, store) for message in self.messages),
            tuple(self.calls),
            tools=tools if tools or grade != "C" else None,
        )


def _content_of(message_id: str) -> str:
    """Return the content of a message as a hash.

    A phase may repeat its system prompt under a new id.
    """
    return message_id.rpartition("-")[0]


def _with_pictures(message: Message, store: Store) -> Message:
    """Return a message with the bytes of its pictures, which a store keeps apart."""
    if not any(one.sha256 and one.data is None for one in message.pictures):
        return message
    return message.with_parts(
        *(
            replace(part, data=store.picture(part.sha256))
            if part in message.pictures and part.sha256
            else part
            for part in message.parts
        )
    )
