"""Why a database cannot be reached, in words of our own: what a driver says may name who logs in, and how."""

from __future__ import annotations

_REASONS = {
    "password": "it refuses the user or the password",
    "authentication": "it refuses the user or the password",
    "access denied": "it refuses the user or the password",
    "does not exist": "there is no such database or user",
    "unknown database": "there is no such database",
    "refused": "nothing listens there",
    "translate host": "there is no such host",
    "resolve": "there is no such host",
    "name or service not known": "there is no such host",
    "nodename nor servname": "there is no such host",
    "getaddrinfo": "there is no such host",
    "no route": "there is no way to that host",
    "unreachable": "there is no way to that host",
    "timed out": "it does not answer",
    "timeout": "it does not answer",
    "too many": "it has too many connections",
    "ssl": "it asks for another encryption of the connection",
    "unable to open": "the file or its folder cannot be opened",
}


def why_unreachable(error: BaseException | None) -> str:
    """A reason among those that are known here; empty where it is another."""
    while error is not None:
        text = str(error).lower()
        for words, reason in _REASONS.items():
            if words in text:
                return reason
        if isinstance(error, OSError) and error.strerror:
            return error.strerror.lower()
        error = error.__cause__ or error.__context__
    return ""
