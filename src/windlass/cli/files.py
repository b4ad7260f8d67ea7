"""Commands about files and the store itself: check, config, verify, prune."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from os import environ
from pathlib import Path
from typing import Any

from windlass.api import load_cascade, open_store
from windlass.cascade.dialect import warnings_of
from windlass.cascade.load import load
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.needed import flags, needed
from windlass.cascade.sizes import Warned, warnings
from windlass.cli.output import out, print_json, print_table
from windlass.cli.trusting import tell_unchecked, unchecked
from windlass.errors import CascadeError, Mistake, StoreError, UsageError
from windlass.history.base import Discrepancy
from windlass.history.verify import verify_store
from windlass.settings import Settings
from windlass.tokens import FamilyCounter

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def check_command(
    cascade: Path, *, explain_defaults: bool, as_json: bool, strict: bool, trust: bool
) -> None:
    """Say that a cascade is sound, or raise CascadeError with all its mistakes.

    What costs and is no mistake is told; `strict` makes mistakes of it. Code is loaded only where
    the user trusts it, with `trust` or by a mark; what was left unchecked is told.
    """
    settings = Settings.read({}, environ, Path.cwd(), trust=trust)
    checked, registry = load_cascade(cascade, settings, trust=trust)
    warned = list(warnings(checked, registry, lambda phase: _counter(checked, phase, settings)))
    left_out = unchecked(settings, registry)
    read = load(cascade)
    warned += [Warned(f"{one.file}:{one.line}", one.text) for one in warnings_of(read)]
    if strict and (costly := [one for one in warned if not one.mended]):
        raise CascadeError([Mistake(one.where, None, one.text) for one in costly])
    if explain_defaults:
        from windlass.cascade.compile import explain_defaults as explain

        explained = explain(checked, settings)
        if as_json:
            print_json(explained)
        else:
            out.print(str(explained), markup=False)
        return
    names = [phase.name for phase in checked.phases]
    needs = needed(read)
    if as_json:
        told_of = {"warnings": [str(one) for one in warned]} if warned else {}
        told_of |= {"needs": [one.name for one in needs]} if needs else {}
        also = {"unchecked": left_out} if left_out else {}
        print_json({"cascade_id": checked.cascade_id, "phases": names, **told_of, **also})
    else:
        told = f"{cascade}: {checked.cascade_id}, no mistakes; phases: {', '.join(names)}"
        out.print(told, markup=False)
        if needs:
            out.print(f"needs: {flags(needs)}", markup=False)
        for one in warned:
            out.print(f"warning: {one}", markup=False)
        tell_unchecked(left_out)


def _counter(cascade: Cascade, phase: Phase, settings: Settings) -> FamilyCounter:
    return FamilyCounter(settings.model_for(cascade.settings_for(phase).model))


def config_command(flags: Mapping[str, Any], *, as_json: bool) -> None:
    """Print each setting with its value and origin."""
    settings = Settings.read(flags, environ, Path.cwd())
    rows = settings.rows()
    if as_json:
        print_json(rows)
        return
    print_table(
        "",
        ["setting", "value", "origin", "meaning"],
        [[row.name, str(row.value), row.origin, row.help] for row in rows],
    )


def verify_command(store: str | None, *, as_json: bool) -> None:
    """Print what disagrees; raise StoreError where there is damage."""
    settings = Settings.read({"store": store}, environ, Path.cwd())
    findings = _findings(settings)
    damage = [finding for finding in findings if finding.severity == "damage"]
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            out.print(f"{finding.severity}: {finding.where}: {finding.what}", markup=False)
        if not damage:
            out.print(f"the store {str(settings.store)!r} is sound")
    if damage:
        raise StoreError(
            f"the store {str(settings.store)!r} is damaged in {len(damage)}"
            f" place{'s' if len(damage) != 1 else ''}; what is whole can still be read"
        )


def _findings(settings: Settings) -> list[Discrepancy]:
    store = settings.store
    if isinstance(store, Path):
        if not store.is_dir():
            raise UsageError(f"there is no store in {str(store)!r}")
        # Not through the keeper: a store may be too damaged to be opened.
        return list(verify_store(store))
    with open_store(settings, existing=True) as keeper:
        return list(keeper.verify())


def prune_command(
    older_than: str | None, session: str | None, store: str | None, *, dry_run: bool, as_json: bool
) -> None:
    """Remove sessions by age or by name."""
    if (older_than is None) == (session is None):
        raise UsageError("prune takes either --older-than AGE or --session SESSION")
    age = None if older_than is None else _age(older_than)
    settings = Settings.read({"store": store}, environ, Path.cwd())
    keeper = open_store(settings, existing=True, writing=True)
    try:
        pruned = keeper.prune(
            older_than_s=age, session_id=session, now=time.time(), dry_run=dry_run
        )
    finally:
        keeper.close()
    if as_json:
        print_json(pruned)
        return
    verb = "would remove" if dry_run else "removed"
    out.print(
        f"{verb} {len(pruned.sessions)} sessions, {pruned.rows:,} rows, {pruned.bodies:,} bodies,"
        f" {pruned.blobs:,} files of {pruned.bytes:,} bytes"
    )
    for name in pruned.sessions:
        out.print(f"  {name}")


def _age(text: str) -> float:
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--older-than {text!r} must be a number with a unit: 90d, 12h, 30m, 45s")
    return float(match[1]) * _SECONDS[match[2]]
