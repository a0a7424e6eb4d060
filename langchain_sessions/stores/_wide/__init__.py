"""Partitions over any wide-column store: conditional commits, lists, large values, shelves. No driver is here."""
