"""Every error that Windlass raises on purpose.

    WindlassError                      exit 1   shown as one sentence, without a traceback
    ├── UsageError                     exit 2   what the user wrote: files, flags, keys, names
    │   ├── StepDiffers                         a resumed session would ask something else
    │   │   └── OtherCascade                    it is of another cascade
    │   ├── SessionHeld                         somebody else runs the session
    │   ├── TrustNeeded                         something that nobody named needs trust
    │   └── FileError                           one or many mistakes in a file of settings
    │       └── CascadeError                    the same in a cascade file
    │           └── TaskFileError               the same in a task file
    ├── ContextError                            the context of a call could not be built
    │   ├── SequenceError                       a list of messages no provider would accept
    │   ├── MatchingFailed                      the memory could not be searched, twice
    │   └── NoContext                           a task has nothing to work on
    ├── TaskError                               a phase, an attempt or a task failed
    │   ├── PhaseFailed
    │   │   ├── OutputInvalid               its output never matched its `output_schema`
    │   │   └── WardRefused                 a blocking ward refused its input or its output
    │   ├── StepFailed                          a step of a sequential task; has partial results
    │   ├── InputFailed                         an inner task of a reduce; names its input
    │   └── WorkerLost                          a machine of a cluster was lost
    ├── LimitReached                            a limit the user or the model sets
    │   ├── ContextTooLong                      more tokens than the model's window
    │   ├── BudgetExceeded                      more tokens than `max_input_tokens` allows
    │   └── RunLimitReached                     money, tokens, time or turns are used up
    ├── PersonNeeded                            a person must say how to go on; the run waits
    │   ├── AnswerNeeded                        a phase asks something
    │   └── Unsure                              a tool may have run when the run was interrupted
    ├── ProviderError                           the model's side failed
    │   ├── BadRequest                          the provider refused the request
    │   └── RateLimited                         it kept answering "too many requests"
    ├── ToolError                               a tool failed; becomes a result the model sees
    ├── ServerError                             an MCP server did not start
    ├── StoreError                              disk full, store locked or damaged
    └── Interrupted                    exit 130 the user stopped the run

Texts name the value in quotes, what was expected and the way out. Foreign
exceptions are translated at the border where they appear and keep their cause.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias


class WindlassError(Exception):
    """Root of every error that Windlass raises on purpose.

    `exit_code` is what the command line ends with (1: the run or the machine
    failed). `session_id` is filled in by the engine once a session exists, so
    that a message can end with the command that shows what was recorded. `again` is the command
    that continues the session, where the message does not hold it.
    """

    exit_code = 1
    session_id: str | None = None
    again: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:  # so that it can go to another process, whole
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(
    kind: type[WindlassError], arguments: tuple[Any, ...], attributes: Mapping[str, Any]
) -> WindlassError:
    """Return an error as it was in another process."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


class UsageError(WindlassError):
    """Something the user wrote is wrong: a file, a flag, a key, a name."""

    exit_code = 2


class StepDiffers(UsageError):
    """The first step of a resumed session that would now ask something else, and what changed.

    `place` is the step in words, `sent` when it was sent, in seconds since 1970 (None: the record
    does not say).
    """

    def __init__(self, place: str, changed: Sequence[str], sent: float | None = None) -> None:
        self.place, self.changed, self.sent = place, changed, sent
        super().__init__(
            f"{place}: a different request was answered there, and {' and '.join(changed)} changed"
            " since; restore what changed, or go on from there in a new session with --accept"
        )


class OtherCascade(StepDiffers):
    """A session is of another cascade than the one that would go on with it: all steps differ."""

    def __init__(self, session_id: str, own: str, other: str, began: float, way: str = "") -> None:
        super().__init__("", (), began)
        self.session_id = session_id
        told = (
            f"session {session_id!r} is of cascade {own}, not of {other!r}; name that one or"
            f" none{way}"
        )
        self.args = (told,)


class SessionHeld(UsageError):
    """A session that somebody else runs, or perhaps runs: nobody else may until that has ended.

    `process` is its number (empty: it is not known), `machine` another machine's name (empty: it is
    this one); of another machine nobody knows whether it still runs.
    """

    def __init__(self, session_id: str, process: str, machine: str = "") -> None:
        self.held, self.process, self.machine = session_id, process, machine
        by = f" in process {process}" if process else ""
        super().__init__(
            f"session {session_id!r} was begun on machine {machine!r}{by}, and whether it still"
            " runs cannot be seen from here; go on with it there, here when it has been silent for"
            f" a day, or from one of its calls in a new one: windlass fork {session_id} --at CALL"
            if machine
            else f"session {session_id!r} is running{by}; wait for it, or stop it first"
        )


