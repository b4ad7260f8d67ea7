"""A compaction of a client's conversation without a model: the answer to its `session.compact`.

The content is the engine's: the user's words, the plan, conclusions, a log of calls, the pieces
that are likely to be needed, names of the rest, and the newest calls as they are. What goes out of
view is kept before its references are shown. A later compaction is made from the messages that an
earlier one folded, and not from its text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from windlass.public import (
    Conversation,
    Fold,
    FreeMoments,
    FreeMomentsOptions,
    Item,
    Message,
    Planner,
    Prices,
    Replace,
    Text,
    WindlassError,
    WindowRules,
    neutral_scale,
    redacted_message,
    reference,
    user,
)
from windlass_agents.client_rows import OF_COMPACTING, Row, messages_of, rows_of, searched_tools
from windlass_agents.hook_journal import HookJournal, HookLine, text_hash
from windlass_agents.kept_compactions import KeptCompaction, KeptCompactions, block_hash
from windlass_agents.kept_originals import find_original, open_folder

_BEFOREHAND: Final = "precompute"
"""The trigger of a compaction that the client prepares before it needs one."""
DUE: Final = "due"
"""The trigger of a compaction that nobody asked for: it is free, or pays."""
COMPACTED: Final = re.compile(r"^\[Compaction before call \d+: ", re.MULTILINE)
"""How the text of a compaction begins."""
_END: Final = re.compile(r"\n\n\[End of the compaction: [^\]\n]*\]")
_REMINDER: Final = re.compile(r"<system-reminder>\s*(.*?)\s*</system-reminder>\s*", re.DOTALL)
_SAID_AGAIN: Final = re.compile(
    r"As you answer the user's questions, you can use the following context|# claudeMd\b"
    r"|(?:The following )?(?:deferred tools|skills) are (?:now )?available|gitStatus:"
    r"|(?:The following )?(?:agent types|skills|deferred tools|MCP servers)\b"
    r"|Available agent types|# MCP Server Instructions|SessionStart\b|Today's date"
    r"|The (?:task tools|TodoWrite tool) ha(?:ve|s)n't been used|Your todo list"
    r"|(?:This is a reminder that )?[Yy]our todo list is",
)
"""How reminders begin that the client says again, behind a compaction or by itself."""
_ANY: Final = Prices(read=0.1, write=1.25, minimum=0, step=1, ttl_s=300)
"""Any prices: a compaction that is asked for is not weighed by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """What the client hands over, and what is known of the session besides.

    Args:
        rows: The conversation, a row per block.
        trigger: What asked for it: `DUE`, or in the client's word manual, auto, plugin, precompute.
        why: Why it is due (empty: somebody asked for it).
        agent: The client.
        session: The client's name of the session.
        thread: The client's name of a subagent (empty: the session's own conversation).
        instructions: What the user wrote behind the command.
        model: `provider/model`, as far as it is known.
        tokens: Tokens of the conversation at the model, without system prompt and tools, by what
            the provider counted (None: it is not known, and estimated).
        folder: The project (empty: unknown).
        waiting: The tools whose definitions wait behind a search.
    """

    rows: Sequence[Row]
    trigger: str
    agent: str
    session: str
    why: str = ""
    thread: str = ""
    instructions: str = ""
    model: str = "anthropic/claude"
    tokens: int | None = None
    folder: str = ""
    waiting: Collection[str] = field(default=())


