"""Where the command begins: it says what to install when its extra is missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command."""
    try:
        from langchain_sessions.cli._commands import app  # noqa: PLC0415 - an extra that may be missing
    except ModuleNotFoundError as missing:
        if missing.name not in {"rich", "typer"}:
            raise
        sys.exit("The command needs its extra: pip install 'langchain-sessions[cli]'")
    app()
