"""The documents' own scenarios, rebuilt from their figures and run by the real runner."""
