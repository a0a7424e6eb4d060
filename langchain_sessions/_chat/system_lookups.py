"""Where logs that are seen through a window have system messages: one stands in front however long ago it was said."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.messages import SystemMessage

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import visible_scopes
from langchain_sessions._core.locks import new_lock
from langchain_sessions._core.matching import query_of
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import ROOTED
from langchain_sessions._log.log import log_of
from langchain_sessions.events import Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.stores._values import SearchedLogs

if TYPE_CHECKING:
    from langchain_sessions._chat.address import Address
    from langchain_sessions._chat.session_memory import ChatOptions
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions.stores._values import ContextSlice, EventSlice, LogSlice

_IN_CONTEXT = frozenset({Standing.LIVE, Standing.INTERRUPTED})
_SYSTEM = frozenset({"system"})
# Sessions whose look-ups are remembered; a small tuple each.
_MOST_KNOWN = 1000
_MOST_READ = 8
"""So many system messages of a log are looked at again; where none of them stands, the log is looked through."""


class SystemLookups:
    """Where logs that are seen through a window have system messages: looked for once, and then in what was added.

    What an entry is never changes, where it stands does: so positions are kept, and the newest are read again.
    """

    def __init__(self) -> None:
        """Nothing was looked for yet."""
        self._lock = new_lock()
        self._known: OrderedDict[int, _Lookup] = OrderedDict()

    def find(self, options: ChatOptions, address: Address, found: ContextSlice) -> Flow[SystemMessage | None]:
        """The newest system message of a context whose newest part holds none."""
        log, version = log_of(address.sessions), found.session.last_seq
        known = self._known.get(found.session.skey) or _Lookup(0, (), is_cut=False)
        grown: list[EventSlice] = []
        if known.upto < version:
            wanted = EventFilter(roles=_SYSTEM, after_seq=known.upto, before_seq=version + 1)
            grown = [(yield from _rows_of(address, wanted))]
            seqs = (*known.seqs, *(row.seq for part in grown for row in part.rows))
            self._note(found.session.skey, _Lookup(version, seqs[-_MOST_READ:], known.is_cut or len(seqs) > _MOST_READ))
        parts = [*(yield from _rows_at(address, known.seqs)), *grown]
        scopes = visible_scopes(options.branch)
        standing = [
            row
            for part in parts
            for row in part.rows
            if part.view.standing(row) in _IN_CONTEXT and (row.flags & ROOTED or row.branch in scopes)
        ]
        if not standing and known.is_cut:
            wanted = EventFilter(roles=_SYSTEM, standings=_IN_CONTEXT, branch=options.branch, before_seq=version + 1)
            standing = (yield from _rows_of(address, wanted)).rows
        if not standing:
            return None
        # By place: an edit of an old one was logged late and stands early.
        message = log.codec.decode(address.session_id, max(standing, key=_place))
        return message if isinstance(message, SystemMessage) else None

    def _note(self, skey: int, lookup: _Lookup) -> None:
        with self._lock:
            self._known[skey] = lookup
            self._known.move_to_end(skey)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)


class _Lookup(NamedTuple):
    """How far a log was looked through, and the positions of the newest system messages that it held."""

    upto: int
    seqs: tuple[int, ...]
    is_cut: bool


def _place(row: EventRow) -> int:
    return row.place


def _rows_of(address: Address, wanted: EventFilter) -> Flow[EventSlice]:
    """What of a log meets a filter, as rows."""
    log = log_of(address.sessions)
    now = log.now()
    query = query_of(wanted, log.codec, session_id=address.session_id, idle_before=log.idle_before(now))
    found: EventSlice = yield from ask(log.store.find_events, log.key(address.session_id), query, now)
    return found


def _rows_at(address: Address, seqs: tuple[int, ...]) -> Flow[list[EventSlice]]:
    """The rows at some positions of a log."""
    if not seqs:
        return []
    log = log_of(address.sessions)
    now = log.now()
    scope = SearchedLogs(
        app=log.app, owner=log.owner, session_id=address.session_id, now=now, idle_before=log.idle_before(now)
    )
    found: list[LogSlice] = yield from ask(log.store.load_events, scope, {address.session_id: SeqSet.of(seqs)})
    return [each.rows for each in found]
