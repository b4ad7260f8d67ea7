"""Cascades as data: what a cascade file may say, with one line of prose for each field.

The models are frozen and refuse unknown keys. They know no file, no tool and no
run: `load` makes them out of files, `check` compares what stands in them with each
other and with the tools, `compile` turns what a phase says of its context into a
`windlass.rules.Rule`.

Lists are declared as `Sequence`, so that Python users may pass lists; what a model
holds is a tuple. Shorthands (a source as a bare name) are held in their long form,
so that two spellings of one cascade are equal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    Discriminator,
    Field,
    PrivateAttr,
    Strict,
    Tag,
    model_validator,
)

from windlass.cascade.auto import AutoContext, Switch, yes_or_object
from windlass.cascade.choosing import Choice
from windlass.cascade.injectors import WithInjectors
from windlass.cascade.memory import MemoryOf
from windlass.cascade.origin import Origin
from windlass.cascade.values import Callouts, working_pattern, working_schema
from windlass.parts import ONCE, Count, McpServers, Name, Names, Part, Text, YesNo, without_repeats
from windlass.rules import ImagesFilter, Include, MessagesFilter
from windlass.window.policies.budget import OnExceed

TAGS: Final = frozenset({"<word>", "<list>", "<number>", "<object>", "<yes>"})
"""The forms a field with a shorthand can have; pydantic names them in the place of an error."""

REACHES: Final = ("all", "first", "previous")
"""Words that stand for phases in a source, and therefore no phase may be called."""


def _form(value: Any) -> str:
    if isinstance(value, str):
        return "<word>"
    if isinstance(value, int) and not isinstance(value, bool):
        return "<number>"
    return "<list>" if isinstance(value, Sequence) else "<object>"


def _list_or_word(value: Any) -> str:
    return "<word>" if isinstance(value, str) else "<list>"


def _word_or_object(value: Any) -> str:
    return "<word>" if _form(value) == "<word>" else "<object>"


def _number_or_object(value: Any) -> str:
    return "<number>" if _form(value) == "<number>" else "<object>"


class Source(Part):
    """What is taken from one earlier phase."""

    phase: Text
    """The earlier phase, or one of the words previous, first, all."""

    include: Annotated[
        Sequence[Include],
        Field(min_length=1, json_schema_extra=ONCE),
        AfterValidator(without_repeats),
    ] = (
        "images",
        "output",
    )
    """What is taken from it, in this order: images, output, messages, state."""

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


def long_form(source: Source | str) -> Source:
    """A source as an object; a bare name takes the pictures and the output of that phase."""
    return Source(phase=source) if isinstance(source, str) else source


def _long_forms(sources: Sequence[Source | str]) -> tuple[Source, ...]:
    return tuple(long_form(source) for source in sources)


Sources: TypeAlias = Annotated[
    Sequence[
        Annotated[
            Annotated[Text, Tag("<word>")] | Annotated[Source, Tag("<object>")],
            Discriminator(_word_or_object),
        ]
    ],
    AfterValidator(_long_forms),
]


class Context(Choice):
    """Selective context: these sources and nothing else of earlier phases; or a choice of them."""

    from_: Sources = Field(
        default=(), validation_alias=AliasChoices("from", "from_"), serialization_alias="from"
    )
    """The sources, in the order in which they are shown; an empty list is a clean slate."""

    include_input: YesNo = True
    """Whether the cascade's input is shown first."""

    exclude: Annotated[Sequence[Text], AfterValidator(tuple)] = ()
    """Phases that `all`, `first` and `previous` leave out."""


class ContextTtl(Part):
    """Turns within the phase after which messages of a kind are masked (null: never)."""

    tool_results: Count | None = None
    """Turns after which tool results are masked."""

    images: Count | None = None
    """Turns after which pictures are masked."""

    assistant: Count | None = None
    """Turns after which the model's own messages are masked."""

    user: Count | None = None
    """Turns after which user messages are masked."""


