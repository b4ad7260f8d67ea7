"""`wrap`: an official client whose requests send the windows of their conversations.

A wrapped client is a copy of it that differs in one thing: what carries its requests. Whatever of
the client asks for an answer goes that way, streamed or not; all else of it is as it was.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from windlass.caching.prices import Prices
from windlass.caching.rates import cost, many, money, rate
from windlass.context._bodies import Opened, form_of_request, opened, usage_of, with_window
from windlass.context._threads import Asked, Call, Thread, Threads
from windlass.context._transports import with_models, with_post
from windlass.context.context import Context
from windlass.context.recall import answer_call
from windlass.errors import UsageError
from windlass.messages import Message
from windlass.window.options import Policy
from windlass.wire.base import Usage
from windlass.wire.thinking import refuses_thinking
from windlass.wire.usage import read_usage

Client = TypeVar("Client")

_PROVIDERS: Final = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}
"""By the package that a client's class stands in."""
_UNKNOWN: Final = "no conversation so far"


@dataclass(slots=True)
class WrappedCall:
    """A call that a wrapped client made.

    `thread` is the number of its conversation, `messages` how many it had. `tokens` were sent by
    our count, and sending everything would have been `saved_tokens` more. `usage` is what the
    provider counted (None: it did not say). `assumed` is what was not known.
    """

    thread: int
    model: str
    messages: int
    tokens: int
    saved_tokens: int
    assumed: tuple[str, ...] = ()
    usage: Usage | None = None

    @property
    def cost(self) -> float | None:
        """US dollars (None: no price is known, or the provider said no usage)."""
        return None if self.usage is None else cost(self.model, **asdict(self.usage))


@dataclass(slots=True)
class WrapReport:
    """What a wrapped client sent so far: `calls`, and how often it `passed` one on, by reason."""

    calls: list[WrappedCall] = field(default_factory=list[WrappedCall])
    passed: Counter[str] = field(default_factory=Counter[str])
    _contexts: Callable[[], list[Context]] = list

    @property
    def tokens(self) -> int:
        """Input tokens that were sent, by our count."""
        return sum(call.tokens for call in self.calls)

    @property
    def saved_tokens(self) -> int:
        """Input tokens that sending everything would have been more."""
        return sum(call.saved_tokens for call in self.calls)

    @property
    def cost(self) -> float:
        """US dollars of the calls whose price and usage are known."""
        return sum(call.cost or 0.0 for call in self.calls)

    def recall(
        self, ref: str, grep: str = "", lines: str = "", path: str = "", part: str = ""
    ) -> str:
        """The original behind a reference in any of the conversations; see `ChatWindow.recall`.

        Where there are several, the beginning of a reference is none: it might mean another's.
        """
        contexts = self._contexts()
        for context in contexts:
            if len(contexts) == 1 or context.knows(ref):
                return context.recall(ref, grep, lines, path, part)
        why = "no conversation has it" if contexts else _UNKNOWN
        return f"The reference {ref!r:.200} names no message here: {why}"

    def answer(self, block: Any) -> Any:
        """The result of a model's call of `recall`, to be appended; see `ChatWindow.answer`."""
        return answer_call(block, self)

    def original(self, ref: str) -> Message | None:
        """The message behind a reference in any of the conversations (None: in none)."""
        contexts = self._contexts()
        known = (one for one in contexts if len(contexts) == 1 or one.knows(ref))
        return next((one.original(ref) for one in known), None)

    def __str__(self) -> str:
        threads = len({call.thread for call in self.calls})
        sums = f"{self.tokens:,} tokens sent, {self.saved_tokens:,} left out, {money(self.cost)}"
        passed = [f"{count} passed on as they were: {why}" for why, count in self.passed.items()]
        return "\n".join(
            [f"{many(len(self.calls), 'call')} in {many(threads, 'conversation')}: {sums}", *passed]
        )


