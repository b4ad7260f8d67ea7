"""Cascades as data: what a cascade file may say, with one line of prose for each field.

The models are frozen and refuse unknown keys. They know no file, no tool and no
run: `load` makes them out of files, `check` compares what stands in them with each
other and with the tools, `compile` turns what a phase says of its context into a
`windlass.cascade.rules.Rule`.

Lists are declared as `Sequence`, so that Python users may pass lists; what a model
holds is a tuple. Shorthands (a source as a bare name) are held in their long form,
so that two spellings of one cascade are equal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    Field,
    PrivateAttr,
    Strict,
    Tag,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from windlass.cascade.options import AutoContext, IntraContext, SelectionOptions, WithInjectors
from windlass.cascade.rules import Anchors, ContextSource
from windlass.declared import (
    ONCE,
    Count,
    McpServers,
    Model,
    Name,
    Names,
    Switchable,
    Text,
    WordOr,
    YesNo,
    by_form,
    refuse,
    without_repeats,
)
from windlass.errors import Mistake
from windlass.safety.patterns import BadPattern, compiled, groups_of
from windlass.safety.schemas import patterns_in, validator_for
from windlass.window.policies.budget import OnExceed

REMEMBER: Final = "remember"
SEARCH: Final = "search_memory"
"""The tools that write to memory banks, and look into them."""

REACHES: Final = ("all", "first", "previous")
"""Words that stand for phases in a source, and therefore no phase may be called."""

PARENT: Final = "parent."
"""What a source begins with that is a phase of the cascade which runs this one."""


# ---- values that a type alone cannot check -------------------------------------------


def working_pattern(pattern: str) -> str:
    """A regular expression that has exactly one group."""
    try:
        groups = groups_of(pattern, re.DOTALL)
    except BadPattern as error:
        raise refuse(f"{pattern!r} {error}") from error
    if groups != 1:
        count = "none" if groups == 0 else str(groups)
        raise refuse(
            f"{pattern!r} needs exactly one group, the part in round brackets that is stored,"
            f" but has {count}; write (?:...) for brackets that are no group"
        )
    return pattern


def fast_pattern(pattern: str) -> str:
    """A regular expression that is searched for in linear time."""
    try:
        compiled(pattern, re.MULTILINE)
    except BadPattern as error:
        raise refuse(f"{pattern!r} {error}") from error
    return pattern


def named_patterns(patterns: dict[str, str]) -> dict[str, str]:
    """Patterns by the name of what they mark."""
    if not all(name.strip() for name in patterns):
        raise refuse("a callout needs a name, such as 'decision'")
    return patterns


Callouts: TypeAlias = Annotated[
    dict[str, Annotated[Text, AfterValidator(fast_pattern)]], AfterValidator(named_patterns)
]
"""Regular expressions by the name that a message gets in which they are found."""


def working_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema (draft 2020-12) of an object that needs no other document."""
    from jsonschema.exceptions import SchemaError

    try:
        json.dumps(schema, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise refuse(f"the schema cannot be written as JSON: {error}") from error
    try:
        validator_for(schema)
    except SchemaError as error:
        place = "/".join(str(step) for step in error.absolute_path)
        raise refuse(
            f"not a valid JSON Schema{f' at {place!r}' if place else ''}: {error.message}"
        ) from error
    for pattern in patterns_in(schema):
        try:
            groups_of(pattern)
        except BadPattern as error:
            raise refuse(f"the pattern {pattern!r} of the schema {error}") from error
    if schema.get("type") != "object":
        raise refuse("the schema must describe an object: write 'type': 'object' at its top")
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise refuse(
                f"{reference!r} refers to another document; only references inside the schema,"
                " such as '#/$defs/item', are followed"
            )
    return schema


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


# ---- parts of a phase ----------------------------------------------------------------


def long_form(source: ContextSource | str) -> ContextSource:
    """A source as an object; a bare name takes the pictures and the output of that phase."""
    return ContextSource(phase=source) if isinstance(source, str) else source


def _long_forms(sources: Sequence[ContextSource | str]) -> tuple[ContextSource, ...]:
    return tuple(long_form(source) for source in sources)


Sources: TypeAlias = Annotated[Sequence[WordOr[ContextSource]], AfterValidator(_long_forms)]


class PhaseContext(Model):
    """Selective context: these sources and nothing else of earlier phases; or a choice of them."""

    mode: Literal["explicit", "auto"] = "explicit"
    """explicit: the sources and nothing else; auto: anchors, and what of the session matters."""

    anchors: Anchors | None = None
    """With mode auto: what is always in."""

    selection: SelectionOptions | None = None
    """With mode auto: how the rest is chosen."""

    from_: Sources = Field(
        default=(), validation_alias=AliasChoices("from", "from_"), serialization_alias="from"
    )
    """The sources, in the order in which they are shown; an empty list is a clean slate."""

    include_input: YesNo = True
    """Whether the cascade's input is shown first."""

    exclude: Annotated[Sequence[Text], AfterValidator(tuple)] = ()
    """Phases that `all`, `first` and `previous` leave out."""


class ContextTtl(Model):
    """Turns within the phase after which messages of a kind are masked (null: never)."""

    tool_results: Count | None = None
    """Turns after which tool results are masked."""

    images: Count | None = None
    """Turns after which pictures are masked."""

    assistant: Count | None = None
    """Turns after which the model's own messages are masked."""

    user: Count | None = None
    """Turns after which user messages are masked."""


class OutputExtraction(Model):
    """A piece of the phase's output that is put into the state."""

    pattern: Annotated[Text, AfterValidator(working_pattern)]
    """A regular expression with exactly one group; a dot also matches line ends."""

    store_as: Text
    """The state key under which the group's text is stored."""

    required: YesNo = False
    """Whether the phase fails when the pattern does not match."""

    format: Literal["text", "json", "code"] = "text"
    """How the text is read: as it is, as JSON, or as code out of a fenced block."""


class MaxInputTokens(Model):
    """A limit for the tokens of one request of the phase, and what to do about it."""

    limit: Count
    """The most input tokens a request of this phase should have."""

    warn: Annotated[float, Strict(), Field(gt=0, le=1)] = 0.8
    """The share of the limit from which on a warning is given."""

    on_exceed: OnExceed = "prune"
    """What a request over the limit does: prune leaves the oldest turns out, summarise puts a
    summary in their place, warn goes on, fail ends the phase."""


def _as_budget(limit: int | MaxInputTokens) -> MaxInputTokens:
    return MaxInputTokens(limit=limit) if isinstance(limit, int) else limit


Dollars: TypeAlias = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]

