"""The one ranking."""
