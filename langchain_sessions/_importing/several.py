"""A database in which more than one library keeps conversations."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from langchain_sessions._importing.values import SourceError, ThreadSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_sessions._importing.values import History, HistorySource


@dataclass(frozen=True, slots=True)
class Found:
    """What a source holds: threads of a saver, conversations, or both."""

    threads: ThreadSource | None = None
    histories: HistorySource | None = None

    def size(self) -> int | None:
        """How many bytes it takes; None where nobody knows. Both lie in one database."""
        one = self.threads or self.histories
        return None if one is None else one.size()

    def close(self) -> None:
        """Let go of it."""
        for one in (self.threads, self.histories):
            if one is not None:
                one.close()


class SeveralHistories:
    """The conversations of several tables, one after the other; an id is one session's here, the first one's."""

    def __init__(self, sources: Mapping[str, HistorySource], threads: ThreadSource | None) -> None:
        """Read sources by the names of their tables, beside the threads of a saver."""
        self._sources = sources
        self._threads = threads

    def histories(self) -> Iterator[History]:
        """See `HistorySource`."""
        seen = dict[str, str]()
        problems: list[SourceError] = []
        if self._threads is not None:
            with suppress(SourceError):
                seen = dict.fromkeys(self._threads.threads(), "checkpoints")
        for table, source in self._sources.items():
            found = set[str]()
            try:
                for history in source.histories():
                    found.add(history.id)
                    other = seen.get(history.id)
                    yield history if other is None else replace(history, events=_taken(table, other))
            except SourceError as problem:
                problems.append(SourceError(f"{table}: {problem}"))
            seen.update(dict.fromkeys(found - seen.keys(), table))
        if problems:
            raise problems[0]

    def count(self) -> int | None:
        """See `HistorySource`."""
        counts = [source.count() for source in self._sources.values()]
        return None if None in counts else sum(each or 0 for each in counts)

    def size(self) -> int | None:
        """See `HistorySource`: they lie in one database."""
        return next(iter(self._sources.values())).size()

    def close(self) -> None:
        """See `HistorySource`."""
        for source in self._sources.values():
            source.close()


def count_of(source: ThreadSource | HistorySource) -> int:
    """How many threads, or conversations, a source can list."""
    found = 0
    with suppress(SourceError):
        for _ in source.threads() if isinstance(source, ThreadSource) else source.histories():
            found += 1
    return found


def _taken(table: str, other: str) -> Iterator[SourceError]:
    yield SourceError(f"the table {other} has a conversation of this id; that of the table {table} is left out")
