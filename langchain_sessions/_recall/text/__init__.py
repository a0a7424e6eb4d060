"""Texts as terms and words."""
