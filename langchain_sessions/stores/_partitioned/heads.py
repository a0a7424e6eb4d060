"""The head of a session's partition, and how it is written; JSON that people can read, for events too."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.expiry import over_at
from langchain_sessions._core.ledger import view_of
from langchain_sessions._core.rows import Counters, EventRow, InvocationRow, SessionRow, tally
from langchain_sessions.errors import CorruptRowError
from langchain_sessions.stores.engine import Head

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from langchain_sessions._core.ledger import LogView

_TOKENS = 16
"""So many commits may follow one whose answer got lost, before nobody can say whether it happened."""


class IndexHead(NamedTuple):
    """How far the index goes, its generation, what built it, and its chunks: a `StoredChunk` each without traits."""

    indexed_to: int = 0
    generation: int = 0
    fingerprint: str = ""
    chunks: tuple[tuple[int, int, int, int, int], ...] = ()


class VectorHead(NamedTuple):
    """How far the vectors go, which set they are, what made them, and the last position of each part of their signs."""

    embedded_to: int = 0
    generation: int = 0
    fingerprint: str = ""
    signs: tuple[int, ...] = ()


NO_INDEX = IndexHead()
NO_VECTORS = VectorHead()


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHead:
    """A session as its partition's head holds it.

    Attributes:
        version: The version of the head; 0 where there is none yet.
        session: Its row; the counters of the root scope are in it.
        stage: `live`; `making` while a fork is copied, which nobody sees; `going` while what it had is removed;
            `gone` for a tombstone, of which nothing is left.
        until: How long a tombstone lasts.
        unfinished: The invocations that are not done; of many the newest.
        left: How many more there are, which lie in rows of their own.
        scopes: Counters of each branch.
        leases: Who compacts which scope, and until when.
        index: How far the index goes.
        vectors: How far the vectors go.
        owed: Deltas whose `user:` and `app:` values may not be written yet, each with its time.
        has_thread: Whether a graph ever stored a checkpoint.
        tokens: Names of the newest commits.
    """

    session: SessionRow
    version: int = 0
    stage: str = "live"
    until: int = 0
    unfinished: Mapping[str, InvocationRow] = field(default_factory=dict[str, InvocationRow])
    left: int = 0
    scopes: Mapping[str, Counters] = field(default_factory=dict[str, Counters])
    leases: Mapping[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    index: IndexHead = field(default=NO_INDEX)
    vectors: VectorHead = field(default=NO_VECTORS)
    owed: tuple[tuple[str, int], ...] = ()
    has_thread: bool = False
    tokens: tuple[str, ...] = ()

    @property
    def skey(self) -> int:
        """The session's own key."""
        return self.session.skey

    @property
    def is_deleted(self) -> bool:
        """Whether it is as good as none, but for its id, which is not free at once."""
        return self.stage in {"going", "gone"}

    @property
    def due(self) -> int | None:
        """From when on it is to be removed: at once, where somebody has begun to."""
        if self.stage == "live":
            return over_at(self.session)
        return self.session.activity if self.stage == "going" else self.until

    def view(self, idle_before: int, left: Collection[InvocationRow] = ()) -> LogView:
        """Where its events stand; those of invocations that the head does not know if they are `left`."""
        view = view_of(self.session, [*self.unfinished.values(), *left], idle_before)
        return replace(view, has_unfinished=True) if self.left and not view.has_unfinished else view

    def with_session(self, **changes: Any) -> SessionHead:
        """The head with other columns of the session's row."""
        return replace(self, session=self.session._replace(**changes))

    def counters(self, scope: str | None) -> Counters:
        """What is live in a scope."""
        if scope is None:
            return Counters(self.session.live_events, self.session.live_turns, self.session.live_tokens)
        return self.scopes.get(scope, Counters())

    def counting(self, counted: Mapping[str | None, Counters]) -> SessionHead:
        """The head with the counters of some scopes."""
        scopes = {**self.scopes, **{scope: more for scope, more in counted.items() if scope is not None}}
        root = counted.get(None, self.counters(None))
        row = self.session._replace(live_events=root.events, live_turns=root.turns, live_tokens=root.tokens)
        return replace(self, session=row, scopes=scopes)

    def adding(self, counted: Mapping[str | None, Counters]) -> SessionHead:
        """The head after its counters changed by a difference."""
        summed = {
            scope: Counters(*(a + b for a, b in zip(self.counters(scope), more, strict=True)))
            for scope, more in counted.items()
        }
        return self.counting(summed)

    def recounted(self, rows: Iterable[EventRow], scopes: Iterable[str | None] | None = None) -> SessionHead:
        """The head with counters made from the rows that are live."""
        counted = tally(rows)
        wanted = (None, *self.scopes, *counted) if scopes is None else scopes
        return self.counting({scope: counted.get(scope, Counters()) for scope in wanted})


