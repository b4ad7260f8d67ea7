"""A compaction without a model: one message in the place of all that was said before.

It holds the user's words, the state of the plan, conclusions, a log of calls, the pieces that are
likely to be needed and names of what is left out; the newest calls stay as they are. `block` writes
it from the originals; when it is made is the affair of `policies/free_moments`.
"""
