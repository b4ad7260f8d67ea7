"""What one call sees, computed from the history: pure functions over frozen values."""
