"""Who decides what a call sees: sending everything, masking by age, Windlass, other packages.

A contestant is named on the command line as `kind` or `kind:options`; `make` reads
the name. One contestant serves one recording after the other.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol
from unittest.mock import patch

from bench.windows.peer import Peer
from bench.windows.recordings import Chat, Recording

from windlass.replays.numbered import pieces
from windlass.replays.pricing import Vector

HIDDEN: Final = "[Tool result, {} chars, hash={:08x}]"
"""What stands for a masked result, with its length and a checksum of its text."""


UNBOUND: Final = "anthropic/claude-sonnet-4-5"
BOUND: Final = "anthropic/claude-opus-5-5"
"""A model that takes signed thinking whatever stands before it, and one that does not."""


_CUT: Final = "cut."
_OF_CONTEXT: Final = ("model", "max_input_tokens", "recall", "way_back")


class Contestant(Protocol):
    """Decides windows. It may keep state from call to call of one recording."""

    by_price: bool
    """Whether its windows depend on the price vector, so that it is run once for each."""

    signed: bool
    """Whether it is handed replies with signed thinking: all but Windlass for models that do not
    bind it."""

    @property
    def marks(self) -> Sequence[int]:
        """The positions in the last window of the messages that it marks for the cache."""
        ...

    def begin(self, recording: Recording) -> None:
        """A new recording starts."""
        ...

    def window(self, messages: Sequence[Chat], new_from: int) -> list[Chat]:
        """What the next call sees of all `messages` before it.

        Those from position `new_from` on were not handed over before.
        """
        ...

    def close(self) -> None:
        """No more recordings: end what was started."""
        ...


class Everything:
    """Sends all that was said."""

    by_price = False
    signed = True
    marks: Sequence[int] = ()

    def begin(self, recording: Recording) -> None:
        """Nothing to prepare."""

    def window(self, messages: Sequence[Chat], new_from: int) -> list[Chat]:  # noqa: ARG002
        """All of them."""
        return list(messages)

    def close(self) -> None:
        """Nothing to end."""


class MaskEveryTurn(Everything):
    """Hides every tool result older than so many turns, anew at each call.

    A turn is an assistant message with all its results. Calls and results stay in
    pairs: only what a result says is replaced, where it is longer than `above` characters.
    """

    by_price = False
    signed = True
    marks: Sequence[int] = ()

    def __init__(self, turns: int, above: int = 100) -> None:
        self._turns = turns
        self._above = above
        self._masked: dict[int, Chat] = {}

    def begin(self, recording: Recording) -> None:  # noqa: ARG002
        """Forget the last recording's masked results."""
        self._masked = {}

    def window(self, messages: Sequence[Chat], new_from: int) -> list[Chat]:  # noqa: ARG002
        """The messages, with what old results say hidden."""
        made = [at for at, chat in enumerate(messages) if chat["role"] == "assistant"]
        whole_from = made[-self._turns] if len(made) >= self._turns else 0
        return [
            self._mask(at, chat) if at < whole_from and chat["role"] == "tool" else chat
            for at, chat in enumerate(messages)
        ]

    def _mask(self, at: int, chat: Chat) -> Chat:
        if at not in self._masked:
            said = "".join(pieces(chat))
            hidden = HIDDEN.format(len(said), zlib.crc32(said.encode()))
            self._masked[at] = {**chat, "content": hidden} if len(said) > self._above else chat
        return self._masked[at]


class Windlass:
    """Windlass' own windows by the incremental interface.

    Options are settings of the policy, but `model`, `max_input_tokens`, `recall`, `way_back` (all
    handed to `windlass.Context`) and `tools` (true: it is told the recording's tools). Unless told
    otherwise a reference is way back enough: what is fetched again is on the bill. `cut.KIND` is
    above how many tokens results of a kind are cut, and how many they keep: `500/350`. A profile
    with `@bound` behind it is that for a model which binds signed thinking.
    """

    def __init__(self, profile: str, options: dict[str, Any], vector: Vector) -> None:
        profile, _, bound = profile.partition("@")
        if bound not in ("", "bound"):
            raise ValueError(f"a profile has nothing or '@bound' behind it, not '@{bound}'")
        self.signed = bool(bound)
        self.context: Any = None
        self.marks: Sequence[int] = ()
        self._keywords: dict[str, Any] = {
            key: options.pop(key) for key in _OF_CONTEXT if key in options
        }
        if "recall" not in self._keywords:
            self._keywords.setdefault("way_back", "")
        self._keywords.setdefault("model", BOUND if bound else UNBOUND)
        self._tools = options.pop("tools", False)
        cuts = {name: options.pop(name) for name in list(options) if name.startswith(_CUT)}
        self._sizes: dict[Any, tuple[int, int]] = {}
        for name, size in cuts.items():
            above, _, keep = str(size).partition("/")
            self._sizes[name.removeprefix(_CUT)] = int(above), int(keep)
        profile = profile or "default"
        self._policy = {"profile": profile, **options} if options else profile
        self._vector = vector
        self.by_price = options.get("commit") != "at_once"

    def begin(self, recording: Recording) -> None:
        """A new context."""
        import windlass

        # Looked up by name: the benchmark also runs on versions without it.
        make, prices = (getattr(windlass, name) for name in ("Context", "Prices"))
        keywords = dict(self._keywords)
        if self._tools and recording.tools:
            keywords["tools"] = list(recording.tools)
        vector = self._vector
        self.context = make(
            policy=self._policy,
            prices=prices(
                read=vector.read,
                write=vector.write,
                minimum=vector.minimum,
                step=vector.step,
                ttl_s=300,
            ),
            **keywords,
        )

    def window(self, messages: Sequence[Chat], new_from: int) -> list[Chat]:
        """Append what is new; the window's messages."""
        for chat in messages[new_from:]:
            self.context.append(chat)
        with patch.dict("windlass.window.policies.cuts.SIZES", self._all_sizes()):
            made = self.context.window()
        self.marks = [at for at, _ in made.breakpoints if at >= 0]
        chats: list[Chat] = made.messages
        return chats

    def _all_sizes(self) -> Mapping[str, Any]:
        from windlass.window.policies.cuts import SIZES

        if not self._sizes:
            return {}
        return {cut: {**sizes, **self._sizes} for cut, sizes in SIZES.items()}

    def close(self) -> None:
        """Nothing to end."""


def options_of(text: str) -> dict[str, Any]:
    """`a=1,b=x` as a dict; a value is JSON where it can be read so, else text."""
    made: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        try:
            made[name] = json.loads(value)
        except ValueError:
            made[name] = value
    return made


def make(name: str, vector: Vector) -> Contestant:
    """The contestant called `name`, planning for `vector` where it plans at all.

    Raises ValueError listing the kinds where there is no such one, and
    FileNotFoundError where its environment was not made.
    """
    kind, _, rest = name.partition(":")
    match kind:
        case "everything":
            return Everything()
        case "mask":
            turns, _, settings = rest.partition(",")
            return MaskEveryTurn(int(turns or 5), **options_of(settings))
        case "windlass":
            profile, _, settings = rest.partition(",")
            return Windlass(profile, options_of(settings), vector)
        case "langchain" | "agents" | "headroom":
            return Peer(kind, options_of(rest))
        case _:
            raise ValueError(
                f"no contestant {kind!r}; there are everything, mask:TURNS[,above=CHARACTERS],"
                " windlass:PROFILE[@bound][,OPTION=VALUE...], langchain, agents, headroom"
                "[:OPTION=VALUE...]"
            )
