"""Cards made beside a run: the queue, who makes them, and the task that does."""