@dataclass(frozen=True, slots=True)
class CompactedRows:
    """What the client is answered.

    `rows` take the place of the conversation (None: none do). Where it `stays` as it is, the client
    makes no compaction of its own either. `reason` says why, in one sentence.
    """

    reason: str
    rows: list[dict[str, Any]] | None = None
    stays: bool = False
    tokens_before: int = 0
    tokens_after: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the answer; empty: the client is to compact as it would without a mod."""
        if self.rows is not None:
            return {"messages": self.rows}
        return {"skip": self.reason} if self.stays else {}


def compact_rows(
    asked: CompactionRequest, store: Path, way_back: str, now: float, *, redact: bool = False
) -> CompactedRows:
    """Return what takes the place of a conversation; what it folds is kept in `store` before.

    `way_back` is the command that gets an original back, `now` seconds since 1970. With `redact`
    credentials are taken out of all that is shown and kept. Raises OSError and StoreError where
    what would go out of view cannot be kept.
    """
    if asked.trigger == _BEFOREHAND:
        return CompactedRows(
            "nothing is prepared beforehand: a compaction takes no time when it is due", stays=True
        )
    kept = KeptCompactions(store, asked.agent, asked.session)
    told = [*_without_announcements(messages_of(asked.rows))]
    if redact:
        told = [*map(redacted_message, told)]
    conversation = _conversation(told, kept, way_back, asked)
    tokens = round(conversation.rules.scale * conversation.step.conversation_tokens)
    moments = FreeMoments(FreeMomentsOptions(priced=None), _ANY)
    if moments.frees_little(tokens):
        return _left_alone(
            asked, kept, now, tokens, f"a compaction frees too little of {tokens:,} tokens"
        )
    conversation.policies, conversation.planner = (moments,), Planner(_ANY)
    conversation.cool()
    window = conversation.window()
    fold = next((edit for edit in window.edits if isinstance(edit, Fold)), None)
    if fold is None:
        return _left_alone(asked, kept, now, tokens, f"hardly anything of {tokens:,} tokens can go")
    folded = _folded(conversation, fold)
    block = fold.replacement.text
    left = round(conversation.rules.scale * conversation.step.conversation_tokens)
    reason = f"{asked.why or _asked_by(asked.trigger)}: {tokens:,} tokens became {left:,}"
    noted = replace(
        _noted(asked, now, tokens, reason),
        block=block_hash(block),
        folded=tuple(message.content_hash for message in folded),
        tokens_after=left,
    )
    kept.keep(noted, folded)
    messages = [
        user(f"{block}{_after(way_back)}") if entry.message is fold.replacement else entry.message
        for entry in window.entries
    ]
    if asked.instructions.strip():
        del messages[-1]
    rows = rows_of(messages, searched_tools(told, asked.waiting))
    return CompactedRows(reason, rows, tokens_before=tokens, tokens_after=left)


def _left_alone(
    asked: CompactionRequest, kept: KeptCompactions, now: float, tokens: int, why: str
) -> CompactedRows:
    """Return that a conversation stays: as it is, or to the client where it must compact.

    A user who asked for it, and a window that is full, get the client's own compaction.
    """
    is_clients = asked.trigger in ("manual", "auto")
    reason = f"{why}; the client compacts as it does without a mod" if is_clients else why
    if kept.path.parent.is_dir():
        kept.keep(_noted(asked, now, tokens, reason), ())
    return CompactedRows(reason, stays=not is_clients, tokens_before=tokens)


def _noted(asked: CompactionRequest, now: float, tokens: int, reason: str) -> KeptCompaction:
    return KeptCompaction(
        agent=asked.agent,
        session=asked.session,
        thread=asked.thread,
        folder=asked.folder,
        time=now,
        trigger=asked.trigger,
        reason=reason,
        tokens_before=tokens,
        tokens_after=tokens,
    )


def _after(way_back: str) -> str:
    """Return what stands behind the text of a compaction."""
    return (
        f"\n\n[End of the compaction: what follows is as it was said. `{way_back} REFERENCE` in a"
        " shell prints an original, with --grep or --lines a part of it. Where it says that a file"
        " is in your context, that was so before: read a file again before you change it.]"
    )


def _asked_by(trigger: str) -> str:
    by = {
        "manual": "the user asked for it",
        "auto": "the window was nearly full",
        "plugin": "a mod asked for it",
    }
    return by.get(trigger, "the client asked for it")


def _without_announcements(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages without what the client says again behind a compaction."""
    for message in messages:
        if message.role == "user" and OF_COMPACTING.match(message.text):
            continue
        if message.role != "user" or "<system-reminder>" not in message.text:
            yield message
            continue
        text = _REMINDER.sub(
            lambda match: "" if _SAID_AGAIN.match(match[1]) else match[0], message.text
        )
        if text == message.text:
            yield message
        elif text.strip():
            yield user(text)


