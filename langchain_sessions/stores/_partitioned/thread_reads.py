"""Reading checkpoints: found newest first, then completed with all that is needed to rebuild them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions._core.checkpoints import (
    NAMES_WITHIN,
    ROOT,
    CheckpointRow,
    MessageRow,
    digests_in,
    is_in_sight,
    seq_set,
    writes_in_sight,
)
from langchain_sessions._core.expiry import is_expired
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import ANYONE, Owner, SessionKey
from langchain_sessions.errors import SessionNotFoundError, StoreUnavailableError
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.sessions import all_heads
from langchain_sessions.stores._partitioned.threads import (
    checkpoint_key,
    load_checkpoint,
    load_staged,
    load_writes,
    read_values,
    writes_key,
)
from langchain_sessions.stores._threads import CheckpointDetails, CheckpointPage, FoundCheckpoint
from langchain_sessions.stores.engine import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores._partitioned.access import Partitions
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores._threads import CheckpointQuery, CheckpointReader, PageEnd, StoredIn

_PAGE = 50
_TRIES = 50


class _Page(NamedTuple):
    """Checkpoints, and whether there may be more."""

    found: list[FoundCheckpoint]
    goes_on: bool


def find_checkpoints(
    at: Partitions, query: CheckpointQuery, after: PageEnd | None, reader: CheckpointReader
) -> Flow[CheckpointPage]:
    """The contract's `find_checkpoints`."""
    wanted = _PAGE if query.limit is None else min(query.limit, _PAGE)
    if query.session_id is not None:

        def read(head: SessionHead) -> Flow[CheckpointPage]:
            page = yield from _find(at, head, query, after, wanted)
            details = yield from _complete(at, head, page.found, reader)
            return CheckpointPage(page.found, details, _end(page.found) if page.goes_on else None)

        return (yield from _of_thread(at, query, read))
    pages: list[_Page] = []
    heads = {head.skey: head for head in (yield from all_heads(at, query.app, query.owner))}
    for head in heads.values():
        if head.has_thread and not is_expired(head.session, query.now):
            pages += [(yield from _find(at, head, query, after, wanted))]
    ordered = sorted((item for page in pages for item in page.found), key=_place, reverse=True)
    found = ordered[:wanted]
    details = CheckpointDetails()
    for skey in dict.fromkeys(item.session.skey for item in found):
        mine = [item for item in found if item.session.skey == skey]
        _merge(details, (yield from _complete(at, heads[skey], mine, reader)))
    goes_on = len(ordered) > wanted or any(page.goes_on for page in pages)
    return CheckpointPage(found, details, _end(found) if goes_on else None)


def _place(item: FoundCheckpoint) -> PageEnd:
    return (item.row.cid, item.session.skey, item.row.ns)


def _end(found: Sequence[FoundCheckpoint]) -> PageEnd | None:
    return _place(found[-1]) if found else None


def _merge(into: CheckpointDetails, more: CheckpointDetails) -> None:
    into.writes.update(more.writes)
    into.values.update(more.values)
    into.shapes.update(more.shapes)
    into.events.update(more.events)


def _of_thread(
    at: Partitions, query: CheckpointQuery, read: Callable[[SessionHead], Flow[CheckpointPage]]
) -> Flow[CheckpointPage]:
    """What is read of one thread as of one version of its head.

    Raises:
        SessionNotFoundError: The session is somebody else's.
        StoreUnavailableError: It kept changing.
    """
    anyones = SessionKey(query.app, query.session_id or "", ANYONE)
    head = yield from at.find_session(anyones, query.now)
    for _ in range(_TRIES):
        if head is None:
            return CheckpointPage([], CheckpointDetails(), None)
        if not anyones._replace(owner=query.owner).admits(head.session.user_id):
            raise SessionNotFoundError(head.session.id)
        page = yield from read(head)
        again = yield from at.find_session(anyones, query.now)
        if again is not None and (again.version, again.skey) == (head.version, head.skey):
            return page
        head = again
    raise StoreUnavailableError("The thread kept changing while it was read; try again.")


def _find(at: Partitions, head: SessionHead, query: CheckpointQuery, after: PageEnd | None, wanted: int) -> Flow[_Page]:
    """A page of the checkpoints of a session that are in sight and accepted."""
    found: list[FoundCheckpoint] = []
    wide = _range_of(head, query, after)
    size = 2 if query.cid is not None or wanted == 1 else _PAGE
    high = wide.high
    names: dict[int, str] = {ROOT: ""}
    while True:
        rows = (yield from at.rows(head, [Range(wide.low, high, size, newest=True)]))[0]
        for key, value in rows:
            high = key
            if query.ns is None:
                row = yield from read_checkpoint(at, head, keys.number_in(key), keys.text_in(key, -2))
            else:
                row = load_checkpoint(value)
            if row is None or not is_in_sight(head.session, row):
                continue
            item = FoundCheckpoint(head.session, (yield from _name(at, head, query, row.ns, names)), row)
            if query.accept is None or query.accept(item):
                found.append(item)
                if len(found) == wanted:
                    return _Page(found, goes_on=True)
        if len(rows) < size:
            return _Page(found, goes_on=False)
        size = _PAGE


