"""What a stranger, or whoever finds the disk, can learn."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langchain_sessions import EventFilter, NewEvent, SessionNotFoundError, SessionService
from langchain_sessions.stores._memory import InMemoryStore
from langchain_sessions.testing.archiving import archive

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "xylophone-passport-4711"  # noqa: S105 - what a person said


def test_deleted_text_leaves_the_file(tmp_path: Path) -> None:
    """X10: rows, indexes, file and write-ahead log, after a compaction."""
    with SessionService(f"sqlite:///{tmp_path / 'chat.db'}") as service:
        ada = service.as_user("ada")
        ada.create("s1", title=SECRET, metadata={SECRET: 1}, state={SECRET: 2})
        ada.append("s1", [HumanMessage(SECRET, id=SECRET), AIMessage(f"noted {SECRET}")], metadata={"m": SECRET})
        ada.edit("s1", HumanMessage(f"{SECRET}!", id=SECRET))
        archive(ada, "s1", [2], base=ada.context("s1"), summary=[NewEvent(message=AIMessage(f"sum {SECRET}"))])
        assert any(SECRET.encode() in path.read_bytes() for path in tmp_path.iterdir())
        assert ada.delete("s1")
        for path in tmp_path.iterdir():
            assert SECRET.encode() not in path.read_bytes(), path.name


def test_no_file_beside_the_store(tmp_path: Path) -> None:
    """D03: ids are no paths."""
    home = tmp_path / "store"
    home.mkdir()
    with SessionService(f"sqlite:///{home / 'chat.db'}") as service:
        for name in ("../out", str(tmp_path / "out"), "a\nb", "..\\out"):
            service.create(name, user_id=name)
            service.append(name, HumanMessage("hi", id=name))
    assert {path.name for path in tmp_path.iterdir()} == {"store"}
    assert all(path.name.startswith("chat.db") for path in home.iterdir())


@pytest.mark.parametrize(
    "word", ['"', "'", "*", "AND", "OR", "NOT", "NEAR(", "a*", "col:", "(", ")", "-x", "^", "||", "&"]
)
def test_operators_mean_themselves(word: str) -> None:
    """X03: as a keyword they are text, and they reach nobody else's."""
    service = SessionService(InMemoryStore())
    for user in ("ada", "grace"):
        service.create(f"of {user}", user_id=user)
        service.append(f"of {user}", [HumanMessage(f"{user} says {word} loudly"), HumanMessage("plain text")])
    ada = service.as_user("ada")
    assert [event.seq for event in ada.events("of ada", EventFilter(keyword=f" {word} "))] == [1]
    with pytest.raises(SessionNotFoundError):
        ada.events("of grace", EventFilter(keyword=word))


class _Xor:
    """A cipher for tests."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "xor", bytes(byte ^ 0x5A for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "xor"
        return bytes(byte ^ 0x5A for byte in ciphertext)


def test_sealed_messages_are_exact_and_never_refused(tmp_path: Path) -> None:
    """I03: LangGraph's serializer makes question marks of half pairs; and it refuses what it has no form for."""
    with SessionService(f"sqlite:///{tmp_path / 'chat.db'}", codec=EncryptedSerializer(_Xor())) as service:
        service.open("s1")
        given = [HumanMessage(SECRET + "\ud83d"), AIMessage([{"type": "text", "text": "\ud83d" + "\ude00"}], id="a\0")]
        service.append("s1", given)
        service.append("s1", ToolMessage("found", tool_call_id="c", artifact={"lock": threading.Lock(), "n": 2**70}))
        stored = [event.message for event in service.events("s1")]
        assert stored[:2] == given
        assert isinstance(stored[2], ToolMessage)
        assert stored[2].artifact["n"] == 2**70
        assert isinstance(stored[2].artifact["lock"], str)
        for path in tmp_path.iterdir():
            assert SECRET.encode() not in path.read_bytes()
