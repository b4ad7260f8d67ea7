"""Policies: one file each, pure, each usable alone; they propose, nobody obliges them."""
