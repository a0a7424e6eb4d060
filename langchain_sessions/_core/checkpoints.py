"""The stored form of graph threads, and what every store folds out of it.

A store knows of a checkpoint which messages it mentions and which one it came from; what else it holds is opaque.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import ormsgpack

from langchain_sessions._core.edge import unpacked_id, uuid_bytes
from langchain_sessions._core.ledger import Ledger
from langchain_sessions._core.ranges import SeqSet, decode_ranges, pack_ranges
from langchain_sessions.errors import CorruptRowError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from langchain_sessions._core.ledger import Edit
    from langchain_sessions._core.rows import EventRow, SessionRow

NO_EVENTS = SeqSet()
ROOT = 0
"""The namespace of the root graph."""
CUT = 16
"""Added to the kind of a value: it lies beside the row, in pieces. The data of a write then begins with a digest."""
SLICED = 64
"""Added to the kind of a write in pieces: it is part of a value, and its data says which."""
_DIGEST = 16
_PULLED = "~__pregel_pull, "
"""What the path of a task begins with that a channel triggered; a path that is stored as bytes is what follows it."""
_SQUEEZED, _WITH_WORDS = b"\xc1", b"\xc2"
"""What a deflated body begins with, and no other one does: those of before, and those that know the words below."""
_FEWEST = 128
_SHORT = 1 << 12
_MOST = 1 << 20
_ALTERED = "a body is altered"
_LONG = 2_000
WITHIN = -1
"""The part of writes that lie in the row of their checkpoint: before all that came later."""
NAMES_WITHIN = 0
"""In the place of a shape's digest: the row's body holds the names itself."""


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
        outside = self.outside
        return [outside[at : at + 16] for at in range(0, len(outside), 16)] if outside else []


class WriteRow(NamedTuple):
    """One pending write of a task. A negative `idx` replaces an earlier one, others leave it alone."""

    task: str
    idx: int
    channel: str
    path: str
    kind: int
    refs: bytes | None
    data: bytes | None


class PackedWrites(NamedTuple):
    """Writes of one checkpoint as they are stored together.

    `cut` is 0, or the record of the rewind that put them out of sight; `refs` the positions that they mention. Where
    `part` is `WITHIN` they lie in the row of the checkpoint itself.
    """

    ns: int
    cid: str
    cut: int
    part: int
    refs: bytes | None
    body: bytes


class StagedWrites(NamedTuple):
    """Writes that wait for the checkpoint that comes from theirs; `n` says where."""

    n: int
    ns: int
    cid: str
    packed: bytes

    @property
    def writes(self) -> list[WriteRow]:
        """The writes. Read when they are asked for: most of what a checkpoint finds waits for another one."""
        return unpack_writes(self.packed)


MessageParts = tuple[int, str, int, int, str | None, str | None]
"""What a `MessageRow` is made of."""


class MessageRow(NamedTuple):
    """What a checkpoint needs of an event: enough to rebuild its message."""

    seq: int
    ident: str
    kind: int
    flags: int
    text: str | None
    body: str | None


def corrupt_checkpoint(session_id: str, cid: str) -> CorruptRowError:
    """The error for a checkpoint that cannot be read."""
    return CorruptRowError(
        f"Checkpoint {cid!r} of thread {session_id!r} cannot be read, or was written by a newer release; "
        "the other checkpoints can."
    )


class Put(Protocol):
    """What the counters need to know of a checkpoint that is put."""

    @property
    def fresh(self) -> Sequence[EventRow]:
        """New events."""
        ...

    @property
    def edits(self) -> Sequence[Edit]:
        """Which of them take the place of another."""
        ...

    @property
    def rooted(self) -> SeqSet:
        """Stored events that it takes over."""
        ...


class ValueRow(NamedTuple):
    """A value that is too large for the rows of the checkpoints that hold it."""

    digest: bytes
    data: bytes


def seq_set(runs: bytes | None) -> SeqSet:
    """The positions of an ordered list, as a set."""
    if not runs:
        return NO_EVENTS
    decoded = decode_ranges(runs)
    return SeqSet.of_runs(decoded)


_WORDS = (
    b"langgraph_checkpoint_ns\xaelanggraph_path\xb2langgraph_triggers\xafcheckpoint_map\xa6run_id\xa7user_id\xa9thread_id"
    b"\xacassistant_id\xa8graph_id\xb1langgraph_version\xaelanggraph_step\xaelanggraph_node\xaflanggraph.types\xa9Interrupt"
    b"\xa9Overwrite\xa4Send\xa7Command\xa4goto\xa6update\xa6resume\xa9documents\xa8document\xadpage_content\xa8metadata"
    b"\xa6source\xa4role\xa4user\xa6system\xa9assistant\xa4tool\xa7content\xa4text"
    b"\xaamodel_name\xadfinish_reason\xa4stop\xa4args\xa9arguments\xaeusage_metadata\x83\xacinput_tokens\xadoutput_tokens"
    b"\xactotal_tokens\xb2invalid_tool_calls\x90\xaatool_calls\x90\xa8artifact\xc0\xa6status\xa7success\xactool_call_id"
    b"\xd9\x1dlangchain_core.messages.human\xacHumanMessage\xbalangchain_core.messages.ai\xa9AIMessage"
    b"\xbclangchain_core.messages.tool\xabToolMessage\xd9 langchain_core.messages.modifier\xadRemoveMessage"
    b"\x86\xa7content\xa0\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa6remove\xa4name\xc0\xa2id\xd9$"
    b"\xb3model_validate_json\xc5\x01marked:msgpack\x00\x94\x81\xb7langchain_sessions:form\x94\xa7message"
    b"\x81\xb6langchain_sessions:ref\x92\x01\x00\xa8messages\xaebranch:to:tools\x02\xc0\xc0\xaebranch:to:model\x02\xc0\xc0"
    b"\xaebranch:to:agent\x02\xc0\xc0\xc4\t__start__\x92\x95\x00\xa8messages\x01\xc4"
)
"""What bodies of graphs that know LangChain repeat. Part of the format: what was packed with it needs it as it is."""


def squeezed(body: bytes, level: int = 4) -> bytes:
    """The body of a row as it is stored: deflated, but for the shortest, which hardly shrink.

    A row of SQLite's that exceeds a quarter of a page takes a page of its own for the rest; other databases compress
    what is longer than 2 KB by themselves.
    """
    if not _FEWEST < len(body) <= _MOST:
        return body
    # Most are short: with a small window there is little to set up.
    window, memory = (-12, 5) if len(body) <= _SHORT else (-15, 8)
    packer = zlib.compressobj(level, zlib.DEFLATED, window, memory, zlib.Z_DEFAULT_STRATEGY, _WORDS)
    small = packer.compress(body) + packer.flush()
    return _WITH_WORDS + small if len(small) < len(body) * 7 // 8 else body


def opened(body: bytes) -> bytes:
    """What `squeezed` was given.

    Raises:
        ValueError: It was altered.
    """
    kind = body[:1]
    if kind not in (_SQUEEZED, _WITH_WORDS):
        return body
    unpacker = zlib.decompressobj(-15) if kind == _SQUEEZED else zlib.decompressobj(-15, _WORDS)
    try:
        # Bounded: what was tampered with must not blow up to gigabytes.
        found = unpacker.decompress(body[1:], _MOST)
    except zlib.error as error:
        raise ValueError(_ALTERED) from error
    if not unpacker.eof:
        raise ValueError(_ALTERED)
    return found


_SIGN = b"\xc1"
"""MessagePack never has it where a value or a key begins."""
_USUAL = (
    (b"\xa6source\xa4loop\xa4step", _SIGN + b"\1"),
    (b"\xa6source\xa5input\xa4step", _SIGN + b"\2"),
    (b"\xa7parents\x80", _SIGN + b"\3"),
)
"""What LangGraph's metadata of nearly every checkpoint begins with, and how that is stored."""


