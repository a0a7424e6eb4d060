"""Our saver beside LangGraph's `InMemorySaver`: what one gives back, the other gives back too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import START

from langchain_sessions import SessionCheckpointSaver, SessionService

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple


class SaverBeside(SessionCheckpointSaver):
    """Ours, on a database of its own. Everything that it is told is told to an `InMemorySaver` as well."""

    def __init__(self, **options: Any) -> None:
        self.sessions = SessionService("sqlite://")
        super().__init__(self.sessions, **options)
        self.other = InMemorySaver()
        self.compared = 0

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        self.other.put(_with_namespace(config), checkpoint, metadata, new_versions)
        return super().put(config, checkpoint, metadata, new_versions)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        await self.other.aput(_with_namespace(config), checkpoint, metadata, new_versions)
        return await super().aput(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.other.put_writes(_with_namespace(config), writes, task_id, task_path)
        super().put_writes(config, writes, task_id, task_path)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self.other.aput_writes(_with_namespace(config), writes, task_id, task_path)
        await super().aput_writes(config, writes, task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._same(super().get_tuple(config), self.other.get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._same(await super().aget_tuple(config), await self.other.aget_tuple(config))

    def _same(self, ours: CheckpointTuple | None, theirs: CheckpointTuple | None) -> CheckpointTuple | None:
        assert _looks(ours) == _looks(theirs)
        self.compared += ours is not None
        return ours

    def finish(self) -> list[str]:
        """Assert that what was stored is whole, histories too; the threads there were."""
        with self.sessions:
            threads = [session.id for session in self.sessions.list_sessions(limit=1000)]
            for thread in threads:
                config: RunnableConfig = {"configurable": {"thread_id": thread}}
                ours, theirs = (sorted(each, key=_place) for each in (super().list(config), self.other.list(config)))
                assert [*map(_looks, ours)] == [*map(_looks, theirs)]
                assert self.sessions.verify(thread) == []
        return threads


def _with_namespace(config: Any) -> Any:
    """`InMemorySaver` wants one to be named."""
    return {**config, "configurable": {"checkpoint_ns": "", **config["configurable"]}}


def _place(found: CheckpointTuple) -> tuple[str, str]:
    where = found.config.get("configurable", {})
    return where["checkpoint_ns"], where["checkpoint_id"]


def _looks(found: CheckpointTuple | None) -> Any:
    """What a graph sees of a checkpoint. The graph gives its input ids meanwhile: ours has them, the other may not."""
    if found is None:
        return None
    parent = found.parent_config or {}
    values = {name: _plain(value, with_ids=name != START) for name, value in found.checkpoint["channel_values"].items()}
    writes = [(task, channel, _plain(value, with_ids=False)) for task, channel, value in found.pending_writes or ()]
    return (
        {**found.checkpoint, "channel_values": values},
        _plain(found.metadata, with_ids=True),
        parent.get("configurable", {}).get("checkpoint_id"),
        sorted(writes, key=repr),
    )


def _plain(value: Any, *, with_ids: bool) -> Any:
    if isinstance(value, BaseMessage):
        calls = getattr(value, "tool_calls", None)
        return type(value), value.id if with_ids else None, value.name, value.content, calls, value.additional_kwargs
    if isinstance(value, dict):
        return {key: _plain(item, with_ids=with_ids) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, with_ids=with_ids) for item in value]
    return value