def _range_of(head: SessionHead, query: CheckpointQuery, after: PageEnd | None) -> Range:
    """The keys among which the checkpoints of a query lie: of one namespace, or by their ids."""
    skey = head.skey
    start = (keys.at(skey, keys.CHECKPOINT_ID),) if query.ns is None else (keys.at(skey, keys.CHECKPOINT, query.ns),)
    wide = keys.under(start[0])
    low, high = wide.low, wide.high
    if query.cid is not None:
        exact = f"{start[0]}/{query.cid.encode().hex()}"
        low, high = exact, f"{exact}0"
    if query.before is not None:
        high = min(high, f"{start[0]}/{query.before.encode().hex()}")
    if after is not None:
        cid, last, ns = after
        edge = f"{start[0]}/{cid.encode().hex()}"
        if last > skey:
            # Of those with the same id this session's come later.
            edge += "0"
        elif last == skey and query.ns is None:
            edge = keys.at(skey, keys.CHECKPOINT_ID, cid, ns)
        high = min(high, edge)
    return Range(low, high)


def _name(at: Partitions, head: SessionHead, query: CheckpointQuery, ns: int, names: dict[int, str]) -> Flow[str]:
    """The name of a namespace."""
    if query.ns is not None:
        return query.ns_name
    if ns not in names:
        found = (yield from at.rows(head, [keys.exactly(keys.at(head.skey, keys.NAMESPACE, ns))]))[0]
        names[ns] = found[0].value.decode(errors="surrogatepass") if found else ""
    return names[ns]


def read_checkpoint(at: Partitions, head: SessionHead, ns: int, cid: str) -> Flow[CheckpointRow | None]:
    """One checkpoint's row."""
    found = (yield from at.rows(head, [keys.exactly(checkpoint_key(head.skey, ns, cid))]))[0]
    return load_checkpoint(found[0].value) if found else None


def _complete(
    at: Partitions, head: SessionHead, found: Sequence[FoundCheckpoint], reader: CheckpointReader
) -> Flow[CheckpointDetails]:
    """What is needed to rebuild some checkpoints of a session."""
    details = CheckpointDetails()
    if not found:
        return details
    skey, session = head.skey, head.session
    digests = {digest for item in found for digest in item.row.digests}
    for shape in {item.row.shape for item in found}:
        # Empty where it is gone; the rebuilder says that the checkpoint cannot be read.
        details.shapes[skey, shape] = reader.shape(session, shape) or b""
    unknown = [shape for (_, shape), body in details.shapes.items() if not body and shape != NAMES_WITHIN]
    shapes = yield from at.rows(head, [keys.exactly(keys.at(skey, keys.SHAPE, shape)) for shape in unknown])
    staged = yield from load_staged(at, head)  # before what is stored for good: of all threads no head is asked again
    parts = yield from at.rows(head, [keys.under(writes_key(skey, item.row.ns, item.row.cid)) for item in found])
    details.shapes.update(((skey, shape), rows[0].value) for shape, rows in zip(unknown, shapes, strict=True) if rows)
    missing = SeqSet()
    for item, stored in zip(found, parts, strict=True):
        row = item.row
        waiting = [each for each in staged if (each.ns, each.cid) == (row.ns, row.cid)]
        writes = writes_in_sight(session, row.cid, [load_writes(each) for each in stored], waiting)
        details.writes[skey, row.ns, row.cid] = writes
        digests.update(digests_in(writes))
        mentioned = row.mentioned
        for write in writes:
            mentioned = mentioned | seq_set(write.refs)
        missing = missing | reader.lacks(session, mentioned)
    values = yield from read_values(at, head, digests.union(reader.pieces(session, digests)))
    details.values.update(((skey, digest), value) for digest, value in values.items())
    events = yield from at.events(head, missing.ranges)
    details.events[skey] = [
        MessageRow(event.seq, event.ident, event.kind, event.flags, event.text, event.body) for event in events
    ]
    return details


def load_lineage(
    at: Partitions, query: CheckpointQuery, channels: Collection[str], stored_in: StoredIn, reader: CheckpointReader
) -> Flow[CheckpointPage]:
    """The contract's `load_lineage`."""

    def read(head: SessionHead) -> Flow[CheckpointPage]:
        target = (yield from _find(at, head, query, None, 1)).found
        found: list[FoundCheckpoint] = []
        parent = target[0].row.parent if target else None
        left = set(channels)
        # Ids made by hand may go round in a circle.
        walked: set[str] = set()
        while parent is not None and parent not in walked and left:
            walked.add(parent)
            row = yield from read_checkpoint(at, head, target[0].row.ns, parent)
            if row is None:
                break
            found.append(FoundCheckpoint(head.session, target[0].ns_name, row))
            shape = (yield from at.rows(head, [keys.exactly(keys.at(head.skey, keys.SHAPE, row.shape))]))[0]
            if not shape and row.shape != NAMES_WITHIN:
                break  # as in SQL
            left -= {*stored_in(found[-1], shape[0].value if shape else b"")}
            parent = row.parent
        return CheckpointPage(found, (yield from _complete(at, head, found, reader)), None)

    return (yield from _of_thread(at, query, read))


def list_root_checkpoints(at: Partitions, key: SessionKey, now: int) -> Flow[list[CheckpointRow]]:
    """The contract's `list_root_checkpoints`."""
    head = yield from at.require(key, now)
    rows = yield from at.all_rows(head, keys.under(keys.at(head.skey, keys.CHECKPOINT, ROOT)))
    return [row for row in (load_checkpoint(each.value) for each in rows) if is_in_sight(head.session, row)]


def find_runs(at: Partitions, app: str, owner: Owner, run_ids: Collection[str]) -> Flow[list[SessionKey]]:
    """The contract's `find_runs`: each thread of the owner is asked."""
    found: list[SessionKey] = []
    for head in (yield from all_heads(at, app, owner)):
        if head.has_thread:
            start = keys.at(head.skey, keys.OF_RUN)
            rows = yield from at.rows(head, [keys.exactly(f"{start}/{keys.digest(run)}") for run in run_ids])
            if any(rows):
                found.append(SessionKey(app, head.session.id, head.session.user_id))
    return sorted(found, key=lambda key: key.id)
