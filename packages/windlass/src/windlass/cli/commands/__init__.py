"""The commands, one module each. What a command needs to run is imported when it is called."""