class TrustNeeded(UsageError):
    """Something that the user did not name would be imported, started or asked.

    `text` says what, and who wants it; `folders` are the paths to trust, if it is to be allowed.
    """

    def __init__(self, text: str, folders: Sequence[str]) -> None:
        self.text, self.folders = text, tuple(folders)
        marks = " && ".join(f"windlass trust {shlex.quote(folder)}" for folder in self.folders)
        super().__init__(f"{text} once: {marks} (or give --trust, in Python trust=True)")


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in a file: where it stands and what to do about it.

    `line` counts from 1; None where the file has no such place (a missing key
    points at its parent).
    """

    file: str
    line: int | None
    text: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.text}"


class FileError(UsageError):
    """All mistakes of one file (or of flags, variables) at once, one line each.

    `warnings` are what else was seen in it.
    """

    def __init__(self, mistakes: Iterable[Mistake], warnings: Iterable[Mistake] = ()) -> None:
        self.mistakes = tuple(mistakes)
        self.warnings = tuple(warnings)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


class CascadeError(FileError):
    """All mistakes of one cascade file at once, one line each."""


class TaskFileError(CascadeError):
    """All mistakes of one task file at once, one line each."""


class ContextError(WindlassError):
    """The context of a call could not be built."""


class SequenceError(ContextError):
    """A list of messages breaks a provider's rule: names the position and the rule."""


class MatchingFailed(ContextError):
    """The memory could not be searched for what belongs to a task, not even at a second try."""


class NoContext(ContextError):
    """A task has nothing to work on: it asks nothing, or its inputs come to nothing."""


class TaskError(WindlassError):
    """A part of the workflow failed.

    `notes["partialResults"]` are the results there were by then, each an object with
    at least `index` (from 0) and `output`; empty where the part keeps none.
    """

    notes: Mapping[str, Any] = MappingProxyType({})


class PhaseFailed(TaskError):
    """A phase used up its attempts, or something it requires did not happen."""


class WardRefused(PhaseFailed):
    """A blocking ward refused what goes into a phase, or what it says."""


class OutputInvalid(PhaseFailed):
    """A phase's output did not match its `output_schema`, after repair and all attempts."""


class StepFailed(TaskError):
    """A step of a sequential task failed; what finished before stays in `notes`.

    `step` is its name, `index` its place from 0. The step's own error is the cause.
    """

    def __init__(self, text: str, *, step: str, index: int, notes: Mapping[str, Any]) -> None:
        self.step = step
        self.index = index
        self.notes = notes
        super().__init__(text)


class InputFailed(TaskError):
    """An inner task of a reduce failed; what finished stays in `notes`, by index.

    `input` names the input that failed, `index` is its place from 0. The inner task's own error
    is the cause. Nothing was tried again.
    """

    def __init__(self, text: str, *, input: str, index: int, notes: Mapping[str, Any]) -> None:  # noqa: A002
        self.input = input
        self.index = index
        self.notes = notes
        super().__init__(text)


class WorkerLost(TaskError):
    """A machine of a cluster was lost, or could not do its work."""


class LimitReached(WindlassError):
    """A limit of the model or of the user stops the run."""


class ContextTooLong(LimitReached):
    """A request does not fit the model's window: by our count before it is sent, else by theirs.

    Where the provider's answer has the numbers, `counted` are the tokens it counted and
    `limit` the most input tokens it would have taken.
    """

    def __init__(self, text: str, *, counted: int | None = None, limit: int | None = None) -> None:
        self.counted = counted
        self.limit = limit
        super().__init__(text)


class BudgetExceeded(LimitReached):
    """A request is over `max_input_tokens` and the phase says `on_exceed: fail`."""


LimitName: TypeAlias = Literal["money", "tokens", "time", "turns"]
"""What a run, a phase or a batch may be limited in; time in seconds."""

_USED: Final[Mapping[LimitName, str]] = {
    "money": "${spent:.4f} of the budget of ${limit:.2f} was spent{by}, and the next call could"
    " have cost ${next_call:.4f}: it was not sent",
    "tokens": "{spent:,.0f} of {limit:,.0f} tokens were used{by}, and the next call could have"
    " taken {next_call:,.0f}: it was not sent",
    "time": "the limit of {limit:g} seconds was reached{by}: the next step was not started",
    "turns": "{spent:,.0f} of {limit:,.0f} turns were made{by}: the next call was not sent",
}


class RunLimitReached(LimitReached):
    """The next step could pass a limit of the run, of a phase or of a batch: it was not started.

    `reason` is what is limited (`money` in US dollars, `tokens`, `time` in seconds, `turns`) and
    `of` whose limit it is. `budget` is the limit, `spent` what was used, `next_call` the most that
    the next call could have used; `reached_in` is the phase whose call that is.
    """

    def __init__(
        self,
        *,
        reason: LimitName,
        of: str,
        budget: float,
        spent: float,
        next_call: float,
        reached_in: str | None = None,
    ) -> None:
        self.reason: LimitName = reason
        self.of = of
        self.budget = budget
        self.spent = spent
        self.next_call = next_call
        self.reached_in = reached_in
        by = "" if of == "the run" else f" by {of}"
        super().__init__(
            _USED[reason].format(limit=budget, spent=spent, next_call=next_call, by=by)
        )

    @property
    def amounts(self) -> dict[str, Any]:
        """Return all of it by name, as JSON values."""
        names = ("reason", "of", "budget", "spent", "next_call", "reached_in")
        return {name: getattr(self, name) for name in names}


