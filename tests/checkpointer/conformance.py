"""The published conformance suite over our saver: ``python -m tests.checkpointer.conformance`` prints the table.

It is run beside servers by ``python -m tests.servers run -- python -m tests.checkpointer.conformance``.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.report import ProgressCallbacks

from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

HALVES = ("async", "sync")


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


async def conformance(service: SessionService, half: str, serde: SerializerProtocol | None = None) -> dict[str, Any]:
    """What the suite says of each capability of one half."""

    @checkpointer_test(name="sessions")
    async def saver() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        own = SessionCheckpointSaver(service, serde=serde)
        yield own if half == "async" else SyncShim(own)

    return dict((await validate(saver, progress=ProgressCallbacks.quiet())).results)


def _urls() -> dict[str, str]:
    urls = {"SQLite": "sqlite://"}
    for name, variable in (("PostgreSQL", "POSTGRES"), ("MariaDB", "MARIADB")):
        if url := os.environ.get(f"LANGCHAIN_SESSIONS_TEST_{variable}"):
            urls[name] = url
    return urls


async def _column(url: str, half: str) -> dict[str, Any]:
    prefix = "" if url == "sqlite://" else f"c{secrets.token_hex(4)}_"
    async with SessionService(url, table_prefix=prefix, create_schema=True) as service:
        return await conformance(service, half)


def main() -> None:
    """Print passed of all for each capability, database and half."""
    columns = {f"{name} {half}": asyncio.run(_column(url, half)) for name, url in _urls().items() for half in HALVES}
    lines = ["| capability |" + "".join(f" {name} |" for name in columns), "|---|" + "---|" * len(columns)]
    for capability in next(iter(columns.values())):
        cells = (column[capability] for column in columns.values())
        counts = (f" {cell.tests_passed}/{cell.tests_passed + cell.tests_failed} |" for cell in cells)
        lines.append(f"| {capability} |" + "".join(counts))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
