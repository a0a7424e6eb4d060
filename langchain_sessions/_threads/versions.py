"""Versions of channels, ids of checkpoints, and digests of names."""

from __future__ import annotations

import hashlib
import random
from typing import Any

_FORK_BITS = 32


def next_version(current: Any) -> Any:
    """The version after another, of its own kind.

    Ours are 64-bit integers: a counter and 32 random bits, which tell forks that count alike apart. Plain small
    integers and the strings of the official savers go on as they are, since kinds do not compare.
    """
    if current is None:
        return 1 << _FORK_BITS | random.getrandbits(_FORK_BITS)
    if isinstance(current, str):
        count = int(current.split(".", 1)[0]) + 1
        return f"{count:032}.{random.random():016}"  # noqa: S311 - tells forks apart, guards nothing
    if isinstance(current, float) or current < 1 << _FORK_BITS:
        return current + 1
    return ((current >> _FORK_BITS) + 1) << _FORK_BITS | random.getrandbits(_FORK_BITS)


def short_digest(data: bytes) -> int:
    """A signed 64-bit digest that names something within one session."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)


def namespace_digest(name: str) -> int:
    """The digest of a namespace; the root's is 0."""
    return short_digest(name.encode("utf-8", "surrogatepass")) or 1 if name else 0


def value_digest(data: bytes) -> bytes:
    """The digest of a value that is stored beside its checkpoints."""
    return hashlib.blake2b(data, digest_size=16).digest()


def branch_of(namespace: str) -> str | None:
    """The branch of a namespace: the path of its nodes, without task ids; None for the root graph."""
    if not namespace:
        return None
    segments = (part.split(":", 1)[0] for part in namespace.split("|"))
    path = ".".join(segment.replace("%", "%25").replace(".", "%2E") for segment in segments if segment)
    return path[:255].rstrip(".") or None


def channel_branch(branch: str | None, channel: str) -> str:
    """The branch of a further channel that holds messages."""
    name = "#" + channel.replace("%", "%25").replace(".", "%2E").replace("\0", "%00")
    return (name if branch is None else f"{branch}.{name}")[:255].rstrip(".")
