"""The stored form of graph threads: checkpoints and pending writes of a session.

A store knows of a checkpoint which messages it mentions and which one it came from; what else it holds is opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import ormsgpack

from langchain_sessions._core.ranges import SeqSet, decode_runs, encode_run_list
from langchain_sessions._core.rows import EventRow, Owner, SessionKey, SessionRow
from langchain_sessions.errors import CorruptRowError, SessionsError

if TYPE_CHECKING:
    from langchain_sessions._core.ledger import Edit
    from langchain_sessions.stores.values import SessionDraft

NO_EVENTS = SeqSet()
ROOT = 0
"""The namespace of the root graph."""
_UUID_LENGTH = 36


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
        """Every position that the checkpoint mentions; none where that cannot be read, which who rebuilds it says."""
        try:
            return seq_set(self.runs) | seq_set(self.others)
        except (ValueError, IndexError):
            return NO_EVENTS

    @property
    def digests(self) -> list[bytes]:
        """Digests of the values that are stored beside the row."""
        outside = self.outside or b""
        return [outside[at : at + 16] for at in range(0, len(outside), 16)]


class WriteRow(NamedTuple):
    """One pending write of a task. A negative `idx` replaces an earlier one, others leave it alone."""

    task: str
    idx: int
    channel: str
    path: str
    kind: int
    refs: bytes | None
    data: bytes | None


class WritesRow(NamedTuple):
    """Writes of one checkpoint as they are stored together.

    `cut` is 0, or the record of the rewind that put them out of sight; `refs` the positions that they mention.
    """

    ns: int
    cid: str
    cut: int
    part: int
    refs: bytes | None
    body: bytes


class Staged(NamedTuple):
    """Writes that wait for the checkpoint that comes from theirs; `n` says where."""

    n: int
    ns: int
    cid: str
    writes: tuple[WriteRow, ...]


class MessageRow(NamedTuple):
    """What a checkpoint needs of an event: enough to rebuild its message."""

    seq: int
    ident: str
    kind: int
    flags: int
    text: str | None
    body: str | None


class ValuesGoneError(SessionsError):
    """A checkpoint inherits values that were removed meanwhile. Internal: it is written with values of its own."""


def corrupt(session_id: str, cid: str) -> CorruptRowError:
    """The error for a checkpoint that cannot be read."""
    return CorruptRowError(
        f"Checkpoint {cid!r} of thread {session_id!r} cannot be read, or was written by a newer release; "
        "the other checkpoints can."
    )


class ValueRow(NamedTuple):
    """A value that is too large for the rows of the checkpoints that hold it."""

    digest: bytes
    data: bytes


def seq_set(runs: bytes | None) -> SeqSet:
    """The positions of an ordered list, as a set."""
    if not runs:
        return NO_EVENTS
    decoded = decode_runs(runs)
    return SeqSet(tuple(decoded)) if len(decoded) == 1 else SeqSet(tuple(sorted(decoded))) | NO_EVENTS


def pack_writes(writes: Sequence[WriteRow]) -> bytes:
    """Writes as bytes: tasks and paths once for all writes of a task that follow each other."""
    groups: list[list[Any]] = []
    for (task, path), some in groupby(writes, key=lambda write: (write.task, write.path)):
        groups.append([_pack_id(task), path, [[w.idx, w.channel, w.kind, w.refs, w.data] for w in some]])
    return ormsgpack.packb(groups)


def unpack_writes(body: bytes) -> list[WriteRow]:
    """What `pack_writes` packed."""
    return [
        WriteRow(_unpack_id(task), idx, channel, path, kind, refs, data)
        for task, path, some in ormsgpack.unpackb(body)
        for idx, channel, kind, refs, data in some
    ]


def pack_staged(ns: int, cid: str, writes: Sequence[WriteRow]) -> bytes:
    """Writes with the checkpoint that they belong to."""
    return ormsgpack.packb([ns, _pack_id(cid), pack_writes(writes)])


def unpack_staged(n: int, body: bytes) -> Staged:
    """What `pack_staged` packed."""
    ns, cid, writes = ormsgpack.unpackb(body)
    return Staged(n, ns, _unpack_id(cid), tuple(unpack_writes(writes)))


def _pack_id(name: str) -> str | bytes:
    """A UUID in its usual form as bytes, anything else as it is."""
    if len(name) != _UUID_LENGTH:
        return name
    try:
        short = bytes.fromhex(name.replace("-", ""))
    except ValueError:
        return name
    return short if _unpack_id(short) == name else name


def _unpack_id(packed: str | bytes) -> str:
    if isinstance(packed, str):
        return packed
    text = packed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def merge_writes(writes: Iterable[WriteRow]) -> list[WriteRow]:
    """Writes in the order in which they came, as they stand: regular ones stay, others are replaced."""
    found: dict[tuple[str, int], WriteRow] = {}
    for write in writes:
        if write.idx < 0:
            found[write.task, write.idx] = write
        else:
            found.setdefault((write.task, write.idx), write)
    return list(found.values())


def mentioned_in(writes: Iterable[WriteRow]) -> bytes | None:
    """The positions that some writes mention, as stored beside them."""
    seqs = SeqSet()
    for write in writes:
        seqs = seqs | seq_set(write.refs)
    return encode_run_list(list(seqs.runs)) if seqs else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """A checkpoint ready to be written.

    Attributes:
        row: The checkpoint.
        fresh: New events, with their positions.
        edits: Which of them take the place of another.
        rooted: Stored events that this root checkpoint takes over.
        values: Values to store beside the row.
        writes: The writes of the parent that waited for this checkpoint; their messages are in the log now.
        parent: The parent's row, where a value of it is in the log now.
    """

    row: CheckpointRow
    fresh: tuple[EventRow, ...] = ()
    edits: tuple[Edit, ...] = ()
    rooted: SeqSet = NO_EVENTS
    values: tuple[ValueRow, ...] = ()
    writes: tuple[WriteRow, ...] = ()
    parent: CheckpointRow | None = None


Settle = Callable[[SessionRow, Sequence[EventRow], Sequence[WriteRow]], Settled]


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

    @property
    def happened(self) -> bool:
        """It is stored."""
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class WritesPlan:
    """Pending writes to store.

    The rows are asked for late, for a session key: while they waited, the log may have taken their messages over.

    Attributes:
        key: The session.
        draft: How to open it where there is none.
        ns: The namespace.
        ns_name: Its name.
        cid: The checkpoint that the tasks ran on.
        rows: The writes.
        named_in: The key of the session that has the name already.
        is_regular: They are what a task wrote, not how it ended otherwise: a checkpoint mostly follows.
        may_lag: They need not outlive a power cut before the next checkpoint does.
    """

    key: SessionKey
    draft: SessionDraft
    ns: int
    ns_name: str
    cid: str
    rows: Callable[[int], Sequence[WriteRow]]
    named_in: int | None = None
    is_regular: bool = False
    may_lag: bool = False


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
    events: dict[int, list[MessageRow]] = field(default_factory=dict[int, list[MessageRow]])


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


class Reader(Protocol):
    """What a reader has already."""

    def __call__(self, session: SessionRow, seqs: SeqSet) -> SeqSet:
        """Which of some events of a session it lacks."""
        ...

    def shape(self, session: SessionRow, shape: int) -> bytes | None:
        """The names behind a digest, where it knows them."""
        ...
