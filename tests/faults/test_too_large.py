"""What is larger than a database takes is the caller's to change: no error that invites to try again."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage
from sqlalchemy import create_engine, event

from langchain_sessions import InvalidInputError, SessionService
from tests.faults.drills import FACES, Face, assert_whole, checked_out, make_service, message

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.backends("mariadb")
@pytest.mark.parametrize("face", FACES)
def test_more_than_a_packet(database_url: str, table_prefix: str, face: str) -> None:
    service, call = make_service(database_url, table_prefix=table_prefix), Face(face)
    call(service, "open", "s")
    call(service, "append", "s", message("before"))
    with pytest.raises(InvalidInputError, match=r"max_allowed_packet.*nothing was written"):
        call(service, "append", "s", HumanMessage("x" * 17_000_000, id="large"))
    call(service, "append", "s", message("after"))
    assert [found.id for found in call(service, "messages", "s")] == ["before", "after"]
    assert checked_out(service) == 0
    call.close(service)
    service.close()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="sqlite3 cannot be given a limit")
def test_more_than_sqlite_takes(scratch_directory: Path) -> None:
    # 0 is SQLITE_LIMIT_LENGTH, which older Pythons do not name.
    engine = create_engine(f"sqlite:///{scratch_directory}/{secrets.token_hex(4)}.db")
    event.listen(engine, "connect", lambda driver, _: driver.setlimit(0, 100_000))
    service = SessionService(engine)
    service.open("s")
    with pytest.raises(InvalidInputError, match="nothing was written"):
        service.append("s", HumanMessage(secrets.token_hex(200_000), id="large"))
    service.append("s", message("after"))
    assert assert_whole(service, "s") == ["after"]
    engine.dispose()
