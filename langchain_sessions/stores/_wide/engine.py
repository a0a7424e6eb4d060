"""An engine over a wide-column store: what stands in one of its partitions is set by one conditional batch, the commit.

A database may complete a batch whose answer got lost when somebody asks serially; before that a reader may see the
head without the rows. So rows are read only behind a head whose batch is known to be complete: because it was written
here, or because it was asked for serially once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from langchain_sessions import errors
from langchain_sessions._core.flow import Flow, faces
from langchain_sessions.stores._wide import lists, names, pieces, shelves
from langchain_sessions.stores._wide.work import Do, Known
from langchain_sessions.stores.engine import Head, Listed, Partition, PartitionEngine, Range, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.rows import Owner


# Heads that are remembered, to spare a read before a commit; without one it is read.
_MOST_KNOWN: Final = 20_000


class WidePartitions(PartitionEngine):
    """Keeps partitions by statements; a database's class runs them. `docs/writing-a-store.md` says what each does."""

    most_bytes: ClassVar[int] = 8_000_000
    """What one batch may hold."""

    is_async: ClassVar[bool] = True

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._known: dict[Partition, Known] = {}
        self._noted: set[tuple[str, str, int]] = set()

    @abstractmethod
    def run(self, work: Sequence[Do], *, serial: bool = False) -> Flow[list[list[Any]]]:
        """Run statements beside each other, each as often as it takes; the rows of each.

        What was acknowledged before is seen. Asked serially, a batch that is under way is complete, or never will be.

        Raises:
            StoreUnavailableError: One of them may have happened, or not.
        """

    @abstractmethod
    def together(self, work: Sequence[Do]) -> Flow[list[Any]]:
        """Run statements on one partition as one, and once: all of them, or none where one has a condition that fails.

        The first row of the answer says so: whether, and after a refusal, at its end, the stamp that stood there.

        Raises:
            StoreUnavailableError: It may have happened, may happen yet, or not.
        """

    # -- reading -------------------------------------------------------------------------------------------

    def _note(self, partition: Partition, known: Known) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[partition] = known

    def forget(self, partition: Partition) -> None:
        """Look at a head anew when it is asked for."""
        self._known.pop(partition, None)

    def read_serially(self, partition: Partition) -> Flow[Known]:
        """The head of a partition when nothing is under way any more: a commit is complete now, or will never be."""
        found = yield from self.run([Do("head", (*partition,))], serial=True)
        known = Known.of(found[0])._replace(is_certain=True)
        self._note(partition, known)
        return known

    def _read_heads(self, partitions: Sequence[Partition]) -> Flow[list[Head | None]]:
        """The heads as acknowledged; whether they are certain is looked at when rows are read."""
        found = yield from self.run([Do("head", (*partition,)) for partition in partitions])
        heads: list[Head | None] = []
        for partition, rows in zip(partitions, found, strict=True):
            known, before = Known.of(rows), self._known.get(partition)
            is_certain = before is not None and before.stamp == known.stamp and before.is_certain
            self._note(partition, known._replace(is_certain=is_certain))
            heads.append(known.head)
        return heads

    read_heads, aread_heads = faces(_read_heads)

    def _read_rows(self, partition: Partition, ranges: Sequence[Range]) -> Flow[list[list[Row]]]:
        if not ranges:
            return []
        known = self._known.get(partition)
        if known is None or not known.is_certain:
            known = yield from self.read_serially(partition)
        found = yield from shelves.read(self, partition, known, ranges)
        return (yield from pieces.joined(self, partition, found))

    read_rows, aread_rows = faces(_read_rows)

    # -- writing -------------------------------------------------------------------------------------------

    def _commit(
        self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]
    ) -> Flow[bool]:
        known = self._known.get(partition)
        if known is None or known.version != expected:
            yield from self._read_heads([partition])
            known = self._known[partition]
        if known.version != expected:
            return False
        if head is None:
            return known.head is None or (yield from self._remove(partition, known))
        rows = yield from pieces.cut(self, partition, rows)
        size = len(head.body) + sum(len(key) + len(value or b"") for key, value in rows.items())
        if size > self.most_bytes:
            problem = f"take {size} bytes; this database takes {self.most_bytes} at once"
            raise errors.InvalidInputError("messages", problem)
        name = names.new_name()
        stamp = names.followed_by(name, known.stamp)
        after = Known(head, stamp, known.weight + shelves.weight_of(rows), known.moved, known.shelved, is_certain=True)
        yield from self.run(lists.entering(self._noted, partition, known.head, head))
        values = (lists.life(head), head.version, head.body, head.owner, head.listed, head.due, stamp, after.weight)
        work = [Do("set_head", (*values, *partition, known.stamp))]
        work += [shelves.write(partition, known, key, value) for key, value in rows.items()]
        if not (yield from self._decide(partition, work, known, name)):
            return False
        if self._known.get(partition) is known:
            self._note(partition, after)
        yield from self.run(lists.leaving(partition, known.head, head))
        if after.weight - after.moved > shelves.MOST:
            yield from shelves.seal(self, partition)
        return True

    commit, acommit = faces(_commit)

    def _decide(self, partition: Partition, work: Sequence[Do], known: Known, mine: bytes | None) -> Flow[bool]:
        """Run a conditional batch. Where its answer is lost, ask what became of it.

        Raises:
            StoreUnavailableError: Too few nodes are there to say.
            CommitUnknownError: Too many others followed to say.
        """
        said: bool | None = None
        try:
            answer = (yield from self.together(work))[0]
        except errors.StoreUnavailableError:
            self.forget(partition)
        else:
            if answer[0]:
                return True
            self.forget(partition)
            # A batch that a node tried twice is refused for what it has written itself.
            stands = Known(stamp=answer[-1] if isinstance(answer[-1], bytes) else None)
            said = names.is_among(mine, known, stands)
        if said is None:
            said = names.is_among(mine, known, (yield from self.read_serially(partition)))
        if said is None:
            raise errors.CommitUnknownError("Whether a commit happened is not known: many others wrote since.")
        return said

    def _remove(self, partition: Partition, known: Known) -> Flow[bool]:
        """Remove a head, then the rows that were written before it was."""
        written = (yield from self.run([Do("newest_write", (*partition,))], serial=True))[0]
        if not (yield from self._decide(partition, [Do("drop_head", (*partition, known.stamp))], known, None)):
            return False
        self.forget(partition)
        work = [Do("drop_rows", (row[0], *partition, shelves.LAST)) for row in written if row[0]]
        yield from self.run([*lists.leaving(partition, known.head, None), *work])
        yield from shelves.remove(self, partition, shelves.LAST)
        return True

    def _remove_rows(self, partition: Partition, below: str) -> Flow[None]:
        if not below:
            return (yield from shelves.remove_replaced(self, partition))
        # Keys are never used twice, so the time may be later than any clock's.
        yield from self.run([Do("drop_rows", (shelves.late(), *partition, below))])
        yield from shelves.remove(self, partition, below)

    remove_rows, aremove_rows = faces(_remove_rows)

    def _list_heads(self, app: str, owner: Owner, after: tuple[int, int] | None, limit: int) -> Flow[list[Listed]]:
        return (yield from lists.list_heads(self, app, owner, after, limit))

    list_heads, alist_heads = faces(_list_heads)

    def _list_due(self, app: str, before: int, after: Listed | None, limit: int) -> Flow[list[Listed]]:
        return (yield from lists.list_due(self, app, before, after, limit))

    list_due, alist_due = faces(_list_due)
