"""Questions made from recorded agent runs: a value asked for in the words of its neighbours.

A value (an identifier, path, number or address) that one message of a run alone says is asked
for by three words that stand beside it and by one of the message before and one of the message
after: a plain question, in the third person, whose answer is one message. Runs whose messages
fit a few budgets have no questions, nor messages that the smallest budget does not hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final

from bench.choosing.talks import Question, Talk, is_far
from bench.windows.recordings import Recording, load

from windlass.replays.measure import values_in
from windlass.replays.numbered import count_tokens, searchable_text
from windlass.selection.words import STOP_WORDS

EVERY: Final = {
    "swebench_mini": 10,
    "claude_code_cua": 1,
    "claude_code_openagents": 1,
    "tau_bench": 2,
    "tau2_bench": 2,
    "agentdojo": 1,
}
"""The sources, and which of their runs are asked, so that none is most of the set."""
SHORTEST: Final = 4_000
"""Tokens of a run below which there is little to choose."""
LONGEST: Final = 400
"""Tokens of a call with its results above which the smallest budget might not hold it."""
QUESTIONS: Final = 8
"""Questions of a run at most, evenly over it."""
BESIDE: Final = 3
"""Words of the message itself."""
_AROUND: Final = 120
"""Characters on either side of the value in which they stand."""
_WORD: Final = re.compile(r"(?<![\w/.#@-])[^\W\d_]{4,20}(?![\w/.#@-])")


def load_runs(folder: Path) -> Iterator[tuple[Talk, list[Question]]]:
    """The runs, each with its questions, which are asked at its end."""
    for source, every in EVERY.items():
        yield from map(read_run, load(folder, [source], every=every))


def read_run(run: Recording) -> tuple[Talk, list[Question]]:
    """A run and the questions on it; none on a short one."""
    chats = tuple(chat for chat in run.messages if chat["role"] != "system")
    talk = Talk(run.id, chats, tuple(count_tokens(chat) for chat in chats))
    if sum(talk.tokens) < SHORTEST:
        return talk, []
    texts = [searchable_text(chat) for chat in chats]
    held = Counter(value for text in texts for value in set(values_in(text)))
    able = [at for at in range(1, len(chats) - 1) if _unit_tokens(talk, at) <= LONGEST]
    questions: list[Question] = []
    for part in range(QUESTIONS):
        places = able[part * len(able) // QUESTIONS : (part + 1) * len(able) // QUESTIONS]
        asked = ((_question(texts, held, at), frozenset({at})) for at in places)
        text, evidence = next(filter(itemgetter(0), asked), ("", frozenset()))
        if text:
            far = is_far(talk, evidence, len(chats))
            questions.append(Question(text, evidence, len(chats), far))
    return talk, questions


def _unit_tokens(talk: Talk, at: int) -> float:
    """Tokens of a message; of a call or a result those of the call and all its results."""
    first = at
    while first and talk.messages[first]["role"] == "tool":
        first -= 1
    last = first + 1
    while last < len(talk.messages) and talk.messages[last]["role"] == "tool":
        last += 1
    return sum(talk.tokens[first:last])


def _question(texts: Sequence[str], held: Counter[str], at: int) -> str:
    """A question for a value that only this message says; empty: it has none to ask for."""
    text = texts[at]
    for value in values_in(text):
        if held[value] > 1:
            continue
        start = text.index(value)
        before, after = text[max(0, start - _AROUND) : start], text[start + len(value) :][:_AROUND]
        beside = [*_words(before)[::-1][:BESIDE], *_words(after)[:BESIDE]][:BESIDE]
        around = [max(_words(texts[near]), key=len, default="") for near in (at - 1, at + 1)]
        words = list(dict.fromkeys(filter(None, [*beside, *around])))
        if len(beside) == BESIDE and not any(value in other for other in _others(texts, at)):
            return f"What was the {' '.join(words)}?"
    return ""


def _others(texts: Sequence[str], at: int) -> Iterator[str]:
    return (text for place, text in enumerate(texts) if place != at)


def _words(text: str) -> list[str]:
    """Words of letters, that are not stop words; each once."""
    found = (word.casefold() for word in _WORD.findall(text))
    return list(dict.fromkeys(word for word in found if word not in STOP_WORDS))
