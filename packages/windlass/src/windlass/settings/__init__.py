"""Settings and where they come from; what a folder is trusted with; modules of the user's own."""
