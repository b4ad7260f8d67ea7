"""A phase's windows under a policy: the conversation it feeds, what was decided, and its record.

The deciding is `window/conversation.py`'s. This module hands it the phase's messages in order,
asks a model for the texts it wants, and turns what it decided into records.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from operator import not_
from typing import Any, Final

from windlass.caching.meter import pieces, weigh
from windlass.caching.prices import Prices
from windlass.caching.trust import SHARE
from windlass.engine.check import input_room
from windlass.engine.events import Noted
from windlass.engine.state import PhaseRun, Run
from windlass.history.base import EditRecord, NodeType, Row
from windlass.messages import Message, ToolSpec
from windlass.tokens import request_tokens
from windlass.window.assemble import assemble
from windlass.window.conversation import Conversation
from windlass.window.driver import Driver
from windlass.window.entries import INJECT, Drop, Edit, Entry, Fold, Item, Replace, show, targets
from windlass.window.options import Policy
from windlass.window.originals import file_name, reference
from windlass.window.proposals import Facts
from windlass.window.steps import planner_of, steps

READ: Final = "read_file"
"""The tool that opens the files of shortened results."""

FOLDED: Final = "told in message"
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
    "truncate": "reasoning_truncation",
    "retry": "loop_compression",
    "prune": "token_budget",
    "expire": "time_to_live",
    "expand": "expansion",
}
"""What an edit is an instance of, in the words of a `context_selection` record."""


def open_driver(run: Run, phase_run: PhaseRun) -> Driver:
    """What drives the phase's conversation: what it begins with, and who decides on it."""
    cache, policy = run.cache_of(phase_run.info), phase_run.rule.policy
    counter = phase_run.info.counter
    if policy is None:
        conversation = Conversation(count=counter.message, uses_names=False)
    else:
        conversation = _shortened(run, phase_run, policy)
    for entry in assemble(phase_run.progress.blocks, ()):
        conversation.append_entry(entry, at=run.record.times.get(entry.item.id))
    if policy is not None and not _goes_on(run, phase_run, conversation):
        conversation.cool()
    return Driver(conversation, cache, run.injected.attached)


def _shortened(run: Run, phase_run: PhaseRun, policy: Policy) -> Conversation:
    """An empty conversation that the policy decides on."""
    room = input_room(phase_run.info, phase_run.generation.max_output_tokens)
    limit = min(room, policy.max_input_tokens or room)
    can_read = READ in phase_run.progress.tools
    prices = _prices(run, phase_run)

    def recall_hint(message: Message) -> str:
        if message.role == "tool" and can_read:
            return str(run.results / f"{file_name(message)}.json")
        return reference(message)

    return Conversation(
        policies=steps(
            policy,
            caches=prices.caches,
            window_tokens=phase_run.info.window,
            limit=room_for_messages(run, phase_run, limit),
            on_exceed="summarise" if phase_run.rule.budget.on_exceed == "summarise" else "prune",
            where=lambda item, number: _picture_file(run, item, number),
        ),
        count=phase_run.info.counter.message,
        kept=ChainMap(
            phase_run.progress.kept, phase_run.progress.chosen
        ),  # what was chosen stands for the phase
        facts={
            name: Facts(None, *(next(iter(names), None) for names in (tool.reads, tool.writes)))
            for name, tool in phase_run.progress.tools.items()
        },
        recall_hint=recall_hint,
        planner=planner_of(policy, prices, tells=True),
    )


def _prices(run: Run, phase_run: PhaseRun) -> Prices:
    """What the cache of the phase's model charges; what is assumed of it is told once a run."""
    name, cache = phase_run.info.name, run.cache_of(phase_run.info)
    if cache.assumed and name not in run.progress.assumed:
        run.progress.assumed.add(name)
        run.emit(Noted(phase_run.phase.name, cache.assumed))
    return cache.prices


def _goes_on(run: Run, phase_run: PhaseRun, conversation: Conversation) -> bool:
    """Whether the model was sent most of what counts as sent, so that it is cached.

    It was not where the phase begins with other tools, another system prompt or another
    model, or with a context that is no continuation of what was sent before.
    """
    messages = [
        entry.message
        for entry in assemble(phase_run.progress.blocks, show(phase_run.progress.own, ""))
    ]
    tools = run.definitions(phase_run.allowed, messages)
    counter, first = phase_run.info.counter, phase_run.info.tools_first
    request = weigh(counter, messages, tools, tools_first=first)
    request = pieces(counter, messages, tools, request)
    expected = run.cache_of(phase_run.info).meter.expect(request, run.record.clock())
    sent = [one.message for one in conversation.entries[: conversation.sent] if one is not None]
    return expected.cached >= SHARE * sum(map(counter.message, sent))


