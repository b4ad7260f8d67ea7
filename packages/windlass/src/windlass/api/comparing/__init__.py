"""Several policies on the same inputs: what each comes to, and whether they differ."""
