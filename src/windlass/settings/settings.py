"""Settings: what the user chose, and where.

Priority: flags, environment (`WINDLASS_*`), the cascade file, `windlass.toml`, the
addresses that variables give the vendors' own clients (`ADDRESSES`), defaults.
`windlass.toml` stands in the current folder or in the user's folder of settings; the
nearer one wins, key by key. The fields of `SettingFields` are the names, types and
defaults; this module does not know what they are used for.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    Strict,
    StringConstraints,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import ErrorDetails

from windlass.declared import (
    NUMBER,
    PRIVATE,
    SENTENCE,
    Expected,
    Line,
    McpServers,
    Model,
    ModelOrNone,
    Whole,
    YesNo,
)
from windlass.errors import FileError, Mistake, TrustNeeded, UsageError, did_you_mean
from windlass.safety.redaction import redacted, redacted_url
from windlass.selection.card_settings import NONE, CardOptions
from windlass.settings import trust as trusting
from windlass.settings.modules import SETTINGS

if TYPE_CHECKING:
    from windlass.caching.rates import Rate

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "litellm": (),  # litellm knows the variables of what is behind it
}
"""The providers that have keys without a definition, and the variables that hold them."""

ADDRESSES: Final[Mapping[str, tuple[str, str]]] = {
    "openai": ("OPENAI_BASE_URL", ""),
    "anthropic": ("ANTHROPIC_BASE_URL", "/v1"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", "/v1beta"),
}
"""The variables by which the vendors' own clients are told another address, and the version that
those clients put behind it."""

STORE_SCHEMES: Final = ("clickhouse", "chdb")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A store that is no folder of SQLite. `folder` is what paths in it are relative to."""

    url: str
    folder: Path

    def __str__(self) -> str:
        place, mark, options = self.url.partition("?")
        return place + mark + redacted(options)


def read_path(value: Any, folder: Path) -> Path:
    """A path relative to `folder`; `~` is the home. Raises ValueError."""
    if isinstance(value, Path) or (isinstance(value, str) and value.strip()):
        return folder / Path(value).expanduser()
    raise ValueError("a path")


def read_store(value: Any, folder: Path) -> Path | StoreAddress:
    """A folder, or an address: `clickhouse://…`, `chdb://…`. Raises UsageError or ValueError."""
    if isinstance(value, StoreAddress):
        return value
    if not isinstance(value, str) or "://" not in value:
        return read_path(value, folder)
    url = value.strip()
    scheme, _, rest = url.partition("://")
    if scheme not in STORE_SCHEMES:
        known = ", ".join(f"{name}://" for name in STORE_SCHEMES)
        raise UsageError(f"store: {scheme!r} is no kind of store; expected a folder, or {known}")
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if at and ":" in user:
        raise UsageError(
            "store: the address holds a password; leave it out and set WINDLASS_CLICKHOUSE_PASSWORD"
        )
    return StoreAddress(url, folder.absolute())


def _in_folder(read: Callable[[Any, Path], Any]) -> PlainValidator:
    """The validator that reads a value relative to the folder where it was written."""

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
_Dollars: TypeAlias = Annotated[
    # A figure of a million and more is a slip of the pen.
    float, Strict(), Field(ge=0, lt=1e6), Expected("US dollars a million tokens")
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
        " a key itself never stands in a file",
        PRIVATE,
    ),
]
_ProviderName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$"),
    Expected("a name of small letters, digits, '-', '_' and '.'"),
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
    """Whether its models take pictures. Default: by the model's name."""

    window: Whole | None = None
    """Tokens of its models' windows. Default: by the price table."""

    stream: _Flag | None = None
    """Whether answers arrive piece by piece."""

    requests_per_minute: Whole | None = None
    """Most requests in a minute."""

    tokens_per_minute: Whole | None = None
    """Most tokens in a minute."""

    connect_timeout_s: _Number | None = None
    """Seconds that a connection may take."""

    read_timeout_s: _Number | None = None
    """Seconds without any byte of an answer after which a request has failed."""


