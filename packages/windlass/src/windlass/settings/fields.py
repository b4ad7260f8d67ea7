"""The settings there are: their names, types, defaults and what each means.

Nothing here knows where a value came from, nor what it is used for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    Strict,
    StringConstraints,
    ValidationInfo,
)

from windlass.declared import (
    NUMBER,
    PRIVATE,
    Expected,
    Line,
    McpServers,
    Model,
    ModelNames,
    ModelOrNone,
    Whole,
    YesNo,
)
from windlass.errors import UsageError
from windlass.safety.redaction import redacted
from windlass.selection.options import NONE, CardOptions
from windlass.settings.plugins import EXTRAS, STORES, plugin_names

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "litellm": (),  # litellm knows the variables of the providers it calls
}
"""The providers that have keys without a definition, and the variables that hold them."""

ADDRESSES: Final[Mapping[str, tuple[str, str]]] = {
    "openai": ("OPENAI_BASE_URL", ""),
    "anthropic": ("ANTHROPIC_BASE_URL", "/v1"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", "/v1beta"),
}
"""The variables that give the vendors' own clients another address, and the version that those
clients append to it."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A store that has an address. Paths in the address are relative to `folder`."""

    url: str
    folder: Path

    @property
    def scheme(self) -> str:
        """The kind of store: what stands before `://`."""
        return self.url.partition("://")[0]

    def __str__(self) -> str:
        place, mark, options = self.url.partition("?")
        return place + mark + redacted(options)


_LONGEST_PATH: Final = 4_096
"""Characters: the time to follow one grows faster than its length."""
_SHOWN: Final = 60
"""Characters of a path of no folder that a message shows."""


def read_path(value: Any, folder: Path) -> Path:
    """Return a path relative to `folder`; `~` is the home. Raises ValueError."""
    is_text = isinstance(value, str) and value.strip() and "\0" not in value
    if isinstance(value, Path) or (is_text and len(value) <= _LONGEST_PATH):
        with suppress(RuntimeError):  # there is no such user
            return folder / Path(value).expanduser()
    raise ValueError("a path")


def read_store(value: Any, folder: Path) -> Path | StoreAddress:
    """Return a folder, or an address: `clickhouse://…`, `chdb://…`.

    Raises UsageError or ValueError.
    """
    if isinstance(value, StoreAddress):
        return value
    if not isinstance(value, str) or "://" not in value:
        place = read_path(value, folder)
        try:
            place.lstat()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            pass  # it may be made, or whoever opens it says what is wrong
        except (OSError, ValueError) as error:  # too long, or with a character of no path
            why = error.strerror if isinstance(error, OSError) else error
            shown = str(value) if len(str(value)) <= _SHOWN else f"{str(value)[:_SHOWN]}…"
            raise UsageError(f"{shown!r} can be no folder ({why})") from error
        return place
    url = value.strip()
    scheme, _, rest = url.partition("://")
    if scheme not in EXTRAS[STORES] and scheme not in plugin_names(STORES):
        known = ", ".join(f"{name}://" for name in plugin_names(STORES))
        raise UsageError(f"store: {scheme!r} is not a kind of store; give a folder, or {known}")
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if at and ":" in user:
        raise UsageError(
            "store: the address holds a password; leave it out and set WINDLASS_CLICKHOUSE_PASSWORD"
        )
    return StoreAddress(url, folder.absolute())


def _in_folder(read: Callable[[Any, Path], Any]) -> PlainValidator:
    """Return the validator that reads a value relative to the folder where it was written."""

    def check(value: Any, info: ValidationInfo) -> Any:
        return read(value, info.context or Path())

    return PlainValidator(check)


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


_Folder: TypeAlias = Annotated[Path, _in_folder(read_path), Expected("a path")]
_Store: TypeAlias = Annotated[Path | StoreAddress, _in_folder(read_store), Expected("a path")]
_Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_split), Expected("a list of names")]
_Number: TypeAlias = Annotated[
    float, NUMBER, Field(gt=0, allow_inf_nan=False), Expected("a number above 0")
]
_Amount: TypeAlias = Annotated[int, NUMBER, Field(ge=0), Expected("a whole number, 0 for off")]
_Switch: TypeAlias = Annotated[bool, Expected("true or false")]
_Flag: TypeAlias = Annotated[YesNo, Expected("true or false")]
_Otel: TypeAlias = Annotated[
    Literal["off", "on", "content"], Expected("off, on, or content (with what is said)")
]
_Dollars: TypeAlias = Annotated[
    # A million or more is a typing mistake.
    float, Strict(), Field(ge=0, lt=1e6), Expected("US dollars per million tokens")
]
_Address: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^https?://[^\s/?#@]+(/[^\s?#@]*)?$"),
    AfterValidator(lambda url: url.rstrip("/")),
    Expected("an address such as http://localhost:8000/v1, without name or password", PRIVATE),
]
_Variable: TypeAlias = Annotated[
    str,
    StringConstraints(pattern="^[A-Z_][A-Z0-9_]*$"),
    Expected(
        "the name of an environment variable that holds the key, such as MY_API_KEY;"
        " never write the key itself into a file",
        PRIVATE,
    ),
]
_ProviderName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$"),
    Expected("a name of lower-case letters, digits, '-', '_' and '.'"),
]
_ModelName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[^/\s]+/\S+$"),
    Expected('a model, as in [prices."provider/model"]'),
]
_Wire: TypeAlias = Annotated[
    Literal["openai", "anthropic", "gemini"], Expected("openai or anthropic or gemini")
]


