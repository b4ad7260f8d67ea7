"""Work of Windlass on the machines of a Ray cluster."""
