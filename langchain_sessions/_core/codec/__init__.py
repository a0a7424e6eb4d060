"""Messages and Python values as text, and back without loss."""
