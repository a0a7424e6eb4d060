"""What entries of a log say of other entries, as they carry it: everything can be read back from the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from langchain_sessions._core import rows as r
from langchain_sessions._core.rows import EventRow, Mark
from langchain_sessions.errors import EventNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions._core.ranges import SeqSet


MARK_KINDS = {r.REWIND: "rewind", r.COMPACTION: "compaction"}


def with_extra(extra: str | None, key: str, value: object) -> str:
    """The `extra` document with one more entry."""
    document = json.loads(extra) if extra else {}
    document[key] = value
    return json.dumps(document, separators=(",", ":"))


def marks_of(rows: Iterable[EventRow]) -> list[Mark]:
    """The marks that rows carry; every mark can be read back from the log."""
    marks: list[Mark] = []
    for row in rows:
        if row.extra is None:
            continue
        kind = "edit" if row.flags & r.EDIT else MARK_KINDS.get(row.kind)
        if kind is None:
            continue
        value = json.loads(row.extra).get("mark")
        if value is not None:
            marks.append(Mark(row.seq, kind, json.dumps(value, separators=(",", ":"))))
    return marks


def undone_target(session_id: str, marks: Iterable[Mark], hidden: SeqSet) -> int:
    """Where to go back to in order to undo the newest rewind that stands and that is not an undoing itself.

    Raises:
        EventNotFoundError: There is none.
    """
    rewinds = {mark.seq: int(mark.data) for mark in marks if mark.kind == "rewind"}
    # Whoever goes back to just before a rewind undoes it; undoing again reaches the one before.
    found = [seq for seq, target in rewinds.items() if seq not in hidden and target + 1 not in rewinds]
    if not found:
        raise EventNotFoundError(session_id, "rewind to undo")
    return max(found) - 1


def covers_of(row: EventRow | None) -> list[list[int]]:
    """The runs that a compaction record or a summary names."""
    if row is None or row.extra is None:
        return []
    found: list[list[int]] = json.loads(row.extra).get("covers", [])
    return found


def last_mark(rows: Sequence[EventRow]) -> int:
    """The newest status that rows report for their invocation; 0 for none."""
    return next((mark for row in reversed(rows) if (mark := (row.flags >> r.MARK_SHIFT) & 7)), 0)
