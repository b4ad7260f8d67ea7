"""The cascade DSL: its models, how files become them, and what is checked before a run."""
