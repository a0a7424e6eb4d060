"""Partitions in folders that people can read."""
