"""Door: for a coding agent that runs already, results shortened before its model sees them."""
