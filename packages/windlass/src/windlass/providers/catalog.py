"""The available providers: the builtin ones, and those that `windlass.toml` defines.

Nothing here sends anything, or looks at a key's value except to check that it can be one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from windlass.caching.rates import UNKNOWN_WINDOW, Rate, split_model
from windlass.errors import UsageError, did_you_mean
from windlass.settings.fields import KEYS, ProviderSettings
from windlass.settings.plugins import PROVIDERS, announced

LITELLM: Final = "litellm"
"""The provider whose models are reached through the package litellm."""

THIS_MACHINE: Final = "this machine"
"""The host of local models."""

_LARGEST_REPLY: Final = 4_096
"""The reply limit in tokens if the user sets none: every current hosted model allows it."""

_VENDORS: Final = frozenset(
    {
        *("ai21", "alibaba", "amazon", "arcee-ai", "baidu", "bytedance", "cohere", "deepseek"),
        *("google", "inception", "meta-llama", "microsoft", "minimax", "mistralai", "moonshotai"),
        *("nousresearch", "nvidia", "perplexity", "qwen", "stepfun", "tencent", "x-ai", "z-ai"),
    }
)
"""Vendors by their names at OpenRouter that are not providers here."""

_BEHIND: Final[Mapping[str, str]] = {
    **dict.fromkeys(("aws", "bedrock"), "litellm/bedrock"),
    **dict.fromkeys(("vertex", "vertex_ai"), "litellm/vertex_ai"),
    **dict.fromkeys(("azure", "azure_ai"), "litellm/azure"),
    **dict.fromkeys(("kimi", "moonshot"), "openrouter/moonshotai"),
    "dashscope": "openrouter/qwen",
    "xai": "openrouter/x-ai",
    "zai": "openrouter/z-ai",
}
"""Names of clouds and vendors in recordings, and how to reach these here."""

_DOTTED: Final = re.compile(r"^claude-.*\d\.\d")
"""Names of Claude as OpenRouter has them; Anthropic's own have no dots."""

_ALL_THROUGH: Final = (
    ", or for all names of a cascade models: {through: openrouter} in it (--through openrouter)"
)

_SEEING: Final = re.compile(
    r"claude-(?!2|instant|v1)|gpt-4o|gpt-4\.[1-9]|gpt-4-turbo|gpt-[5-9]|chatgpt-4o"
    r"|o1(?!-(?:mini|preview))|o3(?!-mini)|o4|gemini-(?!pro$|1\.0)|gemma-3-(?!1b)|gemma-4"
    r"|llama-4|llama-3\.2-(?:11|90)b|pixtral|llava|mistral-(?:small-3\.[1-9]|medium-3)"
    r"|.*[-_.](?:vl|vision)\b"
)
"""Names of models, without the vendor, that are known to take pictures."""

_BLIND: Final = re.compile(r".*(?:-audio|-tts|-transcribe|-realtime|-search|-codex-mini|-oss)")
"""Names that begin like those, but do not take pictures."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key and the variable it came from, both empty if none is needed; never shown."""

    variable: str = ""
    value: str = field(default="", repr=False)


NO_KEY: Final = Key()


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """One provider of the table. `keys` are the variables its key may be in, the first first.

    `base_url` ends before the format's own path (`/chat/completions`, `/messages`,
    `/models/...`). `wire` and `base_url` are empty for those of a plugin, which knows where
    its models run.
    """

    name: str
    wire: str
    base_url: str
    keys: tuple[str, ...]
    settings: ProviderSettings = field(default_factory=ProviderSettings)
    defined: bool = False
    plugin: bool = False

    def key(self, environ: Mapping[str, str]) -> Key | None:
        """Return the key from the first variable that is set; None if none is.

        Raises UsageError for a value that cannot be a key, without showing it.
        """
        for variable in self.keys:
            value = environ.get(variable, "").strip()
            if value:
                if not re.fullmatch(r"[!-~]+", value):
                    raise UsageError(
                        f"the variable {variable} holds characters that no key has;"
                        " set it to the key alone"
                    )
                return Key(variable, value)
        return None

    def needed_key(self, environ: Mapping[str, str], asker: str) -> Key:
        """Return the key, empty if none is needed. `asker` is what needs it.

        Raises UsageError if it is not set.
        """
        key = self.key(environ)
        if key is None and self.keys:
            raise UsageError(
                f"{asker} needs a key: set the variable {' or '.join(self.keys)}"
                f" (export {self.keys[0]}=...)"
            )
        return key or NO_KEY


