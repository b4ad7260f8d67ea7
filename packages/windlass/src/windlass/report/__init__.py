"""What was sent, why, and what it cost: read from the record and nothing else."""
