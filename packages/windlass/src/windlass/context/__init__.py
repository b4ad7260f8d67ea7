"""Windows for an agent loop that is already there: its messages in, in any of the forms, and out.

`bound` is handed the whole list at every call; `Context` is handed one message after the other;
both give the same bytes, because a window is a function of the messages, the policy and the model,
and of nothing else. They call no model, read no clock and touch no disk. `wrap` fills the requests
of an official client with such windows; it alone asks what time it is.
"""