_KNOWN: Final = (
    ProviderEntry("local", "", "", (), plugin=True),
    ProviderEntry("openai", "openai", "https://api.openai.com/v1", KEYS["openai"]),
    ProviderEntry("anthropic", "anthropic", "https://api.anthropic.com/v1", KEYS["anthropic"]),
    ProviderEntry(
        "gemini",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        KEYS["gemini"],
    ),
    ProviderEntry("openrouter", "openai", "https://openrouter.ai/api/v1", KEYS["openrouter"]),
    ProviderEntry(LITELLM, "openai", "", KEYS[LITELLM]),  # litellm knows the addresses, too
)


def catalog(settings: Mapping[str, ProviderSettings]) -> dict[str, ProviderEntry]:
    """Return the table: the builtin providers with the user's settings, then the user's own.

    Raises UsageError for a definition without an address, and for one of `local`.
    """
    table = {entry.name: entry for entry in _KNOWN}
    for name, options in settings.items():
        if name == "local":
            raise UsageError(
                "[providers.local]: the model on this machine has no settings;"
                " give your own provider another name"
            )
        defined = name not in table
        if defined and options.base_url is None:
            raise UsageError(
                f"[providers.{name}] needs a base_url, such as 'http://localhost:8000/v1';"
                f" only {', '.join(sorted(KEYS))} have one already"
            )
        base = ProviderEntry(name, "openai", "", ()) if defined else table[name]
        table[name] = replace(
            base,
            wire=options.wire or base.wire,
            base_url=options.base_url or base.base_url,
            keys=(options.key,) if options.key else base.keys,
            settings=options,
            defined=defined,
        )
    return table


def find(
    name: str, table: Mapping[str, ProviderEntry], more: Collection[str] = ()
) -> ProviderEntry:
    """Return the provider of the model `name`. Raises UsageError with a suggestion.

    `more` are providers that the caller passed, for the list of known ones.
    """
    provider, model = split_model(name)
    if provider in table:
        _refuse_other_spelling(provider, model, table[provider])
        return table[provider]
    plugins = [each.name for each in announced(PROVIDERS)]
    if provider in plugins:
        return ProviderEntry(provider, "", "", (), plugin=True)
    if provider not in _VENDORS and provider not in _BEHIND:
        names = {*table, *more}
        raise UsageError(
            f"model {name!r}: there is no provider {provider!r};"
            f" {did_you_mean(provider, names)}; define your own in windlass.toml"
            f" ([providers.{provider}] base_url = ...)"
        )
    direct = f" or {f'gemini/{model}'!r}" if provider == "google" else ""
    routed = f"{_BEHIND[provider]}/{model}" if provider in _BEHIND else f"openrouter/{name}"
    raise UsageError(
        f"model {name!r}: {provider!r} is a vendor, not a provider here; write"
        f" {routed!r}{direct}{_ALL_THROUGH}, or define it in windlass.toml"
        f" ([providers.{provider}] base_url = ...)"
    )


def _refuse_other_spelling(provider: str, model: str, entry: ProviderEntry) -> None:
    """Raise UsageError for a name that OpenRouter has for a model, and its vendor has not.

    Servers at other addresses may take any name.
    """
    is_vendors = entry.base_url in {each.base_url for each in _KNOWN}
    if provider == "anthropic" and is_vendors and _DOTTED.search(model):
        name, own = f"{provider}/{model}", f"{provider}/{model.replace('.', '-')}"
        raise UsageError(
            f"model {name!r} is a name at OpenRouter, not at {host_of(entry)}; write"
            f" {f'openrouter/{name}'!r}{_ALL_THROUGH}, or {own!r}, which is asked at"
            f" {host_of(entry)}"
        )


def host_of(entry: ProviderEntry) -> str:
    """Return the host that the models of a provider are asked at, in words."""
    if entry.name == "local":
        return THIS_MACHINE
    if entry.plugin:
        return f"where the plugin {entry.name!r} asks"
    return urlsplit(entry.base_url).netloc if entry.base_url else "the host that litellm knows"


def sees_pictures(model: str) -> bool:
    """Say whether the model is known to take pictures; `model` may have vendors before its name."""
    bare = model.rsplit("/", 1)[-1].lower()
    return bool(_SEEING.match(bare)) and not _BLIND.match(bare)


def window_of(entry: ProviderEntry, name: str, price: Rate | None) -> tuple[int, str | None]:
    """Return the window of `provider/model` in tokens, and a warning if it is assumed."""
    if entry.settings.window is not None:
        return entry.settings.window, None
    if price is not None and price.window is not None:
        return price.window, None
    missing = "has no window there" if price else "is not there, so no prompt cache is assumed"
    return UNKNOWN_WINDOW, (
        f"model {name!r} was looked up in the price table and {missing}; its window is taken to be"
        f" {UNKNOWN_WINDOW:,} tokens; set window under [providers.{entry.name}] in windlass.toml"
    )


def reply_room(window: int) -> int:
    """Return the reply limit in tokens if the user sets none."""
    return max(1, min(_LARGEST_REPLY, window // 4))
