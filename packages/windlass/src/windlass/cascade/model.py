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

from collections.abc import Mapping, Sequence
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

from windlass.cascade._field_values import (
    plain_values,
    working_pattern,
    working_schema,
)
from windlass.cascade.callout_rules import Callouts
from windlass.cascade.decision_points import AskedAfter, Points
from windlass.cascade.deterministic import DEFAULT, WithTool, fallback_name
from windlass.cascade.handoffs import ROUTE_TO, Handoff, Handoffs, are_chosen, targets_of
from windlass.cascade.inputs_schema import InputsSchema
from windlass.cascade.memory_banks import MemoryOf
from windlass.cascade.options import AutoContext, IntraContext, SelectionOptions, WithInjectors
from windlass.cascade.rules import Anchors, ContextSource, Includes
from windlass.cascade.sounding_options import Soundings
from windlass.cascade.spellings import in_long_form
from windlass.cascade.token_budget import CascadeBudget, MaxInputTokens
from windlass.cascade.tool_caching import ToolCaching
from windlass.cascade.validators import InlineValidator, Wards
from windlass.declared import (
    Count,
    McpServers,
    Model,
    ModelNames,
    Name,
    Names,
    Short,
    Switchable,
    Text,
    WordOr,
    YesNo,
    by_form,
    refuse,
)
from windlass.errors import Mistake

REACHES: Final = ("all", "first", "previous")
"""Words that stand for phases in a source, and therefore no phase may be called."""

PARENT: Final = "parent."
"""What a source begins with that is a phase of the cascade which runs this one."""


ToolNames: TypeAlias = Annotated[
    Sequence[Text], AfterValidator(lambda names: tuple(dict.fromkeys(names)))
]
"""Names of tools; one that is listed twice counts once."""


# ---- parts of a phase ----------------------------------------------------------------


Sources: TypeAlias = Annotated[
    Sequence[Annotated[ContextSource, Short("phase")]], AfterValidator(tuple)
]
"""Sources; a bare name takes the pictures and the output of that phase."""


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

    include: Includes | None = None
    """What plain names in `from` take; it is held in each of them."""

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
    """A validator: one of the cascade's `validators`, a tool (also a cascade that is one),
    `module:function`, or one that comes with Windlass; it answers {valid, reason}."""

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

    retry_instructions: Text | None = None
    """What the model is told after a refused attempt, as a template that may name
    `validation_error`, `schema_error`, `attempt` (2 on the first retry) and `max_attempts`."""

    turn_prompt: Text | None = None
    """Said after a reply without tool calls, as long as turns are left; a template that may name
    `turn` (2 at first) and `max_turns`. Absent: such a reply ends the attempt."""

    loop_until_prompt: Text | None = None
    """What the instructions end with in place of the paragraph that tells of `loop_until`."""

    loop_until_silent: YesNo = False
    """Whether the instructions say nothing of `loop_until`."""

    @property
    def templates(self) -> dict[str, str]:
        """Return the templates in it, by their keys."""
        names = ("retry_instructions", "turn_prompt", "loop_until_prompt")
        return {name: text for name in names if (text := getattr(self, name)) is not None}

    @property
    def limits(self) -> dict[str, float | None]:
        """Return what of the run's limits the phase has, too."""
        names = ("budget", "max_tokens", "max_seconds")
        return {name: getattr(self, name) for name in names}


class SubCascade(Model):
    """A cascade of its own that runs before the phase's instructions are rendered."""

    ref: Text
    """The file of the cascade (JSON or YAML), from the folder of this one."""

    input_map: Annotated[dict[str, Any], AfterValidator(plain_values)] = Field(default_factory=dict)
    """Its input by name: a key of this cascade's state or input, whose value is taken, or any other
    value as it is."""

    context_in: YesNo = True
    """Whether it begins with this cascade's state, and its input is that state, this input over it,
    `input_map` over both; else its input is `input_map` only."""

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


