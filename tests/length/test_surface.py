# ruff: noqa: ANN401 - methods of any kind are recorded
"""Every public call is among those whose cost is compared, or among those that grow by their nature, with why."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable

import langchain_sessions
from langchain_sessions import InMemoryStore, PartitionEngine, SessionService, SessionStore
from tests.length.calls import CALLS, grow

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

WHOLE = "it is about a whole log, or all that is owned"
ONE_OF = "the same as a call that is measured, several at once or in another form"
GROWS: dict[str, str] = {
    **dict.fromkeys(
        (
            *("SessionService.turns", "SessionService.fork", "SessionService.verify", "SessionService.reindex"),
            *("SessionService.delete", "SessionService.delete_user", "SessionService.purge_expired"),
            *("SessionService.embed_pending", "SessionService.create_schema"),
            *("SessionChatMessageHistory.clear", "LongTermMemory.add_session_to_memory"),
            *("SessionCheckpointSaver.copy_thread", "SessionCheckpointSaver.delete_thread"),
            *("SessionCheckpointSaver.delete_for_runs", "SessionCheckpointSaver.prune", "SessionCheckpointSaver.trim"),
            *("export_sessions", "import_threads", "aimport_threads"),
        ),
        WHOLE,
    ),
    **dict.fromkeys(("ModelSummarizer.summarize", "split_turns", "starts_turn"), "it reads no more than it is given"),
    **dict.fromkeys(
        (
            *("SessionCheckpointSaver.head_conflicts", "SessionCheckpointSaver.get_delta_channel_history"),
            *("SessionChatMessageHistory.get_messages", "SessionMemoryMiddleware.wrap_tool_call"),
            *(f"ChatWithMemory.{name}" for name in ("batch", "batch_as_completed", "stream_events")),
        ),
        ONE_OF,
    ),
    **dict.fromkeys(
        (
            f"SessionMemoryAdvisor.{name}"
            for name in ("invoke", "stream", "stream_events", "transform", "batch", "batch_as_completed")
        ),
        "without a model it refuses",
    ),
}
NO_CALLS = (SessionStore, PartitionEngine)
"""What others implement: each of their methods runs under a call of the service."""
NO_ACCESS = {
    *("all_of", "any_of", "best_counter", "checkpointer_factory", "is_context_overflow", "schema_sql"),
    *("create_conversation_search_tool", "create_cross_session_search_tool"),
}
"""Functions that touch no database; the tools that two of them make search as the service does."""


def _surface() -> dict[str, tuple[type, str] | None]:
    """The public methods of both faces, which are those that do I/O, and the public functions."""
    found: dict[str, tuple[type, str] | None] = {}
    for name in langchain_sessions.__all__:
        public = getattr(langchain_sessions, name)
        if inspect.isfunction(public) and name not in NO_ACCESS:
            found[name] = None
        if not inspect.isclass(public) or getattr(public, "_is_protocol", False) or issubclass(public, NO_CALLS):
            continue
        for method, of in inspect.getmembers(public, inspect.isfunction):
            if not method.startswith("_") and hasattr(public, f"a{method}") and _is_ours(public, of):
                found[f"{name}.{method}"] = (public, method)
    return found


def _is_ours(cls: type, method: Callable[..., Any]) -> bool:
    """What it inherits from LangChain counts where that is a model or a part of a chain."""
    module = str(inspect.getmodule(method).__name__)  # type: ignore[union-attr]
    return module.startswith("langchain_sessions") or issubclass(cls, (Runnable, BaseLanguageModel))


def test_every_public_call_is_measured_or_grows_by_its_nature(monkeypatch: pytest.MonkeyPatch) -> None:
    surface, measured = _surface(), set[str]()
    with SessionService(InMemoryStore()) as service:
        grow(service, 20, 2)
        _record(monkeypatch, surface, measured)
        for ready in CALLS.values():
            act = ready(service)
            act(0)
            act(1)
    assert set(surface) - measured - set(GROWS) == set(), "neither measured nor known to grow"
    assert set(GROWS) - set(surface) == set(), "no public call"
    assert measured & set(GROWS) == set(), "measured, and said to grow"


def _record(monkeypatch: pytest.MonkeyPatch, surface: dict[str, tuple[type, str] | None], measured: set[str]) -> None:
    """Have each public method, and its twin, tell that it was called."""

    def told(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            measured.add(name)
            return method(*args, **kwargs)

        call.__name__, call.__qualname__ = method.__name__, method.__qualname__
        return call

    for name, of in surface.items():
        if of is not None:
            cls, method = of
            for face in (method, f"a{method}"):
                monkeypatch.setattr(cls, face, told(name, getattr(cls, face)))
