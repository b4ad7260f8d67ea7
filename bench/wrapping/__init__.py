"""Users' set-ups, their programs, and what a wrapped client costs in each."""
