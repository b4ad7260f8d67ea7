"""Context cards: what a message is known by when it is chosen for a task, and the choosing.

Pure but for an embedding model's own arithmetic: nothing here reads a clock, a disk or the
network, or knows where cards are kept.
"""
