"""`wrap`: an official client whose requests send the windows of their conversations.

A wrapped client is a copy of it that differs in one thing: what carries its requests. Whatever of
the client asks for an answer goes that way, streamed or not; all else of it is as it was.

Beside each request stands the plain one, as it came, and what it would have cost. Cache marks of
the caller's stay; others are added where a second call of the same beginning is to be expected, and
no request is sent by which the bill would pass that of the plain ones.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from windlass.caching.breakpoints import mark_rules
from windlass.caching.prices import Prices
from windlass.caching.provider_rules import cache_rules
from windlass.caching.rates import is_local, kin_of, prices_of, rate
from windlass.context._accounts import GUARD, ExpectedUse, ModelAccount, estimate
from windlass.context._bodies import (
    OpenedRequest,
    form_of_request,
    opened,
    pieces_of,
    usage_of,
    with_window,
)
from windlass.context._reuse import Reuse
from windlass.context._threads import Thread, Threads, ThreadWindow
from windlass.context._transports import with_models, with_post
from windlass.context.context import Context
from windlass.context.wrapped_calls import (
    AS_IT_CAME,
    HELD_OUT,
    CallContents,
    WrappedCall,
    WrapReport,
    describe,
)
from windlass.errors import UsageError, WindlassError
from windlass.window.entries import Edit, Entry
from windlass.window.options import Policy
from windlass.wire.answers import HeardAnswer
from windlass.wire.base import Usage
from windlass.wire.thinking import refuses_thinking, thinking_rules
from windlass.wire.usage import read_usage

Client = TypeVar("Client")

_PROVIDERS: Final = {"anthropic": "anthropic", "openai": "openai", "google": "gemini"}
"""By the package that a client's class stands in."""
_PASSTHROUGH: Final = "WINDLASS_PASSTHROUGH"
_LOGGER: Final = logging.getLogger("windlass")
_LEAST_NOTED: Final = 1_000
"""Tokens from which on it is worth a note that they are paid anew with each call."""


@dataclass(frozen=True, slots=True)
class WrapOptions:
    """The options of `wrap`, as it describes them."""

    policy: Policy
    provider: str | None
    prices: Prices | None
    max_input_tokens: int | None
    holdout: float


