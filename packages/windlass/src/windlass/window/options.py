"""All options of windows, and how they are made from what a user wrote.

`Policy` has them all, in six groups. Those that only mean something together are an object, beside
the policy that reads it. `profiles` has other sets of values, and `steps` makes the policies. This
module checks values and merges settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from windlass.errors import UsageError, did_you_mean
from windlass.window.policies.compress import CompressOptions
from windlass.window.policies.cuts import Cut
from windlass.window.policies.free_moments import FreeMomentsOptions
from windlass.window.policies.rare import DecayOptions
from windlass.window.policies.shared import (
    ERROR_CHARS,
    Bounds,
    Count,
    CountOrZero,
    Factor,
    Names,
)
from windlass.window.profiles import PROFILES, Commit, Profile
from windlass.window.thoughts import Thinking


@dataclass(frozen=True, kw_only=True)
class ServerClearOptions:
    """What the provider is asked to clear from a call: the oldest tool uses, above a size.

    Windlass goes on sending everything. The record of the call says what was cleared, and the next
    call says once what each cleared result was, which names only it held, and its reference. Only
    models of `anthropic/` support it.
    """

    trigger: Count = 100_000
    """Input tokens of a call above which tool uses are cleared."""
    keep: CountOrZero = 10
    """The newest tool uses that stay."""
    clear_at_least: Count | None = None
    """The fewest tokens worth clearing, because each clearing rewrites the cache."""
    exclude_tools: Names = ()
    """Tools whose uses are never cleared."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """All options of a window. Options that are not given come from the profile.

    A turn is a model call and the results it asked for. None and False turn off an option.
    `Policy(profile="lean", images_after=None)`; `windlass policies lean` prints the numbers, and
    docs/reference/options.md says what each option means.
    """

    # In general.

    profile: Profile = field(default="default", kw_only=False)
    """The profile for all options that are not set."""
    enabled: bool = True
    """Whether anything is shortened; false sends everything that was said."""

    # What is new.

    cuts: Cut | None = "mild"
    """Cuts long results to what is surprising or was asked for: mild or firm.

    It applies before they are first sent. Each kind of result has its own sizes, and what is alike
    is counted. Files that were read stay whole.
    """
    compress: CompressOptions | None = field(default=CompressOptions())
    """Cuts large results before they are first sent, whatever their kind.

    It also counts tests that passed and are alike.
    """
    lossless: Count | None = 400
    """Characters from which on results are written more briefly without loss (as tables).

    JSON becomes a table; files, diffs and command output never do. The first table explains how to
    read it; a later one near it begins only with `[JSON without quotes]`.
    """
    repeats: bool = True
    """Whether a repeated result refers to the one still in view.

    So do two or more lines that a result or a call's arguments already show, even with different
    line numbers. Without a cache, names listed by folded calls and attempts are also removed once a
    newer message holds them.
    """
    supersede_writes: bool = True
    """Whether an old version of a file is replaced once the file was written again.

    Once a later call has written the whole file, a line replaces each long text in the arguments of
    the older call.
    """
    compress_loops: bool = True
    """Whether a new attempt sees only the output and the refusal of earlier ones."""
    loop_history_limit: Count = 3
    """How many earlier attempts a new one sees, the last of them whole."""
    attempt_chars: Count = 500
    """Characters that an attempt keeps, except the last one.

    The line with its reference counts. If a newer refusal gives the same reason, only that one
    keeps it.
    """
    preserve_errors: bool = True
    """Whether a failed result keeps its error lines when it is shortened."""
    error_chars: Count = ERROR_CHARS
    """The most characters of error lines in a shortened result.

    A failed result keeps its lines with *error*, *exception*, *failed* or *traceback* within this
    limit, and says how many did not fit.
    """

    # What ages.

    see_results: Count | None = 1
    """Turns that see a tool result whole before it becomes a digest.

    One with more identifiers than a digest has room for is seen by some more.
    A digest has the identifiers of the result, its error lines and a reference.
    """
    see_reads: Count = 20
    """The same for files that were read, and for diffs, because edits quote whole lines of them.

    It does not apply to the output of an edit, because the call itself says what it changed.
    """
    most_text: Count = 1_200
    """The most characters a digest of text keeps, plus one for every fifty of the text."""
    free_moments: FreeMomentsOptions | None = field(default=FreeMomentsOptions())
    """Puts one message in the place of the earlier conversation where that is free or has paid.

    It holds what users said, the state of the plan, conclusions, a log of calls, the pieces that
    are likely to be needed, and names of the rest; the newest calls stay as they are.
    """
    window: Count = 1
    """Turns for which the model's own words stay whole, whatever their length."""
    reasoning_max_chars: Count | None = 2_000
    """Characters that the model's own words keep when they are old.

    Words from more than `window` turns ago are old.
    """
    preserve_reasoning: bool = True
    """Whether the model's words without tool calls are kept when they get old.

    Otherwise they keep `min_masked_chars`.
    """
    mask_observations_after: Count | None = None
    """Turns that see a whole tool result before it becomes one line."""
    min_masked_chars: Count = 200
    """Results of fewer characters are never masked."""
    fold_after: Count | None = None
    """Turns after which a tool call and its result become one line."""
    fold_subtasks: bool = False
    """Whether a finished sub-task is folded to its conclusion."""
    shorten_arguments: bool = False
    """Whether long arguments of old tool calls are shortened, value by value.

    Calls from more than `window` turns ago are old.
    """
    decay: DecayOptions | None = None
    """Lets the history decay in zones: full, folded, summary."""

    # Limits.

    keep_recent_turns: CountOrZero = 0
    """How many of the newest turns are kept, over all phases; 0 keeps all.

    It holds also where `enabled` is false.
    """
    max_input_tokens: Count | None = None
    """Tokens of a call above which the oldest turns are left out.

    The key `max_input_tokens` of a phase also sets it. It applies even if `enabled` is false.
    """

    # Pictures.

    images_after: Count | None = 2
    """Turns that see a picture before it becomes a line of text."""
    keep_recent_images: CountOrZero = 0
    """How many of the newest pictures are kept, over all phases; 0 keeps all.

    The others are removed at once, whatever their age. It applies even if `enabled` is false.
    """

    # The bill.

    commit: Commit = "priced"
    """When edits are made: at_once, or priced: once they lower the bill.

    The bill is counted at the cache prices of the model.
    """
    guard: Factor | None = None
    """The most that the bill may reach, as a multiple of sending everything.

    It applies at every call, assuming that the largest result that an edit hides is fetched again.
    1.01, for example, gives up some of the saving.
    """
    thinking: Thinking = "keep"
    """What happens to signed thinking that a model binds to everything before it.

    keep: what was sent is edited only if settings force it, or in a compaction. drop_block: it is
        edited wherever that pays, and the provider is asked to drop the thinking behind it.
    """
    server_clear: ServerClearOptions | None = None
    """Asks the provider to clear old tool uses before its model reads a call.

    What Windlass sends stays the same, and thinking that is bound to it stays valid.
    """

    if not TYPE_CHECKING:  # who checks types has every field of the class

        def __init__(self, profile: Profile = "default", **given: Any) -> None:
            """Take what is given, and the rest from the profile.

            Raises UsageError, in one sentence with the known names.
            """
            for name, value in _filled({"profile": profile, **given}).items():
                object.__setattr__(self, name, value)

    @classmethod
    def of(cls, value: str | Mapping[str, Any] | Policy | None) -> Policy:
        """The policy for a profile's name, a dict of settings or a policy; None means the default.

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
                given: Any = {str(name): each for name, each in value.items()}
                return cls(**given)
            case _:
                raise UsageError(
                    "a policy is the name of a profile, an object of options or a Policy,"
                    f" not {value!r}; profiles: {', '.join(PROFILES)}"
                )

    def settings(self) -> dict[str, Any]:
        """Return every option with its value, as plain data, as a user writes it."""
        values: dict[str, Any] = plain(self)
        return values

    @property
    def kept_error_chars(self) -> int:
        """Return characters of error lines that a shortened result keeps; 0: none."""
        return self.error_chars if self.preserve_errors else 0

    def at_birth(self) -> Policy:
        """Return the variant of the policy that only shortens what no call has seen yet.

        What was shown once stays as it was: a hook sees each result before its model does, and
        never again.
        """
        return replace(
            self,
            server_clear=None,
            max_input_tokens=None,
            free_moments=None,
            supersede_writes=False,
            compress_loops=False,
            decay=None,
            fold_subtasks=False,
            shorten_arguments=False,
            see_results=None,
            mask_observations_after=None,
            reasoning_max_chars=None,
            preserve_reasoning=True,
            fold_after=None,
            images_after=None,
            keep_recent_images=0,
            keep_recent_turns=0,
        )

    @property
    def key(self) -> str:
        """16 hex digits that are equal for equal options, for the record of a call."""
        text = json.dumps({**self.settings(), "profile": ""}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Option:
    """The values that an option accepts, and its default.

    `kind` is bool, int, float, `Names`, a `Literal` of words, or the class of a block of options
    (which also takes true for its defaults, and false or null for off). `bounds` are those of a
    number, `optional` says whether null turns it off.
    """

    kind: Any
    default: Any
    bounds: Bounds | None
    optional: bool

    @property
    def is_block(self) -> bool:
        """Return whether it is a group of options."""
        return is_dataclass(self.kind)

    @property
    def expected(self) -> str:
        """Return the accepted values, in words."""
        words = self.bounds.words if self.bounds else "true or false"
        if self.kind == Names:
            words = "a list of names"
        return f"{words}, or null for off" if self.optional else words

    def takes(self, value: Any) -> bool:
        """Return whether a value other than null is one that it takes; not for words and blocks."""
        if self.kind == Names:
            return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
        if self.bounds is None or isinstance(value, bool):
            return isinstance(value, bool) and self.kind is bool
        types = (int,) if self.kind is int else (int, float)
        return isinstance(value, types) and self.bounds.hold(value)


@cache  # reading annotations takes a millisecond, and each phase of each run asks
def options_of(block: type) -> Mapping[str, Option]:
    """Return the options of `Policy` or of one of its blocks, by name."""
    hints = get_type_hints(block, include_extras=True)
    options = {each.name: _option(hints[each.name], each.default) for each in fields(block)}
    return MappingProxyType(options)


def _option(hint: Any, default: Any) -> Option:
    optional = get_origin(hint) in (Union, UnionType)
    if optional:
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    bounds = None
    if get_origin(hint) is Annotated:
        hint, bounds = get_args(hint)
    return Option(hint, default, bounds, optional)


OPTIONS: Final[Mapping[str, Option]] = options_of(Policy)
"""Every option by name."""


def _blocks(options: Mapping[str, Option]) -> tuple[type, ...]:
    """Give the classes of options that are objects of options, those inside others before them."""
    blocks = [each.kind for each in options.values() if each.is_block]
    return tuple(kind for block in blocks for kind in (*_blocks(options_of(block)), block))


BLOCKS: Final[tuple[type, ...]] = _blocks(OPTIONS)
"""The classes of the options that are objects of options."""


_DIGESTS: Final = "how long digests are is fixed; write see_results for when they are made"
GONE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("digest_above_chars", "most_records", "share_records", "share_text"), _DIGESTS
    ),
    "expand": "originals do not come back by themselves; give the model the tool recall",
    "other_chars": "write max_result_tokens for kinds of results that have no option",
}
"""Options of earlier versions, and what to write instead."""


def plain(value: Any) -> Any:
    """Return a value of an option as plain data: blocks as objects."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value


