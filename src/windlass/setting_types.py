"""The types of settings: what TOML, a flag or a variable may hold, and what it becomes.

Each reader answers the value and raises ValueError with what was expected, or, where a
table has a name of its own, UsageError with the whole sentence. `folder` is what a
relative path is relative to.

More than 400 lines because every type stands here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from windlass.caching.rates import Override
from windlass.cards.kept import NONE, WORDLLAMA
from windlass.errors import Mistake, UsageError, did_you_mean
from windlass.redaction import redacted

if TYPE_CHECKING:
    from windlass.servers import McpServer

WIRES: Final = ("openai", "anthropic", "gemini")
"""The formats a provider may speak."""

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
    "litellm": (),  # litellm knows the variables of what is behind it
}
"""The providers that have keys without being told, and the variables that hold them."""

_DEAREST: Final = 1e6
"""US dollars a million tokens; a figure from here on is a slip of the pen."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """What `[providers.NAME]` says; None is not said. `key` names an environment variable.

    `wire` is the format (openai, anthropic or gemini); `stream` whether answers are asked
    for piece by piece.
    """

    base_url: str | None = None
    wire: str | None = None
    key: str | None = None
    sees_pictures: bool | None = None
    window: int | None = None
    stream: bool | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    connect_timeout_s: float | None = None
    read_timeout_s: float | None = None


def text(value: Any, _: Path) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("text")
    return value.strip()


def path(value: Any, folder: Path) -> Path:
    """A path; `~` is the home."""
    if isinstance(value, Path):
        return folder / value.expanduser()
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a path")
    return folder / Path(value).expanduser()


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A store that is no folder of SQLite. `folder` is what paths in it are relative to."""

    url: str
    folder: Path

    def __str__(self) -> str:
        place, mark, options = self.url.partition("?")
        return place + mark + redacted(options)


STORE_SCHEMES: Final = ("clickhouse", "chdb")


def store(value: Any, folder: Path) -> Path | StoreAddress:
    """A folder, or an address: `clickhouse://…`, `chdb://…`."""
    if isinstance(value, StoreAddress):
        return value
    if not isinstance(value, str) or "://" not in value:
        return path(value, folder)
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


def texts(value: Any, _: Path) -> tuple[str, ...]:
    """Names: a list of them, or one text with commas."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError("a list of names")
    return tuple(value)


def number(value: Any, _: Path) -> float:
    """A number above 0."""
    try:
        read = 0.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        read = 0.0
    if not 0 < read < float("inf"):
        raise ValueError("a number above 0")
    return read


def whole(value: Any, folder: Path) -> int:
    """A whole number above 0."""
    try:
        read = number(value, folder)
    except ValueError:
        read = 0.5
    if read != int(read):
        raise ValueError("a whole number above 0")
    return int(read)


def amount(value: Any, folder: Path) -> int:
    """A whole number; 0 is off."""
    if value in (0, "0") and value is not False:
        return 0
    try:
        return whole(value, folder)
    except ValueError:
        raise ValueError("a whole number, 0 for off") from None


def switch(value: Any, _: Path) -> bool:
    """True or false; a variable may say it in the usual words."""
    words = {"true": True, "1": True, "yes": True, "on": True}
    words |= {"false": False, "0": False, "no": False, "off": False}
    said = words.get(value.lower()) if isinstance(value, str) else value
    return _flag(said, _)


def _flag(value: Any, _: Path) -> bool:
    if value is not True and value is not False:
        raise ValueError("true or false")
    return bool(value)


def _dollars(value: Any, _: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _DEAREST:
        raise ValueError("US dollars a million tokens")
    return float(value)


def _dollars_once(value: Any, _: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _DEAREST:
        raise ValueError("US dollars a search")
    return float(value)


def _wire(value: Any, _: Path) -> str:
    if value not in WIRES:
        raise ValueError(" or ".join(WIRES))
    return str(value)


def _address(value: Any, _: Path) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", value):
        raise _SecretError("an address such as http://localhost:8000/v1, without name or password")
    return value.rstrip("/")


def _variable(value: Any, _: Path) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
        raise _SecretError(
            "the name of an environment variable that holds the key, such as MY_API_KEY;"
            " a key itself never stands in a file"
        )
    return value


class _SecretError(ValueError):
    """What was expected, of a value that may hold a secret and is not to be shown."""


_PROVIDER: Final[Mapping[str, Callable[[Any, Path], Any]]] = {
    "base_url": _address,
    "wire": _wire,
    "key": _variable,
    "sees_pictures": _flag,
    "window": whole,
    "stream": _flag,
    "requests_per_minute": whole,
    "tokens_per_minute": whole,
    "connect_timeout_s": number,
    "read_timeout_s": number,
}
_PRICE: Final[Mapping[str, Callable[[Any, Path], Any]]] = {
    "input": _dollars,
    "output": _dollars,
    "cache_read": _dollars,
    "cache_write": _dollars,
    "cache_write_long": _dollars,
    "search": _dollars_once,
}


_HEADINGS: Final = ("task", "inherited", "previous_outputs", "fresh")
"""The sections of a task's context."""


def _table(
    name: str, value: Any, folder: Path, keys: Mapping[str, Callable[[Any, Path], Any]]
) -> dict[str, Any]:
    """The entries of the table `name`. Raises UsageError, whose text lacks the place."""
    if not isinstance(value, dict):
        raise UsageError(f"{name} must be a table [{name}], not {value!r}")
    entries = cast("dict[str, Any]", value)
    for key in sorted(entries.keys() - keys.keys()):
        raise UsageError(f"unknown setting '{name}.{key}'; {did_you_mean(key, keys)}")
    read: dict[str, Any] = {}
    for key, said in entries.items():
        try:
            read[key] = keys[key](said, folder)
        except _SecretError as error:
            raise UsageError(f"{name}.{key} must be {error}") from None
        except ValueError as error:
            raise UsageError(f"{name}.{key} must be {error}, not {said!r}") from None
    return read