def wrapped(client: Client, options: WrapOptions, report: WrapReport) -> Client:
    """Return a copy of a client whose requests send the windows of their conversations.

    `report` is told of them, and becomes its attribute `windlass`. Raises UsageError for another
    client, for one that is wrapped, and for a share that is none.
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
    if not 0 <= options.holdout <= 1:
        raise UsageError(f"holdout is a share from 0 to 1, not {options.holdout!r}")
    wrapper = _Wrapper(options, options.provider or _PROVIDERS[package], report)
    made: Client = (with_models if package == "google" else with_post)(client, wrapper)
    return made


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


class _Model:
    """What is known of one model: whose rules hold, what is assumed, its calls so far."""

    def __init__(self, name: str, prices: Prices | None) -> None:
        self.name = name
        is_known = rate(name) is not None or is_local(name)
        kin = None if is_known else kin_of(name)
        self.rules_of = kin or name
        """The model whose rules hold."""
        self.assumed = ""
        unknown: list[str] = []
        self.prices = prices or prices_of(self.rules_of, warn=unknown.append)
        say = "wrap(client, prices=windlass.Prices(...)) says others"
        if kin is not None:
            self.assumed = f"{name} is in no table: the rules of {kin} hold, and no price; {say}"
        elif unknown:
            self.assumed = f"{unknown[0]}; {say}, and provider= whose rules hold"
        provider, _, model = self.rules_of.partition("/")
        rules = mark_rules(provider, model) if self.prices.caches else None
        automatic = cache_rules(provider, model).automatic
        self.marks = rules is not None and (is_known or not automatic)
        """Whether marks are set. A gateway may refuse those that an automatic cache can do without.
        """
        self._long_s = rules.ttl_long_s if rules is not None else None
        self.account = ModelAccount(self.prices, rules, automatic=automatic)
        self.reuse = Reuse(self.prices.ttl_s)

    def prices_for(self, *, long: bool) -> Prices:
        """What the cache charges a caller, who has messages written for the longer time or not."""
        prices = self.prices
        if not long or prices.write_long is None:
            return prices
        return replace(prices, write=prices.write_long, ttl_s=self._long_s or prices.ttl_s)


class _Wrapper:
    """What the requests of a client, and of its copies, go through."""

    def __init__(self, options: WrapOptions, provider: str, report: WrapReport) -> None:
        self._options = options
        self._provider = provider
        self._models: dict[str, _Model] = {}
        self.threads = Threads(self._begin, time.monotonic)
        self.report = report
        report.conversations = self.threads

    def _model(self, name: str) -> _Model:
        if name not in self._models:
            self._models[name] = model = _Model(f"{self._provider}/{name}", self._options.prices)
            if model.assumed:
                self.report.note(f"model {name}", model.assumed)
        return self._models[name]

    def _begin(self, request: OpenedRequest) -> Context:
        model = self._model(request.model)
        policy, long = self._options.policy, request.writes_long
        if long and policy.guard is None:  # writing is dear: what may not pay is not begun
            policy = replace(policy, guard=GUARD)
        context = Context(
            model.rules_of,
            policy,
            prices=model.prices_for(long=long),
            tools=request.tools,
            max_input_tokens=self._options.max_input_tokens,
        )
        for message in request.head:
            context.append(message)
        context.listed.use_form(request.form, apart=True)
        return context

    def asked(self, path: str, body: Any) -> tuple[Any, _Asking | None]:
        """Return the body to be sent for a request, and who hears of its answer (None: nobody)."""
        if (form := form_of_request(path, body)) is None:
            return body, None
        with self.threads.lock:
            number = len(self.report.calls) + 1
            record = WrappedCall(number, 0, f"{self._provider}/{form[1]}", messages=0)
            record.timing.at = time.time()
            self.report.calls.append(record)
            thread: Thread | None = None
            try:
                request = opened(*form, body)
                record.marks.own = len(request.marks) + request.automatic_mark
                record.messages = len(request.messages)
                record.tokens = round(request.pieces.tokens)
                thread = self.threads.thread(request)
                record.thread = thread.number
                return self._sent(request, thread, record)
            except WindlassError as error:
                why = str(error)
            except Exception as error:  # no mistake of ours may stop a request
                _LOGGER.exception("a mistake of Windlass: please tell us of it")
                why = f"Windlass could not read it ({type(error).__name__}: {error})"
            if thread is not None:
                self.threads.drop(thread)
            self._pass(record, why)
            return body, _Asking(self, record)

    def _sent(
        self, request: OpenedRequest, thread: Thread, record: WrappedCall
    ) -> tuple[Any, _Asking]:
        """Return the body to be sent for a request of a thread, and who hears of its answer."""
        model, at = self._model(request.model), time.monotonic()
        record.assumed = (model.assumed,) if model.assumed else ()
        gap = None if thread.called_at is None else at - thread.called_at
        until = model.reuse.marks_until(request, thread.made, gap, at)
        if (head := model.reuse.changing) and head.tokens >= _LEAST_NOTED:
            self.report.note("changing head", str(head))
        asking = _Asking(self, record, model, request, thread)
        dearer = model.account.passes(self.threads.unread(at))
        if thread.called_at is None and not thinking_rules(model.name).bound:
            thread.plain = dearer
        thread.called_at = at
        if why := self._why_as_it_came(thread):
            self._pass(record, why)
            thread.made += 1
            asking.expect(request.raw, at)
            asking.say()
            return request.raw, asking
        marks = [mark.place for mark in request.marks]
        thread.context.use_marks(marks, end=request.automatic_mark, until=until)
        asking.call = call = thread.call()
        body, record.marks.added = with_window(request, call.window, mark=model.marks)
        asking.expect(body, at)
        if dearer:
            body = self._cheapest(asking, body, at)
        edits: list[Edit] = []
        if body is not request.raw:
            edits = describe(record, call.window, thread.shown, ahead=len(request.head))
        record.assumed += call.window.assumed
        asking.say(edits)
        return body, asking

    def _why_as_it_came(self, thread: Thread) -> str:
        """Return why a request goes out as it came (empty: its window goes out)."""
        if os.environ.get(_PASSTHROUGH, "0").lower() not in ("", "0", "false", "no"):
            return f"{_PASSTHROUGH} is set"
        if thread.drawn < self._options.holdout:
            return HELD_OUT
        if thread.plain:
            return "the conversations before it cost more than they would have as they came"
        if repairs := thread.context.repairs:
            return f"wrap mends no list, and not every vendor takes this one: {repairs[0]}"
        return ""

    def _cheapest(self, asking: _Asking, body: Any, at: float) -> Any:
        """The body that costs least now, of the window's, that without our marks, and the plain."""
        request, call, model = asking.request, asking.call, asking.model
        if request is None or call is None or model is None:
            return body
        unmarked, _ = with_window(request, call.window, mark=False)
        bodies = [body, unmarked]
        if not thinking_rules(model.name).bound:
            bodies.append(request.raw)
        costs = {}
        for number, one in enumerate(bodies):
            asking.expect(one, at)
            costs[number] = asking.units
        best = min(costs, key=lambda number: (round(costs[number], 3), number))
        asking.expect(bodies[best], at)
        if best:
            asking.record.marks.added = 0
            self.report.note(
                "guard", "the bill came above that of the plain requests: some go out as they came"
            )
        if bodies[best] is request.raw and unmarked is not request.raw:
            self._pass(asking.record, "its window would cost more")
        return bodies[best]

    def _pass(self, record: WrappedCall, why: str) -> None:
        record.passed_because = why
        if not record.held_out:
            self.report.passed[why] += 1
            self.report.note(AS_IT_CAME, f"call {record.number} goes out as it came: {why}")


