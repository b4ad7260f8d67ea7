"""Web searches that a provider makes itself: how to ask for one, and what it found.

OpenAI's search models search before every answer (`web_search_options`). Anthropic's and Gemini's,
and any model behind OpenRouter, search if the request offers them the provider's own tool; such a
request asks for the answer in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from windlass.wire.base import Reply, Usage
from windlass.wire.calls import inside

MOST_SEARCHES: Final = 3
"""How often Anthropic's model may search for one query; each search is billed."""

ROUTER: Final = "openrouter"
"""The provider that speaks OpenAI's format and searches by a tool of its own."""


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page of the results. `excerpt` is what was quoted from it; empty if nothing was."""

    title: str
    url: str
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class SearchReply:
    """What a search found, and what it used.

    `text` is what the model says about the pages. The pages that it cites come first. `usage`
    counts the searches. `dollars` is the price in US dollars if the provider reports it, else
    None. `failure` is the provider's word for what went wrong, else empty. `paused` is what the
    provider goes on with if it is sent back, in its own form; empty if the search is done.
    """

    text: str
    pages: tuple[WebPage, ...]
    usage: Usage
    dollars: float | None = None
    failure: str = ""
    paused: tuple[Mapping[str, Any], ...] = ()

    def plus(self, more: SearchReply) -> SearchReply:
        """Return the search together with what came when it went on."""
        pages = _each_once([*self.pages, *more.pages])
        return SearchReply(
            text="\n\n".join(filter(None, [self.text, more.text])),
            pages=pages,
            usage=self.usage.plus(more.usage),
            failure="" if pages else more.failure or self.failure,
            paused=(*self.paused, *more.paused) if more.paused else (),
        )


def going_on(body: Mapping[str, Any], paused: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the body of a search that goes on with what it had when Anthropic paused it."""
    so_far = {"role": "assistant", "content": [*paused]}
    return {**body, "messages": [*body["messages"], so_far]}


def with_search(wire: str, provider: str, body: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Return the body of a request without tools, with the provider's own search in it.

    `most` is the number of pages wanted, which only OpenRouter accepts.
    """
    match wire:
        case "anthropic":
            kind = "web_search_20250305"
            tool = {"type": kind, "name": "web_search", "max_uses": MOST_SEARCHES}
            return {**body, "tools": [tool]}
        case "gemini":
            return {**body, "tools": [{"google_search": {}}]}
        case _ if provider == ROUTER:
            tool = {"type": "openrouter:web_search", "parameters": {"max_results": most}}
            return {**body, "tools": [tool]}
        case _:
            return {**body, "web_search_options": {}}


def read(wire: str, answer: Mapping[str, Any], reply: Reply) -> SearchReply:
    """Read the results from the whole `answer`; `reply` is the same answer, read as a reply.

    Raises ValueError where the answer is malformed.
    """
    match wire:
        case "anthropic":
            return _anthropic(answer, reply)
        case "gemini":
            return _gemini(answer, reply)
        case _:
            return _openai(answer, reply)


def _anthropic(answer: Mapping[str, Any], reply: Reply) -> SearchReply:
    """Give text comes in blocks, cut where a citation begins or ends, with results between them."""
    text, apart, failure = "", False, ""
    quoted: list[WebPage] = []
    listed: list[WebPage] = []
    for block in inside(answer, "content", list):
        match block:
            case {"type": "text", "text": str(piece)}:
                text += f"\n\n{piece}" if apart and text else piece
                apart = False
                quoted += _pages(inside(block, "citations", list), "cited_text")
            case {"type": "web_search_tool_result", "content": list(results)}:
                listed += _pages(results, "")
                apart = True
            case {"type": "web_search_tool_result", "content": {"error_code": code}}:
                failure, apart = str(code), True
            case _:
                apart = True
    pages = _each_once([*quoted, *listed])
    return SearchReply(
        text=text.strip(),
        pages=pages,
        usage=reply.usage,
        failure="" if pages else failure,
        paused=tuple(inside(answer, "content", list))
        if answer.get("stop_reason") == "pause_turn"
        else (),
    )


def _openai(answer: Mapping[str, Any], reply: Reply) -> SearchReply:
    usage = inside(answer, "usage", dict)
    choices = inside(answer, "choices", list)
    message = inside(choices[0] if choices else {}, "message", dict)
    cited = [inside(each, "url_citation", dict) for each in inside(message, "annotations", list)]
    dollars = usage.get("cost")  # OpenRouter's, in US dollars
    counted = inside(usage, "server_tool_use", dict).get("web_search_requests")
    return SearchReply(
        text=reply.message.text.strip(),
        pages=_each_once(_pages(cited, "content")),
        # OpenAI does not say how often it looked; such a model does it for every answer.
        usage=replace(reply.usage, searches=counted if isinstance(counted, int) else 1),
        dollars=float(dollars) if isinstance(dollars, int | float) else None,
    )


def _gemini(answer: Mapping[str, Any], reply: Reply) -> SearchReply:
    candidates = inside(answer, "candidates", list)
    grounds = inside(candidates[0] if candidates else {}, "groundingMetadata", dict)
    chunks = [inside(each, "web", dict) for each in inside(grounds, "groundingChunks", list)]
    pages = [
        WebPage(_line(each.get("title")), _line(each["uri"])) for each in chunks if "uri" in each
    ]
    return SearchReply(
        text=reply.message.text.strip(),
        pages=_each_once(pages),
        usage=replace(reply.usage, searches=len(inside(grounds, "webSearchQueries", list))),
    )


def _pages(sources: list[Any], excerpt: str) -> Iterator[WebPage]:
    """Yield the pages from objects with a url; `excerpt` is the key of the quoted text."""
    for source in sources:
        if isinstance(source, Mapping) and isinstance(source.get("url"), str):
            yield WebPage(
                _line(source.get("title")), _line(source["url"]), _line(source.get(excerpt))
            )


def _each_once(pages: Iterator[WebPage] | list[WebPage]) -> tuple[WebPage, ...]:
    """Return each address once, in order of first appearance, with everything quoted from it."""
    pages_by_url: dict[str, WebPage] = {}
    for page in pages:
        first = pages_by_url.setdefault(page.url, page)
        if page.excerpt not in first.excerpt:
            quoted = " … ".join(filter(None, [first.excerpt, page.excerpt]))
            pages_by_url[page.url] = WebPage(first.title or page.title, page.url, quoted)
    return tuple(pages_by_url.values())


def _line(text: Any) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""