def headings(value: Any, folder: Path) -> dict[str, str]:
    """The table `[headings]`."""
    with _reading("headings"):
        return _table("headings", value, folder, dict.fromkeys(_HEADINGS, text))


def _model(value: Any, folder: Path) -> str:
    said = text(value, folder)
    if said != NONE and not re.fullmatch(r"[^/\s]+/\S+", said):
        raise ValueError(f"a model as provider/name, or {NONE!r}")
    return said


def helper(value: Any, folder: Path) -> str:
    """A model as provider/name, or `none`."""
    return _model(value, folder)


def _embedder(value: Any, folder: Path) -> str:
    said = text(value, folder)
    if said == WORDLLAMA:
        return said
    try:
        return _model(said, folder)
    except ValueError:
        raise ValueError(f"{WORDLLAMA!r}, {NONE!r} or a model as provider/name") from None


_CARDS: Final[Mapping[str, Callable[[Any, Path], Any]]] = {
    "summariser": _model,
    "embedder": _embedder,
    "batch_size": whole,
    "workers": whole,
    "summary_chars": whole,
    "input_chars": whole,
}


def cards(value: Any, folder: Path) -> dict[str, Any]:
    """The table `[cards]`."""
    with _reading("cards"):
        return _table("cards", value, folder, _CARDS)


def in_environment(environ: Mapping[str, str], name: str) -> Any:
    """What variables say of a setting: `WINDLASS_NAME`, or of a table `WINDLASS_CARDS_KEY`.

    Empty where they say nothing.
    """
    variable = "WINDLASS_" + name.upper()
    if name != "cards":
        return environ.get(variable, "").strip()
    said = {key: environ.get(f"{variable}_{key.upper()}", "").strip() for key in _CARDS}
    return {key: value for key, value in said.items() if value}


class TableError(UsageError):
    """A mistake in a table that has a name of its own; `table` are its keys from the top."""

    def __init__(self, text: str, table: tuple[str, ...]) -> None:
        self.table = table
        super().__init__(text)


@contextmanager
def _reading(*table: str) -> Iterator[None]:
    """Meanwhile a UsageError is one of this table."""
    try:
        yield
    except UsageError as error:
        raise TableError(str(error), table) from None


def _tables(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    raise ValueError("tables in windlass.toml")


def providers(value: Any, folder: Path) -> dict[str, ProviderSettings]:
    """The tables `[providers.NAME]`."""
    read: dict[str, ProviderSettings] = {}
    for name, said in _tables(value).items():
        with _reading("providers", name):
            if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
                raise UsageError(
                    f"provider {name!r} must have a name of small letters, digits, '-', '_' and '.'"
                )
            read[name] = ProviderSettings(**_table(f"providers.{name}", said, folder, _PROVIDER))
    return read


def prices(value: Any, folder: Path) -> dict[str, Override]:
    """The tables `[prices."provider/model"]`."""
    read: dict[str, Override] = {}
    for name, said in _tables(value).items():
        with _reading("prices", name):
            table = f'prices."{name}"'
            if not re.fullmatch(r"[^/\s]+/\S+", name):
                raise UsageError(f'{table} must name a model, as in [prices."provider/model"]')
            entries = _table(table, said, folder, _PRICE)
            if not entries.keys() >= {"input", "output"}:
                raise UsageError(
                    f"{table} must say input and output, in US dollars a million tokens"
                )
            read[name] = Override(**entries)
    return read


def mcp_servers(value: Any, _: Path) -> dict[str, McpServer]:
    """The tables `[mcp_servers.NAME]`, by the rules that hold in a cascade."""
    from windlass.servers import read_server  # pydantic comes with it: 100 ms that few need

    read: dict[str, McpServer] = {}
    for name, said in _tables(value).items():
        with _reading("mcp_servers", name):
            read[name] = read_server(name, said)
    return read


def needing_trust(name: str, value: Any, folder: Path) -> Any:
    """The part of a setting that a folder's own file may not say unless the folder is trusted.

    That is what directs an import, a command or a key, or leads out of the folder. None: nothing.
    """
    if name in ("tools", "mcp_servers"):
        return value or None
    if name == "providers":
        told: Mapping[str, ProviderSettings] = value
        return {
            provider: each
            for provider, each in told.items()
            if each.key is not None or (each.base_url is not None and provider in KEYS)
        } or None
    if isinstance(value, Path):
        return None if value.resolve().is_relative_to(folder.resolve()) else value
    return value if isinstance(value, StoreAddress) else None


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a file and what it says; both empty where it is not there. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return "", {}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = int(line[1]) if line else None
        raise UsageError(str(Mistake(str(path), where, f"not TOML: {error}"))) from error
    except RecursionError as error:
        raise UsageError(f"{path}: the values are nested too deeply") from error
    return text, values


def line_of(keys: tuple[str, ...], text: str) -> int | None:
    """The line on which the key or table, named by its keys from the top, first stands."""
    name = r"\s*\.\s*".join(rf"""["']?{re.escape(key)}["']?""" for key in keys)
    key = re.compile(rf"\s*+\[{{0,2}}\s*+{name}\s*[=.\]]")
    for number, line in enumerate(text.splitlines(), start=1):
        if key.match(line):
            return number
    return None
