"""Windows for an agent loop that is already there: OpenAI chat dicts in, chat dicts out.

Nothing here calls a model, reads a clock or touches a disk. `bound` is handed the whole list
at every call; `Context` is handed one message after the other; both give the same bytes,
because a window is a function of the messages, the policy and the model, and of nothing else.
"""
