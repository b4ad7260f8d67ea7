"""`web_search`: a local folder of documents, the web by a provider, or both; it says which."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from windlass.errors import ToolError, WindlassError
from windlass.safety.files import UnreadableError, read_bytes
from windlass.safety.foreign import decode_text
from windlass.tools import paths
from windlass.tools.base import Spent, ToolContext, ToolOutput, WebSearch
from windlass.tools.registry import tool
from windlass.wire.web_search import SearchReply

_SUFFIXES: Final = frozenset({".md", ".markdown", ".txt", ".rst"})
_MAX_FILES: Final = 5_000
_MAX_RESULTS: Final = 20
_SNIPPET_WORDS: Final = 48
_EXCERPT: Final = 400
"""Characters shown of what was quoted of a page."""

_STOP_TEXT: Final = (
    "a about an and any are as at be been but by can could did do does for from had has have how i "
    "if in into is it its me more my no not of on or our should so some such than that the their "
    "them then there these they this to too us was we were what when where which while who why "
    "will with would you your"
)
STOP_WORDS: Final = frozenset(_STOP_TEXT.split())


class _Document(NamedTuple):
    path: str
    title: str
    body: str


@tool(effects="none")
def web_search(
    context: ToolContext, query: str, max_results: int = 5
) -> str | Awaitable[ToolOutput]:
    """Search for documents; the answer says which collection was searched.

    Args:
        context: What the run provides.
        query: What to look for, in a few words.
        max_results: How many documents to show, at most 20.
    """
    words, most = _words(query), min(max(max_results, 1), _MAX_RESULTS)
    if context.search_folder is None and context.search is None:
        raise ToolError(
            "no search is set up: name a folder of Markdown or text files as the setting "
            "search_folder, or a model that searches the web as search_model"
        )
    if not words:
        raise ToolError(f"nothing to search for in {query!r}: give some words")
    if context.search is None:
        return _of_folder(context, words, most)
    # The runner awaits what comes back; until here it is in a thread, for files may be many.
    if context.search_folder is None:
        return _of_web(context.search, query, most)
    try:
        local = _of_folder(context, words, most)
    except ToolError as problem:
        local = str(problem)
    return _of_both(local, context.search, query, most)


# ---- the web ------------------------------------------------------------------------


async def _of_both(local: str, search: WebSearch, query: str, most: int) -> ToolOutput:
    """Return both results, the local one first; it is a result also where the web's failed."""
    spent: Spent | None = None
    try:
        web = await _of_web(search, query, most)
        text, spent = web.text, web.spent
    except ToolError as problem:
        text = str(problem)
    head = f"Two searches: of the local folder, and of the web by {search.model}."
    return ToolOutput(f"{head}\n\n{local}\n\n{text}", spent=spent)


async def _of_web(search: WebSearch, query: str, most: int) -> ToolOutput:
    head = f"Search of the web by {search.model}"
    try:
        answer = await search.find(query, most)
    except WindlassError as problem:
        raise ToolError(f"{head} failed: {problem}") from problem
    spent = Spent(search.model, answer.usage, answer.dollars)
    if answer.failure:
        return ToolOutput(f"{head} failed: {answer.failure}", error=True, spent=spent)
    return ToolOutput(f"{head}: {_pages_text(answer, query, most)}", spent=spent)


def _pages_text(answer: SearchReply, query: str, most: int) -> str:
    if not answer.pages:
        words = f"\n\nWhat the model said without one:\n{answer.text}" if answer.text else ""
        return f"no page was found for {query!r}.{words}"
    pages = answer.pages[:most]
    blocks = [f"{len(pages)} pages for {query!r}."]
    blocks += [answer.text] if answer.text else []
    for at, page in enumerate(pages, 1):
        excerpt = page.excerpt[:_EXCERPT] + ("…" if len(page.excerpt) > _EXCERPT else "")
        title = f"{at}. {page.title or page.url} ({page.url})"
        blocks.append(f"{title}\n{excerpt}" if excerpt else title)
    return "\n\n".join(blocks)


# ---- a folder -----------------------------------------------------------------------


def _of_folder(context: ToolContext, words: list[str], most: int) -> str:
    folder = context.search_folder
    if folder is None or not folder.is_dir():
        raise ToolError(
            f"the search folder {str(folder)!r} does not exist: correct the setting search_folder"
        )
    documents = _load(context, folder)
    best = _find(documents, words, most)
    name = paths.shown(context, folder.resolve())
    head = f"Search of the local folder {name!r} ({len(documents)} documents), not of the web"
    if not best:
        return f"{head}: no document has any of the words {', '.join(words)}."
    blocks = [f"{head}: {len(best)} found for {' '.join(words)!r}."]
    blocks += [f"{at}. {each.title} ({each.path})\n{each.body}" for at, each in enumerate(best, 1)]
    return "\n\n".join(blocks)


def _words(query: str) -> list[str]:
    words = list(dict.fromkeys(re.findall(r"\w+", query.casefold())))
    return [word for word in words if word not in STOP_WORDS] or words


def _load(context: ToolContext, folder: Path) -> list[_Document]:
    documents = []
    for file in paths.walk(folder, _MAX_FILES):
        if file.suffix.lower() not in _SUFFIXES:
            continue
        try:
            text = decode_text(read_bytes(file))
        except UnreadableError:
            continue  # the others can still be searched
        if text is not None:
            documents.append(_document(paths.shown(context, file), file, text))
    return documents


def _document(path: str, file: Path, text: str) -> _Document:
    first, _, rest = text.strip().partition("\n")
    if first.startswith("#"):
        return _Document(path, first.lstrip("# ").strip(), rest.strip())
    return _Document(path, file.stem.replace("_", " ").replace("-", " "), text.strip())


def _find(documents: list[_Document], words: list[str], limit: int) -> list[_Document]:
    """Return the best documents, their bodies cut to the passage that fits.

    Titles count threefold.
    """
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE VIRTUAL TABLE documents USING fts5"
            "(path UNINDEXED, title, body, tokenize = 'porter unicode61')"
        )
        database.executemany("INSERT INTO documents VALUES (?, ?, ?)", documents)
        rows = database.execute(
            "SELECT path, title, snippet(documents, 2, '', '', ' … ', ?) FROM documents "
            "WHERE documents MATCH ? ORDER BY bm25(documents, 0, 3, 1), path LIMIT ?",
            (_SNIPPET_WORDS, " OR ".join(f'"{word}"' for word in words), limit),
        ).fetchall()
    return [_Document(path, title, " ".join(body.split())) for path, title, body in rows]
