"""What Cassandra goes on keeping of what was removed, and what clears it."""

from __future__ import annotations

from langchain_sessions.stores._erasing import BACKUPS, Remainder


def remains_of(keyspace: str) -> tuple[Remainder, ...]:
    """The commands are for each of its nodes."""
    anew = ("flush", "garbagecollect", "compact")
    rows = "removed rows in SSTables, until a compaction after gc_grace_seconds"
    newest = "earlier conditional batches in system.paxos, until a compaction"
    return (
        Remainder(rows, tuple(f"nodetool {each} {keyspace}" for each in anew)),
        Remainder(newest, ("nodetool flush system paxos", "nodetool compact system paxos")),
        Remainder("hints for nodes that were away", ("nodetool truncatehints",)),
        Remainder("snapshots", (f"nodetool clearsnapshot --all -- {keyspace}",)),
        Remainder("commit logs, until they are flushed and used again, or the node is drained and restarted"),
        BACKUPS,
    )