def shortened(metadata: bytes) -> bytes:
    """Packed metadata without the words that are always the same."""
    if _SIGN in metadata:
        return metadata  # a number may hold the bytes of a sign
    short = metadata
    for usual, sign in _USUAL:
        short = short.replace(usual, sign, 1)
    return _SIGN + short if len(short) < len(metadata) else metadata


def lengthened(metadata: bytes) -> bytes:
    """What `shortened` was given."""
    if metadata[:1] != _SIGN:
        return metadata
    found = metadata[1:]
    for usual, sign in _USUAL:
        found = found.replace(sign, usual, 1)
    return found


def pack_writes(writes: Sequence[WriteRow]) -> bytes:
    """Writes as bytes: tasks and paths once for all writes of a task that follow each other."""
    return squeezed(_in_groups(writes))


def in_bodies(writes: Sequence[WriteRow]) -> Iterable[tuple[Sequence[WriteRow], bytes]]:
    """As many at a time as one body takes that is deflated, and any server at once; each time with that body."""
    packed = _in_groups(writes)
    if len(packed) <= _MOST // 2:
        return [(writes, squeezed(packed))]
    starts, size = [0], 0
    for at, write in enumerate(writes):
        more = len(write.data or b"") + len(write.refs or b"")
        if size and size + more > _MOST // 2:
            starts.append(at)
            size = 0
        size += more
    parts = (writes[start:end] for start, end in zip(starts, [*starts[1:], len(writes)], strict=True))
    return [(part, pack_writes(part)) for part in parts]


