"""The append-only record of sessions: messages, edits, calls, state, decisions."""