Seconds: TypeAlias = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]


class Limits(Model):
    """What a whole run may use. It ends as `incomplete` before the step that could pass a limit.

    Sub-cascades, soundings and calls of helpers count; so do those of a run above one of these.
    """

    budget: Dollars | None = None
    """US dollars; each call is counted at its most."""

    max_tokens: Count | None = None
    """Tokens in and out; the next call is counted at its most."""

    max_seconds: Seconds | None = None
    """Seconds since the run began after which no call and no tool begins."""

    max_turns: Count | None = None
    """Calls of models, those of helpers included."""


class Rules(Model):
    """When a phase ends, how often it is tried, and what it may use."""

    max_turns: Count = 20
    """Model calls (each with the tool results it asked for) after which an attempt ends."""

    max_attempts: Count = 3
    """How often the phase is tried until `loop_until` accepts its output."""

    loop_until: Text | None = None
    """A validator, as the name of a tool or `module:function`; it answers {valid, reason}."""

    on_exhausted: Literal["fail", "continue"] = "fail"
    """What follows the last refused attempt: the phase fails, or the cascade goes on."""

    budget: Dollars | None = None
    """US dollars that the phase may cost; the run ends as `incomplete` before a call that could
    pass them."""

    max_tokens: Count | None = None
    """Tokens in and out that all its calls may use; the run ends before a call that could pass
    them."""

    max_seconds: Seconds | None = None
    """Seconds since the phase began after which no call and no tool begins: the run ends."""

    approve: Names = ()
    """Tools of the phase that run only when a person says so; until then the run waits."""

    @property
    def limits(self) -> dict[str, float | None]:
        """What of the run's limits the phase has, too."""
        names = ("budget", "max_tokens", "max_seconds")
        return {name: getattr(self, name) for name in names}