class _Asking:
    """A request that was sent, and hears of its answer."""

    def __init__(
        self,
        wrapper: _Wrapper,
        record: WrappedCall,
        model: _Model | None = None,
        request: OpenedRequest | None = None,
        thread: Thread | None = None,
    ) -> None:
        self._wrapper = wrapper
        self.record = record
        self.model = model
        self.request = request
        self.thread = thread
        self.call: ThreadWindow | None = None
        self._expected: ExpectedUse | None = None
        self._usage: dict[str, Any] = {}
        self._counted: tuple[Usage, Usage] | None = None
        """What the account has of the call, and of the plain one."""
        self._begun = time.monotonic()
        self._contents: CallContents | None = None
        self._answer: HeardAnswer | None = None

    def say(self, edits: Sequence[Edit] = ()) -> None:
        """Keep what the request says, and what of it is shown otherwise for the first time."""
        request, thread = self.request, self.thread
        if request is None or thread is None:
            return
        context, why = thread.context, self.record.passed_because
        window = None if self.call is None or why else self.call.window
        taken = context.taken if window is None else window.taken
        said = [one.item for one in taken if not one.left_out]
        self._contents = CallContents(
            self.record,
            said,
            [Entry(item, item.message, f"as it came: {why}") for item in said]
            if window is None
            else window.next_call.entries,
            context.specs,
            edits,
            None if window is None else context.policy,
        )
        self._answer = self._answer or HeardAnswer(request.form)
        self._wrapper.threads.note(thread, self._contents)

    def expect(self, body: Mapping[str, Any], at: float) -> None:
        """Let the body be the one that is sent, at so many seconds."""
        if self.model is None or self.request is None or self.thread is None:
            return
        plain = self.request.pieces
        sent = plain if body is self.request.raw else pieces_of(self.request.form, body)
        self._expected = expected = self.model.account.expect(sent, plain, at)
        until = at + (self.model.prices.ttl_s or 0.0)
        self.thread.unread = until, self.model.account.premium(expected)

    @property
    def units(self) -> float:
        """Return what the input will cost, in fresh input tokens."""
        if self.model is None or self._expected is None:
            return 0.0
        return self.model.account.units(self._expected.sent_use)

    def hear(self, answer: Any) -> None:
        """Take an answer, or an event of a streamed one."""
        if self._answer is not None:
            self._answer.hear(answer)
        try:
            if (usage := usage_of(answer)) is not None:
                self._usage |= usage
                if self.thread is not None and self.call is not None:
                    self._wrapper.threads.answered(self.thread, self.call, usage)
                self._count(read_usage(self._usage))
        except Exception as error:  # noqa: BLE001 - a usage that makes no sense stops no answer
            why = f"its usage cannot be read, so it is not counted: {error}"
            if why not in self.record.assumed:  # a stream may say it with each event
                self.record.assumed += (why,)

    def _count(self, usage: Usage) -> None:
        """Take what the provider counted."""
        with self._wrapper.threads.lock:
            self.record.usage = usage
            if self.model is None or self._expected is None:
                self.record.plain_usage = usage
                return
            self.record.plain_usage = plain = self._expected.plain_usage(usage)
            account = self.model.account
            if self._counted is None:
                account.take(self._expected)
            else:
                account.add(*self._counted, times=-1)
            self._counted = usage, plain
            account.add(usage, plain)

    def again(self, error: Exception) -> Mapping[str, Any]:
        """Return the body to be sent in place of one that was refused for its thinking.

        Raises the error where it says something else.
        """
        request, thread, call = self.request, self.thread, self.call
        if request is None or thread is None or call is None or not refuses_thinking(str(error)):
            raise error
        self.call = call = self._wrapper.threads.without_thinking(thread, call)
        self.record.tokens = call.window.tokens
        self._wrapper.report.note(
            "thinking", "the vendor refused thinking that was sent as it came: it is left out"
        )
        body, self.record.marks.added = with_window(
            request, call.window, mark=self.model is not None and self.model.marks
        )
        self.expect(body, time.monotonic())
        with self._wrapper.threads.lock:
            self.say(self._contents.edits if self._contents else ())
        return body

    def ended(self) -> None:
        """Take that the answer was read to its end."""
        if self.record.usage is not None:
            self._end()
            return
        self.record.assumed += ("its usage is not known: the provider did not say it",)
        with self._wrapper.threads.lock:
            if self.model is not None and self._expected is not None:
                self.model.account.take(self._expected)
                sent, plain = self._expected.sent_use, self._expected.plain_use
                self.model.account.add(estimate(sent), estimate(plain))
        self._end()

    def failed(self, error: BaseException) -> None:
        """Take that there was no answer, or that it broke off or was left before its end."""
        self.record.failed = str(error) or type(error).__name__
        if self.thread is not None and self.record.usage is None:
            self.thread.unread = 0.0, 0.0
        self._end()

    def _end(self) -> None:
        """Take that nothing more of the answer will come."""
        with self._wrapper.threads.lock:
            if self._contents is not None and self._answer is not None:
                self._contents.reply = self._answer.message
            self.record.timing.seconds = time.monotonic() - self._begun
