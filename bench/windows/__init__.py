"""Windows on recorded runs: what a contestant makes each call see, and what that costs."""