def _in_groups(writes: Sequence[WriteRow]) -> bytes:
    groups: list[Any] = []
    some: list[Any] = []
    last: tuple[str, str] | None = None
    for task, idx, channel, path, kind, refs, data in writes:
        if last != (task, path):
            last, some, is_usual = (task, path), [], path.startswith(_PULLED) and path.isascii()
            groups.append((_pack_id(task), path[len(_PULLED) :].encode() if is_usual else path, some))
        some.append((idx, channel, kind, refs, data))
    return ormsgpack.packb(groups)


def unpack_writes(body: bytes) -> list[WriteRow]:
    """What `pack_writes` packed."""
    return [
        WriteRow(
            _unpack_id(task), idx, channel, at if type(at) is str else _PULLED + str(at, "ascii"), kind, refs, data
        )
        for task, at, some in ormsgpack.unpackb(opened(body))
        for idx, channel, kind, refs, data in some
    ]


def pack_staged(ns: int, cid: str, writes: Sequence[WriteRow]) -> bytes:
    """Writes with the checkpoint that they belong to. They pass through: only long ones are made smaller."""
    body = ormsgpack.packb([ns, _pack_id(cid), _in_groups(writes)])
    return body if len(body) < _LONG else squeezed(body, 1)


def unpack_staged(n: int, body: bytes) -> StagedWrites:
    """What `pack_staged` packed."""
    ns, cid, packed = ormsgpack.unpackb(opened(body))
    return StagedWrites(n, ns, _unpack_id(cid), packed)


def _pack_id(name: str) -> str | bytes:
    """A UUID in its usual form as bytes, anything else as it is."""
    return uuid_bytes(name) or name


def _unpack_id(packed: str | bytes) -> str:
    return packed if isinstance(packed, str) else unpacked_id(packed)


def stored_parent(cid: str, parent: str | None) -> tuple[str | None, bytes | None]:
    """A parent as a row of SQL names it: a UUID as bytes, without those with which the id of its checkpoint begins."""
    whole = None if parent is None else _pack_id(parent)
    if not isinstance(whole, bytes):
        return parent, None
    own = _pack_id(cid)
    if not isinstance(own, bytes):
        return None, whole
    differ = (int.from_bytes(own, "big") ^ int.from_bytes(whole, "big")).bit_length()
    return None, whole[-max(differ + 7 >> 3, 1) :]


