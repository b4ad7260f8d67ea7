"""Door: the inspector, pages over the record."""
