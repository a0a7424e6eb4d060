"""Start the servers, run a command with their URLs in its environment, remove the servers."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.servers.databases import server_version
from tests.servers.environment import SERVER_BACKENDS, absence_variable, server_url, url_variable
from tests.servers.mariadb import PrivateMariaDB
from tests.servers.packages import can_install, install
from tests.servers.postgres import PrivatePostgres
from tests.servers.private import PrivateServer, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

SERVERS: dict[str, type[PrivateServer]] = {
    "postgres": PrivatePostgres,
    "mariadb": PrivateMariaDB,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit status."""
    options = _parser().parse_args(arguments)
    missing = [kind for name, kind in SERVERS.items() if name in options.only and not kind.installed()]
    if options.action == "install" or options.install:
        _install([kind.package for kind in missing])
    if options.action == "install":
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    with ExitStack() as stack:
        environment = {**os.environ, **_provide(options.only, stack, durable=options.durable)}
        return _run(options.command, environment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="run a command beside private servers")
    run.add_argument("--durable", action="store_true", help="sync every commit to disk")
    run.add_argument("--install", action="store_true", help="as root on Debian, install what is missing")
    run.add_argument("command", nargs="+", help="the command, after --")
    add = actions.add_parser("install", help="as root on Debian, install what is missing")
    for action in (run, add):
        action.add_argument("--only", type=_names, default=SERVER_BACKENDS, help="comma-separated: postgres,mariadb")
    return parser


def _names(given: str) -> tuple[str, ...]:
    names = tuple(name for name in given.split(",") if name)
    if unknown := set(names) - set(SERVERS):
        raise argparse.ArgumentTypeError(f"unknown server {sorted(unknown)}; there are {sorted(SERVERS)}")
    return names


def _install(packages: Sequence[str]) -> None:
    if not packages:
        return
    if not can_install():
        _say(f"not installed, and not root on Debian: {', '.join(packages)}")
        return
    for package in packages:
        _say(f"installing {package}")
        try:
            install([package])
        except subprocess.CalledProcessError:  # its tests say that it is missing; those of the others run
            _say(f"{package} could not be installed: apt-get says why above")


def _provide(names: Sequence[str], stack: ExitStack, *, durable: bool) -> dict[str, str]:
    """Start what is not given, all at once; the result is what the command needs to know."""
    variables: dict[str, str] = {}
    to_start = [name for name in names if server_url(name) is None]
    for name in names:
        if name not in to_start:
            _say(f"{name}: using the server given in {url_variable(name)}")
    servers = [SERVERS[name](durable=durable) for name in to_start]
    for server in servers:
        stack.callback(server.close)
    with ThreadPoolExecutor(max_workers=max(1, len(servers))) as pool:
        for server, reason in zip(servers, pool.map(_start, servers), strict=True):
            if reason is None:
                variables[url_variable(server.name)] = server.url
            else:
                variables[absence_variable(server.name)] = reason
    return variables


def _start(server: PrivateServer) -> str | None:
    """Start one server and say so; the result is the reason when it cannot run."""
    began = time.monotonic()
    try:
        server.start()
    except ServerUnavailableError as error:
        _say(f"{server.name}: not available: {error}")
        return str(error).splitlines()[0]
    seconds = time.monotonic() - began
    _say(f"{server.name}: {server_version(server.url)} on port {server.port} after {seconds:.1f} s")
    return None


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    child = subprocess.Popen(command, env=environment)
    while True:
        try:
            status = child.wait()
        except KeyboardInterrupt:
            continue  # the terminal told the child as well; it ends in its own way
        except SystemExit:
            child.terminate()
            child.wait()
            raise
        return status if status >= 0 else 128 - status


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _say(line: str) -> None:
    print(f"servers: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
