"""Words: what a text and a task are compared by.

One list of stop words and one stemmer (Snowball's for English) serve cards and tasks alike.
Identifiers (paths, symbols, numbers) stay whole, and their pieces count besides, so that
`user name` finds `getUserName`. Texts in scripts without spaces are read in pairs of
characters. Knows nothing of messages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from functools import cache, lru_cache
from itertools import dropwhile, islice
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
    "compare comparison debate describe description discuss discussed discussing discussion "
    "discussions explain explanation opinion opinions outline overview recap review summaries "
    "summarise summarize summary"
)
_SURVEYS: Final = frozenset(_SURVEYING.split())
"""Words of tasks that ask what was said of a matter."""
_SAYING: Final = (
    "according agree agreed argue argued believe believed claim claimed comment commented "
    "comments conclude concluded conclusion decide decided decision decisions elaborate "
    "elaborated introduce introduced mention mentioned presentation presented propose proposed "
    "proposes respond responded said say says stated talk talked talking tell think thinks "
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
_TALK_WORDS: Final = _SURVEYS | _SAYINGS | frozenset(_STANCES.split())
_TALKERS: Final = re.compile(r"\bthe (conversation|group|meeting|team)\b", re.IGNORECASE)
"""All who talk, as a task that asks about the talk names them."""
_SENTENCE: Final = re.compile(
    r"[^\s][^\n]*?(?:[!?][.!?]*(?=[\s\"')\]]|$)"
    r"|(?<!\b[A-Z])(?<!\b[DMS][rst])(?<!\bMrs)\.+(?=[\s\"')\]]|$)|(?=\n)|$)"
)
_POLITE: Final = "also and but hello hey hi now ok okay please so then well"
_POLITENESS: Final = frozenset(_POLITE.split())
"""What may stand before what a sentence begins with."""
_BEFORE: Final = "about after at before by during for from in of on since to until with"
_PREPOSITIONS: Final = frozenset(_BEFORE.split())
"""What may stand before a question word: `in which city`."""
_ADDRESS: Final = 2
"""So many words before a comma or colon may say who is asked: `ann: what is it?`."""
_LABELS: Final = frozenset(("q", "query", "question", "task"))
"""Words before a colon that say who is asked of nobody."""
_CLAUSE: Final = re.compile(
    rf"(?:[,:;]|\s[-\u2013\u2014]+)\s+(?:(?:{'|'.join(_POLITENESS)})\b\W*)?"
    rf"(?:(?:{'|'.join(_PREPOSITIONS)})\s+)?(?=(?:{'|'.join(_OPENINGS)})\b)",
    re.IGNORECASE,
)
"""What stands in a sentence before a clause that asks."""
_ANSWERING: Final = (
    "answer answers bit brief briefly bullet check concise concisely depth detail details explain "
    "find full give help helps know line list look need one order paragraph point points provide "
    "read reason reasoning reply respond response sentence sentences short shortly show step "
    "steps sum text thank thanks use words write"
)
_OF_THE_ANSWER: Final = STOP_WORDS | frozenset(_ANSWERING.split())
"""A sentence of these alone says how to answer, and asks for nothing itself."""
_WORD: Final = re.compile(r"\w+")
_CAMEL: Final = re.compile(r"[a-z\d]+|[A-Z]+(?![a-z])|[A-Z][a-z\d]*")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_JOINT: Final = re.compile(r"\w[^\w\s]+\w")
_LONGEST: Final = 64
"""Runs of more characters are data, not words."""


class Kind(Enum):
    """What a task asks of a talk."""

    SURVEY = "survey"
    """What was said of a matter: `summarize the debate`, `what did Ann think of it?`."""
    QUESTION = "question"
    """A matter of the talk, without a word of the talk itself: `when did the build fail?`."""
    REMARK = "remark"
    """Nothing of it; it goes on with the talk: `could you fix it?`, `ann: what is it?`."""


@lru_cache(maxsize=1 << 17)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@cache
def _stemmer() -> Any:
    import Stemmer  # Snowball's own, in C: a long text has ten thousand words

    return Stemmer.Stemmer("english")


@lru_cache(maxsize=1 << 17)
def _terms_of(word: str) -> tuple[str, ...]:
    """Return what a run of word characters is found by: its stem, and the stems of its pieces."""
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


def term_counts(text: str) -> dict[str, int]:
    """Return what a text is found by, and how often it says that: stems, and the stems of pieces.

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


