"""Going out: sessions as text that other programs, and people, read."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from langchain_sessions._core.edge import require, told
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._exporting.forms import FORMS
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.stores._values import WALK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions.service import SessionService
    from langchain_sessions.session import Session

ExportForm = Literal["jsonl", "markdown", "openai", "langsmith"]


@told
def export_sessions(
    sessions: SessionService, session_id: str | None = None, *, form: ExportForm = "jsonl"
) -> Iterator[str]:
    """Sessions as lines of text, without their ends; read while they are taken.

    `jsonl` holds the whole log of each session, and `import_threads` does it again, entry by entry: messages, times,
    state and metadata are what they were, and rewinds, edits and compactions took away what they took. The checkpoints
    of a graph are not in it. The other forms hold what stands.

    Args:
        sessions: Whose: of a view of `as_user` only that user's.
        session_id: One session; all of them by default.
        form: `jsonl`, `markdown`, `openai` (chat format, one line for each session) or `langsmith` (examples of a
            dataset, one for each answer).

    Raises:
        SessionNotFoundError: There is no such session for this view.
        InvalidInputError: There is no such form.
    """
    require(form in FORMS, "form", f"use one of {', '.join(FORMS)}")
    if session_id is not None:
        yield from FORMS[form](sessions, sessions.get(session_id))
        return
    for session in _all(sessions):
        # One that is deleted while the others are written is none of them.
        with suppress(SessionNotFoundError):
            yield from FORMS[form](sessions, session)


def _all(sessions: SessionService) -> Iterator[Session]:
    cursor: str | None = None
    while True:
        page = sessions.list_sessions(limit=WALK, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
