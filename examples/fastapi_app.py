"""A chat in a web application: answers stream, every user has sessions of their own, and a closed tab loses nothing.

pip install 'langchain-sessions[postgres]' fastapi uvicorn
DATABASE_URL=postgresql://localhost/chat uvicorn --factory fastapi_app:make_app
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from pydantic import BaseModel

from langchain_sessions import (
    Compaction,
    SessionMemoryAdvisor,
    SessionNotFoundError,
    SessionService,
    TokenCount,
    TurnWindow,
)


class Question(BaseModel):
    """What a user says."""

    text: str


def current_user(authorization: Annotated[str, Header()] = "") -> str:
    """Who asks. Put your own authentication here; the user never comes from the request's body."""
    scheme, _, user = authorization.partition(" ")
    if scheme != "Bearer" or not user.strip():
        raise HTTPException(401, "Say who you are.")
    return user


User = Annotated[str, Depends(current_user)]


def make_app(url: str | None = None, model: BaseChatModel | None = None) -> FastAPI:
    """The application on a database and a model."""
    sessions = SessionService(url or os.environ.get("DATABASE_URL", "sqlite:///fastapi.db"))
    memory = SessionMemoryAdvisor(sessions, compaction=Compaction(TokenCount(8_000), TurnWindow(max_turns=10)))
    chat = memory.wrap(model or FakeListChatModel(responses=["Put your own model here."]))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await sessions.acreate_schema()
        yield
        await sessions.aclose()

    app = FastAPI(lifespan=lifespan)

    @app.exception_handler(SessionNotFoundError)
    async def not_found(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 404)

    @app.post("/sessions/{session_id}/messages")
    async def ask(session_id: str, question: Question, user: User) -> StreamingResponse:
        # Here, since a stream that has begun cannot say 404 any more.
        await sessions.as_user(user).aopen(session_id)

        async def answer() -> AsyncIterator[str]:
            config: Any = {"configurable": {"session_id": session_id, "user_id": user}}
            async for chunk in chat.astream(question.text, config):
                yield f"data: {json.dumps({'text': chunk.text})}\n\n"

        return StreamingResponse(answer(), media_type="text/event-stream")

    @app.get("/sessions")
    async def list_sessions(user: User, cursor: str | None = None) -> dict[str, Any]:
        page = await sessions.as_user(user).alist_sessions(limit=20, cursor=cursor)
        return {"sessions": [{"id": each.id, "title": each.title} for each in page], "next": page.next_cursor}

    @app.get("/sessions/{session_id}/messages")
    async def messages(session_id: str, user: User) -> list[dict[str, str]]:
        said = await sessions.as_user(user).amessages(session_id)
        return [{"type": message.type, "text": message.text} for message in said]

    @app.get("/search")
    async def search(q: str, user: User) -> list[dict[str, Any]]:
        hits = await sessions.as_user(user).asearch(q, limit=5)
        return [{"session": hit.event.session_id, "seq": hit.event.seq, "text": hit.text} for hit in hits]

    @app.delete("/sessions/{session_id}")
    async def delete(session_id: str, user: User) -> dict[str, bool]:
        return {"deleted": await sessions.as_user(user).adelete(session_id)}

    return app
