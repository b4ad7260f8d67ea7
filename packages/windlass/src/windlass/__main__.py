"""`python -m windlass` is the command line, too."""

from __future__ import annotations

from windlass.cli import main

if __name__ == "__main__":
    main()