def _conversation(
    told: Sequence[Message], kept: KeptCompactions, way_back: str, asked: CompactionRequest
) -> Conversation:
    """Return the conversation as the model saw it, with what an earlier compaction folded."""
    conversation = Conversation(
        rules=WindowRules(
            recall_hint=lambda message: f"{way_back} {reference(message)}", uses_names=False
        )
    )
    shortened = _shortened(kept)
    for message in told:
        original = _original(message, shortened, kept.store)
        for part in [message] if original else _with_originals(message, kept):
            name = str(len(conversation.items))
            if isinstance(part, Message):
                conversation.append(Item(name, original or part, "message"))
                if original:
                    conversation.settle(Replace(name, part, "compress", "it was shown so before"))
                continue
            begin = len(conversation.items)
            for original in part.messages:
                conversation.append(Item(str(len(conversation.items)), original, "message"))
            names = tuple(item.id for item in conversation.items[begin:])
            conversation.settle(Fold(names, part.block, "compact", "compacted before"))
    if asked.instructions.strip():
        words = user(asked.instructions)
        conversation.append(Item(str(len(conversation.items)), words, "message"))
    counted = conversation.step.conversation_tokens
    scale = neutral_scale(asked.model)
    if asked.tokens and counted:
        scale = min(max(asked.tokens / counted, 1.0), 2.0 * scale)
    conversation.scale(scale)
    return conversation


def _shortened(kept: KeptCompactions) -> dict[str, HookLine]:
    """Return what was noted of results that the session's model saw in a short form, by call."""
    lines = HookJournal(kept.store).lines(kept.agent, kept.session)
    return {line.call_id: line for line in lines if line.outcome == "shortened"}


def _original(message: Message, shortened: Mapping[str, HookLine], store: Path) -> Message | None:
    """Return a result as the tool gave it, where the model saw a short form (None: it did not)."""
    line = shortened.get(message.tool_call_id or "")
    if line is None or line.shown != text_hash(message.text):
        return None
    with suppress(WindlassError):  # where it is lost, the short form is what there is
        opening = partial(open_folder, store, reading=True)
        text = find_original(store, line.original, opening).text
        return message.with_parts(Text(text)) if len(text) > len(message.text) else None
    return None


@dataclass(frozen=True, slots=True)
class _Folded:
    """The text of an earlier compaction, and the messages that it stands for."""

    block: Message
    messages: list[Message]


def _with_originals(message: Message, kept: KeptCompactions) -> Iterator[Message | _Folded]:
    """Yield a user's message, and what an earlier compaction folded that stands in it."""
    text = message.text if message.role == "user" else ""
    begin = COMPACTED.search(text)
    for end in _END.finditer(text, begin.end()) if begin is not None else ():
        assert begin is not None
        block = text[begin.start() : end.start()]
        if messages := kept.originals(block):
            before, after = text[: begin.start()].strip(), text[end.end() :].strip()
            yield from [user(before)] if before else []
            yield _Folded(user(block), messages)
            yield from [user(after)] if after else []
            return
    yield message


def _folded(conversation: Conversation, fold: Fold) -> list[Message]:
    """Return the messages that a compaction stands for, in order, those folded before included."""
    gone = set(fold.ids)
    step = conversation.step
    return [
        item.message
        for at, item in enumerate(conversation.items)
        if item.id in gone or step.entry(at) is None
    ]


def options_of(told: Mapping[str, Any]) -> tuple[str, str, str, list[Row]]:
    """Return trigger, thread, instructions and rows of an event as the client hands it over."""
    rows = told.get("messages")
    return (
        str(told.get("trigger") or "auto"),
        str(told.get("agentId") or ""),
        str(told.get("instructions") or ""),
        [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else [],
    )
