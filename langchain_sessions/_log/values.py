"""What the service hands out or takes beside sessions and events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

    from langchain_sessions.stores._erasing import Remainder

DEFAULT_TIME_TO_LIVE = timedelta(days=60)


class Unset:
    """The type of `UNSET`: distinguishes None from nothing given."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


@dataclass(frozen=True, kw_only=True, slots=True)
class RewindResult:
    """What a rewind did.

    Attributes:
        seq: Position of its record.
        to_seq: The position gone back to: the log reads as it did then.
        kept_keys: `user:` and `app:` keys that events out of sight had changed; they are shared and stay.
    """

    seq: int
    to_seq: int
    kept_keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BlankResult:
    """What `blank` did.

    Attributes:
        seq: Position of its record; None where nothing was left to overwrite.
        seqs: Positions whose text was overwritten.
        summaries: Positions of the summaries that were made of them and may repeat what they said: other texts, to be
            overwritten by their positions where they do.
    """

    seq: int | None
    seqs: tuple[int, ...]
    summaries: tuple[int, ...]


class Removal(int):
    """How many sessions of a user were removed: a number, which says what else went and what is still kept elsewhere.

    Attributes:
        events: How many entries their logs had.
        state_keys: How many keys of the user's state there were.
        remainders: What the database or file system itself goes on keeping, with what clears it.
    """

    events: int
    state_keys: int
    remainders: tuple[Remainder, ...]

    def __new__(cls, sessions: int, *, events: int, state_keys: int, remainders: tuple[Remainder, ...]) -> Self:
        """So many sessions."""
        made = super().__new__(cls, sessions)
        made.events, made.state_keys, made.remainders = events, state_keys, remainders
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[int], dict[str, Any]]:
        """How a copy is made."""
        return (int(self),), {name: getattr(self, name) for name in ("events", "state_keys", "remainders")}

    def __repr__(self) -> str:
        """The sentence that one would say."""
        return f"<Removal of {int(self)} sessions, {self.events} events, {self.state_keys} keys of state>"