class OutputExtraction(Part):
    """A piece of the phase's output that is put into the state."""

    pattern: Annotated[Text, AfterValidator(working_pattern)]
    """A regular expression with exactly one group; a dot also matches line ends."""

    store_as: Text
    """The state key under which the group's text is stored."""

    required: YesNo = False
    """Whether the phase fails when the pattern does not match."""

    format: Literal["text", "json", "code"] = "text"
    """How the text is read: as it is, as JSON, or as code out of a fenced block."""


class MaxInputTokens(Part):
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


class Rules(Part):
    """When a phase ends and how often it is tried."""

    max_turns: Count = 20
    """Model calls (each with the tool results it asked for) after which an attempt ends."""

    max_attempts: Count = 3
    """How often the phase is tried until `loop_until` accepts its output."""

    loop_until: Text | None = None
    """A validator, as the name of a tool or `module:function`; it answers {valid, reason}."""

    on_exhausted: Literal["fail", "continue"] = "fail"
    """What follows the last refused attempt: the phase fails, or the cascade goes on."""


class GenerationSettings(Part):
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
        Discriminator(_list_or_word),
    ] = ()
    """The tools of this phase: names, or the word manifest to have them chosen at its start."""

    rules: Rules = Field(default_factory=Rules)
    """When the phase ends and how often it is tried."""

    context: Context | None = None
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

    intra_context: Switch | None = None
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
            Discriminator(_number_or_object),
            AfterValidator(_as_budget),
        ]
        | None
    ) = None
    """A limit for the tokens of one request: a number, or an object with limit, warn, on_exceed."""


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

    auto_context: (
        Annotated[
            Annotated[YesNo, Tag("<yes>")] | Annotated[AutoContext, Tag("<object>")],
            Discriminator(yes_or_object),
        ]
        | None
    ) = None
    """Windows for every phase: true or {} for the defaults, or an object with options."""

    memory: MemoryOf | None = None
    """The memory banks that phases may use: names, or an object with `read` and `write`."""

    phases: Annotated[Sequence[Phase], Field(min_length=1), AfterValidator(tuple)]
    """The phases, in the order in which they run."""

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @model_validator(mode="before")
    @classmethod
    def _without_editor_key(cls, data: Any) -> Any:
        # Editors put `$schema` at the top to know what completes the file.
        if isinstance(data, Mapping) and "$schema" in data:
            return {key: value for key, value in data.items() if key != "$schema"}
        return data

    def where(self, place: str) -> str:
        """Where `place` (such as `phases[3].context.from[0]`) stands, for messages to the user.

        With file and line for a cascade that was loaded, else with the cascade's name.
        """
        return self._origin.where(place) or f"cascade {self.cascade_id!r}, {place}"

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


def servers_named(cascade: Cascade, elsewhere: Collection[str] = ()) -> list[str]:
    """The MCP servers that some phase needs: named in a tackle or as its validator.

    A manifest may choose any tool, so it needs all that the cascade declares; of those that
    are declared `elsewhere`, in the settings, only those that are named are needed.
    """
    every = any(phase.tackle == "manifest" for phase in cascade.phases)
    said = [*(phase.rules.loop_until or "" for phase in cascade.phases)]
    said += [name for phase in cascade.phases for name in phase.tackle]
    named = {name.partition(".")[0] for name in said if "." in name and ":" not in name}
    own = [name for name in cascade.mcp_servers if every or name in named]
    return own + [name for name in elsewhere if name in named and name not in own]


def has_tool(cascade: Cascade, name: str) -> bool:
    """Whether some phase may call the tool `name`, or has it as its validator.

    A manifest may choose any tool.
    """
    return any(
        phase.tackle == "manifest"
        or name in tool_names([*phase.tackle, phase.rules.loop_until or ""])
        for phase in cascade.phases
    )
