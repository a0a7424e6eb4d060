"""What a store keeps for the semantic part of recall: a vector per event, beside the log and deleted with it.

A store does not know what is in a vector, nor whose embedder made it. One that keeps none answers that it is up to
date and has nothing: then searches go by words alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class VectorPlace(NamedTuple):
    """How far the vectors of a log go.

    Attributes:
        skey: The session's own key.
        session_id: Its id.
        last_seq: The log's newest position.
        embedded_to: The newest position that was embedded, or that holds nothing to embed.
        generation: Which set of vectors this is, counted from 1; 0 where there is none.
        fingerprint: What made them.
    """

    skey: int
    session_id: str
    last_seq: int
    embedded_to: int = 0
    generation: int = 0
    fingerprint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorChange:
    """One step forward of the vectors of a log, valid as long as nobody else made one.

    Attributes:
        place: What it was planned from.
        fingerprint: What made the vectors.
        embedded_to: How far they go afterwards.
        vectors: By position.
        anew: They begin another set: those that are there go.
    """

    place: VectorPlace
    fingerprint: str
    embedded_to: int
    vectors: Mapping[int, bytes]
    anew: bool = False

    @property
    def generation(self) -> int:
        """The set that the vectors belong to."""
        return self.place.generation + self.anew
