"""URLs of engines of partitions: each engine is loaded when somebody asks for it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from langchain_sessions.stores.engine import PartitionEngine


class EnginePlace(NamedTuple):
    """Where an engine is: its module and class, and the package of its driver; None where it needs none."""

    module: str
    name: str
    package: str | None = None


ENGINES = {
    "cassandra": EnginePlace("langchain_sessions.stores._cassandra.engine", "CassandraEngine", "cassandra-driver"),
    "file": EnginePlace("langchain_sessions.stores._files.engine", "FilesEngine"),
}
"""The engine of a URL's scheme, or of what a driver's package has. Its arguments are the URL or the driver's object,
`table_prefix` and `create_schema`."""


class DriverSession(Protocol):
    """A connected session of a driver, as Cassandra's has it; the driver itself need not be installed to name it."""

    def execute_async(self, query: Any, /) -> Any:
        """Begin to run a statement."""


def engine_for(database: Any, **options: Any) -> PartitionEngine | None:
    """The engine that a URL names, or that a driver's object is for; None where it is for another kind of store."""
    scheme = database.partition(":")[0] if isinstance(database, str) else type(database).__module__.partition(".")[0]
    if scheme not in ENGINES:
        return None
    place = ENGINES[scheme]
    engine: PartitionEngine = getattr(import_module(place.module), place.name)(database, **options)
    return engine