class PriceSettings(Model):
    """Your own price of a model, in US dollars a million tokens."""

    input: _Dollars
    """Price of input."""

    output: _Dollars
    """Price of output."""

    cache_read: _Dollars | None = None
    """Price of cached input. Default: the price of input."""

    cache_write: _Dollars | None = None
    """Price of input that is written to the cache. Default: the price of input."""

    cache_write_long: _Dollars | None = None
    """The same for an hour. Default: `cache_write`."""

    search: Annotated[_Dollars, Expected("US dollars a search")] | None = None
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
    """Model where none is named, as provider/name."""

    price_as: Line = "anthropic/claude-sonnet-5-5"
    """Hosted model at whose prices tokens of the local one are valued."""

    root: _Folder = Field(Path(), validate_default=True)
    """The only folder that tools may touch."""

    tools: _Names = ()
    """Modules, or dotted paths of functions, with your own tools."""

    search_folder: _Folder | None = None
    """Folder that web_search looks in."""

    search_model: Line | None = None
    """Model whose web search the tool web_search uses, as provider/name."""

    http_allow: _Names = ()
    """Hosts that http_get may ask, whatever a cascade lists. Default: the cascade's list alone."""

    max_output_tokens: Whole | None = None
    """Most tokens a reply may have. Default: the model's own limit."""

    tool_timeout_s: _Number = 60.0
    """Seconds a tool may take unless it has a limit of its own."""

    keep_recent_turns: _Amount = 0
    """Newest turns a call sees, of all phases; 0: all."""

    keep_recent_images: _Amount = 0
    """Newest pictures a call sees, of all phases; 0: all."""

    passthrough: _Switch = False
    """Send everything: no window is shortened."""

    breaker_sessions: _Amount = 20
    """Newest sessions over which shortening must not have lost money, else it is off; 0: no
    check."""

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

    headings: HeadingSettings = HeadingSettings()
    """Headings of the sections of a task's context."""

    providers: dict[_ProviderName, ProviderSettings] = Field(default_factory=dict)
    """Providers of your own, and limits of the known ones."""

    prices: dict[_ModelName, PriceSettings] = Field(default_factory=dict)
    """Prices that override those of the table, by provider/model."""

    mcp_servers: McpServers = Field(default_factory=dict)
    """MCP servers whose tools phases may name; a cascade's own of the same name overrides one."""


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One setting in force. `origin` names its source: a flag, a variable, a file, `default`."""

    name: str
    value: Any
    origin: str
    help: str


_Layer: TypeAlias = Mapping[str, SettingValue]
_Keys: TypeAlias = tuple[str, ...]
"""A key or a table by its keys from the top."""


class Settings(SettingFields):
    """The settings of one command; `settings["store"]` is one of them with its origin."""

    model_config = ConfigDict(defer_build=True)  # its own fields are never read from outside

    folder: Path
    """The current folder of the command."""

    layers: Mapping[str, _Layer]
    """What each source sets, the strongest last: file, cascade, environment, flags."""

    in_force: _Layer
    """Every setting with its origin."""

    untrusted: _Layer
    """What the file of a folder without trust must not set: it may be shown, not used."""

    tripped: bool = False
    """Whether the breaker keeps a run from shortening anything to save money."""

    @classmethod
    def read(
        cls,
        flags: Mapping[str, Any],
        environ: Mapping[str, str] = os.environ,
        folder: Path | None = None,
        *,
        user_folder: Path | None = None,
        trust: bool = False,
    ) -> Settings:
        """The settings of one command that runs in `folder` (default: the current one).

        A flag that is None was not given; an empty variable is not set; variables
        that are no settings are left alone. `user_folder` holds the user's own
        `windlass.toml` (by default where the platform keeps settings).
        `trust`: the folder's own file is trusted, whether or not the folder carries a mark.

        Raises UsageError where a file, a flag or a variable is wrong.
        """
        folder = folder or Path.cwd()
        user_folder = user_folder or trusting.user_folder()
        users, here = _read_file(user_folder / SETTINGS), _read_file(folder / SETTINGS)
        untrusted: dict[str, SettingValue] = {}
        own = folder.resolve() == user_folder.resolve()
        if here and not (trust or own or trusting.is_trusted(folder, user_folder)):
            for name, setting in here.items():
                part = _needing_trust(name, setting.value, folder, users)
                if part is not None:
                    untrusted[name] = replace(setting, value=part)
        layers: dict[str, _Layer] = {
            "file": _with_addresses(_merged(users, here), environ, folder),
            "cascade": {},
            "environment": _read(
                _variables(environ), folder, lambda keys: (f"WINDLASS_{keys[0].upper()}", None)
            ),
            "flags": _read(flags, folder, lambda keys: ("--" + keys[0].replace("_", "-"), None)),
        }
        return cls._of(layers, folder=folder, untrusted=untrusted)

    @classmethod
    def _of(cls, layers: Mapping[str, _Layer], *, folder: Path, **more: Any) -> Settings:
        defaults = SettingFields.model_validate({}, context=folder)
        in_force = {
            name: _setting(name, getattr(defaults, name), "default")
            for name in SettingFields.model_fields
        }
        chosen: _Layer = {}
        for layer in layers.values():
            chosen = _merged(chosen, layer)
        in_force.update(chosen)
        values = {name: setting.value for name, setting in in_force.items()}
        return cls.model_construct(
            **values, folder=folder, layers=layers, in_force=in_force, **more
        )

    def _with(self, name: str, layer: _Layer, *, tripped: bool) -> Settings:
        """These settings with another layer of that name."""
        layers = {**self.layers, name: layer}
        return self._of(layers, folder=self.folder, untrusted=self.untrusted, tripped=tripped)

    def with_cascade(
        self, values: Mapping[str, Any], origin: str, folder: Path | None = None
    ) -> Settings:
        """These settings with what a cascade file sets, at its place in the priority.

        None is not set. `origin` names the file, `folder` what its paths are relative to.
        """
        layer = _read(values, folder or self.folder, _everywhere(origin))
        return self._with("cascade", layer, tripped=self.tripped)

    def after_losses(self) -> Settings:
        """These settings for a run whose breaker has tripped."""
        name = "breaker_sessions"
        by_breaker = replace(self[name], origin=f"the breaker ({name})")
        return self._with("flags", {**self.layers["flags"], name: by_breaker}, tripped=True)

    def untrusted_servers(self) -> tuple[str, ...]:
        """MCP servers of the settings that are not started, because nobody trusts the folder."""
        setting = self.untrusted.get("mcp_servers")
        return tuple(setting.value) if setting else ()

    def check_trust(self, *names: str) -> None:
        """Raise TrustNeeded where the folder's own file sets what only a trusted one may set.

        `names` are the settings that matter (none: all of them). What a flag, a variable or the
        cascade sets overrides the file and needs no trust.
        """
        stronger = [self.layers[source] for source in ("cascade", "environment", "flags")]
        settings = [
            setting
            for name, setting in self.untrusted.items()
            if (not names or name in names) and not any(name in layer for layer in stronger)
        ]
        if settings:
            values = ", ".join(f"{setting.name} ({_listed(setting.value)})" for setting in settings)
            raise TrustNeeded(
                f"{settings[0].origin}: {values}: what a folder's own file of settings imports,"
                " starts, gives a key to, sends elsewhere or opens outside the folder needs your"
                " trust; read the file, then mark the folder",
                [str(self.folder.resolve())],
            )

    def __getitem__(self, name: str) -> SettingValue:
        return self.in_force[name]

    def rows(self) -> tuple[SettingValue, ...]:
        """Every setting with its value and origin, as `windlass config` prints them."""
        shown: dict[str, Any] = {
            "cards": self.cards.model_dump(exclude_unset=True),
            "headings": self.headings.model_dump(exclude_unset=True),
            "providers": {
                name: provider.model_dump() | {"base_url": self.addresses().get(name)}
                for name, provider in self.providers.items()
            },
            "prices": {name: price.model_dump() for name, price in self.prices.items()},
            "mcp_servers": {name: server.shown() for name, server in self.mcp_servers.items()},
        }
        return tuple(
            replace(
                setting,
                value=shown.get(name, setting.value),
                origin=setting.origin + (" (not trusted)" if name in self.untrusted else ""),
            )
            for name, setting in self.in_force.items()
        )

    def model_for(self, written: str | None) -> str:
        """The model of a phase whose file says `written`.

        For models the order is: the flag, the file, `WINDLASS_MODEL`, `windlass.toml`,
        the local one.
        """
        flag = self.layers["flags"].get("model")
        return str(flag.value) if flag else written or self.model

    def addresses(self) -> dict[str, str]:
        """The addresses that a file or a variable gives providers: not always the vendors' own."""
        given = ((name, provider.base_url) for name, provider in self.providers.items())
        return {name: redacted_url(url) for name, url in given if url is not None}


