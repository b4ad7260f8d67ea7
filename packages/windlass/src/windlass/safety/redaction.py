"""Credentials taken out of addresses, commands and texts, before these are shown or recorded.

Pure. `***` stands where one was. Better too much is taken out than too little: nothing is ever run
or asked with what comes out of here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

HIDDEN: Final = "***"
_SHORTEST: Final = 4
"""Characters from which on a credential is looked for in other texts."""

_SECRET: Final = re.compile(
    r"key|token|secret|(?<![a-z])pass(?![a-z])|passw|passphrase|pwd|credential|auth(?!or(?!iz))|cookie|bearer"
    r"|signature|session_?id",
    re.IGNORECASE,
)
"""What is in the names of things that hold credentials."""

_NAME: Final = r"(?<![\w.-])(?P<name>[\w.-]+)"
_VALUE: Final = r"(?P<secret>[^\s\"'&;,$][^\s\"'&;,]*)"


def _compiled(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE | re.DOTALL) for pattern in patterns)


_ANYWHERE: Final = _compiled(
    r"://(?P<secret>[^/\s\"']+)@",  # name and password before a host
    rf"[?&;]{_NAME}={_VALUE}",  # in the query of an address
    r"\b(?:bearer|basic)\s+(?P<secret>[\w.~+/=-]{8,})",
    # What vendors' keys look like.
    r"\b(?P<secret>(?:sk|pk|rk)-[\w-]{16,}|gh[opsur]_\w{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|hf_\w{20,}|xox[a-z]-[\w-]{10,}|a[ks]ia[a-z0-9]{16}|aiza[\w-]{30,})",
    # A run that begins so and is none is passed over whole: not tried again from within.
    r"\b(?:(?P<secret>eyj[\w-]++\.[\w-]++\.[\w-]*+)|eyj[\w-]*+)",
)
_QUOTE: Final = r"\\*[\"']"
_IN_TEXTS: Final = (
    *_ANYWHERE,
    *_compiled(
        # A value in quotes; without them one that looks made by chance.
        rf"{_NAME}(?:{_QUOTE})?\s*[=:]\s*{_QUOTE}(?P<secret>[^\s\"'\\]{{4,}})(?={_QUOTE})",
        rf"{_NAME}\s*[=:]\s*(?P<secret>(?=[^\s\"'&;,]{{0,200}}\d)(?=[^\s\"'&;,]{{0,200}}[a-z])"
        r"[^\s\"'&;,$(){}\[\]]{8,})",
    ),
)
_IN_COMMANDS: Final = (
    *_ANYWHERE,
    *_compiled(
        rf"{_NAME}[\"']?\s*[=:]\s*[\"']?{_VALUE}",
        rf"(?<!\S)(?=--?){_NAME}\s+[\"']?(?!-){_VALUE}",
        r"\A(?P<name>[\w.-]+)\s*[=:](?P<secret>[^$].*)\Z",  # a value of several words
        r"https?://[^\s?#\"']++(?:\?(?P<secret>[^\s#\"']+))?",
        # A part of a path that nobody would make up: a key that stands in an address.
        r"/(?P<secret>(?=[a-z_-]*\d)(?=[\d_-]*[a-z])[\w-]{32,200})(?![\w.-])",
    ),
)


def redacted(text: str) -> str:
    """Return a text without the credentials that can be told from its own look."""
    return _without(text, _spans(text, _ANYWHERE))


def redacted_text(text: str) -> str:
    """Return a text without credentials, also those that it gives to a name such as `API_KEY`."""
    return _without(text, _spans(text, _IN_TEXTS))


def redacted_json(value: Any) -> Any:
    """Return JSON data without credentials: in its texts, and under keys that name one."""
    match value:
        case str():
            return redacted_text(value)
        case Mapping():
            return {
                key: HIDDEN
                if isinstance(one, str) and len(one) >= _SHORTEST and _SECRET.search(str(key))
                else redacted_json(one)
                for key, one in value.items()
            }
        case list() | tuple():
            return [redacted_json(one) for one in value]
    return value


def redacted_url(url: str) -> str:
    """Return an address without name, password, query and keys in its path."""
    return _without(url, _spans(url, _IN_COMMANDS))


def redacted_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command's program and arguments without keys, tokens and passwords."""
    pairs = zip(command, _secret_spans(command), strict=True)
    return tuple(_without(text, spans) for text, spans in pairs)


def credentials(command: Sequence[str] = (), url: str = "") -> tuple[str, ...]:
    """Return what `redacted_command` and `redacted_url` take out, also as a server may quote it."""
    secrets = [
        text[start:end]
        for text, spans in zip(command, _secret_spans(command), strict=True)
        for start, end in spans
    ]
    secrets += [url[start:end] for start, end in _spans(url, _IN_COMMANDS)]
    # Not urlsplit: it refuses some addresses, and these may hold credentials, too.
    secrets += [value for _, value in parse_qsl(url.partition("?")[2].partition("#")[0])]
    secrets += [word for text in secrets for word in text.split()]
    return tuple(
        dict.fromkeys(
            secret for secret in (*secrets, *map(unquote, secrets)) if _is_telling(secret)
        )
    )


def _is_telling(text: str) -> bool:
    return len(text) >= _SHORTEST and text.lower() not in {"bearer", "basic"}


def _secret_spans(command: Sequence[str]) -> list[list[tuple[int, int]]]:
    spans: list[list[tuple[int, int]]] = []
    before = ""
    for text in command:
        is_flag = before.startswith("-") and not before.endswith((":", "="))
        if is_flag and _SECRET.search(before) and not text.startswith(("-", "$")):
            spans.append([(0, len(text))])
        elif before in {"-u", "--user"} and ":" in text:
            spans.append([(text.index(":") + 1, len(text))])
        else:
            spans.append(_spans(text, _IN_COMMANDS))
        before = text
    return spans


def _spans(text: str, patterns: Iterable[re.Pattern[str]]) -> list[tuple[int, int]]:
    matches = (match for pattern in patterns for match in pattern.finditer(text))
    spans = [
        match.span("secret")
        for match in matches
        if match["secret"]
        and ((name := match.groupdict().get("name")) is None or _SECRET.search(name))
    ]
    return list(_joined(sorted(spans)))


def _joined(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans without overlap, in order."""
    last: tuple[int, int] | None = None
    for start, end in spans:
        if last is not None and start <= last[1]:
            last = (last[0], max(last[1], end))
            continue
        if last is not None:
            yield last
        last = (start, end)
    if last is not None:
        yield last


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    last = 0
    for start, end in spans:
        parts += (text[last:start], HIDDEN)
        last = end
    return "".join([*parts, text[last:]])
