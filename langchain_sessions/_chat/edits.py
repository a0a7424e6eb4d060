"""What a graph replaced in its state under the same id: the log has it replaced too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_sessions._chat.news import likeness
from langchain_sessions._chat.recalling import Loaded, open_context
from langchain_sessions._core.codec.privacy import without_private
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.view import call_ids
from langchain_sessions.errors import EventNotFoundError
from langchain_sessions.events import Standing
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._chat.address import Address
    from langchain_sessions._chat.running import Keeping

_REVISIONS = 100


def take_up_edits(keeping: Keeping, address: Address, loaded: Loaded, state: Sequence[BaseMessage]) -> Flow[Loaded]:
    """Edit in the log what a graph's state holds in other words: redacted by a middleware, or by `update_state`.

    Only turns that are done are compared. Where the log itself was edited and the state still holds an earlier
    revision, the log is right.
    """
    asked = max((at for at, message in enumerate(state) if isinstance(message, HumanMessage)), default=0)
    held = {event.message.id: event.message for event in loaded.context if event.message.id}
    changed = [m for m in keeping.store(state[:asked]) if m.id in held and not _says_the_same(m, held[m.id])]
    if not changed:
        return loaded
    superseded = EventFilter(standings=frozenset({Standing.SUPERSEDED}), last_n=_REVISIONS)
    earlier = yield from ask(address.sessions.events, address.session_id, superseded)
    revisions = [(event.message.id, likeness(event.message)) for event in earlier if event.message is not None]
    newer = [m for m in changed if (m.id, likeness(without_private(m))) not in revisions]
    for message in newer:
        author = keeping.human if isinstance(message, HumanMessage) else keeping.author
        try:
            yield from ask(address.sessions.edit, address.session_id, message, author=author)
        except EventNotFoundError:
            continue  # rewound meanwhile
    return (yield from open_context(keeping, address)) if newer else loaded


def _says_the_same(ours: BaseMessage, theirs: BaseMessage) -> bool:
    if ours.content == theirs.content and call_ids(ours) == call_ids(theirs) == []:
        return True
    return likeness(without_private(ours)) == likeness(theirs)
