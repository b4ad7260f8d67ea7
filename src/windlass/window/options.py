"""The options of windows: one dataclass for all of them, and how what a user wrote becomes it.

`Policy` is what `bound(policy=...)`, `auto_context` and `intra_context` come to. This module
knows what each option means, what values it takes and how settings lie over one another; the
numbers of the profiles stand in `profiles`, the work is done by `policies`, and `steps` says
which of them an option switches on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from typing import Any, Final, Literal, TypeAlias, get_args

from windlass.errors import UsageError, did_you_mean
from windlass.window.profiles import PROFILES, Commit, Profile

Plain: TypeAlias = Literal["yes", "count", "count or null", "factor or null", "number", "share"]
Kind: TypeAlias = Plain | tuple[str, ...] | type
"""What an option takes: true or false; a whole number of at least 1, perhaps null (off); a
whole number of at least 0; a share above 0 and at most 1; one of some words; a block of
options of its own (or true for its defaults, false or null for off)."""


class _FromProfile:
    """Stands for "what the profile says" until a policy is made."""

    def __repr__(self) -> str:
        return "from the profile"


_FROM_PROFILE: Final[Any] = _FromProfile()


def _option(kind: Kind, meaning: str, default: Any = _FROM_PROFILE) -> Any:
    return field(default=default, metadata={"kind": kind, "meaning": meaning})


@dataclass(frozen=True, slots=True)
class Compress:
    """How large results that no call has seen yet are cut, by the kind of their content."""

    above_chars: int = _option("count", "Characters from which on a result is cut.", 32_000)
    max_result_tokens: int = _option("count", "The most tokens that a cut result keeps.", 8_000)
    passed_lines: int = _option(
        "number", "Lines of passed tests from which on they become a count; 0: never.", 20
    )
    by_kind: bool = _option(
        "yes",
        "Whether each kind of result has its own short form; else head, tail and error lines.",
        default=False,
    )
    adapt: bool = _option(
        "yes",
        "Whether the three thresholds rise and fall with what is left of the model's window.",
        default=True,
    )
    search_results: int = _option("count", "Results that a search keeps, title and snippet.", 5)
    search_chars: int = _option("count", "The most characters a search keeps.", 2_000)
    file_lines: int = _option("count", "Lines that a file keeps from its head.", 10)
    file_chars: int = _option("count", "The most characters a file keeps.", 1_000)
    code_head: int = _option("count", "Lines that command output keeps from its head.", 50)
    code_tail: int = _option("count", "Lines that command output keeps from its tail.", 20)
    code_chars: int = _option("count", "The most characters command output keeps.", 1_500)
    api_chars: int = _option("count", "The most characters the answer of an API keeps.", 1_000)
    other_chars: int = _option("count", "The most characters any other kind keeps.", 1_500)


@dataclass(frozen=True, slots=True)
class Decay:
    """The zones of a decaying history: the newest turns whole, those before folded."""

    full: int = _option("count", "Turns that stay as they are.", 4)
    fold: int = _option("count", "Turns before those, folded to a line; older: a summary.", 6)


@dataclass(frozen=True, slots=True)
class WithoutCache:
    """What holds where the prices have no cache, in the place of the options of these names.

    There an edit costs no more later than now, so what may be needed can stay longer. Null: as
    with a cache. An option that the user writes holds here too, unless it is written here.
    """

    see_reads: int | None = _option("count or null", "`see_reads` without a cache.", None)
    see_shell_reads: int | None = _option(
        "count or null", "`see_shell_reads` without a cache.", None
    )
    see_crowded: int | None = _option("count or null", "`see_crowded` without a cache.", None)
    most_crowded: int | None = _option("count or null", "`most_crowded` without a cache.", None)


@dataclass(frozen=True, slots=True)
class Policy:
    """All options of a window. What is not given comes from the profile.

    A turn is a model call and the results it asked for. None and False switch an option off.
    `Policy(profile="lean", images_after=None)`; `windlass policies lean` prints the numbers,
    and docs/windows.md says what each option means.
    """

    profile: Profile = _option(  # noqa: RUF009  # it makes a field
        get_args(Profile), "The profile that holds for the options not written.", "default"
    )
    enabled: bool = _option(
        "yes", "Whether anything is shortened; false sends everything that was said."
    )
    commit: Commit = _option(  # noqa: RUF009
        get_args(Commit), "When edits are made: at_once, or priced: once they lower the bill."
    )
    guard: float | None = _option(
        "factor or null", "How many times the bill of sending everything may be reached."
    )
    window: int = _option(
        "count", "Turns within which the model's own words stay whole, whatever their length."
    )
    mask_observations_after: int | None = _option(
        "count or null", "Turns that see a tool result whole before it becomes one line."
    )
    min_masked_chars: int = _option("count", "Results of fewer characters are never masked.")
    preserve_reasoning: bool = _option(
        "yes", "Whether the model's own words without tool calls are kept when they get old."
    )
    preserve_errors: bool = _option(
        "yes", "Whether a failed result keeps its error lines when it is shortened."
    )
    see_results: int | None = _option(
        "count or null", "Turns that see a tool result whole before it becomes a digest."
    )
    see_reads: int = _option(
        "count", "The same for files read with a tool: edits quote whole lines of them."
    )
    see_shell_reads: int = _option("count", "The same for files read in a shell (cat, sed -n).")
    see_crowded: int = _option(
        "count", "The same for a result whose digest would not hold all its identifiers."
    )
    see_named: int = _option(
        "number", "A read also stays while the model named it in the last so many turns; 0: no."
    )
    most_waiting: int = _option(
        "count", "Larger results wait no longer than `see_results`, but files read with a tool."
    )
    most_crowded: int = _option(
        "count", "Larger results are digested at `see_results` though their digest is crowded."
    )
    without_cache: WithoutCache | None = _option(  # noqa: RUF009
        WithoutCache, "What stays in sight longer where the prices have no cache."
    )
    digest_above_chars: int = _option("count", "Results of fewer characters are not digested.")
    share_records: float = _option("share", "Share of records (JSON, lists) that a digest keeps.")
    most_records: int = _option("count", "The most characters a digest of records keeps.")
    share_text: float = _option("share", "Share of text and output that a digest keeps.")
    most_text: int = _option("count", "The most characters a digest of text keeps.")
    error_chars: int = _option("count", "The most characters of error lines in a digest.")
    lossless: int | None = _option(
        "count or null",
        "Characters from which on results are written shorter with nothing lost (tables).",
    )
    repeats: bool = _option("yes", "Whether a repeated result refers to the one still in view.")
    supersede: bool = _option(
        "yes", "Whether a read gives way to a later one in view that covers its lines."
    )
    supersede_writes: bool = _option(
        "yes", "Whether what a call wrote to a file gives way once the file was written anew."
    )
    compress: Compress | None = _option(  # noqa: RUF009
        Compress, "Cuts large results before they are first sent."
    )
    images_after: int | None = _option(
        "count or null", "Turns that see a picture before it becomes a line of text."
    )
    reasoning_max_chars: int | None = _option(
        "count or null", "Characters that the model's own words keep when they are old."
    )
    fold_after: int | None = _option(
        "count or null", "Turns after which a tool call and its result become one line."
    )
    fold_subtasks: bool = _option("yes", "Whether a finished sub-task is folded to its end.")
    shorten_arguments: bool = _option(
        "yes", "Whether long arguments of old tool calls are shortened, value by value."
    )
    decay: Decay | None = _option(  # noqa: RUF009
        Decay, "Lets the history decay by zones: full, folded, summary."
    )
    compress_loops: bool = _option(
        "yes", "Whether a new attempt sees earlier ones as output and refusal only."
    )
    loop_history_limit: int = _option("count", "Earlier attempts that a new one sees.")
    attempt_chars: int = _option("count", "Characters that an attempt keeps but for the last.")
    keep_recent_turns: int = _option(
        "number", "The newest turns that are kept, all phases together; 0 keeps all."
    )
    keep_recent_images: int = _option(
        "number", "The newest pictures that are kept, all phases together; 0 keeps all."
    )
    max_input_tokens: int | None = _option(
        "count or null", "Tokens of a call above which the oldest turns are left out."
    )
    expand: bool = _option(
        "yes", "Whether an original comes back unasked when its identifiers are named."
    )

    def __post_init__(self) -> None:
        written = {f.name: getattr(self, f.name) for f in fields(self)}
        given = {name: value for name, value in written.items() if value is not _FROM_PROFILE}
        for name, value in _filled(given).items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, value: str | Mapping[str, Any] | Policy | None) -> Policy:
        """The policy that a user named: a profile, a dict of settings, a policy; None: default.

        Raises UsageError, in one sentence with the known names.
        """
        match value:
            case None:
                return cls()
            case Policy():
                return value
            case str():
                return cls.of({"profile": value})
            case Mapping():
                for name in value:
                    if name not in OPTIONS:
                        raise UsageError(
                            f"policy: unknown option {name!r}; {did_you_mean(str(name), OPTIONS)}"
                        )
                return cls(**value)
            case _:
                raise UsageError(
                    "a policy is the name of a profile, an object of options or a Policy,"
                    f" not {value!r}; profiles: {', '.join(PROFILES)}"
                )

    def settings(self) -> dict[str, Any]:
        """Every option with its value, as plain data."""
        return {name: plain(getattr(self, name)) for name in OPTIONS}

    def uncached(self) -> Policy:
        """The same policy as it is where the prices have no cache."""
        longer = {k: v for k, v in (plain(self.without_cache) or {}).items() if v is not None}
        return replace(self, **longer)

    @property
    def key(self) -> str:
        """16 hex digits that are equal for equal options, for the record of a call."""
        said = json.dumps({**self.settings(), "profile": ""}, sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:16]


def options_of(block: type) -> dict[str, Field[Any]]:
    """The options of `Policy` or of one of its blocks, by name."""
    return {each.name: each for each in fields(block)}


OPTIONS: Final[Mapping[str, Field[Any]]] = options_of(Policy)
"""Every option by name; its metadata hold its `kind` and its `meaning`."""


def plain(value: Any) -> Any:
    """A value of an option as plain data: blocks as objects."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value


