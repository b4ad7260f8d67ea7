"""What several test modules build their cases of."""
