"""What an agent starts at each event: `python -P …/windlass_agents/__main__.py agent run AGENT`."""

import sys

from windlass_agents.client import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[3:]))
