"""Settings: what the user chose, and where.

Priority: flags, environment (`WINDLASS_*`), the cascade file, `windlass.toml`,
defaults. `windlass.toml` stands in the current folder or in the user's folder of
settings; the nearer one wins, key by key. This module knows the names, their types
and their defaults; it does not know what they are used for.

More than 400 lines because each setting has a property with its type and its words.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windlass import setting_types as types
from windlass import trust as trusting
from windlass.caching.rates import Override
from windlass.cards.kept import NONE
from windlass.errors import Mistake, UsageError, did_you_mean
from windlass.modules import SETTINGS
from windlass.redaction import redacted_url
from windlass.setting_types import ProviderSettings, StoreAddress, TableError

if TYPE_CHECKING:
    from windlass.servers import McpServer


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in force. `origin` says who chose it: a flag, a variable, a file, `default`."""

    name: str
    value: Any
    origin: str
    help: str


@dataclass(frozen=True, slots=True)
class _Known:
    read: Callable[[Any, Path], Any]
    default: Any
    help: str


_KNOWN: Final[Mapping[str, _Known]] = {
    "store": _Known(
        types.store, ".windlass", "where the history is kept: a folder, clickhouse://…, chdb://…"
    ),
    "model": _Known(types.text, "local/smollm2", "model where none is named, as provider/name"),
    "price_as": _Known(
        types.text,
        "anthropic/claude-sonnet-4-5",
        "hosted model at whose prices tokens of the local one are valued",
    ),
    "root": _Known(types.path, ".", "the only folder that tools may touch"),
    "tools": _Known(types.texts, (), "modules, or dotted paths of functions, with your own tools"),
    "search_folder": _Known(types.path, None, "folder that web_search looks in"),
    "search_model": _Known(
        types.text, None, "model whose own search of the web web_search asks, as provider/name"
    ),
    "http_allow": _Known(types.texts, (), "hosts that http_get may ask, whatever a cascade lists"),
    "max_output_tokens": _Known(types.whole, None, "most tokens a reply may have"),
    "tool_timeout_s": _Known(
        types.number, 60.0, "seconds a tool may take unless it says otherwise"
    ),
    "keep_recent_turns": _Known(types.amount, 0, "newest turns a call sees, of all phases; 0: all"),
    "keep_recent_images": _Known(types.amount, 0, "newest pictures a call sees; 0: all"),
    "passthrough": _Known(
        types.switch, default=False, help="send everything: no window is shortened"
    ),
    "breaker_sessions": _Known(
        types.amount, 20, "newest sessions whose windows must not have lost money, or none are made"
    ),
    "auto_context_intra_phase_enabled": _Known(
        types.switch, default=True, help="false: no phase shortens what it sees of itself"
    ),
    "auto_context_cards_enabled": _Known(
        types.switch, default=True, help="false: no context cards are made"
    ),
    "auto_context_inter_phase_enabled": _Known(
        types.switch, default=True, help="false: no phase chooses its context by itself"
    ),
    "auto_context_llm_selection_enabled": _Known(
        types.switch, default=True, help="false: no model is asked what to choose"
    ),
    "helper_model": _Known(
        types.helper, None, "model for what is not a turn (choosing, summaries), as provider/name"
    ),
    "cards": _Known(types.cards, {}, "how context cards are made"),
    "headings": _Known(types.headings, {}, "what stands above the sections of a task's context"),
    "providers": _Known(types.providers, {}, "providers of your own, and limits of the known ones"),
    "prices": _Known(types.prices, {}, "prices that go before those of the table"),
    "mcp_servers": _Known(types.mcp_servers, {}, "MCP servers whose tools phases may name"),
}


