"""Phases that choose what they see: anchors, choices, what these are worth, the record."""
