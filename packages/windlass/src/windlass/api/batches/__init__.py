"""One cascade over many inputs: reading them, running them side by side, keeping the answers."""
