"""The contract about graph threads: checkpoints and the writes of tasks, kept in the session that the thread is.

A store knows of a checkpoint where it stands (`ns`, `cid`), which one it came from, which run made it, which messages
it mentions and which values lie beside it. What else a row holds is opaque to it; `_core.checkpoints` has the rows and
the folds over them that every store shares.

Rules that hold for all of it, besides those of the contract as a whole:

- A plan is written whole or not at all.
- What is decided (`PutPlan.decide`, `WritesPlan.rows`, `CheckpointQuery.accept`, `stored_in`, `keep`) is pure and
  never does I/O. A store may call it inside its transaction, more than once, on whatever it finds at the time.
- A checkpoint that mentions a rewound position is out of sight. That is no state of it but follows from the session's
  ledger, so that an undone rewind brings it back. Writes that were put out of sight by a rewind come back likewise.
- Writes of one task are merged as `merge_writes` says: a regular one stays, one with a negative index is replaced.

What other methods of the contract do to threads:

- `delete_session`, `delete_user`, `purge_expired` remove threads with their sessions.
- `rewind_events` moves the head to the newest root checkpoint in sight (it raises `InvalidInputError` where none is
  left and `reset_thread` is not set), and puts out of sight the writes at the new head and those of subgraphs since:
  else the graph, run on, would bring the old reply back. Undoing it brings both back.
- `fork_session` copies the checkpoints that mention nothing beyond its position, with their writes and values, but
  for writes that mention what was not copied and, where a checkpoint was left out, those at the new head.
- Where a head is, its list (`SessionRow.head_runs`) is the session's context.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from langchain_sessions._core.checkpoints import NO_EVENTS, CheckpointRow, MessageParts, ValueRow, WriteRow
from langchain_sessions._core.packed_texts import NOTHING_PACKED, Packed
from langchain_sessions._core.rows import EventRow, Owner, SessionKey, SessionRow
from langchain_sessions._core.twins import threaded

if TYPE_CHECKING:
    from langchain_sessions._core.ledger import Edit
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions.stores._values import SessionDraft


class PutDecision(NamedTuple):
    """A checkpoint ready to be written.

    Attributes:
        row: The checkpoint. One at the same place is replaced.
        fresh: New events, with their positions: those after the session's last one.
        edits: Which of them take the place of another.
        rooted: Stored events that this root checkpoint takes over: they are flagged `ROOTED`.
        values: Values to store beside the row, where the session does not have them; pieces of large ones too.
        needs: Values whose pieces the new ones take over, so that they have to be there.
        writes: The writes of the parent that waited for this checkpoint; their messages are in the log now.
        parent: The parent's row, where a value of it is in the log now: its `others`, `outside` and `body` change.
        unneeded: Pieces of writes that need not be stored, where they are not yet.
    """

    row: CheckpointRow
    fresh: tuple[EventRow, ...] = ()
    edits: tuple[Edit, ...] = ()
    rooted: SeqSet = NO_EVENTS
    values: tuple[ValueRow, ...] = ()
    needs: tuple[bytes, ...] = ()
    writes: tuple[WriteRow, ...] = ()
    parent: CheckpointRow | None = None
    unneeded: frozenset[bytes] = frozenset()


Decide = Callable[[SessionRow, Sequence[EventRow], Sequence[WriteRow]], PutDecision]
"""Given the session, the stored revisions of the plan's `idents`, and the parent's writes that wait: what to write."""


class PutPlan(NamedTuple):
    """A checkpoint to write.

    Attributes:
        key: The session.
        draft: How to open it where there is none.
        ns: Its namespace.
        ns_name: The name of the namespace.
        cid: Its id.
        parent: The id of the checkpoint that it came from.
        is_fork: It goes back on purpose, so that another head is no conflict.
        shape: Digest of the names that it shares with others; `NAMES_WITHIN` where its body holds them, and no store
            is told them.
        shape_body: These names.
        idents: Identities of messages that may be stored already.
        since: Positions behind which revisions of some of them are wanted; earlier ones need not be read.
        known_to: Where the log ends there, it has no other revisions of `idents` than those wanted by `since`.
        decide: Decides positions; see `Decide`. May raise `StalePlanError`.
        strict: Refuse it where the head is not its parent.
        named_in: The key of the session that has both names already; elsewhere they are stored.
        seen_as: The key that the session had when it was seen last, by which it is found sooner if it still has that.
        said: New messages as they are before they have positions. Long ones a store may pack before it locks anything.
        packed: What it packed of them; it is the store's own.
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
    decide: Decide
    since: Mapping[str, int] = MappingProxyType({})
    known_to: int = 0
    strict: bool = False
    named_in: int | None = None
    seen_as: int | None = None
    said: Sequence[EventRow] = ()
    packed: Packed = NOTHING_PACKED


