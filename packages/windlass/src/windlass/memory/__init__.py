"""Memory across sessions: named banks in the store, and associative matching over files and banks.

The memory only matches. What it finds has no rank and no order; choosing among it is the
affair of whoever asks.
"""
