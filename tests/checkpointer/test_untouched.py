"""What somebody changes in a message that was handed out is seen, however deep it lies and however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_sessions._log.log import log_of
from langchain_sessions._threads.cache import ThreadCache
from langchain_sessions._threads.untouched import found_untouched

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions.service import SessionService

COUNT, AT = 60, 31
_CALL: Any = {"name": "look", "args": {"deep": [1, {"a": None}]}, "id": "c1", "type": "tool_call"}


def _said() -> list[BaseMessage]:
    made: list[BaseMessage] = []
    for at in range(COUNT // 2):
        blocks: Any = [{"type": "text", "text": "hi"}] if at % 3 else "hi"
        made.append(HumanMessage(blocks, id=f"h{at}", additional_kwargs={"n": at} if at % 5 == 0 else {}))
        calls = [_CALL] if at % 2 else []
        made.append(AIMessage(f"yes {at}", id=f"a{at}", tool_calls=calls, response_metadata={"m": {"n": at}}))
    return made


def _swap(message: Any) -> None:
    message.tool_calls, message.invalid_tool_calls = message.invalid_tool_calls, message.tool_calls


def _move(message: Any) -> None:
    message.invalid_tool_calls.append(message.tool_calls.pop())


CHANGES: dict[str, Callable[[Any], object]] = {
    "a text": lambda message: setattr(message, "content", "no"),
    "a text by the dictionary": lambda message: message.__dict__.update(content="no"),
    "a text as a block": lambda message: setattr(message, "content", ["yes 15"]),
    "an id": lambda message: setattr(message, "id", "other"),
    "what was empty": lambda message: message.additional_kwargs.update(new=1),
    "what was empty, for another": lambda message: setattr(message, "additional_kwargs", {"new": 1}),
    "a field that is no field": lambda message: setattr(message, "unheard_of", 1),
    "a new name in the dictionary": lambda message: message.__dict__.update(unheard_of=None),
    "a field that is gone": lambda message: message.__dict__.pop("usage_metadata"),
    "what lies deep": lambda message: message.response_metadata["m"].update(n=-1),
    "an argument": lambda message: message.tool_calls[0]["args"]["deep"][1].update(a=0),
    "a name deep within": lambda message: message.response_metadata.update(k=message.response_metadata.pop("m")),
    "two lists for each other": _swap,
    "all of it, by its constructor": lambda message: message.__init__(content="no", id=message.id),
    "all of it, by another's state": lambda message: message.__setstate__(AIMessage("no", id="a15").__getstate__()),
    "another dictionary": lambda message: setattr(message, "__dict__", {**message.__dict__, "content": "no"}),
    "the name of a field in another dictionary": lambda message: setattr(
        message, "__dict__", {"kind" if name == "type" else name: value for name, value in message.__dict__.items()}
    ),
    "another dictionary of what is extra": lambda message: object.__setattr__(
        message, "__pydantic_extra__", {"unheard_of": 1}
    ),
    "from a list to the next": _move,
}


@pytest.fixture
def thread(service: SessionService) -> ThreadCache:
    """A thread that knows its messages, all read at once."""
    service.create("s")
    service.append("s", _said())
    log = log_of(service)
    rows = list(log.store.load_context(log.key("s"), None, None, None, log.now(), 0).rows)
    found = ThreadCache(1, "s", log.codec, 0, {})
    found.add(rows)
    return found


ALL, SOME = [(1, COUNT)], [(3, COUNT)]


@pytest.mark.backends("memory")
@pytest.mark.parametrize("runs", [ALL, SOME], ids=["as they were read", "another list"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_and_undone(thread: ThreadCache, change: Callable[[Any], object], runs: Any) -> None:
    first = runs[0][0]
    served = [thread.serve(runs) for _ in range(3)][-1]  # what is asked again is found out about
    known = thread._last and thread._last.untouched
    assert known is not None
    assert len(known.objects) == COUNT - first + 1
    assert known.stands()
    assert served == _said()[first - 1 :]
    found = thread.recognise(served, runs)
    assert found is not None
    assert found.shared == runs
    changed = served[AT + 1 - first]
    assert isinstance(changed, AIMessage)
    assert changed.tool_calls
    change(changed)
    found = thread.recognise(served, runs)
    assert found is not None
    assert found.shared == [(first, AT)], "those before it are the same"
    assert found.others[0] is None, "it is another message now"
    assert found.others[1:] == [*range(AT + 2, COUNT + 1)]
    again = thread.serve(runs)
    assert again == _said()[first - 1 :]
    assert again[AT + 1 - first] is not changed
    assert thread.serve(runs) == again


@pytest.mark.backends("memory")
def test_what_was_changed_and_changed_back_is_the_same(thread: ThreadCache) -> None:
    served: list[Any] = thread.serve(ALL)
    served[AT].additional_kwargs["new"] = 1
    assert [message.id for message in thread.serve(ALL)] == [message.id for message in served]
    served[AT].additional_kwargs.clear()
    found = thread.recognise(served, ALL)
    assert found is not None
    assert (found.shared, found.others) == (ALL, [])


@pytest.mark.backends("memory")
def test_what_is_not_as_stored_is_not_known(thread: ThreadCache) -> None:
    served: list[Any] = thread.serve(ALL)
    snapshots = thread._cast_snapshots(range(1, COUNT + 1))
    assert found_untouched(served, snapshots) is not None
    named = served[AT].__dict__
    named["other"] = named.pop("usage_metadata")
    assert found_untouched(served, snapshots) is None
    named["usage_metadata"] = named.pop("other")
    served[AT].__pydantic_extra__["new"] = 1
    assert found_untouched(served, snapshots) is None
