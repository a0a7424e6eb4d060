"""The semantic part of recall."""