class Phase(GenerationSettings, WithInjectors, WithTool):
    """One step of a cascade: what is asked, with which tools, seeing what; or a tool that runs."""

    name: Name
    """What the phase is called; unique in its cascade."""

    instructions: Text | None = None
    """What the phase is asked, as a Jinja2 template over input, state and outputs."""

    on_error: WordOr[Phase] | None = None
    """The phase that comes next where `tool` fails; a phase without a name is the phase
    `NAME_fallback`, whose output is that of this one, too."""

    system: Text | None = None
    """A system prompt in place of the cascade's; also a template."""

    tackle: Annotated[
        Annotated[ToolNames, Tag("<list>")] | Annotated[Literal["manifest"], Tag("<word>")],
        by_form("<word>", "<list>"),
    ] = ()
    """The tools of this phase: names, or the word manifest to have them chosen at its start."""

    manifest_context: Literal["current", "full"] = "current"
    """With `tackle: manifest`: what the choice is made by: the instructions (`current`), or also
    the newest 20 messages, each cut at 200 characters (`full`)."""

    use_native_tools: YesNo = True
    """Calls of tools are the provider's own; false is warned of, and changes nothing."""

    rules: Rules = Field(default_factory=Rules)
    """When the phase ends and how often it is tried."""

    soundings: Soundings | None = None
    """Several attempts at the phase side by side, of which the best is taken."""

    wards: Wards | None = None
    """Validators that guard what goes into the phase and what comes out of it."""

    sub_cascades: Annotated[Sequence[SubCascade], AfterValidator(tuple)] = ()
    """Cascades that run one after the other before the phase does."""

    handoffs: Handoffs = ()
    """The phases that may come next: names, or objects with target and description. A model that
    has to choose calls `route_to`; nothing chosen is the first. `end` ends the run."""

    decision_points: Points | None = None
    """A person decides what comes next where the output asks for it in a `<decision>` block of JSON
    with question and options: true, or an object with options."""

    human_input: AskedAfter | None = None
    """A person is asked after the phase: true, the question, or an object with options."""

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
    """What is called out: a name for the phase's output, or names for its messages, or patterns
    by the name of what they find."""

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

    max_input_tokens: Annotated[MaxInputTokens, Short("limit", Count)] | None = None
    """A limit for the tokens of one request: a number, or an object with limit, warn, on_exceed."""

    @model_validator(mode="before")
    @classmethod
    def _with_named_fallback(cls, data: Any) -> Any:
        body = data.get("on_error") if isinstance(data, Mapping) else None
        name = data.get("name") if isinstance(body, Mapping) else None
        if not isinstance(body, Mapping) or not isinstance(name, str):
            return data
        if "name" in body:
            raise refuse(f"what stands under 'on_error' is called {fallback_name(name)!r}")
        if isinstance(body.get("on_error"), Mapping):
            raise refuse("a phase under 'on_error' has no such phase itself; name one there")
        return {**data, "on_error": {**body, "name": fallback_name(name)}}

    @property
    def sources(self) -> dict[tuple[str | int, ...], ContextSource]:
        """Return what the phase names of earlier ones, by its place in the phase."""
        named = self.context.from_ if self.context is not None else ()
        found: dict[tuple[str | int, ...], ContextSource] = {
            ("context", "from", at): each for at, each in enumerate(named)
        }
        return found | {("inject_from", at): each for at, each in enumerate(self.inject_from or ())}