def wrap(
    client: Client,
    policy: str | Mapping[str, Any] | Policy | None = "default",
    *,
    provider: str | None = None,
    prices: Prices | None = None,
    max_input_tokens: int | None = None,
) -> Client:
    """A client that sends the window of each conversation in place of all of it.

    It is used as before: `messages.create` and `stream` of `anthropic`, `chat.completions` and
    `responses` of `openai`, `models.generate_content` and `chats` of `google-genai`, each sync,
    async and streamed. Conversations are told apart by their longest common beginning. What the
    provider counts is planned by. A request that cannot be read is sent as it is. The attribute
    `windlass` of the new client is a `WrapReport`. The client that was handed over is not changed.

    Where the tools of a request have `recall_tool(...)`, shortened results name it, and
    `client.windlass.answer(...)` answers its calls. Otherwise only results are shortened that a
    tool gives again, and say which.

    Args:
        client: `Anthropic`, `OpenAI`, `genai.Client`, their async forms, and those derived.
        policy: A profile's name, a dict of options, or a `Policy`.
        provider: Whose prices and cache rules hold (None: the vendor's of the client); for a
            client whose `base_url` leads elsewhere, such as `openrouter`.
        prices: What the prompt cache charges; default those of each request's model.
        max_input_tokens: Most tokens of a window (None: no limit).

    Raises UsageError for another client, one that is wrapped, and a policy that is none.
    """
    package = next(
        (name for one in type(client).__mro__ if (name := _package(one)) in _PROVIDERS), ""
    )
    carried = "_api_client" if package == "google" else "post"
    if not package or not hasattr(client, carried):
        raise UsageError(
            "wrap takes a client of anthropic, openai or google-genai, not"
            f" {type(client).__module__}.{type(client).__name__}"
        )
    if hasattr(client, "windlass"):
        raise UsageError("the client is wrapped already")
    wrapper = _Wrapper(provider or _PROVIDERS[package], Policy.of(policy), prices, max_input_tokens)
    made: Client = (with_models if package == "google" else with_post)(client, wrapper)
    return made


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


class _Wrapper:
    """What the requests of a client, and of its copies, go through."""

    def __init__(
        self, provider: str, policy: Policy, prices: Prices | None, most: int | None
    ) -> None:
        self._provider = provider
        self._policy = policy
        self._prices = prices
        self._most = most
        self._threads = Threads(self._begin, time.monotonic)
        self.report = WrapReport(_contexts=self._threads.contexts)

    def _begin(self, asked: Asked) -> Context:
        context = Context(
            f"{self._provider}/{asked.model}",
            self._policy,
            prices=self._prices,
            tools=asked.tools,
            max_input_tokens=self._most,
        )
        if asked.head is not None:
            context.append(asked.head)
        context.use_form(asked.form)
        return context

    def asked(self, path: str, body: Any) -> tuple[Any, _Asking | None]:
        """The body to be sent for a request, and who hears of its answer (None: nobody)."""
        if (found := form_of_request(path, body)) is None:
            return body, None
        thread: Thread | None = None
        try:
            request = opened(*found, body)
            thread, call = self._threads.call(request.asked)
            sent = self._body(request, thread.context, call)
        except Exception as error:  # noqa: BLE001 - no mistake of ours may stop a request
            if thread is not None:
                self._threads.drop(thread)
            self.report.passed[str(error) or type(error).__name__] += 1
            return body, None
        asking = _Asking(self._threads, thread, call, request)
        self.report.calls.append(asking.told)
        return sent, asking

    def _body(self, request: Opened, context: Context, call: Call) -> dict[str, Any]:
        if request.marks and not context.takes_marks:
            raise UsageError(
                f"it has cache marks, and those of {context.model} are not known: say whose they"
                " are with wrap(client, provider=...)"
            )
        return with_window(request, call.window, keyed=rate(context.model) is not None)


class _Asking:
    """A request that was sent, and hears of its answer."""

    def __init__(self, threads: Threads, thread: Thread, call: Call, request: Opened) -> None:
        self._threads = threads
        self._thread = thread
        self._call = call
        self._request = request
        self.told = WrappedCall(
            thread.number,
            thread.context.model,
            len(request.asked.messages),
            call.window.tokens,
            call.window.saved_tokens,
            call.window.assumed,
        )

    def hear(self, answer: Any) -> None:
        """Take an answer, or an event of a streamed one."""
        try:
            if (usage := usage_of(answer)) is not None:
                self._threads.answered(self._thread, self._call, usage)
                self.told.usage = read_usage(self._call.usage or {})
        except Exception as error:  # noqa: BLE001 - a usage that makes no sense stops no answer
            why = f"its usage cannot be read, so it is not counted: {error}"
            if why not in self.told.assumed:  # a stream may say it with each event
                self.told.assumed += (why,)

    def again(self, error: Exception) -> dict[str, Any]:
        """The body to be sent in place of one that was refused for its thinking.

        Raises the error where it says something else.
        """
        if not refuses_thinking(str(error)):
            raise error
        self._call = self._threads.without_thinking(self._thread)
        self.told.tokens = self._call.window.tokens
        return with_window(self._request, self._call.window, keyed=False)
