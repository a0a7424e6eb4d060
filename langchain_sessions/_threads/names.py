"""What things of a thread are called: threads and checkpoints in configs, namespaces, versions, branches."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_sessions._log.log import Log, log_of
from langchain_sessions.stores._threads import CheckpointQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig

    from langchain_sessions._chat.address import Address
    from langchain_sessions._core.rows import SessionKey, SessionRow

_FORK_BITS = 32

# -- configs ---------------------------------------------------------------------------------------------------


def configurable(config: RunnableConfig) -> Mapping[str, Any]:
    """What a config says of the thread; empty where it says nothing."""
    return config.get("configurable") or {}


def checkpoint_id(config: RunnableConfig | None) -> str | None:
    """The checkpoint that a config names; None where it names none, or says so by an empty text."""
    return (configurable(config).get("checkpoint_id") if config else None) or None


class ThreadConfig(NamedTuple):
    """What a config says: a thread as its owner sees it, a namespace of it, and a checkpoint if it names one."""

    log: Log
    session_id: str
    namespace: str
    checkpoint_id: str | None

    @property
    def key(self) -> SessionKey:
        """The session."""
        return self.log.key(self.session_id)

    def query(self, **wanted: Any) -> CheckpointQuery:
        """A query for checkpoints of the thread, of the namespace unless `ns` says otherwise."""
        if "ns" not in wanted:
            wanted = {"ns": namespace_digest(self.namespace), "ns_name": self.namespace, **wanted}
        log = self.log
        return CheckpointQuery(app=log.app, owner=log.owner, now=log.now(), session_id=self.session_id, **wanted)


def read_config(address: Address, config: RunnableConfig) -> ThreadConfig:
    """What a config says of the thread at an address."""
    namespace = str(configurable(config).get("checkpoint_ns") or "")
    return ThreadConfig(log_of(address.sessions), address.session_id, namespace, checkpoint_id(config))


def config_of(session: SessionRow, namespace: str, cid: str) -> RunnableConfig:
    """The config of a checkpoint. It names the owner, so that going on from an old state needs nothing else."""
    named = {"thread_id": session.id, "checkpoint_ns": namespace, "checkpoint_id": cid}
    if session.user_id is not None:
        named["user_id"] = session.user_id
    return {"configurable": named}


# -- versions and digests --------------------------------------------------------------------------------------


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


# -- branches --------------------------------------------------------------------------------------------------


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
