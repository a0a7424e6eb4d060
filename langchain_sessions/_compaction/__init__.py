"""Archiving that never loses anything: triggers, strategies and summaries over the log."""
