"""What tests of engine injector marks build their cases of; others use it, too."""

from __future__ import annotations

CLAUDE = "anthropic/claude-sonnet-4-5"