def task_terms(task: str, kind: Kind) -> dict[str, str]:
    """The terms of a task, each with the word it stands in, in order: for reasons people read.

    Of a survey, words that say who talked and what was done with the matter (`what did the
    team suggest about keys`) are none, where there are others.
    """
    found: dict[str, str] = {}
    for word in _WORD.findall(task):
        for term in _terms_of(word):
            found.setdefault(term, word)
    for name in _jointed(task):
        found.setdefault(name.casefold(), name)
    if kind is not Kind.SURVEY:
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


def question_in(task: str) -> tuple[Kind, str]:
    """Return what a task asks, and the last of its sentences that asks (empty: none does).

    What leads up to a question and what says how to answer it (`Look through the notes.`,
    `Answer briefly.`) does not ask.
    """
    weaker = (Kind.REMARK, "")
    for sentence in reversed(_SENTENCE.findall(task)):
        kind = _kind_in(sentence)
        if kind is None:
            continue
        words = _without_politeness(_folded(sentence))
        if sentence.rstrip().endswith("?") or words[0] in _SURVEYS:
            return kind, sentence
        if weaker[0] is Kind.REMARK:
            weaker = (kind, sentence)
    return weaker


def _kind_in(sentence: str) -> Kind | None:
    """Return what a sentence asks; None: nothing, or how to answer."""
    words = _folded(sentence)
    question = sentence.rstrip().endswith("?")
    for clause in _clauses(sentence) if question else (words,):
        asking = _asking_part(clause)
        if not asking:
            continue
        if asking[0] in _QUESTIONS and not _SAYINGS.isdisjoint(asking):
            return Kind.SURVEY
        if _PARTIES.isdisjoint(asking):
            return Kind.SURVEY if _of_the_talk(sentence, words) else Kind.QUESTION
        return None if _OF_THE_ANSWER.issuperset(asking) else Kind.REMARK
    if _OF_THE_ANSWER.issuperset(words):
        return None
    if not _SURVEYS.isdisjoint(words):
        return Kind.SURVEY
    return Kind.REMARK if question else None


def _clauses(sentence: str) -> Iterator[list[str]]:
    """Yield the words of a sentence, and of it the clause that asks, behind a comma or colon."""
    yield _folded(sentence)
    mark = _CLAUSE.search(sentence, _end_of_address(sentence))
    if mark:
        yield _folded(sentence[mark.end() :])


def _end_of_address(sentence: str) -> int:
    """Where in a sentence a comma or colon no longer says who is asked."""
    words = list(islice(_WORD.finditer(sentence), _ADDRESS + 1))
    if words and words[0][0].casefold() in _LABELS:
        return words[0].end()
    return words[-1].end() if len(words) > _ADDRESS else len(sentence)


def _asking_part(words: list[str]) -> list[str]:
    """Return a clause from the word on that makes it a question; empty: it is none."""
    words = _without_politeness(words)
    if words[1:] and words[0] in _PREPOSITIONS and words[1] in _QUESTIONS:
        words = words[1:]
    return words if words and words[0] in _OPENINGS else []


def _of_the_talk(sentence: str, words: list[str]) -> bool:
    """Whether a question asks about the talk, by who talked or what was done with the matter."""
    return not _TALK_WORDS.isdisjoint(words) or _TALKERS.search(sentence) is not None


def _without_politeness(words: list[str]) -> list[str]:
    return list(dropwhile(_POLITENESS.__contains__, words))


def _folded(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


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