BankNames: TypeAlias = Annotated[
    Sequence[Name], Field(json_schema_extra=ONCE), AfterValidator(without_repeats)
]


class MemoryBanks(Model):
    """The memory banks of a phase."""

    read: BankNames = ()
    """The banks that `search_memory` looks in."""

    write: BankNames = ()
    """The banks that `remember` may put something into."""

    @model_validator(mode="after")
    def _some_bank(self) -> MemoryBanks:
        if not self.read and not self.write:
            raise refuse("name a bank to 'read' or to 'write', such as {'read': ['notes']}")
        return self


def _banks(value: str | Sequence[str] | MemoryBanks) -> MemoryBanks:
    if isinstance(value, MemoryBanks):
        return value
    names = (value,) if isinstance(value, str) else tuple(value)
    return MemoryBanks(read=names, write=names)


MemoryOf: TypeAlias = Annotated[
    Annotated[Name, Tag("<word>")]
    | Annotated[BankNames, Tag("<list>")]
    | Annotated[MemoryBanks, Tag("<object>")],
    by_form("<word>", "<list>", "<object>"),
    AfterValidator(_banks),
]
"""One bank, a list of banks, or an object with `read` and `write`. A name or a list is both read
and written; a bank that is not named is closed."""


def plain_values(values: dict[str, Any]) -> dict[str, Any]:
    """The input of a sub-cascade: no value is a template, which would be taken as it stands."""
    for name, value in values.items():
        if isinstance(value, str) and ("{{" in value or "{%" in value):
            raise refuse(
                f"{name!r} holds the template {value!r}; write the name of a key of the state or of"
                " the input, or a value as it is"
            )
    return values


class SubCascade(Model):
    """A cascade of its own that runs before the phase's instructions are rendered."""

    ref: Text
    """The file of the cascade (JSON or YAML), from the folder of this one."""

    input_map: Annotated[dict[str, Any], AfterValidator(plain_values)] = Field(default_factory=dict)
    """Its input by name: a key of this cascade's state or input, whose value is taken, or any other
    value as it is."""

    context_in: YesNo = True
    """Whether it begins with this cascade's state and input, `input_map` over them; else with
    `input_map` only."""

    context_out: YesNo = True
    """Whether its state and outputs are there for this cascade afterwards."""


class GenerationSettings(Model):
    """How the model is asked. What a phase says goes before what its cascade says."""

    model: Text | None = None
    """The model, as provider/name."""

    max_output_tokens: Count | None = None
    """The most tokens of one reply."""

    temperature: Annotated[float, Strict(), Field(ge=0, le=2)] | None = None
    """How freely the model chooses its words, from 0 to 2."""

    tool_choice: Text | None = None
    """auto, none, required, or the one tool (of the phase's tackle) that must be called."""

    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = None
    """How long a reasoning model thinks before it answers."""

    output_schema: Annotated[dict[str, Any], AfterValidator(working_schema)] | None = None
    """A JSON Schema of an object that the output must satisfy."""


MOST_SOUNDINGS: Final = 32
"""The most attempts that one round of soundings makes side by side."""

Attempts: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=MOST_SOUNDINGS)]

Variations: TypeAlias = Annotated[
    Annotated[YesNo, Tag("<yes>")] | Annotated[Names, Tag("<list>")], by_form("<yes>", "<list>")
]
"""Whether attempts vary, or the texts by which they do."""


