"""Digests: a tool result that the model has seen becomes a line, and what of it will be needed.

The cheapest moment is the first call after the model has seen a result: almost nothing lies
behind it yet. Names are kept by the digest (`window.digest`); whole lines cannot be, so what is
read to be quoted stays in sight for some calls more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from windlass.messages import Message, Part, Text, ToolCall
from windlass.window.digest import (
    ORDER,
    PATHS_FIRST,
    chars_of,
    kind_of_name,
    told_and_kept,
    words_of,
)
from windlass.window.draft import Draft
from windlass.window.kinds import Kind, kind_of, plain_name, touched
from windlass.window.names import MIN_CHARS, known, names_said, unescaped, whole_names
from windlass.window.proposals import Proposal

HEAD: Final = "[{chars} chars: {back}]"
"""The line before a digest: the size of the result, and how to get it back.

Which tool it was the call says, which is in view wherever its result is. To say it again costs
half a point of the bills of recorded runs, where a digest has some 30 tokens.
"""
_RECORDS: Final[frozenset[Kind]] = frozenset({"json", "api", "table", "listing", "text"})
"""Kinds of which most is names. Output of commands, files and searches are text around names."""
_READING: Final = re.compile(r"read|view|open|cat_|edit|goto|scroll|get_file|create")
"""In the name of a tool that shows files by itself, as agents have it beside an exact editor."""
_FINAL: Final = frozenset({"digest", "mask", "supersede", "fold", "summarise", "expire", "expand"})
"""Edits after which there is nothing left to shorten, or what must not be shortened again."""
_LINE_CHARS: Final = 120
"""What the line before a digest takes, with some air."""
_CHARS_FOR_ONE: Final = 50
"""A digest of text grows by one character for so many: a larger file holds more names."""
_PINNED_TURNS: Final = 1
"""What is pinned is looked at again so many calls later."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Replaces each tool result that `after` calls have seen by a line and a digest.

    Args:
        after: Calls that see a result whole.
        reads_after: Calls that see a file whole which a tool of its own read: agents that
            have one edit by quoting whole lines.
        shell_reads_after: Calls that see a file whole which was read in a shell.
        crowded_after: Calls that see a result whole whose digest would not hold all its names.
        named_within: A file that was read stays while the model names it in one of so many
            newest turns (one that was read in a shell: of at most `shell_reads_after`).
        most_waiting: Characters from which on a result waits for nothing after `after` calls,
            but a file that a tool of its own read.
        most_crowded: Characters from which on a result does not wait for being crowded: the
            larger it is, the more every call costs that still reads it whole.
        min_chars: Results of fewer characters stay.
        share_records: The share of the characters of JSON, tables, listings and other data
            that a digest may keep.
        most_records: The most characters of such a digest.
        share_text: The same share for files, searches and output of programs.
        most_text: The most characters of such a digest, and one more for every fifty that
            the text has.
        least: A digest may have so many characters whatever the share says.
        keep_errors: Whether a digest begins with the lines that report an error.
        error_chars: The most characters of these lines.
        task: Whether names that share a word with the first or the newest user message are
            kept before others of their kind.
    """

    after: int = 1
    reads_after: int = 8
    shell_reads_after: int = 5
    crowded_after: int = 2
    named_within: int = 3
    most_waiting: int = 16_000
    most_crowded: int = 8_000
    min_chars: int = 200
    share_records: float = 0.5
    most_records: int = 4_000
    share_text: float = 0.3
    most_text: int = 2_000
    least: int = 400
    keep_errors: bool = True
    error_chars: int = 300
    task: bool = True
    name: str = "digest"

    def propose(self, draft: Draft) -> Iterable[Proposal]:
        """The results that have been seen, but for those that wait; these are looked at again."""
        for at in (*draft.born(self.after), *draft.due(self.name)):
            if draft.item(at).message.role != "tool":
                continue
            entry = draft.entry(at)
            if entry is None or entry.because in _FINAL:
                continue
            text = entry.message.text
            if len(text) < self.min_chars:
                continue
            turns = _PINNED_TURNS if draft.pinned(at) else self._waits(draft, at, text)
            if turns:
                draft.again(self.name, at, draft.turn + turns)
            else:
                reason = f"tool result seen by {draft.seen(at)} calls"
                yield Proposal((at,), "digest", reason, partial(self._write, at=at))

    def _waits(self, draft: Draft, at: int, text: str) -> int:
        """In how many calls it is to be looked at again; 0: it is to be shortened now."""
        call, seen = draft.call(at), draft.seen(at)
        if call is not None and _is_read(draft, call, at, text):
            by_itself = _READING.search(plain_name(call.name)) is not None
            if by_itself or len(text) <= self.most_waiting:
                after = self.reads_after if by_itself else self.shell_reads_after
                if after > seen:
                    return after - seen
                within = self.named_within if by_itself else min(self.named_within, after)
                named = _named(draft, at, call, within)
                if named:
                    return named
        if seen < self.crowded_after and len(text) <= min(self.most_crowded, self.most_waiting):
            room = self._room(_kind(draft, at, text), len(text))
            if chars_of(draft.left(names_said(text), but=at)) > room:
                return self.crowded_after - seen
        return 0

    def _room(self, kind: Kind, chars: int) -> int:
        """How many characters a digest may have."""
        if kind in _RECORDS:
            room = min(int(chars * self.share_records), self.most_records)
        else:
            room = min(int(chars * self.share_text), self.most_text + chars // _CHARS_FOR_ONE)
        return max(room, min(self.least, chars - _LINE_CHARS))

    def _write(self, draft: Draft, at: int) -> Message | None:
        entry = draft.entry(at)
        if entry is None:
            return None
        message, text = entry.message, entry.message.text
        kind = _kind(draft, at, text)
        told, kept = told_and_kept(
            text,
            self._room(kind, len(text)),
            draft.left(names_said(text), but=at),
            errors=self.error_chars if self.keep_errors else 0,
            order=PATHS_FIRST if kind == "listing" else ORDER,
            task=_task(draft) if self.task else frozenset(),
        )
        head = HEAD.format(chars=len(text), back=draft.back(at))
        before = f"{head}\n{told}" if told else head
        whole = " ".join((f"{before}\n{kept[0]}", *kept[1:])) if kept else before
        known(whole, before, kept)
        return message.with_parts(*retold(message, whole))


def retold(message: Message, text: str) -> Iterable[Part]:
    """The parts of a message with `text` in place of all its text; what is no text stays."""
    told = False
    for part in message.parts:
        if not isinstance(part, Text):
            yield part
        elif not told:
            told = True
            yield Text(text)


def _is_read(draft: Draft, call: ToolCall, at: int, text: str) -> bool:
    """Whether a result is a file, or part of one, that may be quoted.

    What a tool shows of a file that it just changed is none: the call itself says what the
    change was, and stays in view.
    """
    if _kind(draft, at, text) != "file":
        return False
    told = touched(call, draft.facts(call.name))
    return told.reads is not None or told.writes is None


def _kind(draft: Draft, at: int, text: str) -> Kind:
    call = draft.call(at)
    return kind_of(call, text, draft.facts(call.name) if call else None)


def _task(draft: Draft) -> frozenset[str]:
    """The words of the task: of the first user message and of the newest."""
    asked = {at for at in (draft.first_user, draft.last_user) if at >= 0}
    return _words_of_all(tuple([draft.item(at).message.text for at in sorted(asked)]))


@lru_cache(maxsize=64)
def _words_of_all(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset().union(*map(words_of, texts))


def _named(draft: Draft, at: int, call: ToolCall, within: int) -> int:
    """In how many turns the model will not have named its file for `within` turns; 0: it is so."""
    files = _files_of(call)
    for back in range(within):
        for newer in draft.born(back):
            if newer == draft.caller(at):
                return 0
            message = draft.item(newer).message
            if message.role == "assistant" and _says(message, files):
                return within - back
    return 0


def _says(message: Message, names: Iterable[str]) -> bool:
    """Whether the model names one of them, in a call or in words: what it plans comes next."""
    said = (message.text, *(call.arguments for call in message.tool_calls))
    return any(name in one for name in names for one in said)


@lru_cache(maxsize=256)
def _files_of(call: ToolCall) -> tuple[str, ...]:
    """The names of the files that a call names, without their folders."""
    names = whole_names(unescaped(call.arguments))
    files = {
        name.rsplit("/", 1)[-1] for name in names if kind_of_name(name) in ("path", "file", "place")
    }
    return tuple(sorted(file for file in files if len(file) >= MIN_CHARS))
