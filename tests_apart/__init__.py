"""Tests that need an environment of their own beside the project's; `make help` names them."""
