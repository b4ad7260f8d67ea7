"""Policies as a user names them: profiles, everything, options, files with an `auto_context`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from windlass.cascade.source import read_json, read_yaml
from windlass.errors import CascadeError, UsageError, did_you_mean
from windlass.window.options import OPTIONS, Policy, over
from windlass.window.profiles import PROFILES

EVERYTHING: Final = "everything"
"""The policy that sends all that was said."""
FULL: Final = "full"
"""The same, as `context_strategy` calls it."""
MASK: Final = "mask"
_KNOWN: Final = (EVERYTHING, FULL, f"{MASK}:TURNS", *PROFILES)
_FILES: Final = (".json", ".yaml", ".yml")
_OTHERS: Final = frozenset({"inter_phase", "helper_model"})
"""Of `auto_context`: what is not about the windows of one conversation."""
_ALL_OFF: Final[Mapping[str, Any]] = {
    **{name: None for name, option in OPTIONS.items() if option.optional or option.is_block},
    **{name: False for name, option in OPTIONS.items() if option.kind is bool},
    "enabled": True,
    "commit": "at_once",
}

PolicyName: TypeAlias = str | Mapping[str, Any] | Policy | Path


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy, and what it is called in tables."""

    name: str
    policy: Policy

    @property
    def is_everything(self) -> bool:
        """Whether all is sent that was said."""
        return not self.policy.enabled


def policies_of(named: Iterable[PolicyName]) -> tuple[NamedPolicy, ...]:
    """The policies, each once and in order. Raises UsageError for one that there is not."""
    found = {policy.name: policy for policy in map(policy_of, named)}
    return tuple(found.values())


def policy_of(named: PolicyName) -> NamedPolicy:
    """The policy that a user names.

    A profile; `everything` (or `full`); `mask:TURNS`, which hides older results at once; a profile
    and options, `lean,window=3`; the file of a cascade or of an `auto_context`; in Python also a
    dict of options or a `Policy`. Raises UsageError in one sentence.
    """
    if isinstance(named, Policy):
        return NamedPolicy(named.profile if named == Policy(named.profile) else named.key, named)
    if isinstance(named, Mapping):
        settings = _windows(named)
        return NamedPolicy(_title(settings), Policy.of(settings))
    if not isinstance(named, str | Path):
        return NamedPolicy("", Policy.of(named))  # it says what a policy is
    if isinstance(named, Path) or named.endswith(_FILES):
        return NamedPolicy(Path(named).stem, Policy.of(_in_file(Path(named))))
    name, _, written = named.partition(",")
    options = _options(written, named)
    if name in (EVERYTHING, FULL):
        return NamedPolicy(named.replace(FULL, EVERYTHING, 1), Policy(enabled=False, **options))
    kind, colon, turns = name.partition(":")
    if kind == MASK and colon:
        if not turns.isdigit() or turns == "0":
            raise UsageError(f"policy {named!r}: {MASK}:TURNS takes a whole number from 1")
        masking = {**_ALL_OFF, "mask_observations_after": int(turns), "min_masked_chars": 100}
        return NamedPolicy(named, Policy.of(over(masking, options)))
    if name not in PROFILES:
        key, equals, _ = name.partition("=")
        if not equals or key.partition(".")[0] not in OPTIONS:
            raise UsageError(
                f"there is no policy {named!r}: {did_you_mean(name, _KNOWN)}; or OPTION=VALUE,"
                " or a file (.json, .yaml) with an auto_context"
            )
        name, options = "default", _options(named, named)
    return NamedPolicy(named, Policy.of({"profile": name, **options}))


def _title(settings: Mapping[str, Any]) -> str:
    """A dict of options as the command line takes it."""
    profile = settings.get("profile", "default")
    options = (f"{key}={json.dumps(value)}" for key, value in settings.items() if key != "profile")
    return ",".join([str(profile), *options])


def _options(written: str, named: str) -> dict[str, Any]:
    """`a=1,b.c=x` as an object; a value is JSON where it can be read so, else a word."""
    options: dict[str, Any] = {}
    for item in filter(None, _split(written)):
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"policy {named!r}: options are written OPTION=VALUE, not {item!r}")
        try:
            given = json.loads(value)
        except ValueError:
            given = value
        for key in reversed(name.split(".")):
            given = {key: given}
        options = over(options, given)
    return options


def _split(written: str) -> list[str]:
    """The items between the commas that stand in no brackets."""
    items, depth = [""], 0
    for char in written:
        depth += (char in "{[") - (char in "}]")
        if char == "," and depth == 0:
            items.append("")
        else:
            items[-1] += char
    return items


def _in_file(path: Path) -> dict[str, Any]:
    """The options in a file: those of its `auto_context`, or the whole of it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise UsageError(
            f"policy {str(path)!r}: {reason}; known without a file: {', '.join(_KNOWN)}"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"policy {str(path)!r}: it is no text in UTF-8") from error
    read = read_json if path.suffix == ".json" else read_yaml
    data = read(text, str(path)).data
    if isinstance(data, Mapping) and ("auto_context" in data or "phases" in data):
        data = data.get("auto_context", False)
    if isinstance(data, bool) or data is None:
        return {} if data else {"enabled": False}
    if not isinstance(data, Mapping):
        raise UsageError(f"policy {str(path)!r}: it holds no object of options")
    try:
        return _windows(data)
    except CascadeError:
        raise
    except UsageError as error:
        raise UsageError(f"{str(path)!r}: {error}") from error


def _windows(auto: Mapping[str, Any]) -> dict[str, Any]:
    """What an `auto_context` says of windows, or options as they are."""
    settings = {str(key): value for key, value in auto.items() if key not in _OTHERS}
    inner = settings.pop("intra_phase", {})
    if isinstance(inner, bool):
        inner = {} if inner else {"enabled": False}
    if not isinstance(inner, Mapping):
        raise UsageError(f"intra_phase must be true, false or an object, not {inner!r}")
    whole = over(settings, dict(inner))
    Policy.of(whole)
    return dict(whole)