class Evaluator(Model):
    """Who picks among soundings: one of the three."""

    model: Text | None = None
    """A model that reads all outputs, as provider/name."""

    function: Text | None = None
    """A tool or `module:function` that is given the list `outputs` and answers the place of the
    best in it, from 0."""

    validator: Text | None = None
    """A validator as in `loop_until`: the first output that it accepts wins."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Evaluator:
        if sum(name is not None for name in (self.model, self.function, self.validator)) != 1:
            raise refuse("an evaluator is one of 'model', 'function' and 'validator'; write one")
        return self


def _as_evaluator(value: str | Evaluator) -> Evaluator:
    if isinstance(value, Evaluator):
        return value
    if "/" in value:
        return Evaluator(model=value)
    if value in ("human", "hybrid"):
        raise refuse(f"{value!r}: no person picks among soundings; name a model or a function")
    return Evaluator(function=value)


class Aggregate(Model):
    """How the outputs of soundings become one."""

    instructions: Text | None = None
    """What a model is asked to make of them; a template. Absent: they are joined under headings."""

    model: Text | None = None
    """The model that is asked, as provider/name (default: the phase's)."""


class Reforge(Model):
    """Rounds after the soundings in which the best so far is refined."""

    honing_prompt: Text
    """What each attempt is asked to do with the best output so far; a template."""

    steps: Annotated[int, Strict(), Field(ge=1, le=10)] = 1
    """Rounds."""

    factor_per_step: Attempts = 2
    """Attempts in each round."""

    mutate: Variations = False
    """Whether the attempts of a round vary, as in `soundings`."""

    evaluator_override: Text | None = None
    """What the evaluator looks for in these rounds, in place of `evaluator_instructions`."""

    threshold: Text | None = None
    """A validator: the rounds end when it accepts the best output so far."""


class Soundings(Model):
    """Several attempts at a phase side by side, of which the best is the phase's."""

    factor: Attempts = 1
    """How many attempts (32 at most)."""

    max_parallel: Count = 3
    """How many of them run at once."""

    evaluator: Annotated[WordOr[Evaluator], AfterValidator(_as_evaluator)] | None = None
    """Who picks: an object with model, function or validator; a word is a model if it has a
    slash, else a function. Absent: the phase's model, by `evaluator_instructions`."""

    evaluator_instructions: Text | None = None
    """What a model that picks looks for; a template."""

    validator: Text | None = None
    """A validator: outputs that it refuses do not compete, unless it refuses all."""

    mutate: Variations = False
    """Whether attempts vary: true (ways of thinking in turn) or a list of texts, each put behind
    the instructions. The first attempt keeps them as they are."""

    models: Annotated[Sequence[Text], AfterValidator(tuple)] = ()
    """Models that are given to the attempts in turn, in place of the phase's."""

    aggregate: Switchable[Aggregate] = False
    """Join all outputs instead of picking one: true, or an object with instructions and model."""

    reforge: Reforge | None = None
    """Rounds that refine the best."""

    @model_validator(mode="after")
    def _consistent(self) -> Soundings:
        if self.aggregate is not False:
            for key in ("evaluator", "evaluator_instructions", "reforge"):
                if getattr(self, key) is not None:
                    raise refuse(f"{key!r} cannot stand beside 'aggregate', which picks no winner")
        elif self.evaluator is None and self.evaluator_instructions is None:
            raise refuse(
                "nothing says which attempt wins; write 'evaluator_instructions', an 'evaluator',"
                " or 'aggregate': true"
            )
        if len(self.models) > self.factor:
            raise refuse(
                f"'models' lists {len(self.models)}, but 'factor' makes {self.factor} of them run"
            )
        return self

    @property
    def picks(self) -> Evaluator:
        """Who picks; one that names nothing stands for the phase's own model."""
        return (
            Evaluator.model_construct() if self.evaluator is None else _as_evaluator(self.evaluator)
        )

    @property
    def joins(self) -> Aggregate | None:
        """How outputs are joined (None: one of them wins)."""
        if isinstance(self.aggregate, Aggregate):
            return self.aggregate
        return Aggregate() if self.aggregate else None

    @property
    def rounds(self) -> tuple[int, ...]:
        """How many attempts each round makes, those of reforge behind the first."""
        refining = self.reforge
        return (self.factor, *(refining.steps * (refining.factor_per_step,) if refining else ()))

    @property
    def judges(self) -> dict[str, str]:
        """The tools and functions that judge, by their keys."""
        picks = self.picks
        found = {
            "validator": self.validator,
            "evaluator.function": picks.function,
            "evaluator.validator": picks.validator,
            "reforge.threshold": self.reforge.threshold if self.reforge else None,
        }
        return {key: name for key, name in found.items() if name is not None}

    @property
    def helpers(self) -> tuple[str, ...]:
        """The models that see content of the phase beside its own."""
        joins = self.joins
        others = (self.picks.model, joins.model if joins else None)
        return (*self.models, *(name for name in others if name is not None))

    @property
    def templates(self) -> dict[str, str]:
        """The templates in it, by their keys."""
        joins, reforge = self.joins, self.reforge
        found = {
            "evaluator_instructions": self.evaluator_instructions,
            "aggregate.instructions": joins.instructions if joins else None,
            "reforge.honing_prompt": reforge.honing_prompt if reforge else None,
            "reforge.evaluator_override": reforge.evaluator_override if reforge else None,
        }
        return {key: text for key, text in found.items() if text is not None}


class Phase(GenerationSettings, WithInjectors):
    """One step of a cascade: what is asked, with which tools, seeing what."""

    name: Name
    """What the phase is called; unique in its cascade."""

    instructions: Text
    """What the phase is asked, as a Jinja2 template over input, state and outputs."""

    system: Text | None = None
    """A system prompt in place of the cascade's; also a template."""

    tackle: Annotated[
        Annotated[Names, Tag("<list>")] | Annotated[Literal["manifest"], Tag("<word>")],
        by_form("<word>", "<list>"),
    ] = ()
    """The tools of this phase: names, or the word manifest to have them chosen at its start."""

    rules: Rules = Field(default_factory=Rules)
    """When the phase ends and how often it is tried."""

    soundings: Soundings | None = None
    """Several attempts at the phase side by side, of which the best is taken."""

    sub_cascades: Annotated[Sequence[SubCascade], AfterValidator(tuple)] = ()
    """Cascades that run one after the other before the phase does."""

    context: PhaseContext | None = None
    """Selective context. Absent: the phase sees all that was said before it (a snowball)."""

    inject_from: Sources | None = None
    """Sources shown in addition to the snowball."""

    position: Literal["start", "end"] = "start"
    """Where `inject_from` stands: before the snowball, or after it (keeps a cached prefix)."""

    context_strategy: Literal["fresh", "minimal", "full", "sliding", "recent"] | None = None
    """A shorthand: nothing but the input; the last output only; everything; the newest turns
    that fit; the last `turns` turns of what was said before the phase."""

    turns: Count | None = None
    """How many turns `context_strategy: recent` carries into the phase (default 2)."""

    callouts: Callouts = Field(default_factory=dict)
    """Names, each with a pattern: replies and results of this phase that match are called out."""

    memory: MemoryOf | None = None
    """The memory banks of this phase, in place of the cascade's."""

    intra_context: Switchable[IntraContext] | None = None
    """How the phase's calls are shortened as it grows: true, false, or options, which go before
    the cascade's `auto_context`."""

    context_retention: Literal["full", "output_only"] = "full"
    """What later phases see of this one: everything, or its output only."""

    context_ttl: ContextTtl | None = None
    """After how many turns messages of this phase are masked within it."""

    output_extraction: OutputExtraction | None = None
    """A piece of the output that is put into the state."""

    max_input_tokens: (
        Annotated[
            Annotated[Count, Tag("<number>")] | Annotated[MaxInputTokens, Tag("<object>")],
            by_form("<number>", "<object>"),
            AfterValidator(_as_budget),
        ]
        | None
    ) = None
    """A limit for the tokens of one request: a number, or an object with limit, warn, on_exceed."""


@dataclass(frozen=True, slots=True)
class FileLines:
    """The file a cascade was read from, and the line of each place in it.

    No part of a cascade's value: all origins are equal, so that the same cascade
    read from two files is equal too.
    """

    file: str = field(default="", compare=False)
    lines: Mapping[str, int] = field(default_factory=dict[str, int], compare=False)

    def where(self, place: str) -> str:
        """`file:line, place`; empty where the cascade came from no file."""
        if not self.file:
            return ""
        line = self.lines.get(place)
        return f"{self.file}, {place}" if line is None else f"{self.file}:{line}, {place}"


class Cascade(GenerationSettings, WithInjectors):
    """A workflow: phases that run one after the other and share one context."""

    cascade_id: Name
    """What the cascade is called in the record."""

    description: str | None = None
    """What the cascade does, for people."""

    system: Text | None = None
    """The system prompt of every phase; a template over input, state and outputs."""

    tools: Names = ()
    """Python modules, or `module:function`, from which tools are registered before the run."""

    mcp_servers: McpServers = Field(default_factory=dict)
    """MCP servers by name; those whose tools a phase names are started with the run."""

    http_allow: Names = ()
    """Hosts that the tool http_get may ask: `example.org`, `*.example.org`, or `*`."""

    auto_context: Switchable[AutoContext] | None = None
    """Windows for every phase: true or {} for the defaults, or an object with options."""

    memory: MemoryOf | None = None
    """The memory banks that phases may use: names, or an object with `read` and `write`."""

    soundings: Soundings | None = None
    """Several runs of the whole cascade side by side, of which the best is taken."""

    limits: Limits | None = None
    """What a run may use of money, tokens, time and turns."""

    phases: Annotated[Sequence[Phase], Field(min_length=1), AfterValidator(tuple)]
    """The phases, in the order in which they run."""

    _origin: FileLines = PrivateAttr(default_factory=FileLines)

    @model_validator(mode="before")
    @classmethod
    def _without_editor_key(cls, data: Any) -> Any:
        # Editors put `$schema` at the top to know what completes the file.
        if isinstance(data, Mapping) and "$schema" in data:
            return {key: value for key, value in data.items() if key != "$schema"}
        return data

    @property
    def file(self) -> str:
        """The file from which it was loaded; empty where it came from none."""
        return self._origin.file

    def where(self, place: str) -> str:
        """Where `place` (such as `phases[3].context.from[0]`) stands, for messages to the user.

        With file and line for a cascade that was loaded, else with the cascade's name.
        """
        return self._origin.where(place) or f"cascade {self.cascade_id!r}, {place}"

    def mistake_at(self, place: str, text: str) -> Mistake:
        """What is wrong at `place`, as `where` takes it."""
        file = self._origin.file or f"cascade {self.cascade_id!r}"
        return Mistake(file, self._origin.lines.get(place), f"{place}: {text}")

    def settings_for(self, phase: Phase) -> GenerationSettings:
        """The generation settings of `phase`: its own, else the cascade's.

        A cascade's `tool_choice` that `phase` cannot follow (it has no such tool, or
        none at all) does not apply to it; `check` has seen that some phase can.
        """
        values = {
            name: own if (own := getattr(phase, name)) is not None else getattr(self, name)
            for name in GenerationSettings.model_fields
        }
        choice = values["tool_choice"]
        if phase.tool_choice is None and not can_choose(phase, choice):
            values["tool_choice"] = None
        return GenerationSettings.model_construct(**values)


def can_choose(phase: Phase, choice: str | None) -> bool:
    """Whether `phase` has what a `tool_choice` of `choice` needs."""
    if choice in {None, "auto", "none"}:
        return True
    if choice == "required" or phase.tackle == "manifest":
        return choice == "required" and bool(phase.tackle)
    every = [name.removesuffix("*") for name in phase.tackle if name.endswith(".*")]
    return choice in tool_names(phase.tackle) or any(map(str(choice).startswith, every))


def tool_names(tackle: Sequence[str]) -> list[str]:
    """What the tools are called: `module:function` goes by the function's name."""
    return [tool.rpartition(":")[2].rpartition(".")[2] if ":" in tool else tool for tool in tackle]


def all_soundings(cascade: Cascade) -> dict[tuple[str | int, ...], Soundings]:
    """The soundings that a cascade declares, by their place."""
    found = {("phases", at, "soundings"): each.soundings for at, each in enumerate(cascade.phases)}
    whole: dict[tuple[str | int, ...], Soundings | None] = {("soundings",): cascade.soundings}
    return {at: each for at, each in (whole | found).items() if each is not None}


def judges_of(cascade: Cascade) -> list[str]:
    """The tools and functions that judge outputs."""
    names = [name for each in all_soundings(cascade).values() for name in each.judges.values()]
    validators = [phase.rules.loop_until for phase in cascade.phases]
    return [*(name for name in validators if name is not None), *names]


def servers_named(cascade: Cascade, elsewhere: Collection[str] = ()) -> list[str]:
    """The MCP servers that some phase needs: named in a tackle or as its validator.

    A manifest may choose any tool, so it needs all that the cascade declares; of those that
    are declared `elsewhere`, in the settings, only those that are named are needed.
    """
    every = any(phase.tackle == "manifest" for phase in cascade.phases)
    names = judges_of(cascade)
    names += [name for phase in cascade.phases for name in phase.tackle]
    named = {name.partition(".")[0] for name in names if "." in name and ":" not in name}
    own = [name for name in cascade.mcp_servers if every or name in named]
    return own + [name for name in elsewhere if name in named and name not in own]


def has_tool(cascade: Cascade, name: str) -> bool:
    """Whether some phase may call the tool `name`, or has it as its validator.

    A manifest may choose any tool.
    """
    if name in tool_names(judges_of(cascade)):
        return True
    return any(
        phase.tackle == "manifest" or name in tool_names(phase.tackle) for phase in cascade.phases
    )


def memory_of(cascade: Cascade, phase: Phase) -> MemoryBanks | None:
    """The banks of `phase`: its own, else the cascade's; None: it has none."""
    banks = cascade.memory if phase.memory is None else phase.memory
    return None if banks is None else _banks(banks)


def without_bank(memory: MemoryBanks | None, tool: str) -> str | None:
    """Why a phase can do nothing with `tool`; None where it can, or where it is another tool."""
    if tool == REMEMBER and not (memory and memory.write):
        return f"{tool!r} needs a bank to write; say which: 'memory': {{'write': ['notes']}}"
    if tool == SEARCH and not (memory and memory.read):
        return f"{tool!r} needs a bank to read; say which: 'memory': {{'read': ['notes']}}"
    return None


# ---- the published JSON Schema, for editors and for other programs ---------------------------

ID: Final = "urn:windlass:cascade:1"


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a cascade file, as plain data.

    It is as strict as the models on keys, types and ranges. What one part of a file
    says of another (phases that exist, templates, tools) only `windlass check` knows.
    """
    schema = Cascade.model_json_schema(mode="validation", schema_generator=_Plain)
    parts = schema["$defs"]
    source = parts["ContextSource"]
    for key, other in (("messages_filter", "filter"), ("condition", "if")):
        field = source["properties"][key]
        short = {**field, "description": f"The same as `{key}`, in short."}
        source["properties"][other] = short
        source.setdefault("allOf", []).append({"not": {"required": [key, other]}})
    schema["properties"] = {
        "$schema": {"type": "string", "description": "Names this schema, for editors."},
        **_sorted_by_need(schema),
    }
    parts["Phase"]["properties"] = _sorted_by_need(parts["Phase"])
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": ID,
        **schema,
        "title": "Windlass cascade",
    }


class _Plain(GenerateJsonSchema):
    """Without a title for every field: it would only repeat the key."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic's form
        return False


def _sorted_by_need(part: dict[str, Any]) -> dict[str, Any]:
    required = part["required"]
    properties: dict[str, Any] = part["properties"]
    return dict(sorted(properties.items(), key=lambda item: item[0] not in required))
