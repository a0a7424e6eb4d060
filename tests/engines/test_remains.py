"""What stays on the disks of nodes of what was blanked and deleted, and what clears it."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage

from langchain_sessions import PartitionedStore, SessionService

if TYPE_CHECKING:
    from langchain_sessions.stores._cassandra.engine import CassandraEngine
    from tests.servers.cassandra import Nodes


def test_what_was_blanked_and_deleted_is_out_of_reach_at_once_and_off_the_disks_after_the_commands(
    engine: CassandraEngine, nodes: Nodes
) -> None:
    sessions = SessionService(PartitionedStore(engine), app=f"app-{secrets.token_hex(6)}")
    ada, grace = sessions.as_user("ada"), sessions.as_user("grace")
    # The first is so long that it is stored in pieces.
    # Words of which some part is left as it is by any compression, so that they can be looked for in files.
    blanked, deleted, kept = (secrets.token_urlsafe(48) for _ in range(3))
    grace.create("s1")
    grace.append("s1", [HumanMessage(f"{blanked} " + "word " * 300_000, id="m1"), HumanMessage(kept, id="m2")])
    ada.create("s2")
    ada.append("s2", HumanMessage(deleted, id="m1"))
    assert grace.search(blanked, session_id="s1").items
    for number in nodes.numbers:
        nodes.nodetool(number, "flush", "sessions")
        nodes.nodetool(number, "flush", "system", "paxos")
    grace.blank("s1", "m1")
    removal = sessions.delete_user("ada")
    assert not grace.search(blanked, session_id="s1").items
    assert [message.content for message in grace.messages("s1")] == ["[blanked]", kept]
    for word in (blanked, deleted, kept):
        assert nodes.files_with(word) >= {"data/sessions"}
    # The newest conditional batch of each partition is kept apart.
    assert "data/system" in nodes.files_with(deleted)
    commands = [command for each in removal.remainders for command in each.clear]
    for command in commands:
        program, *arguments = command.split()
        assert program == "nodetool"
        for number in nodes.numbers:
            nodes.nodetool(number, *arguments)
    # A file that a compaction has replaced goes when the last statement that reads it has ended.
    deadline = time.monotonic() + 60
    for word in (blanked, deleted):
        while not nodes.files_with(word) <= {"commitlog"} and time.monotonic() < deadline:
            time.sleep(1)
        assert nodes.files_with(word) <= {"commitlog"}
    assert nodes.files_with(kept) >= {"data/sessions"}
    assert grace.messages("s1")[-1].content == kept
