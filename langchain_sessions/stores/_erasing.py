"""What is passed and returned where something is erased: a text, or all that there is of a user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_sessions._core.blanking import Words
    from langchain_sessions._core.rows import EventRow


@dataclass(frozen=True, kw_only=True, slots=True)
class BlankPlan:
    """Which messages to overwrite: by name, by position, or all that another revision took the place of.

    Attributes:
        record: The record to append.
        now: The present.
        row: What an event is once it says nothing any more; pure.
        words: What it said; pure.
        ident: The message whose revisions are meant.
        seqs: The positions that are meant.
        superseded: Of these only what another revision took the place of; of the whole log where nothing is named.
    """

    record: EventRow
    now: int
    row: Callable[[EventRow], EventRow]
    words: Callable[[EventRow], Words]
    ident: str | None = None
    seqs: Sequence[int] = ()
    superseded: bool = False

    @property
    def asked(self) -> str:
        """What was asked for, for messages."""
        return self.ident or ""


class Blanked(NamedTuple):
    """What was overwritten.

    Attributes:
        record: The record; None where nothing was left to overwrite.
        seqs: Positions whose text was overwritten now.
        rows: The events that were meant, those that said nothing before among them.
        summaries: Positions of the summaries that were made of them.
    """

    record: EventRow | None
    seqs: tuple[int, ...] = ()
    rows: tuple[EventRow, ...] = ()
    summaries: tuple[int, ...] = ()


class UserRemoved(NamedTuple):
    """How much there was of a user: sessions, the entries of their logs, and keys of the user's state."""

    sessions: int
    events: int
    state_keys: int


class Remainder(NamedTuple):
    """What an engine itself goes on keeping of what was removed.

    Attributes:
        what: What it is, and until when it stays by itself.
        clear: Statements or commands that clear it; none where only time or somebody else does.
    """

    what: str
    clear: tuple[str, ...] = ()


BACKUPS = Remainder("backups, replicas and snapshots of the disk, as long as somebody keeps them")
