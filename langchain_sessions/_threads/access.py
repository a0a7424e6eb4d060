"""What the parts of the saver share: the service, the store, the caches, and how a config names a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions._log.log import log_of
from langchain_sessions._threads.versions import namespace_digest
from langchain_sessions.stores.threads import CheckpointQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langchain_sessions._chat.address import Address, Addressing
    from langchain_sessions._threads.cache import MessageCache
    from langchain_sessions._threads.rebuild import Rebuilder
    from langchain_sessions.service import SessionService
    from langchain_sessions.stores.threads import ThreadStore


def configurable(config: RunnableConfig) -> Mapping[str, Any]:
    """What a config says of the thread; empty where it says nothing."""
    return config.get("configurable") or {}


def checkpoint_id(config: RunnableConfig | None) -> str | None:
    """The checkpoint that a config names; None where it names none, or says so by an empty text."""
    return (configurable(config).get("checkpoint_id") if config else None) or None


class ThreadAccess:
    """Access to the threads of a service. The saver builds what is declared here."""

    sessions: SessionService
    serde: SerializerProtocol
    _addressing: Addressing
    _store: ThreadStore
    _cache: MessageCache
    _rebuilder: Rebuilder

    def _place(self, config: RunnableConfig) -> tuple[Address, str]:
        """The session of a config as its owner sees it, and the namespace."""
        address = self._addressing.require(config)
        return address, str(configurable(config).get("checkpoint_ns") or "")

    @staticmethod
    def _query(address: Address, namespace: str | None, **wanted: Any) -> CheckpointQuery:
        """A query for checkpoints of a thread."""
        sessions = address.sessions
        return CheckpointQuery(
            app=sessions.app,
            owner=sessions.owner,
            now=log_of(sessions).now(),
            session_id=address.session_id,
            ns=None if namespace is None else namespace_digest(namespace),
            ns_name=namespace or "",
            **wanted,
        )
