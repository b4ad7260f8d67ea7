"""Attacks of the red team, one file a door: what someone else wrote must not do."""
