"""What exists, by name: YAML entries from several folders, and how to build what they stand for."""
