"""Words: what a text and a task are compared by.

One list of stop words and one stemmer (Snowball's for English) serve cards and tasks alike.
Identifiers (paths, symbols, numbers) stay whole, and their pieces count besides, so that
`user name` finds `getUserName`. Texts in scripts without spaces are read in pairs of
characters. Knows nothing of messages.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, lru_cache
from typing import Any, Final

from windlass.window.names import unescaped, whole_names

MOST_KEYWORDS: Final = 20
SHORTEST_KEYWORD: Final = 3

_COMMON: Final = (
    "a about above after again against all also am an and any are aren as at be because been "
    "before being below between both but by can cannot could couldn d did didn do does doesn "
    "doing don down during each few for from further get got had hadn has hasn have haven "
    "having he her here hers herself him himself his how i if in into is isn it its itself "
    "just let like ll m me more most mustn my myself no nor not now of off ok okay on once "
    "only or other ought our ours ourselves out over own re really s same shan she should "
    "shouldn so some such t than that the their theirs them themselves then there these they "
    "this those through to too um uh under until up us ve very was wasn we well were weren "
    "what when where which while who whom why will with won would wouldn yeah yes you your "
    "yours yourself yourselves hmm mm"
)
_ASKING: Final = (
    "ask asks asked describe describes description discuss discusses discussed discussing "
    "discussion discussions explain explains explanation mention mentions mentioned opinion "
    "opinions please said say saying says summaries summarise summarised summarize summarized "
    "summary talk talked talking tell think thinks thought told"
)
"""Words that say what is to be done with an answer, not what it is about."""
STOP_WORDS: Final = frozenset(_COMMON.split()) | frozenset(_ASKING.split())

_SURVEYING: Final = (
    "compare comparison debate describe description discuss discussed discussion discussions "
    "explain explanation opinion opinions outline overview recap review summaries summarise "
    "summarize summary"
)
_SURVEYS: Final = frozenset(_SURVEYING.split())
"""Words of tasks that ask what was said of a matter."""
_SAYING: Final = (
    "agree agreed conclude concluded conclusion decide decided decision decisions mention "
    "mentioned propose proposed proposes said say says talk talked talking tell think thinks "
    "thought told view views"
)
_SAYINGS: Final = frozenset(_SAYING.split())
"""Words that do so in a question, and in a remark (`I think so`) do not."""
_ASKED_BY: Final = "according how what when where which who whom whose why"
_QUESTIONS: Final = frozenset(_ASKED_BY.split())
_OPENED_BY: Final = "are can could did does had has have is should was were would"
_OPENINGS: Final = _QUESTIONS | frozenset(_OPENED_BY.split())
"""What a question begins with."""
_OF_THE_TALK: Final = "i me mine my our ours us we you your yours"
_PARTIES: Final = frozenset(_OF_THE_TALK.split())
"""Who says this is in the talk, and goes on with it."""
_STANCES: Final = (
    "agree agreed agreement agrees debate debated disagree disagreed disagreement idea ideas "
    "proposal proposals propose proposed proposes recommend recommendation recommendations "
    "recommended recommends suggest suggested suggestion suggestions suggests"
)
"""What people do with a matter that a task asks about: said of the talk, and seldom in it."""
_TALKERS: Final = re.compile(r"\bthe (conversation|group|meeting|team)\b", re.IGNORECASE)
"""All who talk, as a task that asks about the talk names them."""
_WORD: Final = re.compile(r"\w+")
_CAMEL: Final = re.compile(r"[a-z\d]+|[A-Z]+(?![a-z])|[A-Z][a-z\d]*")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_JOINT: Final = re.compile(r"\w[^\w\s]+\w")
_LONGEST: Final = 64
"""Runs of more characters are data, not words."""


@lru_cache(maxsize=1 << 17)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@cache
def _stemmer() -> Any:
    import Stemmer  # Snowball's own, in C: a long text has ten thousand words

    return Stemmer.Stemmer("english")


@lru_cache(maxsize=1 << 17)
def _terms_of(word: str) -> tuple[str, ...]:
    """What a run of word characters is found by: its stem, and the stems of its pieces."""
    if len(word) > _LONGEST:
        return ()
    folded = word.casefold()
    if folded in STOP_WORDS:
        return ()
    if _UNSPACED.search(folded):
        return tuple(folded[at : at + 2] for at in range(len(folded) - 1))
    terms = [_stem(folded)]
    if "_" in word or not (word.islower() or word.isupper() or word[1:].islower()):
        pieces = [piece.casefold() for part in word.split("_") for piece in _CAMEL.findall(part)]
        if len(pieces) > 1:
            terms += [_stem(piece) for piece in pieces if piece not in STOP_WORDS]
    return tuple(terms)


def counted(text: str) -> dict[str, int]:
    """What a text is found by, and how often it says that: stems, and the stems of pieces.

    Stop words are left out. Names with joints (`src/mixer.c`, `v0.4.1`) count whole besides,
    once each.
    """
    counts: dict[str, int] = {}
    for word in _WORD.findall(text):
        for term in _terms_of(word):
            counts[term] = counts.get(term, 0) + 1
    for name in _jointed(text):
        counts[name.casefold()] = 1
    return counts


def surfaces(task: str) -> dict[str, str]:
    """The terms of a task, each with the word it stands in, in order: for reasons people read.

    Of a task that asks about the talk, words that say who talked and what was done with the
    matter (`what did the team suggest about keys`) are none, where there are others.
    """
    found: dict[str, str] = {}
    for word in _WORD.findall(task):
        for term in _terms_of(word):
            found.setdefault(term, word)
    for name in _jointed(task):
        found.setdefault(name.casefold(), name)
    if not asks_about(task):
        return found
    asking = _asking().union(*(_terms_of(word) for word in _TALKERS.findall(task)))
    return {term: word for term, word in found.items() if term not in asking} or found


@cache
def _asking() -> frozenset[str]:
    return frozenset(_stem(word) for word in _STANCES.split())


def _jointed(text: str) -> list[str]:
    if not _JOINT.search(text):  # most texts: this saves looking for names in them
        return []
    return [name for name in whole_names(text) if _JOINT.search(name)]


def asks_about(task: str) -> bool:
    """Whether a task asks about the talk, and does not go on with it.

    It does where it asks to summarise or discuss a matter, what was said or thought of it, or
    a question in which neither `I` nor `you` is. `What did Ann think of it?` and `Why did the
    parser fail?` do; `I think Ann did it`, `Could you fix it?` and `ann: what is it?` do not.
    """
    words = [word.casefold() for word in _WORD.findall(task)]
    if not words or not _SURVEYS.isdisjoint(words):
        return bool(words)
    if words[0] in _QUESTIONS and not _SAYINGS.isdisjoint(words):
        return True
    return words[0] in _OPENINGS and _PARTIES.isdisjoint(words)


def keywords(text: str) -> tuple[str, ...]:
    """At most 20 words and identifiers of a text, case folded: identifiers first, then words.

    Of three characters or more, without stop words; words by how often they are said, then in
    the order of the text.
    """
    named = [name.casefold() for name in whole_names(unescaped(text))]
    words = Counter(
        word
        for word in map(str.casefold, _WORD.findall(text))
        if SHORTEST_KEYWORD <= len(word) <= _LONGEST and word not in STOP_WORDS
    )
    found = dict.fromkeys(named[: MOST_KEYWORDS // 2])
    found.update(dict.fromkeys(word for word, _ in words.most_common(MOST_KEYWORDS)))
    found.update(dict.fromkeys(named))
    return tuple(found)[:MOST_KEYWORDS]
