"""The nouns of a call: what is asked of a model, what comes back, what it used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias

from windlass.messages import Message, Text, ToolSpec
from windlass.wire.editing import ProviderEdits, ServerClear

ToolChoice: TypeAlias = str
"""`auto`, `none`, `required`, or the name of the tool that must be called."""

EMPTY: Final = "(empty)"
"""What is sent for an empty result."""

Finish: TypeAlias = Literal["stop", "tool_calls", "length", "window", "refusal", "filter"]


@dataclass(frozen=True, slots=True)
class Request:
    """One call, complete. `load` fetches a picture's bytes by SHA-256, only when it is sent.

    `breakpoints` are the places of cache marks, each a message and a part, from 0: through the
    message's parts, then its tool calls; a result is marked as a whole; message -1 is the list of
    tools. A format without marks ignores them. `long_breakpoints` are those whose entries should be
    kept for the longer time, if there is one. Requests that begin alike share a `cache_key`. The
    tools' schemas have sorted keys, because they are sent first and a cache needs the same bytes.
    `drops_thinking` asks a provider that supports it to drop thinking that no longer fits its
    context. `server_clear` asks it to clear old tool uses. A result that no model asked for is the
    user's message in it.
    """

    model: str
    messages: tuple[Message, ...]
    max_output_tokens: int
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    temperature: float | None = None
    reasoning_effort: str | None = None
    output_schema: Mapping[str, Any] | None = None
    load: Callable[[str], bytes] | None = field(default=None, compare=False, repr=False)
    breakpoints: tuple[tuple[int, int], ...] = ()
    cache_key: str | None = None
    long_breakpoints: tuple[tuple[int, int], ...] = ()
    drops_thinking: bool = False
    server_clear: ServerClear | None = None

    def __post_init__(self) -> None:
        tools = tuple(replace(spec, parameters=ordered(spec.parameters)) for spec in self.tools)
        object.__setattr__(self, "tools", tools)
        if any(message.is_uncalled for message in self.messages):
            object.__setattr__(self, "messages", tuple(map(as_users, self.messages)))


def as_users(message: Message) -> Message:
    """Return a result that no call asked for becomes a user message; other messages stay.

    Providers accept only results of calls.
    """
    if not message.is_uncalled:
        return message
    return Message("user", message.parts or (Text(EMPTY),))


def ordered(schema: Any) -> Any:
    """Return JSON data with the keys of every object sorted."""
    if isinstance(schema, Mapping):
        return {key: ordered(schema[key]) for key in sorted(schema)}
    return [ordered(one) for one in schema] if isinstance(schema, list | tuple) else schema


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider reported them.

    `tokens_in` includes those read from a cache (`tokens_cached`) and those written
    to one at a price of their own (`tokens_written`); these include the ones written
    for an hour, which cost more (`tokens_written_long`). `searches` are the provider's own
    searches of the web, which are billed besides. `tier` are the words of what is not billed at
    list prices, with spaces between: `batch`, `flex`, `priority` or `fast`, and `us` where the
    model ran in the United States alone.
    """

    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    tokens_written: int = 0
    tokens_written_long: int = 0
    searches: int = 0
    tier: str = ""

    def plus(self, other: Usage) -> Usage:
        """Return the tokens of both."""
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.tokens_cached + other.tokens_cached,
            self.tokens_written + other.tokens_written,
            self.tokens_written_long + other.tokens_written_long,
            self.searches + other.searches,
            self.tier or other.tier,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    `finish` is `length` if the output limit cut the reply, `refusal` if the model refused to
    answer, and `filter` if the provider withheld all or part of the answer.

    `tries` is how often the request was sent, `waited_s` the seconds spent waiting before and
    between the tries. `estimated`: the provider reported no usage, and Windlass counted. `seconds`
    is how long the call took. `provider_edits` is what the provider says it did to the context
    before the model read it.
    """

    message: Message
    usage: Usage
    finish: Finish
    model: str
    tries: int = 1
    waited_s: float = 0.0
    estimated: bool = False
    seconds: float = 0.0
    provider_edits: ProviderEdits = field(default_factory=ProviderEdits)


class Refused(ValueError):
    """An error that a server sent instead of an answer, perhaps in the middle of a stream.

    `kind` is the server's own word for it (`overloaded_error`, `SAFETY`).
    """

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {text}" if text else kind)


class StreamReader(Protocol):
    """Puts a streamed answer together, event by event."""

    def feed(self, event: Mapping[str, Any]) -> str:
        """Take one decoded event; return the text that is new in it.

        Raises Refused where the event reports an error, ValueError where it is malformed.
        """
        ...

    def reply(self) -> Reply:
        """Return the whole answer. Raises ValueError naming what a cut stream left out."""
        ...


class Format(Protocol):
    """One provider's wire format. The modules beside this one fill it; none of them does I/O."""

    def path(self, model: str, *, stream: bool) -> str:
        """Where the body is posted, behind the base URL with its version (`…/v1`, `…/v1beta`)."""
        ...

    def body(
        self, request: Request, *, stream: bool = False, system_anywhere: bool = False
    ) -> dict[str, Any]:
        """The JSON body for `request`; `system_anywhere`: this model takes late system messages.

        If it does not, a late system message is sent as the user's.
        """
        ...

    def repaired_ends(
        self, messages: Sequence[Message], model: str, *, system_anywhere: bool = False
    ) -> list[str]:
        """What `body` adds or changes at the beginning and the end of messages, a sentence each."""
        ...

    def headers(self, request: Request) -> Mapping[str, str]:
        """Return the headers that `request` needs besides those of its provider."""
        ...

    def read(self, answer: Mapping[str, Any], request: Request) -> Reply:
        """Return the whole `answer` to `request`.

        Raises Refused where it is an error, ValueError naming what is missing in it.
        """
        ...

    def reader(self, request: Request) -> StreamReader:
        """Return a reader of the streamed answer to `request`."""
        ...


@dataclass(frozen=True, slots=True)
class SequenceRules:
    """What a provider requires of the order of messages; the validators have all rules.

    `longest_id` is 0 if there is no limit; `text_results`: a tool result holds no pictures;
    `signed_calls`: a model's own calls go back with their signatures.
    """

    first_user: bool = True
    alternate: bool = True
    results_together: bool = True
    results_before_text: bool = True
    unique_ids: bool = True
    empty_text: bool = False
    prefill: bool = False
    text_results: bool = False
    signed_calls: bool = True
    longest_id: int = 0


SEQUENCES: Final[Mapping[str, SequenceRules]] = MappingProxyType(
    {
        "openai": SequenceRules(
            first_user=False,
            alternate=False,
            unique_ids=False,
            empty_text=True,
            prefill=True,
            text_results=True,
            signed_calls=False,
            longest_id=40,
        ),
        "anthropic": SequenceRules(),  # a prefill is taken before 4.6 only
        "gemini": SequenceRules(),
    }
)
"""By wire format. `alternate` is what is written; the APIs themselves merge repeats."""
