"""What the service hands out or takes beside sessions and events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

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
