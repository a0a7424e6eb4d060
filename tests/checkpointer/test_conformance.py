"""The published conformance suite, all capabilities: the async half directly, the sync half through a shim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from tests.checkpointer.conformance import HALVES, conformance

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService

pytestmark = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb", "cassandra")
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


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("serde", ["plain", "encrypted"])
async def test_every_capability_passes(service: SessionService, half: str, serde: str) -> None:
    cipher = EncryptedSerializer.from_pycryptodome_aes(key=b"sixteen byte key") if serde == "encrypted" else None
    results = await conformance(service, half, cipher)
    assert {name: result.failures for name, result in results.items() if result.failures} == {}
    assert {name: result.tests_passed for name, result in results.items() if result.detected} == EXPECTED
    await service.aclose()
