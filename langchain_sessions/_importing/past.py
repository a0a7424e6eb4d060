"""A service in whose present the past happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._log.log import log_of
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


def at_past_times(sessions: SessionService, clock: Callable[[], datetime]) -> SessionService:
    """A service on the same store with another clock: what is taken over was said then, and is dated so.

    What it creates does not expire: a time to live would count from the past.
    """
    log = log_of(sessions)
    return SessionService(
        log.store,
        app=log.app,
        codec=log.codec.serde,
        encrypted=log.codec.encrypts,
        tokens=log.tokens,
        require_user=log.require_user,
        time_to_live=None,
        hide_superseded=log.hide_superseded,
        search=log.search or False,
        clock=clock,
    )
