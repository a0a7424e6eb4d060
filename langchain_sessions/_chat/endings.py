"""How a run ended that no model of ours ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_sessions._core.view import call_ids
from langchain_sessions.selectors import not_empty

if TYPE_CHECKING:
    from collections.abc import Container, Sequence


def ending_of(body: Sequence[BaseMessage], places: Sequence[int], known: Container[int]) -> list[BaseMessage] | None:
    """What the log lacks of a run that somebody else ended by an answer, results included; None where nobody did.

    Args:
        body: The request.
        places: Where the messages of the run stand in it.
        known: What of it is in the log.
    """
    for end in range(places[-1], len(body)):
        if isinstance(body[end], HumanMessage) and end > places[-1]:
            return None
        if isinstance(body[end], AIMessage) and not call_ids(body[end]) and not_empty.accepts(body[end]):
            run = range(places[0], end + 1)
            return [body[at] for at in run if at not in known and body[at].id is not None]
    return None
