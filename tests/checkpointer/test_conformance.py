"""The published conformance suite, all capabilities: the async half directly, the sync half through a shim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langchain_sessions.adapters.checkpointer.saver import SessionCheckpointSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from langchain_core.runnables import RunnableConfig

    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("sqlite", "postgres", "mariadb")
EXPECTED = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


class SyncShim(BaseCheckpointSaver[Any]):
    """Answers async calls by the saver's sync methods, so that the suite exercises those."""

    def __init__(self, saver: SessionCheckpointSaver) -> None:
        super().__init__(serde=saver.serde)
        self.saver = saver

    async def aget_tuple(self, config: RunnableConfig) -> Any:
        return self.saver.get_tuple(config)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[Any]:
        for found in self.saver.list(config, **options):
            yield found

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> RunnableConfig:
        return self.saver.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: RunnableConfig, *rest: Any, **options: Any) -> None:
        self.saver.put_writes(config, *rest, **options)

    async def adelete_thread(self, thread_id: str) -> None:
        self.saver.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.saver.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.saver.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.saver.prune(thread_ids, strategy=strategy)

    async def aget_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Any:
        return self.saver.get_delta_channel_history(config=config, channels=channels)


@pytest.mark.parametrize("half", ["async", "sync"])
@pytest.mark.parametrize("serde", ["plain", "encrypted"])
async def test_every_capability_passes(service: SessionService, half: str, serde: str) -> None:
    cipher = EncryptedSerializer.from_pycryptodome_aes(key=b"sixteen byte key") if serde == "encrypted" else None

    @checkpointer_test(name="sessions")
    async def saver() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        own = SessionCheckpointSaver(service, serde=cipher)
        yield own if half == "async" else SyncShim(own)

    report = await validate(saver)
    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    found = {name: result.tests_passed for name, result in report.results.items() if result.detected}
    assert found == EXPECTED
    await service.aclose()
