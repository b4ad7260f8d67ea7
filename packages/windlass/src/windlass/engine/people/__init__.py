"""What a person is asked, and where answers come from."""
