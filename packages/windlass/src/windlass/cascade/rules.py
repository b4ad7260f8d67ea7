"""Rule: what one phase says of its context, in one inner form.

Both front doors compile to it, a cascade's `context` and a task's `context_management`. A
rule names sources, edits that the user asked for, a budget, and what later phases may see; it
says nothing of prompts, tools, models or loops. Names are resolved: `previous`, `first` and
`all` no longer occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, AliasChoices, Field, Strict

from windlass.declared import ONCE, Count, Model, Text, without_repeats
from windlass.selection.options import Selection
from windlass.window.expire import Expiry
from windlass.window.options import Policy
from windlass.window.policies.budget import SUMMARY_TOKENS, OnExceed

Include: TypeAlias = Literal["images", "output", "messages", "state"]
ImagesFilter: TypeAlias = Literal["all", "last", "last_n"]
MessagesFilter: TypeAlias = Literal["all", "assistant_only", "last_turn"]

Anchored: TypeAlias = Literal["output", "callouts", "input", "errors"]

SLIDING_SHARE: Final = 0.6
"""Share of the model's window that a sliding context keeps where the phase sets no limit."""

SHARE: Final = 0.1
OUTLINE: Final = 0.25
"""How much is chosen, and told in outline, by default; measured: `design/choosing.md`."""


Includes: TypeAlias = Annotated[
    Sequence[Include],
    Field(min_length=1, json_schema_extra=ONCE),
    AfterValidator(without_repeats),
]
"""What is taken of a phase."""


class ContextSource(Model):
    """What is taken from one earlier phase."""

    phase: Text
    """The earlier phase, one of a sub-cascade that ran, or a word: previous, first, all."""

    include: Includes = ("images", "output")
    """What is taken from it, in this order: images, output, messages, state. Where its last reply
    answers or calls tools, output brings what they gave, too."""

    images_filter: ImagesFilter = "all"
    """Which of its pictures: all, the last one, or the last `images_count`."""

    images_count: Count = 1
    """How many pictures `images_filter: last_n` takes."""

    messages_filter: MessagesFilter = Field(
        default="all", validation_alias=AliasChoices("messages_filter", "filter")
    )
    """Which of its messages: all, assistant_only, or last_turn. May be spelled `filter`."""

    as_role: Literal["user", "system"] = "user"
    """The role in which its text is shown."""

    condition: Text | None = Field(default=None, validation_alias=AliasChoices("condition", "if"))
    """A template over input, state and outputs: the source is taken when it renders to
    anything but nothing, false, 0, no or none. May be spelled `if`."""


class PhaseSource(ContextSource):
    """The same of one phase by its name. `place` is its path in the file, for the record."""

    place: str = ""

    @property
    def is_minimal(self) -> bool:
        """Whether it is what `context_strategy: minimal` shows: a text, and nothing beside it."""
        return self.place.endswith(".context_strategy")


@dataclass(frozen=True, slots=True)
class Budget:
    """`max_input_tokens`: a limit in tokens, the share at which to warn, and what then."""

    limit: int | None = None
    warn: float = 0.8
    on_exceed: OnExceed = "prune"
    summary_tokens: int = field(default=SUMMARY_TOKENS, repr=False)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What a task has of the context around it, in the sections of its window.

    `inherit`: all of its parent's context, none of it, or what of it belongs to the task.
    `previous`: how outputs of earlier steps are handed on (None: they are not). `fresh`: whether
    the memory is asked for what belongs to the task.
    """

    inherit: Literal["full", "none", "subset"] = "full"
    previous: Literal["notes_only", "full_output"] | None = None
    fresh: bool = True

    @property
    def words(self) -> str:
        """Return the same in words."""
        seen = {
            "full": "all of its parent's context",
            "subset": "what of its parent's context belongs to it",
        }
        parts = [seen[self.inherit]] if self.inherit in seen else []
        if self.previous is not None:
            kind = "notes on" if self.previous == "notes_only" else "the full output of"
            parts.append(f"{kind} each step before")
        if self.fresh:
            parts.append("what of memory and files belongs to it")
        return "; ".join(parts) or "nothing but its description and its inputs"


class Anchors(Model):
    """What a phase that chooses its context sees in any case."""

    window: Annotated[int, Strict(), Field(ge=0)] = 3
    """How many last turns of each phase in `from_phases` are taken whole."""

    from_phases: Annotated[
        Sequence[Text], Field(json_schema_extra=ONCE), AfterValidator(without_repeats)
    ] = ("previous",)
    """Earlier phases, or the words previous, first, all."""

    include: Annotated[
        Sequence[Anchored], Field(json_schema_extra=ONCE), AfterValidator(without_repeats)
    ] = ("output", "callouts", "input")
    """What is always in: output (of `from_phases`), callouts, input, errors."""

    as_role: Literal["user", "system"] = "user"
    """The role in which outputs that stand alone, and errors, are told."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """How a phase chooses what it sees of the phases before it.

    `selector` is the model that may be asked (None: none is named); `no_model`: the user
    switched asking off. `at_once`: it chooses whatever it costs, else only where that is no
    dearer than going on from what a cache holds; `only_to_fit`: only where all of it would not
    fit, whatever that costs. Phases in `exclude` are not chosen from.
    `share` of the tokens there are to choose from may be chosen at most, and `outline` of what is
    not shown whole may tell of it, name by name.
    """

    anchors: Anchors = field(default_factory=Anchors)
    selection: Selection = field(default_factory=Selection)
    selector: str | None = None
    no_model: bool = False
    at_once: bool = False
    only_to_fit: bool = False
    share: float = SHARE
    outline: float = OUTLINE
    exclude: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """What one phase says of its context.

    `mode` is `snowball` (all that was said before, plus `sources`), `selective`
    (`sources` only) or `auto` (what `choosing` finds, plus `sources`). `position` places the
    sources before or after a snowball.
    `sliding` keeps only the newest whole turns that fit `newest_within` tokens (None:
    `SLIDING_SHARE` of the model's window, which only the caller knows).
    `newest_turns` carries only so many of the last whole turns of a snowball into the phase.
    `output_only` hides this phase's messages but its output from later windows.
    `policy` shortens what the phase sees from call to call (None: nothing is shortened);
    `switched_off` names the user's setting that keeps it from what the cascade asks for,
    `not_choosing` the one that keeps the phase from choosing its context. `carried` is what a
    task has in place of sources (None: a phase of a cascade).
    """

    mode: Literal["snowball", "selective", "auto"] = "snowball"
    sources: tuple[PhaseSource, ...] = ()
    include_input: bool = False
    position: Literal["start", "end"] = "start"
    sliding: bool = False
    newest_within: int | None = None
    newest_turns: int | None = None
    expiry: Expiry = field(default_factory=Expiry)
    budget: Budget = field(default_factory=Budget)
    output_only: bool = False
    policy: Policy | None = None
    switched_off: str = ""
    carried: TaskContext | None = None
    choosing: Choosing | None = None
    not_choosing: str = ""
