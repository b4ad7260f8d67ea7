"""What a policy would have cost on recorded calls, and what it would have kept in view."""
