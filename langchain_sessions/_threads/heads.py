"""Lines of checkpoints that the head of a thread left behind because another writer came later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_sessions._core.checkpoints import CheckpointRow


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadConflict:
    """A checkpoint that was acknowledged and is not in the history of the head, since another writer came later.

    Attributes:
        checkpoint_id: The last checkpoint of the lost line; it can be read and continued by this id.
        parent_id: The newest checkpoint that it shares with the head.
    """

    checkpoint_id: str
    parent_id: str | None


def head_conflicts(
    rows: Sequence[CheckpointRow], source_of: Callable[[CheckpointRow], str | None]
) -> list[HeadConflict]:
    """The lost lines among the root checkpoints of a thread; none that the head left on purpose, by a fork.

    Args:
        rows: The checkpoints, oldest first.
        source_of: What made a checkpoint, as its metadata says.
    """
    by_id = {row.cid: row for row in rows}
    parents = {row.parent for row in rows}
    followers = _head_line(rows, by_id)
    line = set(followers.values())
    found: list[HeadConflict] = []
    for row in rows:
        # Only ends of lines: what has a child is found with it.
        if row.cid in parents or row.cid in line:
            continue
        first, walked = row, {row.cid}
        while first.parent in by_id and first.parent not in line | walked:
            first = by_id[first.parent]
            walked.add(first.cid)
        rival = followers.get(first.parent)
        sources = [source_of(first)]
        if rival is not None:
            sources.append(source_of(by_id[rival]))
        if "fork" not in sources:
            found.append(HeadConflict(checkpoint_id=row.cid, parent_id=first.parent))
    return found


def _head_line(rows: Sequence[CheckpointRow], by_id: dict[str, CheckpointRow]) -> dict[str | None, str]:
    """The history of the head: which checkpoint came from each."""
    followers: dict[str | None, str] = {}
    at = rows[-1] if rows else None
    while at is not None and at.parent not in followers:
        followers[at.parent] = at.cid
        at = by_id.get(at.parent) if at.parent is not None else None
    return followers