def _setting(name: str, value: Any, origin: str) -> SettingValue:
    return SettingValue(name, value, origin, SettingFields.model_fields[name].description or "")


def _merged(far: _Layer, near: _Layer) -> dict[str, SettingValue]:
    """Two layers as one: the nearer wins, key by key and table by table."""
    merged = {**far, **near}
    for name in far.keys() & near.keys():
        before, after = far[name].value, near[name].value
        origin = f"{near[name].origin}, {far[name].origin}"
        if isinstance(after, dict):
            merged[name] = replace(near[name], value={**before, **after}, origin=origin)
        elif isinstance(after, Model):
            table = before.model_copy(update=after.model_dump(exclude_unset=True))
            merged[name] = replace(near[name], value=table, origin=origin)
    return merged


def _read(
    values: Mapping[str, Any], folder: Path, place: Callable[[_Keys], tuple[str, int | None]]
) -> dict[str, SettingValue]:
    """The settings of one source; `place` gives source and line of a key. Raises FileError."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        fields = SettingFields.model_validate(given, context=folder)
    except ValidationError as invalid:
        mistakes: list[Mistake] = []
        for error in invalid.errors(include_url=False):
            keys = tuple(key for key in error["loc"] if isinstance(key, str))
            mistakes.append(Mistake(*place(keys), _refusal(error, keys)))
        raise FileError(
            sorted(dict.fromkeys(mistakes), key=lambda mistake: mistake.line or 0)
        ) from None
    except UsageError as error:
        raise FileError([Mistake(*place(("store",)), str(error))]) from None

    def origin(name: str) -> str:
        source, line = place((name,))
        return source if line is None else f"{source}:{line}"

    return {name: _setting(name, getattr(fields, name), origin(name)) for name in given}


SERVER_VALUES: Final[Mapping[str, str]] = {
    "command": 'a list of texts, such as ["npx", "-y", "server"]',
    "env": "a table of texts",
    "url": "text",
    "headers": "a table of texts",
}
"""What the keys of an MCP server hold."""


def _refusal(error: ErrorDetails, keys: tuple[str, ...]) -> str:
    """What is wrong with a value, in one sentence without its place."""
    kind, expected, private = error["type"], error["msg"], error["type"] == PRIVATE
    if keys[-1] == "[key]":  # what is wrong is the key itself
        keys = keys[:-1]
    name = ".".join(key if re.fullmatch(r"[\w-]+", key) else f'"{key}"' for key in keys)
    if kind == "extra_forbidden":
        part: type[Model] = SettingFields
        for key in keys[:1] if len(keys) > 1 else ():
            part = next(tables_in(SettingFields.model_fields[key].annotation))
        return f"unknown setting '{name}'; {did_you_mean(keys[-1], part.model_fields)}"
    if kind == "missing":
        table = name.rpartition(".")[0]
        return f"{table} must say input and output, in US dollars a million tokens"
    if kind == SENTENCE:
        return f"{name}: {expected}"
    if keys[0] == "mcp_servers" and len(keys) > 1:
        private = True
        expected = f"a table [{name}]" if kind == "model_type" else SERVER_VALUES[keys[2]]
    elif kind == "dict_type":
        expected = "tables in windlass.toml"
    elif kind == "model_type":
        expected = f"a table [{name}]"
    return f"{name} must be {expected}" + ("" if private else f", not {error['input']!r}")


def tables_in(annotation: Any) -> Iterator[type[Model]]:
    """The tables that a type of a setting is made of."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for argument in get_args(annotation):
        yield from tables_in(argument)