def over(far: Any, near: Any) -> Any:
    """What holds where two settings say something: the nearer, and blocks key by key.

    >>> over({"window": 5, "decay": {"full": 4}}, {"decay": {"fold": 9}})
    {'window': 5, 'decay': {'full': 4, 'fold': 9}}
    """
    if near is True and isinstance(far, Mapping):
        return far  # switched on, as it was said further away
    if not (isinstance(far, Mapping) and isinstance(near, Mapping)):
        return near
    both = {key: over(far[key], near[key]) if key in far else near[key] for key in near}
    return {**far, **both}


def _filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option: what is given over what the profile says, checked."""
    profile = _value("profile", given.get("profile", "default"), OPTIONS["profile"])
    written = {name: plain(value) for name, value in given.items()}
    values = over(PROFILES[profile], written)
    if isinstance(values["without_cache"], Mapping):
        also = {n: v for n, v in written.items() if n in options_of(WithoutCache)}
        values["without_cache"] = over(
            {**values["without_cache"], **also}, written.get("without_cache", {})
        )
    return {name: _value(name, values[name], each) for name, each in OPTIONS.items()}


def _value(name: str, value: Any, option: Field[Any]) -> Any:
    kind: Kind = option.metadata["kind"]
    if isinstance(kind, type):
        return _block(name, value, kind)
    if isinstance(kind, tuple):
        if value in kind:
            return value
        raise UsageError(f"policy: {name} {value!r} is not known; {did_you_mean(str(value), kind)}")
    if kind.endswith("or null") and (value is None or value is False):
        return None
    if not _fits(value, kind):
        raise UsageError(f"policy: {name} must be {EXPECTED[kind]}, not {value!r}")
    return value


EXPECTED: Final[Mapping[str, str]] = {
    "yes": "true or false",
    "count": "a whole number of at least 1",
    "count or null": "a whole number of at least 1, or null for off",
    "factor or null": "a number of at least 1, or null for off",
    "number": "a whole number of at least 0",
    "share": "a number above 0 and at most 1",
}
"""What each kind of value is, in words."""


def _fits(value: Any, kind: str) -> bool:
    if kind == "yes":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind == "factor or null":
        return isinstance(value, int | float) and 1 <= value < math.inf
    if kind == "share":
        return isinstance(value, int | float) and 0 < value <= 1
    return isinstance(value, int) and value >= (0 if kind == "number" else 1)


def _block(name: str, value: Any, block: type) -> Any:
    if isinstance(value, block):
        value = plain(value)
    if value is None or value is False:
        return None
    if value is True:
        value = {}
    known = options_of(block)
    if not isinstance(value, Mapping):
        raise UsageError(f"policy: {name} must be true, false or an object, not {value!r}")
    for key in value:
        if key not in known:
            raise UsageError(
                f"policy: unknown option {f'{name}.{key}'!r}; {did_you_mean(str(key), known)}"
            )
    return block(
        **{
            key: _value(f"{name}.{key}", value.get(key, _default(option)), option)
            for key, option in known.items()
        }
    )


def _default(option: Field[Any]) -> Any:
    assert option.default is not MISSING
    return option.default
