"""Issue 17, item 9: what is recalled answers the question, and what is deleted is gone from the vector store too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_sessions import (
    InMemoryStore,
    LongTermMemory,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionService,
    StoreError,
)
from tests.openai_stub.replies import Say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from tests.openai_stub.server import OpenAIStub
    from tests.surface.conftest import Face

QUESTION = "Where did I put my passport?"


class Words(Embeddings):
    """Texts that share words are near."""

    def embed_query(self, text: str) -> list[float]:
        vector = [1e-3] * 64
        for word in re.findall(r"\w+", text.lower()):
            vector[sum(word.encode()) % 64] += 1
        return vector

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class Strict(InMemoryVectorStore):
    """Refuses to delete what it does not have, as some stores do; goes down on request."""

    is_down = False

    def delete(self, ids: Any = None, **kwargs: Any) -> None:
        if self.is_down or set(ids) - set(self.store):
            raise ValueError
        super().delete(ids, **kwargs)

    async def adelete(self, ids: Any = None, **kwargs: Any) -> None:
        self.delete(ids, **kwargs)


@pytest.fixture(params=["memory", "sqlite"])
def service(request: pytest.FixtureRequest) -> Iterator[SessionService]:
    with SessionService(InMemoryStore() if request.param == "memory" else "sqlite://") as opened:
        yield opened


@pytest.fixture
def store() -> Strict:
    return Strict(Words())


def at(session: str, user: str = "ada", **more: Any) -> RunnableConfig:
    return {"configurable": {"session_id": session, "user_id": user, **more}}


def kept(store: Strict) -> set[tuple[str, str]]:
    return {(row["metadata"]["session_id"], row["text"]) for row in store.store.values()}


async def test_item_9_the_answer_is_recalled_and_not_the_question(
    face: Face, stub: OpenAIStub, service: SessionService, model: ChatOpenAI, store: Strict
) -> None:
    stub.may_quote = stub.allow_repeats = True
    chat = SessionMemoryAdvisor(service, modes=[LongTermMemory(store, top_k=5)]).wrap(model)
    await face.invoke(chat, "I put my passport in the blue drawer.", at("told"))
    for number in range(30):
        await face.invoke(chat, QUESTION, at(f"s{number}"))
    system = stub.last.texts[0]
    assert "in the blue drawer." in system
    assert QUESTION not in system
    entries = re.findall(r"<entry[^>]*>(.*?)</entry>", system)
    assert len(entries) == len(set(entries)) == 5


async def test_item_9_equal_texts_count_once(
    face: Face, stub: OpenAIStub, service: SessionService, model: ChatOpenAI, store: Strict
) -> None:
    stub.may_quote = stub.allow_repeats = True
    stub.answers["passport is"] = Say("Noted.")
    chat = SessionMemoryAdvisor(service, modes=[LongTermMemory(store)]).wrap(model)
    for number in range(12):
        await face.invoke(chat, "The passport is lost.", at(f"s{number}"))
    await face.invoke(chat, "The passport is in the drawer.", at("found"))
    await face.invoke(chat, QUESTION, at("new", long_term_top_k=2))
    assert stub.last.texts[0].count("<entry") == 2
    assert "lost" in stub.last.texts[0]
    assert "drawer" in stub.last.texts[0]


async def test_item_9_a_question_is_indexed_once_it_is_answered(
    face: Face, stub: OpenAIStub, service: SessionService, model: ChatOpenAI, store: Strict
) -> None:
    stub.may_quote = True
    chat = SessionMemoryAdvisor(service, modes=[LongTermMemory(store)]).wrap(model)
    await face.invoke(chat, "hi", at("s"))
    assert kept(store) == {("s", "hi"), ("s", "reply 1")}
    await face.stream(chat, "tell me more", at("s"), take=2)
    assert ("s", "tell me more") in kept(store)


@pytest.mark.parametrize("way", ["delete", "view", "delete_user", "own delete_user", "thread"])
async def test_item_9_what_is_deleted_is_gone_from_the_vector_store(
    face: Face, stub: OpenAIStub, model: ChatOpenAI, store: Strict, way: str
) -> None:
    stub.may_quote = stub.allow_repeats = True
    with SessionService("sqlite://") as service:
        chat = SessionMemoryAdvisor(service, modes=[LongTermMemory(store)]).wrap(model)
        await face.invoke(chat, "mine", at("s1"))
        await face.invoke(chat, "mine too", at("s2"))
        await face.invoke(chat, "hers", at("g", "grace"))
        ada = service.as_user("ada")
        assert not service.as_user("grace").delete("s1")
        assert len({session for session, _ in kept(store)}) == 3
        both: dict[str, tuple[Any, Any, list[str]]] = {
            "delete": (service.delete, service.adelete, ["s1"]),
            "view": (ada.delete, ada.adelete, ["s1"]),
            "delete_user": (service.delete_user, service.adelete_user, ["ada"]),
            "own delete_user": (ada.delete_user, ada.adelete_user, []),
            "thread": (
                SessionCheckpointSaver(service).delete_thread,
                SessionCheckpointSaver(service).adelete_thread,
                ["s1"],
            ),
        }
        sync, twin, given = both[way]
        if face.name == "sync":
            sync(*given)
        else:
            await twin(*given)
        left = {"g"} if "user" in way else {"s2", "g"}
        assert {session for session, _ in kept(store)} == left


async def test_item_9_a_vector_store_that_is_down_leaves_all_as_it_was(
    face: Face, stub: OpenAIStub, service: SessionService, model: ChatOpenAI, store: Strict
) -> None:
    chat = SessionMemoryAdvisor(service, modes=[LongTermMemory(store)]).wrap(model)
    await face.invoke(chat, "mine", at("s"))
    store.is_down = True
    with pytest.raises(StoreError, match="'s'"):
        service.delete("s")
    assert len(service.messages("s")) == 2
    store.is_down = False
    assert service.delete("s")
    assert kept(store) == set()


def test_item_9_a_long_session_and_a_memory_that_only_deletes(service: SessionService, store: Strict) -> None:
    ada = service.as_user("ada")
    ada.open("long")
    ada.append("long", [kind(f"{number}") for number in range(230) for kind in (HumanMessage, AIMessage)])
    memory = LongTermMemory(store)
    memory.add_session_to_memory(service, "long")
    assert len(store.store) == 460
    memory.attach(service)
    assert service.delete("long")
    assert not store.store
