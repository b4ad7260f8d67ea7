"""The inspector: the pages of `windlass serve`, which read a store and change nothing."""