class PutResult(NamedTuple):
    """The session after a checkpoint was written, and what was written."""

    session: SessionRow
    decision: PutDecision


class WritesPlan(NamedTuple):
    """Pending writes to store.

    The rows are asked for late, for a session key: while they waited, the log may have taken their messages over.

    Attributes:
        key: The session.
        draft: How to open it where there is none.
        ns: The namespace.
        ns_name: Its name.
        cid: The checkpoint that the tasks ran on. It need not be there.
        rows: The writes, given the session's own key. May raise `StalePlanError`.
        values: Pieces of large ones, to store where the session does not have them.
        needs: Values whose pieces the new ones take over, so that they have to be there.
        named_in: The key of the session that has the name already; elsewhere it is stored.
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
    values: tuple[ValueRow, ...] = ()
    needs: tuple[bytes, ...] = ()
    is_regular: bool = False
    may_lag: bool = False


ThreadPlan = PutPlan | WritesPlan
PlanOutcome = PutResult | Exception | None
"""What became of a plan: its result, None for writes that are stored, or the error that kept it from being written."""


class FoundCheckpoint(NamedTuple):
    """A checkpoint and its session."""

    session: SessionRow
    ns_name: str
    row: CheckpointRow


@dataclass(slots=True)
class CheckpointDetails:
    """What is needed to rebuild some checkpoints, as far as the reader lacks it.

    Attributes:
        writes: The pending writes of each, merged and in the order in which they came.
        values: Values that lie beside a row, or that its writes begin with, by digest; and where one consists of
            names (`kids_of`), these too, and so on. One that is gone is left out.
        shapes: The names behind a shape; empty where they are gone.
        events: Messages that the checkpoints or their writes mention and the reader lacks: `MessageRow`s, or what
            these are made of.
    """

    writes: dict[tuple[int, int, str], list[WriteRow]] = field(
        default_factory=dict[tuple[int, int, str], list[WriteRow]]
    )
    values: dict[tuple[int, bytes], bytes] = field(default_factory=dict[tuple[int, bytes], bytes])
    shapes: dict[tuple[int, int], bytes] = field(default_factory=dict[tuple[int, int], bytes])
    events: dict[int, Sequence[MessageParts]] = field(default_factory=dict[int, Sequence[MessageParts]])


PageEnd = tuple[str, int, int]
"""Where a page of checkpoints ended: the id, the session's own key and the namespace of the last one looked at."""