def room_for_messages(run: Run, phase_run: PhaseRun, limit: int) -> int:
    """What a limit of a request leaves for its messages: the definitions of its tools go first."""
    first = [entry.message for entry in assemble(phase_run.progress.blocks, ())]
    tools: Sequence[ToolSpec] = run.definitions(phase_run.allowed, first)
    added = phase_run.injection.reserve if phase_run.injection else 0
    return max(1, limit - added - request_tokens(phase_run.info.counter, (), tools))


def _picture_file(run: Run, item: Item, number: int) -> str | None:
    """The visible file of a message's picture, as tools name it; None: there is none."""
    digest = item.message.pictures[number].sha256
    store, root = run.record.store, run.settings.root.resolve()
    # An injected picture lies with the phase that made it.
    for phase in dict.fromkeys([item.phase or "", *(each.name for each in run.cascade.phases)]):
        for sha, file in store.picture_names(run.record.session_id, phase):
            if sha == digest:
                real = file.resolve()
                return (real.relative_to(root) if real.is_relative_to(root) else real).as_posix()
    return None


def decided(phase_run: PhaseRun) -> list[Edit]:
    """The edits that are not in the record yet; they are in force for the phase from now on."""
    conversation = phase_run.conversation
    new: dict[int, Edit] = {}
    for at, edit in {**conversation.edits, **conversation.pending}.items():
        ident = conversation.items[at].id
        if phase_run.progress.edits.get(ident) is not edit:
            phase_run.progress.edits[ident] = edit
            new[id(edit)] = edit
    return list(new.values())


def edit_records(edits: Sequence[Edit]) -> list[EditRecord]:
    """The edits as they are kept: one for each message, a fold's text with its first."""
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
                inside = f"{reason}; {FOLDED} {first}"
                records += [EditRecord(other, "drop", because, inside) for other in others]
    return records


def selection_row(
    run: Run, phase_run: PhaseRun, policy: Policy, entries: Sequence[Entry], **columns: Any
) -> Row:
    """The `context_selection` record of a call: what it saw of the session, and by which rules.

    `columns` are those of the row: full_history_size and context_size in messages,
    tokens_saved in tokens, parent_id the call.
    """
    pinned = {
        phase_run.instructions.id,
        *phase_run.progress.kept,
        *(entry.item.id for entry in phase_run.progress.blocks.system),
    }
    hashes = [entry.item.message.content_hash for entry in entries]
    anchors = [entry.item.id in pinned for entry in entries]
    why = Counter(entry.because for entry in entries if entry.because not in (None, INJECT))
    used = dict.fromkeys(STRATEGIES[because] for because in why if because in STRATEGIES)
    metadata = {
        "semantic_actor": "auto_context",
        "selection_type": "intra_phase",
        "strategy": "+".join(used) or "full",
        "turn": phase_run.progress.turn,
        **{name: columns[name] for name in ("full_history_size", "context_size", "tokens_saved")},
        "masked_count": sum(why.values()),
        "because": dict(why),
        "anchor_hashes": list(compress(hashes, anchors)),
        "selected_hashes": list(compress(hashes, map(not_, anchors))),
        "policy": policy.profile,
        "policy_hash": policy.key,
        "config": policy.settings(),
    }
    return run.record.row(
        NodeType.CONTEXT_SELECTION,
        phase=phase_run.phase.name,
        turn=phase_run.progress.turn,
        attempt=phase_run.progress.attempt,
        metadata=metadata,
        **columns,
    )


def keep_originals(run: Run, phase_run: PhaseRun, edits: Sequence[Edit]) -> None:
    """Make the visible file of each tool result that is shown shortened from now on."""
    if not edits:
        return
    originals = {item.id: item.message for item in (*phase_run.injected, *phase_run.progress.own)}
    originals |= {item.id: item.message for item in phase_run.conversation.items}
    store, session = run.record.store, run.record.session_id
    for edit in edits:
        for ident in targets(edit):
            original = originals.get(ident)
            if original is not None and original.role == "tool":
                run.let_read(store.store_tool_result(session, file_name(original), original.key))
    phase_run.progress.context = replace(phase_run.progress.context, readable=run.progress.readable)