def dump_json(value: Any) -> bytes:
    """JSON that can be read and searched; escaped where the text is none that UTF-8 can hold."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def dump_event(row: EventRow) -> bytes:
    """An event as stored."""
    return dump_json(row)


def load_event(value: bytes) -> EventRow:
    """What `dump_event` wrote.

    Raises:
        CorruptRowError: It is something else.
    """
    try:
        return EventRow(*json.loads(value))
    except UNREADABLE as error:
        raise CorruptRowError("A row of a log cannot be read, or was written by a newer release.") from error


def dump_head(head: SessionHead, token: str) -> Head:
    """The next head of a session's partition, named by a token."""
    row = head.session._asdict()
    if head.session.head_runs is not None:
        row["head_runs"] = b64encode(head.session.head_runs).decode()
    document: dict[str, Any] = {
        "stage": head.stage,
        "session": row,
        "until": head.until,
        # In front how many are left: a release that knows nothing of those does not take these for all.
        "unfinished": [*([head.left] if head.left else ()), *head.unfinished.values()],
        "scopes": head.scopes,
        "leases": head.leases,
        "index": head.index,
        "vectors": head.vectors[:3],
        # Apart: a release that knows nothing of them passes over the name.
        "signs": head.vectors.signs,
        "owed": head.owed,
        "has_thread": head.has_thread,
        # The newest first, and the oldest falls off.
        "tokens": [token, *head.tokens[: _TOKENS - 1]],
    }
    session = head.session
    # Whatever may have rows is in a list, so that who removes a user's sessions finds what others left half done.
    is_listed = head.stage != "gone"
    return Head(
        head.version + 1,
        # What is empty is left out: most heads are small, and each commit writes one.
        dump_json({name: value for name, value in document.items() if value}),
        session.user_id,
        (session.activity, session.skey) if is_listed else None,
        head.due,
    )


def load_head(head: Head) -> SessionHead:
    """What `dump_head` wrote.

    Raises:
        CorruptRowError: It is something else.
    """
    try:
        document = json.loads(head.body)
        row = document["session"]
        if row["head_runs"] is not None:
            row["head_runs"] = b64decode(row["head_runs"])
        indexed_to, generation, fingerprint, chunks = document["index"]
        runs = document.get("unfinished", [])
        left = runs.pop(0) if runs and type(runs[0]) is int else 0
        return SessionHead(
            version=head.version,
            session=SessionRow(**row),
            stage=document["stage"],
            until=document.get("until", 0),
            unfinished={item[0]: InvocationRow(*item) for item in runs},
            left=left,
            scopes={scope: Counters(*item) for scope, item in document.get("scopes", {}).items()},
            leases={scope: (item[0], item[1]) for scope, item in document.get("leases", {}).items()},
            index=IndexHead(indexed_to, generation, fingerprint, tuple(map(tuple, chunks))),
            vectors=VectorHead(*document["vectors"])._replace(signs=tuple(document.get("signs", ()))),
            owed=tuple((delta, at) for delta, at in document.get("owed", ())),
            has_thread=document.get("has_thread", False),
            tokens=tuple(document.get("tokens", ())),
        )
    except UNREADABLE as error:
        raise CorruptRowError("The head of a session cannot be read, or was written by a newer release.") from error