def _read(
    name: str,
    value: Any,
    origin: str,
    folder: Path,
    of_table: Callable[[tuple[str, ...]], str] | None = None,
) -> Setting:
    """The setting; `of_table` says where a table of the file stands, for what is wrong in it."""
    known = _KNOWN[name]
    try:
        return Setting(name, known.read(value, folder), origin, known.help)
    except TableError as error:
        place = of_table(error.table) if of_table else origin
        raise UsageError(f"{place}: {error}") from None
    except UsageError as error:
        raise UsageError(f"{origin}: {error}") from None
    except ValueError as error:
        raise UsageError(f"{origin}: {name} must be {error}, not {value!r}") from None


def _merged(far: Mapping[str, Setting], near: Mapping[str, Setting]) -> dict[str, Setting]:
    """Two files as one: the nearer wins, key by key and table by table."""
    merged = {**far, **near}
    for name in far.keys() & near.keys():
        if isinstance(near[name].value, dict):
            tables = {**far[name].value, **near[name].value}
            origin = f"{near[name].origin}, {far[name].origin}"
            merged[name] = replace(near[name], value=tables, origin=origin)
    return merged


@dataclass(frozen=True)
class Settings:
    """All settings: `settings.store` is the value, `settings["store"]` tells its origin too."""

    folder: Path
    flags: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    environment: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    cascade: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    file: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    untrusted: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    """What the file of a folder that nobody trusts must not say: it may be shown, not used."""
    tripped: bool = False
    """Whether the breaker keeps a run from shortening anything to save money."""

    @classmethod
    def read(
        cls,
        flags: Mapping[str, Any],
        environ: Mapping[str, str],
        folder: Path,
        *,
        user_folder: Path | None = None,
        trust: bool = False,
    ) -> Settings:
        """The settings of one command that runs in `folder`.

        A flag that is None was not given; an empty variable is not set; variables
        that are no settings are left alone. `user_folder` holds the user's own
        `windlass.toml` (by default where the platform keeps settings).
        `trust`: the folder's own file is trusted, whether or not the folder carries a mark.

        Raises UsageError where a file, a flag or a variable is wrong.
        """
        unknown = sorted(flags.keys() - _KNOWN.keys())
        if unknown:
            raise UsageError(f"unknown setting {unknown[0]!r}; {did_you_mean(unknown[0], _KNOWN)}")
        if user_folder is None:
            user_folder = trusting.user_folder()
        here, untrusted = _read_file(folder / SETTINGS), dict[str, Setting]()
        own = folder.resolve() == user_folder.resolve()
        if here and not (trust or own or trusting.is_trusted(folder, user_folder)):
            for name, one in here.items():
                part = types.needing_trust(name, one.value, folder)
                if part is not None:
                    untrusted[name] = replace(one, value=part)
        return cls(
            folder=folder,
            flags={
                name: _read(name, value, "--" + name.replace("_", "-"), folder)
                for name, value in flags.items()
                if value is not None
            },
            environment={
                name: _read(name, value, f"WINDLASS_{name.upper()}", folder)
                for name in _KNOWN
                if (value := types.in_environment(environ, name))
            },
            file=_merged(_read_file(user_folder / SETTINGS), here),
            untrusted=untrusted,
        )

    def with_cascade(
        self, values: Mapping[str, Any], origin: str, folder: Path | None = None
    ) -> Settings:
        """These settings with what a cascade file says, at its place in the priority.

        None is not said. `origin` names the file, `folder` what its paths are relative to.
        """
        unknown = sorted(values.keys() - _KNOWN.keys())
        if unknown:
            raise UsageError(
                f"{origin}: unknown setting {unknown[0]!r}; {did_you_mean(unknown[0], _KNOWN)}"
            )
        said = {
            name: _read(name, value, origin, folder or self.folder)
            for name, value in values.items()
            if value is not None
        }
        return replace(self, cascade=said)

    def untrusted_servers(self) -> tuple[str, ...]:
        """MCP servers of the settings that are not started, because nobody trusts the folder."""
        held = self.untrusted.get("mcp_servers")
        return tuple(held.value) if held else ()

    def check_trust(self, *names: str) -> None:
        """Raise UsageError where the folder's own file says what only a trusted one may say.

        `names` are the settings that matter (none: all of them). What a flag, a variable or the
        cascade says of a setting goes before the file and needs no trust.
        """
        over = {*self.flags, *self.environment, *self.cascade}
        held = {name: one for name, one in self.untrusted.items() if name not in over}
        if asked := [name for name in held if not names or name in names]:
            told = ", ".join(f"{name} ({_shown(held[name].value)})" for name in asked)
            folder = str(self.folder.resolve())
            raise UsageError(
                f"{held[asked[0]].origin}: {told}: what a folder's own file of settings imports,"
                " starts, gives a key to or opens outside the folder needs your trust; read the"
                f" file, then mark the folder once: windlass trust {shlex.quote(folder)}"
                " (or give --trust, in Python trust=True)"
            )

    def after_losses(self) -> Settings:
        """These settings for a run whose breaker has tripped."""
        name = "breaker_sessions"
        by_breaker = replace(self[name], origin=f"the breaker ({name})")
        return replace(self, flags={**self.flags, name: by_breaker}, tripped=True)

    def __getitem__(self, name: str) -> Setting:
        said = [self.file, self.cascade, self.environment, self.flags]
        layers = [layer for layer in said if name in layer]
        if layers and name == "cards":  # key by key, as two files are
            return reduce(_merged, layers)[name]
        if layers:
            return layers[-1][name]
        known = _KNOWN[name]
        value = known.default
        if isinstance(value, str):
            value = known.read(value, self.folder)
        return Setting(name, value, "default", known.help)

    def rows(self) -> tuple[Setting, ...]:
        """Every setting with its value and origin, as `windlass config` prints them."""
        rows = {name: self[name] for name in _KNOWN}
        servers = {name: server.shown() for name, server in self.mcp_servers.items()}
        rows["mcp_servers"] = replace(rows["mcp_servers"], value=servers)
        shown = {
            name: replace(one, base_url=redacted_url(one.base_url)) if one.base_url else one
            for name, one in self.providers.items()
        }
        rows["providers"] = replace(rows["providers"], value=shown)
        for name in self.untrusted:
            rows[name] = replace(rows[name], origin=f"{rows[name].origin} (not trusted)")
        return tuple(rows.values())

    @property
    def store(self) -> Path | StoreAddress:
        """Where the history is kept: a folder, or an address."""
        value: Path | StoreAddress = self["store"].value
        return value

    @property
    def model(self) -> str:
        """Model where none is named, as `provider/name`."""
        value: str = self["model"].value
        return value

    def model_for(self, written: str | None) -> str:
        """The model of a phase whose file says `written`.

        For models the order is: the flag, the file, `WINDLASS_MODEL`, `windlass.toml`,
        the local one.
        """
        flag = self.flags.get("model")
        return str(flag.value) if flag else written or self.model

    @property
    def price_as(self) -> str:
        """Hosted model at whose prices the local model's tokens are valued."""
        value: str = self["price_as"].value
        return value

    @property
    def root(self) -> Path:
        """The only folder that tools may touch."""
        value: Path = self["root"].value
        return value

    @property
    def tools(self) -> tuple[str, ...]:
        """Modules, or dotted paths of functions, with the user's own tools."""
        value: tuple[str, ...] = self["tools"].value
        return value

    @property
    def search_folder(self) -> Path | None:
        """Folder that `web_search` looks in."""
        value: Path | None = self["search_folder"].value
        return value

    @property
    def search_model(self) -> str | None:
        """Model whose own search of the web `web_search` asks, as `provider/model`."""
        value: str | None = self["search_model"].value
        return value

    @property
    def http_allow(self) -> tuple[str, ...]:
        """Hosts beyond which no cascade may let `http_get` go; empty: the cascade's list alone."""
        value: tuple[str, ...] = self["http_allow"].value
        return value

    @property
    def max_output_tokens(self) -> int | None:
        """Most tokens a reply may have; None: the model's own limit."""
        value: int | None = self["max_output_tokens"].value
        return value

    @property
    def tool_timeout_s(self) -> float:
        """Seconds a tool may take unless it says otherwise."""
        value: float = self["tool_timeout_s"].value
        return value

    @property
    def keep_recent_turns(self) -> int:
        """The newest turns a call sees, all phases together; 0: all of them."""
        value: int = self["keep_recent_turns"].value
        return value

    @property
    def keep_recent_images(self) -> int:
        """The newest pictures a call sees, all phases together; 0: all of them."""
        value: int = self["keep_recent_images"].value
        return value

    @property
    def passthrough(self) -> bool:
        """Whether everything is sent, whatever a cascade says of its windows."""
        value: bool = self["passthrough"].value
        return value

    @property
    def breaker_sessions(self) -> int:
        """Over how many of the newest sessions windows must not have lost money; 0: any."""
        value: int = self["breaker_sessions"].value
        return value

    @property
    def auto_context_intra_phase_enabled(self) -> bool:
        """Whether phases may shorten what they see of themselves."""
        value: bool = self["auto_context_intra_phase_enabled"].value
        return value

    @property
    def auto_context_cards_enabled(self) -> bool:
        """Whether context cards may be made."""
        value: bool = self["auto_context_cards_enabled"].value
        return value

    @property
    def auto_context_inter_phase_enabled(self) -> bool:
        """Whether phases may choose their context by themselves."""
        value: bool = self["auto_context_inter_phase_enabled"].value
        return value

    @property
    def auto_context_llm_selection_enabled(self) -> bool:
        """Whether a model may be asked what to choose."""
        value: bool = self["auto_context_llm_selection_enabled"].value
        return value

    @property
    def helper_model(self) -> str | None:
        """Model for what is not a turn of a phase; None: none is asked."""
        value: str | None = self["helper_model"].value
        return None if value == NONE else value

    @property
    def cards(self) -> Mapping[str, Any]:
        """What is said of how context cards are made, by key of `CardOptions`."""
        value: Mapping[str, Any] = self["cards"].value
        return value

    @property
    def headings(self) -> Mapping[str, str]:
        """What stands above the sections of a task's context, where it is not the usual."""
        value: Mapping[str, str] = self["headings"].value
        return value

    @property
    def providers(self) -> Mapping[str, ProviderSettings]:
        """What `windlass.toml` says of providers, by name."""
        value: Mapping[str, ProviderSettings] = self["providers"].value
        return value

    def addresses(self) -> dict[str, str]:
        """The addresses that a file gives providers, by name: not always the vendors' own."""
        said = self.providers.items()
        return {name: redacted_url(one.base_url) for name, one in said if one.base_url is not None}

    @property
    def prices(self) -> Mapping[str, Override]:
        """Prices by `provider/model` that go before those of the table."""
        value: Mapping[str, Override] = self["prices"].value
        return value

    @property
    def mcp_servers(self) -> Mapping[str, McpServer]:
        """MCP servers by name; a cascade's own of the same name goes before them."""
        value: Mapping[str, McpServer] = self["mcp_servers"].value
        return value


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, Mapping | tuple) else str(value)


def _read_file(path: Path) -> dict[str, Setting]:
    text, values = types.read_toml(path)
    for name in values.keys() - _KNOWN.keys():
        told = f"unknown setting {name!r}; {did_you_mean(name, _KNOWN)}"
        raise UsageError(str(Mistake(str(path), types.line_of((name,), text), told)))

    def origin(table: tuple[str, ...]) -> str:
        return f"{path}:{types.line_of(table, text) or types.line_of(table[:1], text) or 1}"

    return {
        name: _read(name, value, origin((name,)), path.parent, origin)
        for name, value in values.items()
    }
