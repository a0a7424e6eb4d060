"""Where the command begins: it says what to install when its extra is missing."""

from __future__ import annotations

import gc
import io
import sys


def main() -> None:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that a terminal, or no text at all, can hold is shown as its code.
            stream.reconfigure(errors="backslashreplace")
    # What is imported stays: looking for garbage meanwhile would be a tenth of the time until the first line.
    gc.disable()
    try:
        from langchain_sessions.cli._app import app
    except ModuleNotFoundError as missing:
        if missing.name not in {"rich", "typer"}:
            raise
        sys.exit("The command needs its extra: pip install 'langchain-sessions[cli]'")
    gc.freeze()
    gc.enable()
    app()
