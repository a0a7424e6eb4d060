"""Recall: search over everything a conversation ever said, compacted or not."""
