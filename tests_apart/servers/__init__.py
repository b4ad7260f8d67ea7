"""MCP servers as they come from a package index, in the environment that `make servers` makes."""
