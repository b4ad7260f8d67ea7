"""A phase or a whole cascade several times side by side, and which of them is taken."""
