"""Tools: the registry, and leaf tools that need neither history nor model."""
