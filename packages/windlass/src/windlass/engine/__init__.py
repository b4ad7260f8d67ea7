"""Effects in sequence: one call, one phase, one cascade."""
