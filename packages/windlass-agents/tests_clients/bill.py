"""What the long sessions cost with the hook and without, by the prices of Windlass.

    make clients                                    prints it after the tests
    .venv/bin/python -m tests_clients.bill    runs these sessions alone

The tokens are those that the scripted model counts: what a prompt cache holds of the requests that
really came.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests_clients.coding_agents import AGENTS, CODEX, Desk, answering, is_installed
from tests_clients.model_server import MODEL, ModelServer
from tests_clients.responses_model import MODEL as CODEX_MODEL
from tests_clients.responses_model import ResponsesServer
from tests_clients.sessions import Pair, Work, codex_pair, pair_of


def table(pairs: Sequence[tuple[str, Pair]]) -> Iterator[str]:
    """The lines of the table, from each agent and its sessions."""
    yield (
        f"25 answers of {MODEL}, in Codex 15 of {CODEX_MODEL}, with long results; tokens as its"
        " cache counts them"
    )
    yield (
        f"{'':22}hook{'requests':>10}{'read':>12}{'written':>10}{'output':>8}{'dollars':>9}  saved"
    )
    for agent, pair in pairs:
        for word, session in (("off", pair.without), ("on", pair.hooked)):
            usage = session.usage
            saved = f"{1 - session.dollars / pair.without.dollars:7.0%}" if word == "on" else ""
            yield (
                f"{agent:22}{word:4}{len(session.steps):10}{usage.cache_read_input_tokens:12,}"
                f"{usage.cache_creation_input_tokens:10,}{usage.output_tokens:8,}"
                f"{session.dollars:9.4f}{saved}"
            )


def work_table(work: Mapping[str, Work]) -> Iterator[str]:
    """The lines of the table of sessions with a subagent, by what was done."""
    for name, done in work.items():
        plain = work["plain" + name[len(name.partition(",")[0]) :]]
        steps = [one for one in done.exchanges if one.calls_tools]
        first = steps[0].usage
        written = first.cache_creation_input_tokens + first.cache_read_input_tokens
        yield (
            f"{name:22}{len(done.exchanges):4} requests, the first of {written:,} tokens;"
            f" {done.dollars:.4f} dollars, {done.dollars / plain.dollars:.2f} of plain"
        )


def main() -> None:
    """Run the sessions and print the table."""
    pairs = []
    # Agents leave processes behind that write for a moment.
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        ExitStack() as running,
        answering(Path(folder)),
    ):

        def make(server: type[ModelServer] = ModelServer) -> Desk:
            model = running.enter_context(server({}).running())
            return Desk(Path(tempfile.mkdtemp(dir=folder)), model, Path(folder))

        pairs = [(agent, pair_of(agent, make)) for agent in AGENTS if is_installed(agent)]
        if is_installed("Codex"):
            pairs.append((f"Codex {CODEX}", codex_pair(lambda: make(ResponsesServer))))
    print("\n".join(table(pairs)))  # noqa: T201


if __name__ == "__main__":
    main()
