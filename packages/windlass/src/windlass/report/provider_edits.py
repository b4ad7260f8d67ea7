"""What providers did to the contexts of calls before their models read them, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import dropwhile, groupby
from typing import Any

from windlass.caching.rates import many
from windlass.report.calls import Call, SeenMessage
from windlass.safety.foreign import whole_number
from windlass.wire.editing import ProviderEdits, cleared


def call_sentences(call: Call) -> list[str]:
    """Return what was done to one call, and what it says of that."""
    edits = call.details.provider_edits or ProviderEdits()
    sentences: list[str] = []
    if note := call.details.cleared_note:
        noted = [one for one in call.seen if one.message_id in note.results]
        results = f"{many(len(note.results), 'result')} ({_places(noted)})"
        sentences.append(
            f"the provider had cleared {results}, so the last message ends in a note of that, said"
            " once: names and errors that nothing else in view holds, and references for recall"
            f" ({note.tokens:,} tokens)"
        )
    if why := call.details.as_it_came:
        sentences.append(f"the request went out as it came: {why}")
    told = edits.get("input_transformations", ())
    for kind, words in _DONE.items():
        blocks = [one for one in told if one.get("type") == kind]
        if blocks:
            sentences.append(f"{words} {_of_replies(blocks, call.seen)}: {_because(blocks)}")
    sentences += [
        f"the provider cleared {_cleared(edit)} before the model read the call"
        for edit in edits.get("applied_edits", ())
    ]
    if compactions := _compactions([edits]):
        sentences.append(f"the provider compacted what was said: {compactions}")
    return sentences


def session_sentences(calls: Iterable[ProviderEdits]) -> list[str]:
    """Return what was done to the calls of a session, summed up; nothing where nothing was."""
    done = list(calls)
    sentences: list[str] = []
    dropped = [
        sum(one.get("type") == "thinking_dropped" for one in each.get("input_transformations", ()))
        for each in done
    ]
    if any(dropped):
        sentences.append(
            f"the provider dropped thinking in {_in_calls(dropped)}, {many(max(dropped), 'block')}"
            " at most: what stood before it has changed"
        )
    applied = [each.get("applied_edits", ()) for each in done]
    if any(applied):
        uses = [cleared(each, "cleared_tool_uses") for each in done]
        tokens = sum(cleared(each, "cleared_input_tokens") for each in done)
        most = f" {many(max(uses), 'tool use')} at most," if any(uses) else ""
        sentences.append(
            f"the provider cleared the context of {_in_calls(list(map(len, applied)))},{most}"
            f" {tokens:,} tokens in all"
        )
    if compactions := _compactions(done):
        sentences.append(f"the provider compacted what was said: {compactions}")
    return sentences


_DONE = {
    "thinking_dropped": "the provider dropped the thinking of",
    "thinking_mismatch_allowed": "the provider let pass the thinking of",
}
_REASONS = {
    "prefix_binding_mismatch": "what stood before it has changed",
    "model_binding_mismatch": "it is another model's",
    "organization_binding_mismatch": "it is another account's",
    "end_user_binding_mismatch": "it is another user's",
}


def _because(blocks: Sequence[Mapping[str, Any]]) -> str:
    reasons = dict.fromkeys(str(one.get("reason")) for one in blocks)
    return ", ".join(_REASONS.get(reason, reason) for reason in reasons)


def _of_replies(blocks: Sequence[Mapping[str, Any]], seen: Sequence[SeenMessage]) -> str:
    """Give the replies that blocks stand in, by the phase and turn of each, else by their paths."""
    spoken = dropwhile(lambda one: one.role in ("system", "developer"), seen)
    turns = [list(turn) for _, turn in groupby(spoken, lambda one: one.role == "assistant")]
    if turns and turns[0][0].role == "assistant":
        turns.insert(0, [])  # the user speaks first
    places: dict[str, None] = {}
    for block in blocks:
        steps = str(block.get("path")).split(".")
        at = whole_number(steps[1]) if len(steps) > 1 else None
        replies = turns[at] if at is not None and at < len(turns) else []
        if not replies or replies[0].role != "assistant":
            places[str(block.get("path"))] = None
        for one in replies:
            if one.role == "assistant":
                places[_place(one)] = None
    return f"{many(len(places), 'reply', 'replies')} ({', '.join(places)})"


def _places(seen: Iterable[SeenMessage]) -> str:
    """Where messages were said, by phase and turn, each place once."""
    return ", ".join(dict.fromkeys(_place(one) for one in seen))


def _place(one: SeenMessage) -> str:
    return f"{one.phase or '-'}:{one.turn or 0}"


def _cleared(edit: Mapping[str, Any]) -> str:
    """Return what an applied edit cleared, in words."""
    what = str(edit.get("type"))
    if "cleared_tool_uses" in edit:
        what = many(_number(edit, "cleared_tool_uses"), "tool use")
    elif "cleared_thinking_turns" in edit:
        what = f"the thinking of {many(_number(edit, 'cleared_thinking_turns'), 'turn')}"
    return f"{what} ({_number(edit, 'cleared_input_tokens'):,} tokens)"


def _compactions(calls: Iterable[ProviderEdits]) -> str:
    """Return what compactions took, in words; empty where there was none."""
    made = [
        one
        for each in calls
        for one in each.get("iterations", ())
        if one.get("type") == "compaction"
    ]
    keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    tokens_in = sum(_number(one, key) for one in made for key in keys)
    tokens_out = sum(_number(one, "output_tokens") for one in made)
    times = many(len(made), "compaction")
    return f"{times}, {tokens_in:,} tokens in and {tokens_out:,} out, billed" if made else ""


def _number(given: Mapping[str, Any], key: str) -> int:
    value = given.get(key)
    return value if isinstance(value, int) else 0


def _in_calls(counts: Sequence[int]) -> str:
    return f"{sum(map(bool, counts))} of {many(len(counts), 'call')}"
