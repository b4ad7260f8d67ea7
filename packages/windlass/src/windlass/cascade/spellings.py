"""Older spellings of a cascade, written out: what is held is one long form.

They work on the data of a file before it is validated. What is wrong is left as it stands, so that
the model names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from windlass.cascade.memory_banks import with_kept_banks
from windlass.cascade.rules import Include
from windlass.cascade.token_budget import with_token_budget


def in_long_form(data: Any) -> Any:
    """Return the data of a cascade with its older spellings written out."""
    if not isinstance(data, Mapping) or not isinstance(data.get("phases"), list | tuple):
        return data
    for write_out in (with_kept_banks, with_token_budget, _with_sources):
        data = write_out(data)
    return data


def _with_sources(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sources with `prev` as `previous`, and plain names with what `context.include` says."""
    phases = data["phases"]
    names = [phase.get("name") for phase in phases if isinstance(phase, Mapping)]
    changed = [_phase_with_sources(phase, "prev" not in names) for phase in phases]
    return data if changed == list(phases) else {**data, "phases": changed}


def _phase_with_sources(phase: Any, short: bool) -> Any:
    if not isinstance(phase, Mapping):
        return phase
    changes: dict[str, Any] = {}
    if isinstance(listed := phase.get("inject_from"), list | tuple):
        changes["inject_from"] = _sources(listed, None, short=short)
    context = phase.get("context")
    if isinstance(context, Mapping):
        include = context.get("include")
        include = [include] if isinstance(include, str) else include
        known = get_args(Include)
        taken = isinstance(include, list | tuple) and all(each in known for each in include)
        held = {key: each for key, each in context.items() if key != "include" or not taken}
        for key in {"from", "from_"} & held.keys():
            if isinstance(held[key], list | tuple):
                held[key] = _sources(held[key], include if taken else None, short=short)
        changes["context"] = held
    return {**phase, **changes}


def _sources(listed: Sequence[Any], include: Any, *, short: bool) -> list[Any]:
    return [_source(each, include, short=short) for each in listed]


def _source(written: Any, include: Any, *, short: bool) -> Any:
    if isinstance(written, str):
        name = "previous" if short and written == "prev" else written
        return {"phase": name, "include": list(include)} if include else name
    if short and isinstance(written, Mapping) and written.get("phase") == "prev":
        return {**written, "phase": "previous"}
    return written
