"""The stored form of graph threads: checkpoints and pending writes of a session.

A store knows of a checkpoint which messages it mentions and which one it came from; what else it holds is opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions.rows import EventRow, Owner, SessionKey, SessionRow
from langchain_sessions.runs import SeqSet, decode_runs

if TYPE_CHECKING:
    from langchain_sessions.ledger import Edit
    from langchain_sessions.stores.base import SessionDraft

NO_EVENTS = SeqSet()
ROOT = 0
"""The namespace of the root graph."""


class CheckpointRow(NamedTuple):
    """One checkpoint.

    `runs` is its main message list as ordered runs of positions, `others` the positions that it mentions elsewhere;
    both None for none. `outside` holds the digests of values that are stored beside it, 16 bytes each.
    """

    ns: int
    cid: str
    parent: str | None
    run_id: str | None
    shape: int
    runs: bytes | None
    others: bytes | None
    outside: bytes | None
    body: bytes

    @property
    def mentioned(self) -> SeqSet:
        """Every position that the checkpoint mentions."""
        return seq_set(self.runs) | seq_set(self.others)

    @property
    def digests(self) -> list[bytes]:
        """Digests of the values that are stored beside the row."""
        outside = self.outside or b""
        return [outside[at : at + 16] for at in range(0, len(outside), 16)]


class WriteRow(NamedTuple):
    """One pending write of a task; `cut` is 0, or the record of the rewind that put it out of sight."""

    ns: int
    cid: str
    task: str
    idx: int
    cut: int
    channel: str
    path: str
    kind: int
    refs: bytes | None
    data: bytes | None


class ValueRow(NamedTuple):
    """A value that is too large for the rows of the checkpoints that hold it."""

    digest: bytes
    data: bytes


def seq_set(runs: bytes | None) -> SeqSet:
    """The positions of an ordered list, as a set."""
    return SeqSet() if not runs else SeqSet(tuple(sorted(decode_runs(runs)))) | SeqSet()


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """A checkpoint ready to be written.

    Attributes:
        row: The checkpoint.
        fresh: New events, with their positions.
        edits: Which of them take the place of another.
        rooted: Stored events that this root checkpoint takes over.
        values: Values to store beside the row.
        writes: Writes of the parent whose messages are in the log now.
        parent: The parent's row, where a value of it is in the log now.
    """

    row: CheckpointRow
    fresh: tuple[EventRow, ...] = ()
    edits: tuple[Edit, ...] = ()
    rooted: SeqSet = NO_EVENTS
    values: tuple[ValueRow, ...] = ()
    writes: tuple[WriteRow, ...] = ()
    parent: CheckpointRow | None = None


Settle = Callable[[SessionRow, Sequence[EventRow]], Settled]


@dataclass(frozen=True, kw_only=True, slots=True)
class PutPlan:
    """A checkpoint to write.

    Attributes:
        key: The session.
        draft: How to open it where there is none.
        ns: Its namespace.
        ns_name: The name of the namespace.
        cid: Its id.
        parent: The id of the checkpoint that it came from.
        is_fork: It goes back on purpose, so that another head is no conflict.
        shape: Digest of the names that it shares with others.
        shape_body: These names.
        idents: Identities of messages that may be stored already.
        settle: Decides positions under the lock of the session row; pure.
        strict: Refuse it where the head is not its parent.
        named_in: The key of the session that has these names already.
    """

    key: SessionKey
    draft: SessionDraft
    ns: int
    ns_name: str
    cid: str
    parent: str | None
    is_fork: bool
    shape: int
    shape_body: bytes
    idents: tuple[str, ...]
    settle: Settle
    strict: bool = False
    named_in: int | None = None


class PutResult(NamedTuple):
    """The session after a checkpoint was written, and what was written."""

    session: SessionRow
    settled: Settled


@dataclass(frozen=True, kw_only=True, slots=True)
class WritesPlan:
    """Pending writes to store.

    `replaces` says of each whether it replaces an earlier one of its key. The rows are asked for late, for a session
    key: while they waited, the log may have taken their messages over.
    """

    key: SessionKey
    draft: SessionDraft
    ns: int
    ns_name: str
    rows: Callable[[int], Sequence[WriteRow]]
    replaces: tuple[bool, ...]
    named_in: int | None = None


class Found(NamedTuple):
    """A checkpoint and its session."""

    session: SessionRow
    ns_name: str
    row: CheckpointRow


@dataclass(slots=True)
class Details:
    """What is needed to rebuild some checkpoints."""

    writes: dict[tuple[int, int, str], list[WriteRow]] = field(
        default_factory=dict[tuple[int, int, str], list[WriteRow]]
    )
    values: dict[tuple[int, bytes], bytes] = field(default_factory=dict[tuple[int, bytes], bytes])
    shapes: dict[tuple[int, int], bytes] = field(default_factory=dict[tuple[int, int], bytes])
    events: dict[int, list[EventRow]] = field(default_factory=dict[int, list[EventRow]])


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointQuery:
    """Which checkpoints to read, newest first.

    Attributes:
        app: The app.
        owner: Whose; a named session of somebody else is an error, not an empty answer.
        now: The present.
        session_id: One session's; None for all.
        ns: One namespace's; None for all.
        ns_name: The name of that namespace.
        cid: The one with this id.
        before: Those with smaller ids.
        limit: How many.
        accept: Asked for each candidate.
        with_writes: Whether pending writes are wanted.
    """

    app: str
    owner: Owner
    now: int
    session_id: str | None = None
    ns: int | None = None
    ns_name: str = ""
    cid: str | None = None
    before: str | None = None
    limit: int | None = 1
    accept: Callable[[Found], bool] | None = None
    with_writes: bool = True


Lacks = Callable[[SessionRow, SeqSet], SeqSet]
"""Which of some events of a session a reader does not have yet."""
