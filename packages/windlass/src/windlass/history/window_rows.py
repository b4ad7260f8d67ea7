"""What the record keeps of a call's window: its edits, what it saw, and by which rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any, Final, Protocol

from windlass.history.base import EditRecord, Row
from windlass.history.decisions import WindowSelection
from windlass.window.entries import INJECT, Drop, Edit, Entry, Fold, Replace

_FOLDED: Final = "told in message"
"""In the reason of an edit: the message is folded into the one whose id follows."""

STRATEGIES: Final[Mapping[str, str]] = {
    "encode": "lossless_encoding",
    "mask": "observation_masking",
    "digest": "observation_masking",
    "compress": "compression",
    "repeat": "deduplication",
    "supersede": "deduplication",
    "fold": "tool_pair_folding",
    "decay": "progressive_decay",
    "summarise": "progressive_decay",
    "compact": "compaction",
    "truncate": "reasoning_truncation",
    "retry": "loop_compression",
    "prune": "token_budget",
    "expire": "time_to_live",
    "strip": "thinking_removal",
}
"""The strategy of each kind of edit, as a `context_selection` record names it."""


class WindowOptions(Protocol):
    """What a record tells of a policy."""

    @property
    def profile(self) -> str:
        """Return the profile that holds for options not written."""

    @property
    def key(self) -> str:
        """Return a hash of the options, equal for equal ones."""

    def settings(self) -> dict[str, Any]:
        """Return every option with its value."""


def edit_records(edits: Iterable[Edit]) -> list[EditRecord]:
    """Return the edits as they are kept: one for each message, a fold's text with its first."""
    records: list[EditRecord] = []
    for edit in edits:
        because, reason = edit.because, edit.reason
        match edit:
            case Replace():
                records.append(EditRecord(edit.id, "replace", because, reason, edit.replacement))
            case Drop():
                records.append(EditRecord(edit.id, "drop", because, reason))
            case Fold(ids=(first, *others)):
                records.append(EditRecord(first, "replace", because, reason, edit.replacement))
                inside = f"{reason}; {_FOLDED} {first}"
                records += [EditRecord(other, "drop", because, inside) for other in others]
    return records


def window_selection_of(
    policy: WindowOptions,
    entries: Sequence[Entry],
    anchors: Collection[str],
    turn: int,
    call: Row,
) -> WindowSelection:
    """Return what a call saw of its session, and by which rules.

    `anchors` are the occurrences that every call sees. `call` is the call's row, which has the
    sizes.
    """
    hashes = [entry.item.message.content_hash for entry in entries]
    pinned = [entry.item.id in anchors for entry in entries]
    why = Counter(entry.because for entry in entries if entry.because not in (None, INJECT))
    used = dict.fromkeys(STRATEGIES[because] for because in why if because in STRATEGIES)
    return WindowSelection(
        strategy="+".join(used) or "full",
        turn=turn,
        full_history_size=call.full_history_size or 0,
        context_size=call.context_size or 0,
        tokens_saved=call.tokens_saved or 0,
        masked_count=sum(why.values()),
        because={str(name): count for name, count in why.items()},
        anchor_hashes=list(compress(hashes, pinned)),
        selected_hashes=list(compress(hashes, map(not_, pinned))),
        policy=policy.profile,
        policy_hash=policy.key,
        config=policy.settings(),
    )
