"""Injectors while a phase runs: its head, the blocks of each call, what they remember."""