def unpack_origin(cid: str, origin: bytes) -> str:
    """The parent of which `stored_parent` made bytes; a `CorruptRowError` where they are altered."""
    left = _DIGEST - len(origin)
    own = _pack_id(cid) if left else b""
    if left < 0 or not isinstance(own, bytes):
        problem = f"Checkpoint {cid!r} cannot be read: the id of its parent is altered; the other checkpoints can."
        raise CorruptRowError(problem)
    return _unpack_id(own[:left] + origin)


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
    seqs = NO_EVENTS
    for refs in [write.refs for write in writes if write.refs]:
        seqs = seqs | seq_set(refs)
    return pack_ranges(list(seqs.ranges)) if seqs else None


def digests_in(writes: Iterable[WriteRow]) -> list[bytes]:
    """Digests of the values that some writes begin with."""
    return [write.data[:_DIGEST] for write in writes if write.kind & CUT and write.data is not None]


# -- what every store folds out of it ----------------------------------------------------------------------


def rewound(session: SessionRow) -> SeqSet:
    """The positions that a rewind put out of sight."""
    ledger = session.ledger
    # Asked for many times a step: what a ledger begins with tells that there is none, however many edits it lists.
    return NO_EVENTS if ledger is None or ledger.startswith('{"h":[],') else Ledger.decode(ledger).hidden


def blanked_at(session: SessionRow) -> int:
    """The newest record of a session that says that texts were overwritten: copies made before are outdated."""
    return Ledger.decode(session.ledger).blanked_at if session.ledger and '"b":' in session.ledger else 0


def is_internal(channel: str) -> bool:
    """Whether a channel is LangGraph's own; what it carries is on its way to another one."""
    return channel.startswith(("__", "branch:"))


def is_in_sight(session: SessionRow, row: CheckpointRow) -> bool:
    """Whether no rewind put a checkpoint out of sight: one that stands mentions no rewound position."""
    hidden = rewound(session)
    return not hidden.ranges or not row.mentioned & hidden


def writes_in_sight(
    session: SessionRow, cid: str, parts: Collection[PackedWrites], staged: Iterable[StagedWrites]
) -> list[WriteRow]:
    """The writes of a checkpoint, in the order in which they came.

    Those that a rewind put out of sight are left out; where it was undone, they come before those that followed it.

    Args:
        session: The session.
        cid: The checkpoint.
        parts: What is stored of it for good, in any order.
        staged: What waits for the next one.

    Raises:
        CorruptRowError: They cannot be read.
    """
    hidden = rewound(session) if any(part.cut for part in parts) else NO_EVENTS
    told: list[WriteRow] = []
    for part in sorted(parts, key=lambda part: (part.cut == 0, part.cut, part.part)):
        if part.cut == 0 or part.cut in hidden:
            try:
                told += unpack_writes(part.body)
            except (ValueError, TypeError, IndexError) as error:
                raise corrupt_checkpoint(session.id, cid) from error
    for each in staged:
        told += each.writes
    return merge_writes(told)


def head_after(session: SessionRow, row: CheckpointRow) -> dict[str, Any]:
    """The columns that a checkpoint which is put moves: the head is the newest root checkpoint in sight.

    Args:
        session: The session before.
        row: The checkpoint.
    """
    # Ids grow with time: a checkpoint that comes late is no head.
    if row.ns != ROOT or (session.head_id is not None and row.cid < session.head_id):
        return {}
    if not is_in_sight(session, row):
        return {}
    changes: dict[str, Any] = {"head_id": row.cid}
    if session.head_runs != (row.runs or b""):
        changes["head_runs"] = row.runs or b""
    return changes


def touched_by_put(before: SessionRow, after: SessionRow, put: Put) -> SeqSet:
    """Stored events whose standing a checkpoint that is put may change: only these need to be looked at."""
    old, new = seq_set(before.head_runs), seq_set(after.head_runs)
    fresh = SeqSet.of([row.seq for row in put.fresh])
    if not put.edits and not put.rooted.ranges and (old | fresh).ranges == new.ranges:
        return NO_EVENTS  # as of nearly all: the list goes on
    touched = (old - new) | (new - old) | put.rooted | SeqSet.of(edit.replaces for edit in put.edits)
    return touched - fresh
