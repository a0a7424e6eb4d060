"""What a process would do once after its start, done before by the server that it is forked from: imports, mostly."""

from __future__ import annotations

import contextlib

import sqlalchemy
import sqlalchemy.exc
from langchain_core.messages import HumanMessage

from langchain_sessions import SessionService
from langchain_sessions.checkpointer import SessionCheckpointSaver
from tests.checkpointer.talking import ask, talking
from tests.faults.processes import CHAT, chatting
from tests.migrations import steps

__all__ = ["steps"]

with SessionService("sqlite://") as service:
    chatting(service, 2).invoke([HumanMessage("hello")], CHAT)
    ask(talking(SessionCheckpointSaver(service)), "hello")
for url in ("postgresql+psycopg://", "mysql+pymysql://", "mysql+asyncmy://"):
    with contextlib.suppress(ImportError, sqlalchemy.exc.NoSuchModuleError):
        sqlalchemy.make_url(url).get_dialect().import_dbapi()
