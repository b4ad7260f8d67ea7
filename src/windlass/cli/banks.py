"""What `windlass memory ...` does: list, show, forget, match."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from os import environ
from pathlib import Path

from windlass.cli.look import open_existing
from windlass.cli.output import indented, out, print_json, print_table, shorten
from windlass.errors import UsageError, did_you_mean
from windlass.memory.association import Associations
from windlass.memory.banks import Banks, Memory
from windlass.memory.times import told
from windlass.settings import Settings

_LINE = 200
"""Characters of a text in a table."""


@contextmanager
def _banks(store: str | None) -> Iterator[Banks]:
    keeper = open_existing(store)
    try:
        yield Banks(keeper, time.time, lambda: secrets.token_hex(8))
    finally:
        keeper.close()


def banks_command(store: str | None, *, as_json: bool) -> None:
    """List the banks: how much is in force in each, and how old the newest is."""
    with _banks(store) as banks:
        held = {name: banks.memories(name) for name in banks.names()}
    if as_json:
        print_json({name: len(memories) for name, memories in held.items()})
        return
    if not held:
        out.print("no memory banks yet: phases fill them with the tool 'remember'")
        return
    rows = [
        [
            name,
            str(len(memories)),
            told(max(one.remembered for one in memories)) if memories else "-",
        ]
        for name, memories in held.items()
    ]
    print_table("", ["bank", "memories", "newest"], rows, right=[1])
    out.print(f"\nwindlass memory list {next(iter(held))}", markup=False)


def bank_command(bank: str, store: str | None, *, as_json: bool) -> None:
    """List what is in force in a bank."""
    with _banks(store) as banks:
        _must_exist(banks, bank)
        memories = banks.memories(bank)
    if as_json:
        print_json(memories)
        return
    if not memories:
        out.print(f"bank {bank!r} holds nothing that is in force", markup=False)
        return
    columns = ["key", "version", "remembered", "expires", "by", "text"]
    print_table("", columns, map(_row, memories), right=[1])
    out.print(f"\nits versions: windlass memory show {bank} {memories[-1].key!r}", markup=False)


def versions_command(bank: str, key: str, store: str | None, *, as_json: bool) -> None:
    """Print every version under a key. Raises UsageError where there is none."""
    with _banks(store) as banks:
        _must_exist(banks, bank)
        versions = banks.versions(bank, key)
        if not versions:
            known = (one.key for one in banks.memories(bank))
            raise UsageError(
                f"nothing was ever remembered under {key!r} in bank {bank!r};"
                f" {did_you_mean(key, known)}"
            )
        now = banks.clock()
    if as_json:
        print_json(versions)
        return
    for one in versions:
        newest = one.version == len(versions)
        state = "forgotten" if one.forgotten else "in force"
        if not one.forgotten and not one.holds(now):
            state = f"expired {told(one.expires or 0)}"
        elif not one.forgotten and not newest:
            state = "replaced"
        head = f"{one.reference}: {state}, remembered {told(one.remembered)}"
        out.print(f"{head} by {one.by}" if one.by else head, markup=False)
        out.print(indented(one.text))


def forget_command(bank: str, key: str, store: str | None, *, as_json: bool) -> None:
    """Take back what is remembered under a key."""
    with _banks(store) as banks:
        taken = banks.forget(bank, key, by="the command line")
    if as_json:
        print_json(taken)
        return
    out.print(f"forgotten: {taken.reference}: {shorten(taken.text, _LINE)}", markup=False)
    out.print(f"still readable: windlass memory show {bank} {key!r}", markup=False)


def match_command(
    task: str, names: Sequence[str], folders: Sequence[Path], store: str | None, *, as_json: bool
) -> None:
    """Print the context that belongs to a task, and the matches as JSON where asked for."""
    if not names and not folders:
        raise UsageError("say where to look: --bank NAME, --folder PATH")
    settings = Settings.read({"store": store}, environ, Path.cwd())
    closed = [settings.store] if isinstance(settings.store, Path) else []
    headings = settings.headings.model_dump(exclude_none=True)
    if not names:
        found = Associations(None, (), folders, closed=closed, headings=headings)
        _print_matches(found, task, as_json=as_json)
        return
    with _banks(store) as banks:
        for name in names:
            _must_exist(banks, name)
        found = Associations(banks, names, folders, closed=closed, headings=headings)
        _print_matches(found, task, as_json=as_json)


def _print_matches(associations: Associations, task: str, *, as_json: bool) -> None:
    with closing(associations):
        found = associations.get_relevant_context_for({"taskText": task})
    if as_json:
        print_json(found)
        return
    out.print(found.context, markup=False)
    count = len(found.matches)
    out.print(f"\n{count} match{'es' if count != 1 else ''}, in no order", style="dim")
    for left_out in found.unread:
        out.print(f"not read: {left_out}", style="dim", markup=False)


def _must_exist(banks: Banks, bank: str) -> None:
    if not banks.known(bank):
        raise UsageError(f"there is no bank {bank!r}; {did_you_mean(bank, banks.names())}")


def _row(one: Memory) -> list[str]:
    expires = "never" if one.expires is None else told(one.expires)
    text = shorten(" ".join(one.text.split()), _LINE)
    return [one.key, str(one.version), told(one.remembered), expires, one.by, text]
