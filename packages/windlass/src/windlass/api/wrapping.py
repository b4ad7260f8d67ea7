"""The library door for official clients: `wrap`, and saving what a wrapped client did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from windlass.caching.prices import Prices
from windlass.context.wrap import WrapOptions, wrapped
from windlass.context.wrapped_calls import CallContents, WrappedCall, WrapReport
from windlass.errors import UsageError
from windlass.window.options import Policy

if TYPE_CHECKING:
    from windlass.settings.settings import Settings

Client = TypeVar("Client")

_BESIDE: Final = ("blobs", "hooks", "images", "storage")
"""What may stand in the folder of a store before there is one."""


def wrap(
    client: Client,
    policy: str | Mapping[str, Any] | Policy | None = "default",
    *,
    provider: str | None = None,
    prices: Prices | None = None,
    max_input_tokens: int | None = None,
    holdout: float = 0.0,
) -> Client:
    """Return a client that sends the window of each conversation in place of all of it.

    It is used as before: `messages.create` and `stream` of `anthropic`, `chat.completions` and
    `responses` of `openai`, `models.generate_content` and `chats` of `google-genai`, each sync,
    async and streamed. Conversations are told apart by their longest common beginning. What the
    provider counts is planned by. The client that was handed over is not changed.

    What a window shows as it was said is sent as it came, cache marks included. A request that
    cannot be read, or that the vendor would refuse, is sent as it is. The attribute `windlass` of
    the new client is a `ClientReport`: what each call did, and what it cost beside the plain
    request; its `save` puts the calls into a store.

    Where the tools of a request have `recall_tool(...)`, shortened results name it, and
    `client.windlass.answer(...)` answers its calls. Otherwise only results are shortened that a
    tool gives again, and say which.

    Args:
        client: `Anthropic`, `OpenAI`, `genai.Client`, their async forms, and those derived.
        policy: A profile's name, a dict of options, or a `Policy`.
        provider: Whose prices and cache rules hold (None: the vendor's of the client); for a
            client whose `base_url` leads elsewhere, such as `openrouter`.
        prices: What the prompt cache charges; default those of each request's model, or of the
            one of its vendor that is most like it.
        max_input_tokens: Most tokens of a window (None: no limit).
        holdout: The share of conversations that are left as they are, from 0 to 1, so that the
            report can compare them with the others.

    Raises UsageError for another client, one that is wrapped, and a policy that is none.
    """
    options = WrapOptions(Policy.of(policy), provider, prices, max_input_tokens, holdout)
    return wrapped(client, options, ClientReport())


@dataclass(frozen=True, slots=True)
class Saved:
    """What a store holds of a client: its sessions, and how many calls were added this time.

    `bare` of these calls have no messages: their requests could not be read, or their conversation
    was let go for lack of room.
    """

    sessions: tuple[str, ...]
    calls: int
    bare: int


@dataclass
class ClientReport(WrapReport):
    """What a wrapped client sent so far, which can be saved."""

    _name: str = field(default_factory=lambda: f"wrap-{uuid4().hex[:10]}", repr=False)
    """What the names of its sessions begin with."""
    _saving: Lock = field(default_factory=Lock, repr=False)
    _saved: dict[tuple[str, str], int] = field(default_factory=dict, repr=False)
    """How many calls are saved, by store and session."""

    def save(self, store: str | Path | None = None) -> Saved:
        """Put all calls that are over into a store, where everything reads them as a run's.

        Each conversation is a session, with what its calls were sent, hidden and answered, why, and
        what they cost. What is stored already is not added again, so it may be called at any time,
        also while requests are under way. Headers and keys are not written.

        Args:
            store: The folder of the history, or its address, as in `run`; made where it is missing.

        Raises UsageError for a place that is no store, and StoreError where it cannot be written.
        """
        from windlass.api._saved_calls import SavedConversation
        from windlass.api.opening import shared_store
        from windlass.history.base import SessionFilter
        from windlass.settings.settings import Settings

        settings = Settings.read({"store": store})
        _check_place(settings)
        with self._saving, shared_store(settings) as history:
            calls, contents = self._now()
            sessions: dict[str, list[WrappedCall]] = {}
            for call in calls:
                sessions.setdefault(f"{self._name}-{call.thread}", []).append(call)
            ours = SessionFilter(prefix=self._name)
            there = {info.session_id for info in history.sessions(ours, limit=None)}
            added: list[WrappedCall] = []
            for session, own in sessions.items():
                place = str(settings.store), session
                if session in there and self._saved.get(place) == len(own):
                    continue
                conversation = SavedConversation(history, session, is_new=session not in there)
                added += conversation.add(own, contents)
                self._saved[place] = len(own)
        bare = sum(call.number not in contents for call in added)
        return Saved(tuple(sessions), len(added), bare)

    def _now(self) -> tuple[list[WrappedCall], Mapping[int, CallContents]]:
        """Return the calls that are over, and what was said in them, as they are now."""
        if self.conversations is None:
            return [], {}
        with self.conversations.lock:
            calls = [replace(call) for call in self.calls if call.is_over]
            return calls, self.conversations.contents()


def _check_place(settings: Settings) -> None:
    """Raise UsageError for a folder of other files, in which a store would get lost."""
    from windlass.api.opening import open_store

    folder = settings.store
    if not isinstance(folder, Path) or not folder.is_dir():
        return
    if any(one.name not in _BESIDE for one in folder.iterdir()):
        try:
            open_store(settings, existing=True, reading=True).close()
        except UsageError:
            raise UsageError(
                f"{str(folder)!r} holds other files and no store: name a store, or a folder that"
                " is not there yet"
            ) from None
