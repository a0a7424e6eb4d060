"""How the servers become known to a test run: variables of its environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.servers.databases import normal_url

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVER_BACKENDS = ("postgres", "mariadb")


def url_variable(backend: str) -> str:
    """The variable that carries the URL of an administrator on the server."""
    return f"LANGCHAIN_SESSIONS_TEST_{backend.upper()}"


def absence_variable(backend: str) -> str:
    """The variable that carries the reason why there is no URL."""
    return f"{url_variable(backend)}_ABSENT"


def server_url(backend: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The server's URL with the driver that the extras install, or None."""
    given = environment.get(url_variable(backend))
    return normal_url(given) if given else None


def absence_reason(backend: str, environment: Mapping[str, str] = os.environ) -> str:
    """Why `server_url` is None, in words for the person at the terminal."""
    reason = f"{url_variable(backend)} is not set (python -m tests.servers run -- pytest starts it)"
    return environment.get(absence_variable(backend)) or reason