class CheckpointPage(NamedTuple):
    """Some checkpoints, complete, and where to go on; None at the end."""

    found: list[FoundCheckpoint]
    details: CheckpointDetails
    after: PageEnd | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointQuery:
    """Which checkpoints to read, newest first: by descending id, then session key, then namespace.

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
    accept: Callable[[FoundCheckpoint], bool] | None = None


class CheckpointReader(Protocol):
    """What a reader has already, so that a store need not send it. It may be asked more than once."""

    def lacks(self, session: SessionRow, seqs: SeqSet) -> SeqSet:
        """Which of some events of a session it lacks."""
        ...

    def shape(self, session: SessionRow, shape: int) -> bytes | None:
        """The names behind a digest, where it knows them."""
        ...

    def pieces(self, session: SessionRow, digests: Collection[bytes]) -> Collection[bytes]:
        """The names of what values consist of, as far as it knows: a store need not follow them from row to row."""
        ...


StoredIn = Callable[[FoundCheckpoint, bytes], Collection[str]]
"""Given a checkpoint and the names of its shape: the channels whose whole value it holds."""

CheckpointKey = tuple[int, str]
"""A checkpoint within its session: namespace and id."""


@dataclass(frozen=True, slots=True)
class ThreadRows:
    """All checkpoints of a thread, for a decision about which of them, and which of the writes beside them, to keep.

    Attributes:
        session_id: The thread.
        rows: Every checkpoint.
        in_sight: Those that no rewind put out of sight.
        shapes: The names behind their shapes.
        namespaces: The names of their namespaces.
        missing: Checkpoints that are not there, though writes of their tasks are: they are about to come, or their
            process is gone.
    """

    session_id: str
    rows: Sequence[CheckpointRow]
    in_sight: Sequence[CheckpointRow]
    shapes: Mapping[int, bytes]
    namespaces: Mapping[int, str]
    missing: Collection[CheckpointKey]


Keep = Callable[[ThreadRows], Collection[CheckpointKey]]
"""Which checkpoints to keep, and of which missing ones the writes."""


class ThreadStore(ABC):
    """What a store does with threads. See the module for the rules that hold for every method."""

    waits: ClassVar[bool] = True

    # -- writing -------------------------------------------------------------------------------------------

    @abstractmethod
    def commit_threads(self, /, plans: Sequence[ThreadPlan]) -> list[PlanOutcome]:
        """Write what calls for one thread have planned, in this order, writes before checkpoints.

        They share a transaction where that goes well, and one flush. Where it does not, each is written alone, so
        that one does not take others with it. Every plan has an outcome, errors included, so that this raises only
        what is no `Exception`. Repeating a plan whose outcome got lost changes nothing.

        A checkpoint, as one step: find the session of the key, opened by the draft where there is none; ask `decide`
        with the session, with the stored revisions of `idents` in log order, and with the parent's writes that wait
        (those stored before, then those of the same call); write the decision. The events are appended; the ledger
        takes the edits; values, names and the row are stored; the parent's writes are stored as decided, in place of
        those that waited. The newest root checkpoint in sight is the head: `head_after`. Counters follow, `last_seq`
        moves by the number of new events. An invocation or state is never touched.

        Writes wait where the next checkpoint finds them. They move neither `last_seq` nor the time of last activity.

        Errors of a plan:
            SessionNotFoundError: The session is somebody else's, or was deleted lately and `draft.anew` is not set.
            SessionEndedError: A checkpoint's session was ended.
            HeadConflictError: `strict`, not `is_fork`, a root checkpoint, and the head is neither its parent nor it.
            StalePlanError: `decide` or `rows` said so; or the plan needs a value, or the row names one, that neither
                it brings nor the session has, since the checkpoint that it was taken from was removed meanwhile.
            StoreError: It could not be written.
        """

    @threaded(commit_threads)
    def acommit_threads(self) -> None:
        """Async `commit_threads`."""

    # -- reading -------------------------------------------------------------------------------------------

    @abstractmethod
    def find_checkpoints(
        self, /, query: CheckpointQuery, after: PageEnd | None, reader: CheckpointReader
    ) -> CheckpointPage:
        """Checkpoints in sight that meet a query, newest first, complete; as of one moment, per session.

        A page holds at most `query.limit`, and no more than a store reads well at once: fewer than asked for means
        nothing while `after` is set. Crosses sessions where the query names no session.

        Args:
            query: Which.
            after: What the page before said.
            reader: What need not be read.

        Raises:
            SessionNotFoundError: The named session is somebody else's. One that is not there has no checkpoints.
        """

    @threaded(find_checkpoints)
    def afind_checkpoints(self) -> None:
        """Async `find_checkpoints`."""

    @abstractmethod
    def load_lineage(
        self, /, query: CheckpointQuery, channels: Collection[str], stored_in: StoredIn, reader: CheckpointReader
    ) -> CheckpointPage:
        """The ancestors of a checkpoint, its parent first, until each channel was stored whole in one of them.

        The ancestors need not be in sight. Ids made by hand may go round in a circle: none is returned twice.

        Args:
            query: The checkpoint: one by its id, or the newest, of one namespace of one session.
            channels: The channels.
            stored_in: Which channels an ancestor holds whole.
            reader: What need not be read.

        Raises:
            SessionNotFoundError: The session is somebody else's.
        """

    @threaded(load_lineage)
    def aload_lineage(self) -> None:
        """Async `load_lineage`."""

    @abstractmethod
    def list_root_checkpoints(self, /, key: SessionKey, now: int) -> list[CheckpointRow]:
        """The root graph's checkpoints in sight, by ascending id.

        Raises:
            SessionNotFoundError: There is no session for this key.
        """

    @threaded(list_root_checkpoints)
    def alist_root_checkpoints(self) -> None:
        """Async `list_root_checkpoints`."""

    @abstractmethod
    def find_runs(self, /, app: str, owner: Owner, run_ids: Collection[str]) -> list[SessionKey]:
        """The sessions, expired ones included, that have a checkpoint of one of these runs. Crosses sessions.

        The keys name the owner that each session has.
        """

    @threaded(find_runs)
    def afind_runs(self) -> None:
        """Async `find_runs`."""

    # -- removing ------------------------------------------------------------------------------------------

    @abstractmethod
    def prune_checkpoints(self, /, key: SessionKey, now: int, keep: Keep) -> int:
        """Remove the checkpoints that are not kept, with their writes and the values that nothing else needs.

        Writes whose checkpoint is missing go likewise, unless that is kept.
        A value that consists of names needs those; so do the checkpoints and writes that are left. What stays may be
        told by what goes: `staying` says what is stored anew then.

        What came from a removed one comes from the nearest before it that is left. The head is the newest that is
        left in sight; where none is, the conversation stays as it was. Events stay.

        Returns:
            How many were removed; 0 where there is no session for this key.
        """

    @threaded(prune_checkpoints)
    def aprune_checkpoints(self) -> None:
        """Async `prune_checkpoints`."""
