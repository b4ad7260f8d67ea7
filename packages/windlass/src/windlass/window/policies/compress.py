"""Results too large for a window are cut before they are sent for the first time.

This loses text, so it applies only above a threshold, which rises with the budget that is left. The
default keeps head, tail and error lines of results above 8,000 tokens; `by_kind` gives each kind of
result its own short form. Of many tests that passed those that are alike are counted. Either way,
the text says how to get the original back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_not
from typing import Final

from windlass.messages import Message, Part, Text
from windlass.text.tokens import CHARS_A_TOKEN
from windlass.window._pending import PendingEdits, Proposal
from windlass.window.digests import lines_of_failure
from windlass.window.encode import is_encoded
from windlass.window.encode import short_forms as forms
from windlass.window.encode.short_forms import cut
from windlass.window.kinds import Kind
from windlass.window.originals import reference
from windlass.window.policies.cuts import asked_for, new_results
from windlass.window.policies.shared import ERROR_CHARS, Count, CountOrZero
from windlass.window.reruns import lines_left_out
from windlass.window.shorten import alike_lines

_LEAST_SHARE: Final = 0.5
"""The share of a threshold that holds when nothing of the window is left; when all of it is,
it holds with 1 more than that."""
_LEAST_CHARS: Final = 200
_HEAD: Final = 0.6
"""The share of what is kept that comes from the head."""
_ERROR_CHARS: Final = 1_000
"""Characters that error lines of the part that is left out may take."""
_K: Final = 1_000
_PASSED: Final = re.compile(r"\b(?:PASS|PASSED|ok|OK)\b|[✓✔√]")
"""What lines of tests that passed have, whatever their runner."""
_PASSED_SHARE: Final = 0.5
"""The share of lines from which on they are counted: few, scattered among others, are near them
for a reason."""
_OUTPUT: Final[frozenset[Kind]] = frozenset({"command", "test", "build", "log", "text"})
"""Kinds that may be the output of a test runner."""
_OTHER_CHARS: Final = 1_500
"""The most characters that a result keeps by its kind, where no option says it."""
_BACK_CHARS: Final = 200
"""Characters of a form that the hint for getting the original back may take."""


@dataclass(frozen=True, kw_only=True)
class CompressOptions:
    """How large new results are cut, by the kind of their content."""

    above_chars: Count = 32_000
    """Characters above which a result is cut; without `by_kind` it keeps no more than that."""
    max_result_tokens: Count = 8_000
    """The most tokens that a cut result keeps."""
    passed_lines: CountOrZero = 20
    """Lines by which tests say that they passed, from which on those that are alike are counted.

    0: never. A test that the task, the newest user message or the call names keeps its line.
    """
    by_kind: bool = False
    """Whether each kind of result has its own short form; else head, tail and error lines."""
    adapt: bool = True
    """Whether the three thresholds rise and fall with what is left of the model's window.

    They are half as high when none of it is left, and 1.5 times as high when all of it is.
    """
    search_results: Count = 5
    """Results of a search that are kept, with title and snippet."""
    search_chars: Count = 2_000
    """The most characters a search keeps."""
    file_lines: Count = 10
    """First lines of a file that are kept."""
    file_chars: Count = 1_000
    """The most characters a file keeps."""
    code_head: Count = 50
    """First lines of command output that are kept."""
    code_tail: Count = 20
    """Last lines of command output that are kept."""
    code_chars: Count = 1_500
    """The most characters command output keeps."""
    api_chars: Count = 1_000
    """The most characters the answer of an API keeps."""


@dataclass(frozen=True, kw_only=True)
class Compress:
    """Cuts results that no call has seen.

    Args:
        options: Thresholds, and what is kept.
        window_tokens: Tokens of the window, to which the thresholds adapt (0: they stay).
        error_chars: Characters of error lines that a failed result keeps however it is cut.
    """

    options: CompressOptions = CompressOptions()
    window_tokens: int = 0
    error_chars: int = ERROR_CHARS
    name: str = "compress"

    def propose(self, pending: PendingEdits) -> Iterable[Proposal]:
        """Yield the new results that are too large, each as it would be sent."""
        for at, entry in new_results(pending):
            scale = self._scale(pending)
            counted = [self._counted(pending, at, part, scale) for part in entry.message.parts]
            parts = [self._part(pending, at, part, scale) for part in counted]
            if any(map(is_not, parts, entry.message.parts)):
                is_cut = any(map(is_not, parts, counted))
                if is_cut:
                    parts = self._with_failure(entry.item.message, parts)
                reason = "a result too large to show" if is_cut else "tests that passed are counted"
                yield Proposal((at,), "compress", reason, entry.message.with_parts(*parts))

    def _with_failure(self, original: Message, parts: Sequence[Part]) -> list[Part]:
        """Return the parts, with failure lines that none of them has added to the last text."""
        shown = {line.strip() for line in original.with_parts(*parts).text.split("\n")}
        lines = lines_of_failure(original, self.error_chars, shown)
        if not lines:
            return [*parts]
        last = max(at for at, part in enumerate(parts) if isinstance(part, Text))
        return [
            Text(f"{part.text}\n{lines}") if at == last and isinstance(part, Text) else part
            for at, part in enumerate(parts)
        ]

    def _scale(self, pending: PendingEdits) -> float:
        """By how much the thresholds rise or fall with what is left of the window."""
        if not self.window_tokens:
            return 1.0
        left = max(0.0, 1 - pending.tokens / self.window_tokens)
        return _LEAST_SHARE + left

    def _counted(self, pending: PendingEdits, at: int, part: Part, scale: float) -> Part:
        """Return the part with tests that passed and are alike as a count, if it tells of many."""
        least = round(self.options.passed_lines * scale)
        entry = pending.entry(at)
        if not least or entry is None or entry.because == "compress" or not isinstance(part, Text):
            return part
        text = part.text
        lines = text.split("\n")
        passed = {number for number, line in enumerate(lines) if _PASSED.search(line)}
        if len(passed) < least or pending.kind(at, text) not in _OUTPUT:
            return part
        passed &= alike_lines(text, asked_for(pending, at))
        if len(passed) < max(least, _PASSED_SHARE * len(lines)):
            return part
        first = min(passed)
        count = f"{len(passed)} of {len(lines)} lines left out: tests that passed"
        lines[first] = f"[{count}; {pending.recall_hint(at)}]"
        return Text(
            "\n".join([line for n, line in enumerate(lines) if n == first or n not in passed])
        )

    def _part(self, pending: PendingEdits, at: int, part: Part, scale: float) -> Part:
        if not isinstance(part, Text) or len(part.text) <= self.options.above_chars * scale:
            return part
        most = int(self.options.max_result_tokens * CHARS_A_TOKEN * scale)
        # What of its failure it may not show comes behind it.
        lines = len(lines_of_failure(pending.original(at), self.error_chars))
        if not self.options.by_kind:
            most = min(most, int(self.options.above_chars * scale))
        most = max(most - lines, min(most, _LEAST_CHARS))
        if self.options.by_kind:
            return Text(self._form(pending, at, part.text, most, lines))
        return Text(self._cut(pending, at, part.text, most))

    def _cut(self, pending: PendingEdits, at: int, text: str, most: int) -> str:
        """Return the head, the tail and error lines of a text."""
        original = pending.original(at).text
        longer = 0 if text in original else max(0, len(original) - len(text))
        hint = pending.recall_hint(at, part=True)
        shown = cut(text, most, head=_HEAD, errors=_ERROR_CHARS, recall_hint=hint, longer=longer)
        lines = text.count("\n") + 1
        if is_encoded(text) or original.count("\n") + 1 != lines:
            return shown  # written shorter, its lines are others than those of the result
        left_out = partial(lines_left_out, text, shown, range(1, lines + 1))
        return shown.replace(hint, pending.recall_hint(at, part=True, lines=left_out))

    def _form(self, pending: PendingEdits, at: int, text: str, most: int, lines: int) -> str:
        """Return the form of the kind of the text, with so many characters less for error lines."""
        recall_hint, entry = pending.recall_hint(at, part=True), pending.entry(at)
        # A form is made of what was said, not of the shorter way in which it is shown.
        shorter = entry is not None and entry.because in ("encode", "repeat")
        of_entry = entry is not None and shorter and text in entry.message.text
        original = pending.original(at).text if of_entry else text
        kind = pending.kind(at, original)
        if kind == "table":
            original = text  # its rows are lines only now
        rooms = {
            "search": self.options.search_chars,
            "file": self.options.file_chars,
            "command": self.options.code_chars,
            "api": self.options.api_chars,
        }
        room = min(max(_LEAST_CHARS, rooms.get(kind, _OTHER_CHARS) - lines), most)
        inner = max(_LEAST_CHARS, room - min(len(recall_hint), _BACK_CHARS) - len("\nFull data: "))
        reads = pending.file_access(at).reads
        form = self._of_kind(kind, original, inner, reads.path if reads else "")
        if form is None:
            return self._cut(pending, at, text, room)
        if len(original) > self.options.max_result_tokens * CHARS_A_TOKEN:
            ref = reference(pending.original(at))
            form = f"[Stored as {ref} - {_thousands(len(original))} chars]\n{form}"
        return f"{form}\nFull data: {recall_hint}"

    def _of_kind(self, kind: Kind, text: str, most: int, path: str) -> str | None:
        match kind:
            case "search":
                return forms.search_form(text, most, self.options.search_results)
            case "file":
                return forms.file_form(text, most, self.options.file_lines, path)
            case "command" | "test" | "build" | "log":
                return forms.command_form(
                    text, most, self.options.code_head, self.options.code_tail
                )
            case "api" | "json":
                return forms.json_form(text, most, key_fields=kind == "api")
            case "diff":
                return forms.diff_form(text, most)
            case "listing":
                return forms.rows_form(text, most, "entries")
            case "table":
                return forms.rows_form(text, most, "lines")
            case "text" | "page":
                return None


def _thousands(chars: int) -> str:
    return f"{round(chars / _K)}k" if chars >= _K else str(chars)
