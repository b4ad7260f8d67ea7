"""`callouts` of a phase: which of its messages are called out, and how each is called.

Held in one long form, `{name: {pattern}}` for messages that a pattern finds, and `{output: {as}}`,
`{messages: {as, filter}}` for the phase's output and its replies. A text is the older short form:
under `output` and `messages` it is a name, and elsewhere a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, model_validator

from windlass.cascade._field_values import fast_pattern
from windlass.declared import Model, Short, Text, refuse

OUTPUT: Final = "output"
MESSAGES: Final = "messages"
FILTER: Final = "messages_filter"
NAMING: Final = frozenset({OUTPUT, MESSAGES, FILTER})
"""The keys under which a text is a name."""

Called: TypeAlias = Literal["all", "assistant_only", "last_turn"]

_SURELY_A_PATTERN: Final = re.compile(r"^\^|\\|\(\?")
"""What no name holds, and regular expressions do."""


class CalloutRule(Model):
    """One rule: messages that a `pattern` finds, or a name for what the key says (`as_`)."""

    pattern: Annotated[Text, AfterValidator(fast_pattern)] | None = None
    """A regular expression: replies and results in which it is found are called out by the key."""

    as_: Text | None = Field(
        default=None, validation_alias=AliasChoices("as", "as_"), serialization_alias="as"
    )
    """How the phase's output (under `output`) or each of its replies (`messages`) is called, as a
    template over input, state, outputs, turn and phase."""

    filter: Called = "assistant_only"
    """Under `messages`: the replies; `all`, also the results of tools; `last_turn`, those of the
    last turn."""

    @model_validator(mode="after")
    def _one_sense(self) -> CalloutRule:
        if (self.pattern is None) == (self.as_ is None):
            raise refuse("write either 'pattern' (what is looked for) or 'as' (a name)")
        if self.pattern is not None and "filter" in self.model_fields_set:
            raise refuse("'filter' belongs to 'as'; a 'pattern' finds replies and results")
        return self


def _told_apart(written: Any) -> Any:
    """Return the rules with names as objects; everything else as it was written."""
    if isinstance(written, str):
        return {OUTPUT: {"as": written}}
    if not isinstance(written, Mapping) or not NAMING.issuperset(written):
        return written
    rules = {
        key: {"as": value}
        if isinstance(value, str) and not _SURELY_A_PATTERN.search(value)
        else value
        for key, value in written.items()
        if key != FILTER
    }
    named = rules.get(MESSAGES)
    if FILTER in written and isinstance(named, Mapping) and "as" in named:
        rules[MESSAGES] = {**named, "filter": written[FILTER]}
    return rules or written


def _well_named(rules: dict[str, CalloutRule]) -> dict[str, CalloutRule]:
    for name, rule in rules.items():
        if not name.strip():
            raise refuse("a callout needs a name, such as 'decision'")
        if rule.as_ is not None and name not in (OUTPUT, MESSAGES):
            raise refuse(f"'as' names what 'output' or 'messages' are, and {name!r} is neither")
    return rules


_Rules: TypeAlias = dict[str, Annotated[CalloutRule, Short("pattern")]]

Callouts: TypeAlias = Annotated[
    _Rules,
    BeforeValidator(_told_apart, json_schema_input_type=Text | _Rules),
    AfterValidator(_well_named),
]
"""A name for the phase's output, or rules by name."""


def patterns_of(rules: Mapping[str, CalloutRule]) -> dict[str, str]:
    """Return the patterns among the rules, by the name of what they find."""
    return {name: rule.pattern for name, rule in rules.items() if rule.pattern is not None}


def name_for(rules: Mapping[str, CalloutRule], what: str) -> CalloutRule | None:
    """Return the rule that names the phase's output, or its messages; None: nothing does."""
    rule = rules.get(what)
    return rule if rule is not None and rule.as_ is not None else None
