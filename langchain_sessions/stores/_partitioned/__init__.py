"""The contract over an engine of partitions, by what it is about."""
