"""Where messages are encrypted a summary of them is too; and what is deleted takes its summaries along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from sqlalchemy import create_engine, inspect, text

from langchain_sessions import Compaction, ConversationSummary, SessionService, Summarize
from tests.compaction.models import ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path

REPLY = ConversationSummary(
    title="A secret title",
    keywords=["secretword"],
    summary="A secret summary.",
    key_points=["A secret point."],
    key_facts=[],
    sentiment="negative",
    confidence=1,
).model_dump_json()


def stored(path: Path) -> str:
    """Everything that the tables hold, as one text."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        rows = [row for table in tables for row in connection.execute(text(f'SELECT * FROM "{table}"'))]
    engine.dispose()
    return repr(rows).casefold()


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_sealed_session_has_sealed_summaries(tmp_path: Path, encrypted: bool) -> None:  # noqa: FBT001
    codec = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef") if encrypted else None
    path = tmp_path / "chat.db"
    with SessionService(f"sqlite:///{path}", codec=codec) as service:
        service.open("s1")
        service.append("s1", [HumanMessage("my secret question"), AIMessage("a secret answer"), HumanMessage("thanks")])
        how = Summarize(ScriptedModel(replies=[REPLY]), keep_events=1, schema=ConversationSummary)
        result = service.compact("s1", Compaction(None, how))
        assert result.is_compacted
        summary = service.context("s1").events[1]
        assert summary.message is not None
        assert "A secret summary." in summary.message.text
        assert summary.metadata["summary"]["sentiment"] == "negative"
        assert (service.get("s1").title is None) == encrypted
    assert ("secret" in stored(path)) != encrypted


def test_deleting_takes_summaries_records_and_leases_along(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with SessionService(f"sqlite:///{path}") as service:
        service.open("s1")
        service.append("s1", [HumanMessage("my secret question"), AIMessage("a secret answer"), HumanMessage("thanks")])
        service.compact("s1", Compaction(None, Summarize(ScriptedModel(replies=["A secret summary."]), keep_events=1)))
        assert service.delete("s1")
    assert "secret" not in stored(path)
    assert b"secret" not in path.read_bytes()
