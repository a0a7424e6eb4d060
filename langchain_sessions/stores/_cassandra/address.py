"""URLs that name several hosts of one database."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

from langchain_sessions._core.edge import require

_PORT = 9042
_FORM = "give cassandra://host1,host2/keyspace, with user:password@ before the hosts where they are asked for"


def read_url(url: str) -> tuple[list[tuple[str, int]], str, tuple[str, str] | None, str | None]:
    """The hosts, the keyspace, the login and the datacenter of a URL.

    Raises:
        InvalidInputError: It is no such URL. The error does not show it: there may be a password in it.
    """
    place, _, query = url.partition("://")[2].partition("?")
    login, _, where = place.rpartition("@")
    names, _, keyspace = where.partition("/")
    options = dict(parse_qsl(query))
    datacenter = options.pop("datacenter", None)
    require(not options, "database", "has an option that is not known; there is datacenter=")
    hosts: list[tuple[str, int]] = []
    for name in names.split(","):
        host, _, port = name.partition(":")
        require(bool(host) and (port or str(_PORT)).isdecimal(), "database", _FORM)
        hosts.append((host, int(port or _PORT)))
    require(keyspace.isidentifier(), "database", _FORM)
    user, _, password = (unquote(part) for part in login.partition(":"))
    return hosts, keyspace, (user, password) if login else None, datacenter
