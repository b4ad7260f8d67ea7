"""The commands, a module each. What one needs to run is imported when it is called."""
