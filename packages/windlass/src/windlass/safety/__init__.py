"""What strangers' texts, patterns, files and programs may not do."""
