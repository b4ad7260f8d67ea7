"""Commands on what is marked and remembered: callout, cards, memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from windlass.cli.app import CommandGroup, command
from windlass.cli.options import Session, StoreOption
from windlass.cli.output import indent, out, printed_as_json, shorten
from windlass.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from windlass.memory.banks import Banks, Memory
    from windlass.text.cell_tables import Cell, Columns


@command()
def callout(
    session: Session,
    ref: Annotated[
        str,
        Argument(help="A message: id, hash, the beginning of either, or a tool (its last result)."),
    ],
    name: Annotated[str, Argument(help="The name of the callout.")],
    *,
    store: StoreOption = None,
) -> None:
    """Mark a message as important: windows keep it whole, and its name finds it."""
    from windlass.cli.named_store import open_existing
    from windlass.cli.session_cards import mark_message
    from windlass.cli.session_text import beginning_of, place_of, role_of
    from windlass.history.marks import CalloutMark, check_callout_name, find_callouts

    checked = check_callout_name(name)
    with open_existing(store, writing=True) as history:
        session = history.find_session(session)
        marked = mark_message(history, session, ref, lambda id_: CalloutMark(id_, checked, "user"))
        callouts = find_callouts(history.rows(session))
    (made,) = [each for each in callouts if each.message_id == marked]
    message = made.stored.row.message
    if printed_as_json({"name": made.name, "message_id": marked, "message": message}):
        return
    out.print(f"called out as {made.name!r}: {marked}, {role_of(made)}, {place_of(made)}")
    out.print(f"    {beginning_of(made)}")
    out.hint(f"\nall of them: windlass show {session}")


@command()
def cards(
    session: Session,
    *,
    make: Annotated[
        bool, Option("--make", help="Make the cards that are missing or incomplete.")
    ] = False,
    regenerate: Annotated[bool, Option("--regenerate", help="Make all of them again.")] = False,
    failed: Annotated[
        bool, Option("--failed", help="Only cards without a summary or a vector.")
    ] = False,
    pin: Annotated[
        str | None, Option(help="A message (as in callout) that is always included.")
    ] = None,
    unpin: Annotated[
        str | None, Option(help="A message that is no longer always included.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Show or make the context cards by which messages are chosen."""
    from functools import partial

    from windlass.caching.rates import many, money
    from windlass.cli.named_store import open_reporting_losses, read_settings
    from windlass.cli.session_cards import (
        card_fields,
        make_cards_of,
        mark_message,
        print_cards,
        print_missing,
        view_cards,
    )
    from windlass.history.marks import PinMark

    settings = read_settings(store)
    pins = [(ref, pinned) for ref, pinned in ((pin, True), (unpin, False)) if ref is not None]
    writing = make or regenerate or bool(pins)
    work = None
    with open_reporting_losses(settings, writing=writing) as history:
        session = history.find_session(session)
        for ref, pinned in pins:
            mark_message(history, session, ref, partial(PinMark, pinned=pinned, by="user"))
        if make or regenerate:
            work = make_cards_of(history, session, settings, regenerate=regenerate)
        view = view_cards(history, session)
    shown = [card for card in view.cards.values() if not failed or card.id in view.failed]
    costs = [spent.dollars for spent in work.spent] if work else []
    cost = None if None in costs else sum(dollars or 0.0 for dollars in costs)
    answer = {
        "session_id": session,
        "cards": [card_fields(card, view) for card in shown],
        "waiting": view.waiting,
        "failed": view.failed,
        "made": work and work.made,
        "cost": work and cost,
    }
    if printed_as_json(answer):
        return
    if work is not None:
        out.print(f"{many(work.made, 'card')} made{f', {money(cost)}' if costs else ''}")
        for failure in work.failures:
            out.print(f"    {failure.text}")
        out.print()
    if shown:
        print_cards(shown, view)
    elif failed:
        out.print("no card of this session lacks anything")
    print_missing(session, view)


_LINE = 200
"""Characters of a text in a table."""

_Bank = Annotated[str, Argument(help="A bank, as `windlass memory list` lists it.")]
_Key = Annotated[str, Argument(help="The key of the memory.")]


@command(name="list")
def list_(
    bank: Annotated[str | None, Argument(help="One bank: what it holds.")] = None,
    *,
    store: StoreOption = None,
) -> None:
    """List the banks, or the memories in force in one bank."""
    _list_banks(store) if bank is None else _list_bank(bank, store)


@command()
def show(bank: _Bank, key: _Key, *, store: StoreOption = None) -> None:
    """Show every version of a memory, also those no longer in force."""
    from windlass.memory.banks import time_text

    with _banks(store, bank) as banks:
        versions = banks.versions(bank, key)
        if not versions:
            keys = (memory.key for memory in banks.memories(bank))
            raise UsageError(
                f"nothing was ever remembered under {key!r} in bank {bank!r};"
                f" {did_you_mean(key, keys)}"
            )
        now = banks.clock()
    if printed_as_json(versions):
        return
    for memory in versions:
        newest = memory.version == len(versions)
        state = "forgotten" if memory.forgotten else "in force"
        if not memory.forgotten and not memory.holds(now):
            state = f"expired {time_text(memory.expires or 0)}"
        elif not memory.forgotten and not newest:
            state = "replaced"
        head = f"{memory.reference}: {state}, remembered {time_text(memory.remembered)}"
        out.print(f"{head} by {memory.by}" if memory.by else head)
        out.print(indent(memory.text))


