"""Events and scenes as tables, hashes of what was rendered, and files other programs read."""
