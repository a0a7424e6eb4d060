"""Inverted events, in memory and packed."""
