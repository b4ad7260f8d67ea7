"""The figures of a session that goes on: what its agent may show on a line.

They are those of `windlass agent report`, by the same account. That takes longer than an agent
waits, so a process of its own stores the session and keeps them; the line has the last ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

from windlass.public import WindlassError, override, read_settings
from windlass_agents.client import count_failure
from windlass_agents.hook_journal import HookJournal
from windlass_agents.outcome import hooked_session


def keep_figures(folder: Path, agent: str, session: str) -> None:
    """Put a session into the store in a folder, and keep what its line says.

    Raises WindlassError and OSError.
    """
    journal = HookJournal(folder)
    lines = list(journal.lines(agent, session))
    settings = read_settings(str(folder))
    with override(settings.prices):
        found = hooked_session(folder, settings.price_as, lines) if lines else None
    if found is not None:
        short = [line for line in lines if line.outcome == "shortened"]
        tokens = sum(line.tokens_before - line.tokens_after for line in short)
        figures = {
            "calls": found.calls,
            "tokens": tokens,
            "billed": found.dollars,
            "dollars": found.saved,
        }
        journal.write_figures(agent, session, figures)


def main() -> None:
    """Store a session and keep its figures; the arguments are the store, the agent, the session."""
    folder, agent, session = sys.argv[1:]
    try:
        keep_figures(Path(folder), agent, session)
    except (WindlassError, OSError) as error:
        count_failure(f"the session {session} was not stored: {error}", [agent])


if __name__ == "__main__":
    main()