class ProviderSettings(Model):
    """One provider: your own, or the limits of a known one."""

    base_url: _Address | None = None
    """Address of the server, without name or password; required for a provider of your own."""

    wire: _Wire | None = None
    """Format of requests and answers. Default: `openai`, or the known provider's."""

    key: _Variable | None = None
    """Name of the environment variable that holds the key."""

    sees_pictures: _Flag | None = None
    """Whether its models accept pictures. Default: by the model's name."""

    window: Whole | None = None
    """Window of its models, in tokens. Default: by the price table."""

    stream: _Flag | None = None
    """Whether answers are streamed."""

    requests_per_minute: Whole | None = None
    """Most requests per minute."""

    tokens_per_minute: Whole | None = None
    """Most tokens per minute."""

    connect_timeout_s: _Number | None = None
    """Seconds to wait for a connection."""

    read_timeout_s: _Number | None = None
    """Seconds without a byte of an answer after which a request counts as failed."""


class PriceSettings(Model):
    """Your own price of a model, in US dollars per million tokens."""

    input: _Dollars
    """Price of input."""

    output: _Dollars
    """Price of output."""

    cache_read: _Dollars | None = None
    """Price of cached input. Default: the price of input."""

    cache_write: _Dollars | None = None
    """Price of input that is written to the cache. Default: the price of input."""

    cache_write_long: _Dollars | None = None
    """The same for a cache that is kept for an hour. Default: `cache_write`."""

    search: Annotated[_Dollars, Expected("US dollars per search")] | None = None
    """Price of one search of the web, in US dollars."""


class HeadingSettings(Model):
    """Headings of the sections of a task's context."""

    task: Line | None = None
    """Heading above the task itself."""

    inherited: Line | None = None
    """Heading above what the task inherits from its parent."""

    previous_outputs: Line | None = None
    """Heading above the outputs of the steps before."""

    fresh: Line | None = None
    """Heading above what memory banks and folders hold on the task."""


class SettingFields(Model):
    """What flags, variables, a cascade and `windlass.toml` may set."""

    store: _Store = Field(Path(".windlass"), validate_default=True)
    """Where the history is kept: a folder, clickhouse://…, chdb://…"""

    model: Line = "local/smollm2"
    """Model used where none is named, as provider/name."""

    models: ModelNames = ModelNames()
    """What names of models mean: the provider that all of them go through."""

    price_as: Line = "anthropic/claude-sonnet-5-5"
    """Hosted model at whose prices the tokens of the local model are valued."""

    root: _Folder = Field(Path(), validate_default=True)
    """The only folder that tools may touch."""

    tools: _Names = ()
    """Modules, or dotted paths of functions, with your own tools."""

    search_folder: _Folder | None = None
    """Folder that web_search looks in."""

    search_model: Line | None = None
    """Model whose web search the tool web_search uses, as provider/name."""

    http_allow: _Names = ()
    """Hosts that http_get may ask; no cascade can add to them. Default: the cascade's list."""

    max_output_tokens: Whole | None = None
    """Most tokens a reply may have. Default: the model's own limit."""

    tool_timeout_s: _Number = 60.0
    """Seconds a tool may take unless it has a limit of its own."""

    keep_recent_turns: _Amount = 0
    """How many of the newest turns a call sees, in every phase; 0: all."""

    keep_recent_images: _Amount = 0
    """How many of the newest pictures a call sees, in every phase; 0: all."""

    passthrough: _Switch = False
    """Send everything: no window is shortened."""

    breaker_sessions: _Amount = 20
    """Shortening is off while it lost money over so many of the newest sessions; 0: no check."""

    auto_context_intra_phase_enabled: _Switch = True
    """false: no phase shortens what it sees of itself."""

    auto_context_cards_enabled: _Switch = True
    """false: no context cards are made."""

    auto_context_inter_phase_enabled: _Switch = True
    """false: no phase chooses its context by itself."""

    auto_context_llm_selection_enabled: _Switch = True
    """false: no model is asked what to choose."""

    helper_model: (
        Annotated[ModelOrNone, AfterValidator(lambda name: None if name == NONE else name)] | None
    ) = None
    """Model for choosing and summaries, as provider/name; none: no model."""

    cards: CardOptions = CardOptions()
    """How context cards are made."""

    otel: _Otel = "off"
    """Whether runs send OpenTelemetry's spans and metrics: off, on, content (with what is said)."""

    headings: HeadingSettings = HeadingSettings()
    """Headings of the sections of a task's context."""

    providers: dict[_ProviderName, ProviderSettings] = Field(default_factory=dict)
    """Providers of your own, and limits of the known ones."""

    prices: dict[_ModelName, PriceSettings] = Field(default_factory=dict)
    """Prices that override those of the table, by provider/model."""

    mcp_servers: McpServers = Field(default_factory=dict)
    """MCP servers whose tools phases may name; a cascade's own of the same name overrides one."""


SERVER_VALUES: Final[Mapping[str, str]] = {
    "command": 'a list of texts, such as ["npx", "-y", "server"]',
    "env": "a table of texts",
    "url": "text",
    "headers": "a table of texts",
}
"""What the keys of an MCP server hold."""


def tables_in(annotation: Any) -> Iterator[type[Model]]:
    """Yield the tables that the type of a setting is made of."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for argument in get_args(annotation):
        yield from tables_in(argument)
