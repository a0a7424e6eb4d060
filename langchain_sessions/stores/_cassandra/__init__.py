"""Partitions in Cassandra."""
