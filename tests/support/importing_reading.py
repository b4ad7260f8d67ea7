"""What tests of importing reading build their cases of; others use it, too."""

from __future__ import annotations

from tests.importing.making import Session, call, result, text
from windlass.importing.claude_requests import hash_of


def with_requests(calls: int = 1) -> Session:
    """A session with the records of its two requests; the first message stands by itself.

    `calls`: how many calls the first answer makes; their results are sent as one message.
    """
    names = [f"t{number}" for number in range(1, calls + 1)]
    session = Session()
    begun = {"role": "user", "content": [text("<reminder>"), {**text("Go."), "cache_control": {}}]}
    system = [text("x-anthropic-billing-header: 1"), text("Be.")]
    tools = [{"name": "ls", "input_schema": {"type": "object"}}]
    session.add("api-request-shape", hash="h1", system=system, tools=tools)
    session.add("api-request-blob", begun, hash=hash_of(begun))
    session.user("Go.")
    first = session.records[-1]["uuid"]
    shared = {"params": {"model": session.model}, "shape": "h1"}
    session.add("api-request", base=None, keep=0, tail=[hash_of(begun)], id="q1", **shared)
    session.last = first
    session.answer("m1", text("Looking."))
    for name in names:
        session.answer("m1", call(name))
    results = [session.user([result(name)]) for name in names][-1]
    joined = {"role": "assistant", "content": [text("Looking."), *map(call, names)]}
    sent = {"role": "user", "content": [result(name) for name in names]}
    tail = [hash_of(joined), hash_of(sent)]
    session.add("api-request", base="q1", keep=1, tail=tail, id="q2", **shared)
    session.last = results["uuid"]
    session.answer("m2", text("done"))
    return session