def over(far: Any, near: Any) -> Any:
    """Merge two settings: the nearer one wins, groups are merged key by key.

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
    """Every option, checked: given values override the profile, which overrides the defaults."""
    _check_names(given, OPTIONS)
    profile = _value("profile", given["profile"], OPTIONS["profile"])
    defaults = {name: plain(option.default) for name, option in OPTIONS.items()}
    written = {name: plain(value) for name, value in given.items()}
    values = over(over(defaults, PROFILES[profile]), written)
    return {name: _value(name, values[name], option) for name, option in OPTIONS.items()}


def _check_names(given: Mapping[Any, Any], options: Mapping[str, Option], inside: str = "") -> None:
    for name in given:
        if name in GONE:
            raise UsageError(f"policy: there is no option {f'{inside}{name}'!r}: {GONE[name]}")
        if name not in options:
            raise UsageError(
                f"policy: unknown option {f'{inside}{name}'!r}; {did_you_mean(str(name), options)}"
            )


def _value(name: str, value: Any, option: Option) -> Any:
    if option.is_block:
        return _block(name, value, option.kind)
    if option.optional and (value is None or value is False):
        return None
    if get_origin(option.kind) is Literal:
        words = get_args(option.kind)
        if value in words:
            return value
        raise UsageError(
            f"policy: {name} {value!r} is not known; {did_you_mean(str(value), words)}"
        )
    if not option.takes(value):
        raise UsageError(f"policy: {name} must be {option.expected}, not {value!r}")
    return tuple(value) if option.kind == Names else value


def _block(name: str, value: Any, block: Any) -> Any:
    value = plain(value)
    if value is None or value is False:
        return None
    if value is True:
        value = {}
    if not isinstance(value, Mapping):
        raise UsageError(f"policy: {name} must be true, false or an object, not {value!r}")
    options = options_of(block)
    _check_names(value, options, f"{name}.")
    return block(
        **{
            key: _value(f"{name}.{key}", value.get(key, option.default), option)
            for key, option in options.items()
        }
    )