def _variables(environ: Mapping[str, str]) -> dict[str, Any]:
    """What variables set: `WINDLASS_NAME`, or of the table `cards` `WINDLASS_CARDS_KEY`."""

    def given(names: Iterable[str], prefix: str) -> dict[str, Any]:
        texts = {name: environ.get(prefix + name.upper(), "").strip() for name in names}
        return {name: text for name, text in texts.items() if text}

    cards = given(CardOptions.model_fields, "WINDLASS_CARDS_")
    values = given(SettingFields.model_fields.keys() - {"cards"}, "WINDLASS_")
    return {**values, "cards": cards} if cards else values


def _everywhere(source: str) -> Callable[[_Keys], tuple[str, int | None]]:
    """The place of every key where all come from one source without lines."""
    return lambda _: (source, None)


def _with_addresses(
    layer: _Layer, environ: Mapping[str, str], folder: Path
) -> dict[str, SettingValue]:
    """The layer with the addresses of the vendors' own clients, where it says no other.

    Whoever set such a variable means that content goes there. Raises FileError.
    """
    filled = dict(layer)
    for name, (variable, version) in ADDRESSES.items():
        address = environ.get(variable, "").strip().rstrip("/")
        held = filled.get("providers")
        given = held.value.get(name) if held else None
        if not address or (given is not None and given.base_url is not None):
            continue
        if version and not re.search(r"/v\d\w*$", address):
            address += version
        table = {"providers": {name: {"base_url": address}}}
        read = _read(table, folder, _everywhere(variable))["providers"]
        if given is not None:
            read.value[name] = given.model_copy(update={"base_url": read.value[name].base_url})
        filled.update(_merged(filled, {"providers": read}))
    return filled


