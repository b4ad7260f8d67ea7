"""Answers to searches of the web, in the form that the three APIs' documents give them."""

from __future__ import annotations

from typing import Any

from tests.providers.exchanges import (
    SAID,
    anthropic_error,
    anthropic_message,
    anthropic_usage,
    gemini_answer,
    openai_whole,
)
from tests.providers.server import Answer, whole
from windlass.wire.web_search import WebPage

QUERY = "price of a written token"
SAYS = "Writing costs 1.25 times the input."
FIRST = WebPage("Prompt caching", "https://docs.example.org/caching", "Writes cost 25 % more.")
SECOND = WebPage("Prices", "https://example.org/prices")


# ---- Anthropic: platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool --


def _asked(number: int) -> dict[str, Any]:
    return {
        "type": "server_tool_use",
        "id": f"srvtoolu_{number}",
        "name": "web_search",
        "input": {"query": QUERY},
    }


def _answered(number: int, content: Any) -> dict[str, Any]:
    kind = "web_search_tool_result"
    return {"type": kind, "tool_use_id": f"srvtoolu_{number}", "content": content}


def _listed(page: WebPage) -> dict[str, Any]:
    return {
        "type": "web_search_result",
        "url": page.url,
        "title": page.title,
        "encrypted_content": "EqgfCioIARgBIiQ3YTAwMjY1Mi1mZjM5LTQ1NGUtODgxNC1kNjNjNTk1ZWI3Y...",
        "page_age": "April 30, 2026",
    }


def _anthropic(content: list[Any], searches: int, reason: str = "end_turn") -> Answer:
    used = {"web_search_requests": searches, "web_fetch_requests": 0}
    usage = {**anthropic_usage(), "server_tool_use": used}
    return whole(anthropic_message(content, reason, usage))


_CITED = {
    "type": "web_search_result_location",
    "url": FIRST.url,
    "title": FIRST.title,
    "encrypted_index": "Eo8BCioIAhgBIiQyYjQ0OWJmZi1lNm..",
    "cited_text": FIRST.excerpt,
}
_TOO_MANY = {"type": "web_search_tool_result_error", "error_code": "too_many_requests"}

# ---- OpenAI: platform.openai.com/docs/guides/tools-web-search?api-mode=chat -------------
# ---- OpenRouter: openrouter.ai/docs/guides/features/server-tools/web-search -------------


def _cited(page: WebPage, **more: Any) -> dict[str, Any]:
    told = {"url": page.url, "title": page.title, "start_index": 0, "end_index": 7, **more}
    return {"type": "url_citation", "url_citation": told}


# ---- Gemini: ai.google.dev/gemini-api/docs/google-search --------------------------------


def _gemini(text: str, grounds: dict[str, Any] | None) -> Answer:
    answer = gemini_answer([{"text": text}], "STOP")
    if grounds is not None:
        answer["candidates"][0]["groundingMetadata"] = grounds
    return whole(answer)


_GROUNDS = {
    "webSearchQueries": ["written token price", "prompt cache write price"],
    "searchEntryPoint": {"renderedContent": "<!-- HTML and CSS -->"},
    "groundingChunks": [
        {"web": {"uri": FIRST.url, "title": FIRST.title}},
        {"web": {"uri": SECOND.url, "title": SECOND.title}},
    ],
    "groundingSupports": [
        {
            "segment": {"startIndex": 0, "endIndex": len(SAYS), "text": SAYS},
            "groundingChunkIndices": [0],
        }
    ],
}

FOUND: dict[str, Answer] = {
    "anthropic": _anthropic(
        [
            {"type": "text", "text": "I'll look for it."},
            _asked(1),
            _answered(1, [_listed(SECOND), _listed(FIRST)]),
            {"type": "text", "text": SAYS[:8]},
            {"type": "text", "text": SAYS[8:], "citations": [_CITED, _CITED]},
        ],
        2,
    ),
    "openai": openai_whole(
        {"content": SAYS, "annotations": [_cited(FIRST, content=FIRST.excerpt), _cited(SECOND)]},
        "stop",
    ),
    "gemini": _gemini(SAYS, _GROUNDS),
}
NOTHING: dict[str, Answer] = {
    "anthropic": _anthropic([_asked(1), _answered(1, []), {"type": "text", "text": SAYS}], 1),
    "openai": openai_whole({"content": SAYS, "annotations": []}, "stop"),
    "gemini": _gemini(SAYS, None),
}
FAILED_INSIDE = _anthropic(
    [_asked(1), _answered(1, _TOO_MANY), {"type": "text", "text": "I could not search."}], 1
)
PAUSED = _anthropic([_asked(1), _answered(1, [_listed(SECOND)])], 1, "pause_turn")
REFUSED: dict[str, Answer] = {
    "anthropic": whole(
        anthropic_error("invalid_request_error", "Web search is not enabled for this org"), 400
    ),
    "openai": whole({"error": {"message": "web_search_options is not supported"}}, 400),
    "gemini": whole({"error": {"code": 400, "message": "Search Grounding is not supported."}}, 400),
}


def routed(cost: float, searches: int) -> Answer:
    """OpenRouter's answer, which tells the price."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": SAID,
        "cost": cost,
        "server_tool_use": {"web_search_requests": searches},
    }
    message = {"role": "assistant", "content": SAYS, "annotations": [_cited(SECOND)]}
    return whole(
        {
            "id": "gen-1",
            "model": "openai/gpt-5.5",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": usage,
        }
    )
