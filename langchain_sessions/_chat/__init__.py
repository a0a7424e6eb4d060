"""One conversation around model calls: what is new, the prompt, what is kept."""