def _needing_trust(name: str, value: Any, folder: Path, users: _Layer) -> Any:
    """The part of a setting that a folder's own file may not set unless the folder is trusted.

    That is what directs an import, a command, a key or what is sent, or leads out of the folder,
    or lifts a limit of the user's own file (`users`). None: nothing.
    """
    if name in ("tools", "mcp_servers"):
        return value or None
    mine = users[name].value if name in users else {}
    if name == "providers":  # the table of the user's own file gives way as a whole
        return {
            key: provider
            for key, provider in value.items()
            if _place_of(provider) != _place_of(mine.get(key) or ProviderSettings())
            and (provider.key is not None or key in mine or key in KEYS)
        } or None
    if name == "prices":  # by them the money that a run may cost is counted
        own = {*KEYS, *(users["providers"].value if "providers" in users else ())}
        return {
            key: price
            for key, price in value.items()
            if (key in mine or key.partition("/")[0] in own)
            and _may_be_too_low(key, price, mine.get(key))
        } or None
    if name == "http_allow":
        return value if name in users else None
    if isinstance(value, Path):
        return None if value.resolve().is_relative_to(folder.resolve()) else value
    return value if isinstance(value, StoreAddress) else None


def _place_of(provider: ProviderSettings) -> tuple[str | None, ...]:
    """What says where requests go, in which format, and with which key."""
    return provider.base_url, provider.wire, provider.key


def _may_be_too_low(model: str, price: PriceSettings, before: PriceSettings | None) -> bool:
    """Whether a limit of money would let more pass at this price than at the one `before`.

    That is the user's own, or (None) the listed one.
    """
    from windlass.caching.rates import override, rate

    with override({}):
        listed = before or rate(model)
    if listed is None or price.search is not None:
        return True
    return any(one < other for one, other in zip(_dollars(price), _dollars(listed), strict=True))


def _dollars(price: PriceSettings | Rate) -> tuple[float, ...]:
    read = price.input if price.cache_read is None else price.cache_read
    written = price.input if price.cache_write is None else price.cache_write
    return price.input, price.output, read, written


def _listed(value: Any) -> str:
    return ", ".join(value) if isinstance(value, Mapping | tuple) else str(value)


def _read_file(path: Path) -> dict[str, SettingValue]:
    """The settings of a file, none where it is not there. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = int(line[1]) if line else None
        raise FileError([Mistake(str(path), where, f"not TOML: {error}")]) from error
    except RecursionError as error:
        raise UsageError(f"{path}: the values are nested too deeply") from error

    lines = _lines_of(text)

    def place(keys: _Keys) -> tuple[str, int | None]:
        known = (lines.get(keys[:length]) for length in range(len(keys), 0, -1))
        return str(path), next((line for line in known if line is not None), 1)

    return _read(values, path.parent, place)


def _lines_of(text: str) -> dict[_Keys, int]:
    """The line of each key and table of a TOML text that is right, by its keys from the top.

    Each statement is read for itself, so that dotted and quoted keys and inline tables are read
    as TOML reads them. Of the tables in an array the first counts.
    """
    lines: dict[_Keys, int] = {}
    table: _Keys = ()
    statement, begin = "", 1
    for number, line in enumerate(text.split("\n"), start=1):
        statement += f"{line}\n"
        try:
            keys = [*_keys_in(tomllib.loads(statement))]
        except tomllib.TOMLDecodeError:
            continue  # it goes on in the next line
        if statement.lstrip().startswith("["):
            table = ()
        for key in keys:
            lines.setdefault((*table, *key), begin)
        if statement.lstrip().startswith("["):
            table = keys[-1]
        statement, begin = "", number + 1
    return lines


def _keys_in(value: Any) -> Iterator[_Keys]:
    if isinstance(value, list):
        for item in value:
            yield from _keys_in(item)
    elif isinstance(value, dict):
        for key, held in value.items():
            yield (key,)
            yield from ((key, *inner) for inner in _keys_in(held))
