"""What requests to models cost, told once."""
