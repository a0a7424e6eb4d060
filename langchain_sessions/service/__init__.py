"""What an application talks to: conversations as logs, for one user or for the operator."""

from langchain_sessions.service.facade import SessionService
from langchain_sessions.service.values import DEFAULT_TIME_TO_LIVE, UNSET, RewindResult

__all__ = ["DEFAULT_TIME_TO_LIVE", "UNSET", "RewindResult", "SessionService"]
