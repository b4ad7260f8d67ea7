"""Choosing from history: conversations with questions whose evidence is known."""
