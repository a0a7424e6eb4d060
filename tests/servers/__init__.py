"""Private PostgreSQL and MariaDB servers for tests, benchmarks and crash drills.

``python -m tests.servers run -- pytest`` starts both, runs the command with their URLs in its environment and removes
them. From Python, `PrivatePostgres` and `PrivateMariaDB` are context managers that can also be killed and restarted.
"""

from tests.servers.mariadb import PrivateMariaDB
from tests.servers.postgres import PrivatePostgres
from tests.servers.private import PrivateServer, ServerUnavailableError

__all__ = ["PrivateMariaDB", "PrivatePostgres", "PrivateServer", "ServerUnavailableError"]