@command()
def forget(bank: _Bank, key: _Key, *, store: StoreOption = None) -> None:
    """Forget a memory: sessions no longer find it.

    Its versions stay readable; `windlass prune --session memory:BANK` removes a whole bank.
    """
    with _banks(store) as banks:
        forgotten = banks.forget(bank, key, by="the command line")
    if printed_as_json(forgotten):
        return
    out.print(f"forgotten: {forgotten.reference}: {shorten(forgotten.text, _LINE)}")
    out.hint(f"still readable: windlass memory show {bank} {key!r}")


@command()
def match(
    task: Annotated[str, Argument(help="The task.")],
    *,
    bank: Annotated[
        list[str] | None, Option("--bank", help="A bank to look in; may be repeated.")
    ] = None,
    folder: Annotated[
        list[Path] | None, Option("--folder", help="A folder to look in; may be repeated.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Print what banks and folders hold on a task, in the standard sections, unranked."""
    from contextlib import ExitStack, closing

    from windlass.cli.named_store import read_settings
    from windlass.memory.association import Associations

    names, folders = bank or [], folder or []
    if not names and not folders:
        raise UsageError("say where to look: --bank NAME, --folder PATH")
    settings = read_settings(store)
    headings = settings.headings.model_dump(exclude_none=True)
    closed = [settings.store] if isinstance(settings.store, Path) else []
    with ExitStack() as stack:
        banks = stack.enter_context(_banks(store, *names)) if names else None
        associations = stack.enter_context(
            closing(Associations(banks, names, folders, closed=closed, headings=headings))
        )
        matched = associations.get_relevant_context_for({"taskText": task})
    if printed_as_json(matched):
        return
    out.print(matched.context)
    count = len(matched.matches)
    out.print(f"\n{count} match{'es' if count != 1 else ''}, in no order", style="dim")
    for left_out in matched.unread:
        out.print(f"not read: {left_out}", style="dim")


memory = CommandGroup(
    name="memory",
    help="Look into the memory banks that sessions share.",
    commands=[list_, show, forget, match],
    no_args_is_help=True,
    rich_markup_mode=None,
)


@contextmanager
def _banks(store: str | None, *must_exist: str) -> Iterator[Banks]:
    """The banks of the store. Raises UsageError where one that must exist does not."""
    import secrets
    import time

    from windlass.cli.named_store import open_existing
    from windlass.memory.banks import Banks

    with open_existing(store) as history:
        banks = Banks(history, time.time, lambda: secrets.token_hex(8))
        for bank in must_exist:
            if not banks.known(bank):
                raise UsageError(f"there is no bank {bank!r}; {did_you_mean(bank, banks.names())}")
        yield banks


def _list_banks(store: str | None) -> None:
    """List the banks: how much is in force in each, and how old the newest is."""
    from windlass.cli.printed_tables import print_table
    from windlass.text.cell_tables import CellTable

    with _banks(store) as banks:
        held = {name: banks.memories(name) for name in banks.names()}
    if printed_as_json({name: len(memories) for name, memories in held.items()}):
        return
    if not held:
        out.print("no memory banks yet: phases fill them with the tool 'remember'")
        return
    rows: list[list[Cell]] = [
        [name, len(memories), max(map(_remembered, memories), default="-")]
        for name, memories in held.items()
    ]
    print_table(CellTable(["bank", "memories", "newest"], rows))
    out.hint(f"\nwindlass memory list {next(iter(held))}")


def _list_bank(bank: str, store: str | None) -> None:
    """List what is in force in a bank."""
    from windlass.cli.printed_tables import print_table
    from windlass.memory.banks import time_text
    from windlass.text.cell_tables import table_of

    with _banks(store, bank) as banks:
        memories = banks.memories(bank)
    if printed_as_json(memories):
        return
    if not memories:
        out.print(f"bank {bank!r} holds nothing that is in force")
        return
    columns: Columns[Memory] = {
        "key": lambda memory: memory.key,
        "version": lambda memory: memory.version,
        "remembered": _remembered,
        "expires": lambda each: "never" if each.expires is None else time_text(each.expires),
        "by": lambda memory: memory.by,
        "text": lambda memory: shorten(" ".join(memory.text.split()), _LINE),
    }
    print_table(table_of(memories, columns))
    out.hint(f"\nits versions: windlass memory show {bank} {memories[-1].key!r}")


def _remembered(memory: Memory) -> str:
    from windlass.memory.banks import time_text

    return time_text(memory.remembered)
