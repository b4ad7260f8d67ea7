"""One call of a model, from what it should see to what is recorded of it."""
