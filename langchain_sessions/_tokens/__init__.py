"""What a text costs: exact where a vocabulary is on the machine, a script-aware estimate elsewhere."""