def _with_fallbacks(phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """Return the phases, and after them those whose bodies stand under an `on_error`.

    Such a phase goes on where the one that failed goes on first, unless it says where.
    """
    listed: list[Phase] = []
    bodies: list[Phase] = []
    for phase in phases:
        body = phase.on_error
        if not isinstance(body, Phase):
            listed.append(phase)
            continue
        listed.append(phase.model_copy(update={"on_error": body.name}))
        on = targets_of(phase.handoffs)
        on += [phase.routing[DEFAULT]] if DEFAULT in phase.routing else phase.routing.values()
        if on and not body.handoffs:
            body = body.model_copy(update={"handoffs": (Handoff(target=on[0]),)})
        bodies.append(body)
    return (*listed, *bodies)


@dataclass(frozen=True, slots=True)
class FileLines:
    """The file a cascade was read from, and the line of each place in it.

    No part of a cascade's value: all origins are equal, so that the same cascade
    read from two files is equal too.
    """

    file: str = field(default="", compare=False)
    lines: Mapping[str, int] = field(default_factory=dict[str, int], compare=False)
    included: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    """The files whose texts stand in places of it."""
    lenient: bool = field(default=False, compare=False)
    """Whether what is not known was left out of it."""

    def where(self, place: str) -> str:
        """`file:line, place`; empty where the cascade came from no file."""
        if not self.file:
            return ""
        if place in self.included:
            return f"{self.included[place]}, {place}"
        line = self.lines.get(place)
        return f"{self.file}, {place}" if line is None else f"{self.file}:{line}, {place}"


class Cascade(GenerationSettings, WithInjectors):
    """A workflow: phases that run one after the other and share one context."""

    cascade_id: Name
    """What the cascade is called in the record."""

    description: str | None = None
    """What the cascade does, for people."""

    tags: Annotated[Sequence[Text], AfterValidator(tuple)] = ()
    """Words by which people find it."""

    system: Text | None = None
    """The system prompt of every phase; a template over input, state and outputs."""

    tools: Names = ()
    """Python modules, or `module:function`, from which tools are registered before the run."""

    mcp_servers: McpServers = Field(default_factory=dict)
    """MCP servers by name; those whose tools a phase names are started with the run."""

    inputs_schema: InputsSchema = Field(default_factory=dict)
    """What the input holds: names, each with a description, or with `type`, `default`, `required`
    and `description`."""

    use_native_tools: YesNo = True
    """As in a phase."""

    models: ModelNames | None = None
    """What the names of its models mean: the provider that all of them are asked through. A
    sub-cascade that says nothing of it has what the cascade that runs it says."""

    http_allow: Names = ()
    """Hosts that the tool http_get may ask: `example.org`, `*.example.org`, or `*`."""

    auto_context: Switchable[AutoContext] | None = None
    """Windows for every phase: true or {} for the defaults, or an object with options."""

    memory: MemoryOf | None = None
    """The memory banks that phases may use: one that keeps every message, a list, or an object with
    `bank` and `keep`, or `read` and `write`."""

    soundings: Soundings | None = None
    """Several runs of the whole cascade side by side, of which the best is taken."""

    token_budget: CascadeBudget | None = None
    """Limits for the tokens of every phase; held as `max_input_tokens` of each phase, and as
    `max_output_tokens`."""

    tool_caching: ToolCaching | None = None
    """Whether results of tools that only read are used again within the run, and of which."""

    limits: Limits | None = None
    """What a run may use of money, tokens, time and turns."""

    validators: dict[Name, InlineValidator] = Field(default_factory=dict)
    """Validators by name, each a question to a model, for all places that name a validator."""

    phases: Annotated[Sequence[Phase], Field(min_length=1), AfterValidator(_with_fallbacks)]
    """The phases, in the order in which they run."""

    _origin: FileLines = PrivateAttr(default_factory=FileLines)

    @model_validator(mode="before")
    @classmethod
    def _without_editor_key(cls, data: Any) -> Any:
        # Editors put `$schema` at the top to know what completes the file.
        if isinstance(data, Mapping) and "$schema" in data:
            data = {key: value for key, value in data.items() if key != "$schema"}
        return in_long_form(data)

    @property
    def file(self) -> str:
        """Return the file from which it was loaded; empty where it came from none."""
        return self._origin.file

    @property
    def is_lenient(self) -> bool:
        """Return whether what is not known was left out when it was read."""
        return self._origin.lenient

    def where(self, place: str) -> str:
        """Where `place` (such as `phases[3].context.from[0]`) stands, for messages to the user.

        With file and line for a cascade that was loaded, else with the cascade's name.
        """
        return self._origin.where(place) or f"cascade {self.cascade_id!r}, {place}"

    def mistake_at(self, place: str, text: str) -> Mistake:
        """Return what is wrong at `place`, as `where` takes it."""
        file, lines = self._origin.file or f"cascade {self.cascade_id!r}", self._origin.lines
        above = place
        while above and above not in lines:  # a short form stands where its holder does
            above = above[: max(above.rfind("."), above.rfind("["), 0)]
        return Mistake(file, lines.get(above), f"{place}: {text}" if place else text)

    def settings_for(self, phase: Phase) -> GenerationSettings:
        """Return the generation settings of `phase`: its own, else the cascade's.

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
    """Return whether `phase` has what a `tool_choice` of `choice` needs."""
    if choice in {None, "auto", "none"}:
        return True
    if choice in ("required", ROUTE_TO) and are_chosen(phase.handoffs):
        return True
    if choice == "required" or phase.tackle == "manifest":
        return choice == "required" and bool(phase.tackle)
    every = [name.removesuffix("*") for name in phase.tackle if name.endswith(".*")]
    return choice in tool_names(phase.tackle) or any(map(str(choice).startswith, every))


def own_tackle(phase: Phase) -> Sequence[str] | Literal["manifest"]:
    """Return the phase's tackle without `route_to`, which its handoffs make."""
    if phase.tackle == "manifest" or not phase.handoffs:
        return phase.tackle
    return tuple(name for name in phase.tackle if name != ROUTE_TO)


def tool_names(tackle: Sequence[str]) -> list[str]:
    """Return what the tools are called: `module:function` goes by the function's name."""
    return [tool.rpartition(":")[2].rpartition(".")[2] if ":" in tool else tool for tool in tackle]