def run_limit_in(error: BaseException | None) -> RunLimitReached | None:
    """Return the limit that led to an error; None where something else did."""
    while error is not None and not isinstance(error, RunLimitReached):
        error = error.__cause__
    return error


class ProviderError(WindlassError):
    """The model's side failed: not reachable, not installed, or answered with an error."""


class BadRequest(ProviderError):
    """The provider refused the request as malformed."""


class ThinkingRefused(BadRequest):
    """The provider refused signed thinking, because what came before it has changed."""


class RateLimited(ProviderError):
    """The provider answered "too many requests" (429) until the tries were used up."""


class ToolError(WindlassError):
    """A tool failed. The text becomes the tool's result, so that the model can react."""


class PersonNeeded(WindlassError):
    """A person must say how to go on, and nobody has: the run ends as `waiting`.

    `details` say what is needed, as JSON values, and so do `notes`, by what kind it is.
    """

    details: Mapping[str, Any] = MappingProxyType({})
    notes: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


class AnswerNeeded(PersonNeeded):
    """A phase asks a person something, and nobody answers.

    `tool` is the tool that needs approval (None: the model asks), and `call` names the one call
    that does; `options` are the answers to choose from, if it has some, and `context` is what a
    person should know. `why` says what is wrong with the answer that was given.
    """

    def __init__(
        self,
        *,
        phase: str,
        question: str,
        options: Iterable[str] = (),
        tool: str | None = None,
        call: str | None = None,
        why: str | None = None,
        context: str = "",
    ) -> None:
        self.question, self.options, self.context = question, list(options), context
        self.tool, self.call, self.why = tool, call, why
        asked = {"phase": phase, "question": question, "tool": tool, "call": call}
        more = {"context": context} if context else {}
        self.details = {**asked, "options": self.options, "why": why, **more}
        self.notes = {"question": self.details}
        listed = f" ({', '.join(self.options)})" if self.options else ""
        listed += f" [call {call}]" if call else ""
        super().__init__(f"phase {phase!r} asks: {question}{listed}" + (f"; {why}" if why else ""))


class Unsure(PersonNeeded):
    """Tools may have run when a run was interrupted, and their effects cannot be undone."""

    def __init__(self, place: str, tools: Sequence[str]) -> None:
        self.place, self.tools = place, list(tools)
        self.details = {"place": place, "tools": self.tools}
        self.notes = {"unsure": self.details}
        self.again = " ".join(f"--again {name}" for name in dict.fromkeys(tools))
        """The flags with which they run again."""
        named = ", ".join(dict.fromkeys(tools))
        super().__init__(
            f"{place}: {named} may have run when the session was broken off, and has effects that"
            f" cannot be taken back; look, and run it again with {self.again}"
        )


def person_needed(notes: Mapping[str, Any]) -> PersonNeeded | None:
    """Return what a run waits for whose result has these notes; None where it does not wait."""
    if question := notes.get("question"):
        return AnswerNeeded(**question)
    return Unsure(**unsure) if (unsure := notes.get("unsure")) else None


def person_needed_in(error: BaseException | None) -> PersonNeeded | None:
    """Return the need of a person that led to an error; None where something else did."""
    while error is not None and not isinstance(error, PersonNeeded):
        error = error.__cause__
    return error


class ServerError(WindlassError):
    """An MCP server that a phase needs did not start, so its tools are not there."""


class StoreError(WindlassError):
    """The store could not be read or written: disk full, locked, damaged."""


class Interrupted(WindlassError):
    """The user stopped the run; what was acknowledged is in the history."""

    exit_code = 130


class Unfinished(WindlassError):
    """A run ended `incomplete` or `waiting`: nothing failed, but not all is done."""

    exit_code = 3


def perhaps_newer(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown `name` in a file, whose language grows.

    A name that resembles a known one is a typing mistake; any other may be of a newer Windlass.
    """
    words = did_you_mean(name, known)
    if words.startswith("did"):
        return words
    return f"this Windlass does not know it, perhaps a newer one does; {words}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Give the end of a message about an unknown `name`: the nearest known name, then all of them.

    >>> did_you_mean("colour", ["color", "size"])
    "did you mean 'color'? known: color, size"
    """
    names = sorted(set(known))
    if not names:
        return "none are known here"
    near = get_close_matches(name, names, n=1)
    listed = "known: " + ", ".join(names)
    return f"did you mean {near[0]!r}? {listed}" if near else listed
