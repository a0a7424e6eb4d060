"""What Cassandra goes on keeping of what was removed, and what clears it."""

from __future__ import annotations

from langchain_sessions.stores._erasing import BACKUPS, Remainder


def remains_of(keyspace: str) -> tuple[Remainder, ...]:
    """The commands are for each of its nodes."""
    anew = ("flush", "garbagecollect", "compact")
    rows = "removed rows in SSTables, until a compaction after gc_grace_seconds"
    return (
        Remainder(rows, tuple(f"nodetool {each} {keyspace}" for each in anew)),
        Remainder("hints for nodes that were away", ("nodetool truncatehints",)),
        Remainder("snapshots", (f"nodetool clearsnapshot --all -- {keyspace}",)),
        Remainder("commit logs, until they are used again"),
        BACKUPS,
    )
