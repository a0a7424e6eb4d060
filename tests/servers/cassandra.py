"""A private Cassandra of several nodes on 127.0.0.1, 127.0.0.2, …, from the jars of Maven Central.

    python -m tests.servers.cassandra --install -- python -m pytest tests/engines

`org.apache.cassandra:cassandra-all` holds the whole server; what it lacks, the settings and the options of the JVM, is
written here. The nodes start one after another, as joining a ring wants it, and none of them as root. Whoever knows
the folder may kill, stop and start them: a node's process id is in its folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers.machine import free_port, is_alive, unprivileged_user
from tests.servers.packages import can_install, install
from tests.servers.private import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

RELEASE = "5.0.5"
FOLDER = "LANGCHAIN_SESSIONS_TEST_CASSANDRA_NODES"
URL = "LANGCHAIN_SESSIONS_TEST_CASSANDRA"
KEYSPACE = "sessions"
PACKAGES = ("openjdk-17-jre-headless", "maven")
START_SECONDS = 240.0
PATIENTLY = ("-Dcassandra.ring_delay_ms=20000",)
"""For how long a node listens for the others before it gives up; it waits as long while it joins, so not at first."""
# Two cores carry three nodes and the tests: what the driver waits for before it says that nobody is there.
PATIENT: Mapping[str, Any] = {"connect_timeout": 60, "control_connection_timeout": 60, "max_schema_agreement_wait": 60}
KEPT = Path.home() / ".cache" / "langchain-sessions" / f"cassandra-{RELEASE}"
WATCHDOG = 'read -r _; kill -KILL $(cat "$1"/node*/pid) 2>/dev/null; sleep 1; rm -rf "$1"'
# A node is nobody's child: whoever started it may end, and another start it again.
DETACHED = 'log=$1; shift; "$@" >>"$log" 2>&1 & echo $!'

EXPORTED = (
    "java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch java.base/java.lang.ref "
    "java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry java.rmi/sun.rmi.server "
    "java.sql/java.sql jdk.unsupported/sun.misc"
)
OPENED = (
    "java.base/java.lang.module java.base/jdk.internal.loader java.base/jdk.internal.ref "
    "java.base/jdk.internal.reflect "
    "java.base/jdk.internal.math java.base/jdk.internal.module java.base/jdk.internal.util.jar java.base/sun.nio.ch "
    "jdk.management/com.sun.management.internal java.base/java.io java.base/java.lang java.base/java.lang.reflect "
    "java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic java.base/java.nio "
    "java.base/java.net java.rmi/sun.rmi.transport.tcp"
)
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>tests</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>{release}</version>
</dependency></dependencies></project>
"""
# What differs from the defaults, and what has none. Time limits are wide: two cores carry three nodes and the tests.
# What docs/engines.md asks for: Paxos that bears many writers, and a node that syncs before it acknowledges, so that
# one that is killed still knows afterwards what it had promised.
# Of the two ways to do so, `batch` keeps an empty node from hearing of the others in time when it joins.
SETTINGS = """
cluster_name: tests
num_tokens: 8
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "127.0.0.1:{storage_port}"}}]
listen_address: {address}
rpc_address: {address}
storage_port: {storage_port}
native_transport_port: {port}
start_native_transport: true
data_file_directories: ["{home}/data"]
commitlog_directory: "{home}/commitlog"
saved_caches_directory: "{home}/saved_caches"
hints_directory: "{home}/hints"
cdc_raw_directory: "{home}/cdc"
commitlog_sync: group
commitlog_sync_group_window: 10ms
paxos_variant: v2
commitlog_total_space: 256MiB
disk_failure_policy: stop
commit_failure_policy: stop
concurrent_reads: 8
concurrent_writes: 16
memtable_heap_space: 128MiB
memtable_offheap_space: 64MiB
file_cache_size: 64MiB
key_cache_size: 8MiB
concurrent_compactors: 1
auto_snapshot: false
authenticator: {authenticator}
authorizer: AllowAllAuthorizer
read_request_timeout: 10s
range_request_timeout: 20s
write_request_timeout: 10s
cas_contention_timeout: 5s
request_timeout: 20s
"""
LOGGING = """<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender"><file>{home}/system.log</file>
    <encoder><pattern>%-5level %d{{ISO8601}} %logger{{0}} - %msg%n</pattern></encoder></appender>
  <root level="WARN"><appender-ref ref="FILE"/></root>
</configuration>
"""


def find_java() -> str | None:
    """Java 17, which this release of Cassandra runs on."""
    for path in [*Path("/usr/lib/jvm").glob("java-17-*/bin/java"), *filter(None, [shutil.which("java")])]:
        said = subprocess.run([str(path), "-version"], capture_output=True, text=True, check=False).stderr
        if re.search(r'version "17\.', said):
            return str(path)
    return None


def fetch_jars() -> Path:
    """The folder of the server's jars, filled once by Maven.

    Raises:
        ServerUnavailableError: Maven is missing, or did not get them.
    """
    stamp = KEPT / "complete"
    if stamp.exists():
        return KEPT
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerUnavailableError("Maven is not installed")
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    (KEPT / "pom.xml").write_text(POM.format(release=RELEASE))
    command = [maven, "-q", "-B", "-f", str(KEPT / "pom.xml"), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={KEPT}", "-DincludeScope=runtime"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        raise ServerUnavailableError(f"Maven: {done.stdout.decode(errors='replace').strip()[-500:]}")
    stamp.touch()
    return KEPT


class Nodes:
    """The nodes of a ring whose files are in one folder; node n listens on 127.0.0.n."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        self.folder = folder
        self.numbers = range(1, count + 1)
        self.user = unprivileged_user("cassandra")

    @classmethod
    def prepare(cls, count: int = 3, *, password: bool = False) -> Self:
        """A new ring that was not started yet.

        Raises:
            ServerUnavailableError: Java 17 or the jars cannot be had.
        """
        java = find_java()
        if java is None:
            raise ServerUnavailableError("Java 17 is not installed")
        jars = fetch_jars()
        self = cls(Path(tempfile.mkdtemp(prefix="langchain-sessions-cassandra-")), count)
        # The user that the nodes run as may not be able to read our home.
        shutil.copytree(jars, self.folder / "jars")
        self.folder.chmod(0o755)
        port, storage_port = free_port(), free_port()
        for number in self.numbers:
            home = self._home(number)
            home.mkdir()
            authenticator = "PasswordAuthenticator" if password else "AllowAllAuthenticator"
            places = {"home": home, "address": f"127.0.0.{number}", "port": port, "storage_port": storage_port}
            (home / "cassandra.yaml").write_text(SETTINGS.format(**places, authenticator=authenticator))
            (home / "logback.xml").write_text(LOGGING.format(home=home))
            (home / "command").write_text("\n".join(self._command(java, home, free_port())))
            (home / "port").write_text(str(port))
            if self.user is not None:
                for path in (home, *home.iterdir()):
                    shutil.chown(path, self.user)
        return self

    @property
    def port(self) -> int:
        """Where each node is asked."""
        return int((self._home(1) / "port").read_text())

    @property
    def url(self) -> str:
        """The URL of a service on all nodes."""
        hosts = ",".join(f"127.0.0.{number}:{self.port}" for number in self.numbers)
        return f"cassandra://{hosts}/{KEYSPACE}"

    def _home(self, number: int) -> Path:
        return self.folder / f"node{number}"

    def _command(self, java: str, home: Path, jmx_port: int) -> list[str]:
        jars = self.folder / "jars"
        return [
            *(java, "-Xms512M", "-Xmx512M", "-XX:+UseSerialGC", "-Xss256k", "-XX:MaxDirectMemorySize=256M"),
            *(f"--add-exports={module}=ALL-UNNAMED" for module in EXPORTED.split()),
            *(f"--add-opens={module}=ALL-UNNAMED" for module in OPENED.split()),
            *("-XX:+PerfDisableSharedMem", "-Djdk.attach.allowAttachSelf=true", "-Djava.net.preferIPv4Stack=true"),
            *(f"-javaagent:{next(jars.glob('jamm-*.jar'))}", f"-Dcassandra.config=file://{home}/cassandra.yaml"),
            *(f"-Dcassandra.storagedir={home}", f"-Dcassandra.logdir={home}", "-Dcassandra-foreground=yes"),
            *(f"-Dlogback.configurationFile=file://{home}/logback.xml", f"-Dcassandra.jmx.local.port={jmx_port}"),
            *("-Dcassandra.ring_delay_ms=5000", "-Dcassandra.skip_wait_for_gossip_to_settle=0"),
            *("-Dcassandra.superuser_setup_delay_ms=0", "-Dcassandra.consistent.rangemovement=false"),
            *("-Dcassandra.shutdown_announce_in_ms=200", "-Dcassandra.reset_bootstrap_progress=true"),
            *("-Dio.netty.tryReflectionSetAccessible=true", "-Dcom.sun.jndi.rmiURLParsing=legacy"),
            *("-cp", f"{jars}/*", "org.apache.cassandra.service.CassandraDaemon"),
        ]

    def start(self, number: int, *options: str) -> float:
        """Start a node and wait until it answers; how many seconds that took.

        On a busy machine a node may not hear of the others in time and end: it is started again, and listens longer.
        """
        began = time.monotonic()
        for listening in ((), PATIENTLY):
            with contextlib.suppress(ServerUnavailableError):
                self._start(number, *options, *listening)
                return time.monotonic() - began
        self._start(number, *options, *PATIENTLY)
        return time.monotonic() - began

    def _start(self, number: int, *options: str) -> None:
        began, home = time.monotonic(), self._home(number)
        java, *arguments = (home / "command").read_text().splitlines()
        arguments[-3:-3] = options  # of two that say something of the same, the later one holds
        started = subprocess.run(
            ["/bin/sh", "-c", DETACHED, "node", str(home / "out.log"), java, *arguments],
            cwd=home,
            env={"PATH": os.defpath, "HOME": str(home), "LC_ALL": "C"},
            user=self.user,
            group=None if self.user is None else home.stat().st_gid,
            extra_groups=None if self.user is None else [],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            check=True,
        )
        (home / "pid").write_text(started.stdout.decode())
        while time.monotonic() < began + START_SECONDS:
            if not self.is_running(number):
                said = (home / "out.log").read_text(errors="replace")[-2000:]
                raise ServerUnavailableError(f"node {number} ended: {said}")
            with contextlib.suppress(OSError), socket.create_connection((f"127.0.0.{number}", self.port), 0.5):
                return
            time.sleep(0.2)
        raise ServerUnavailableError(f"node {number} did not answer after {START_SECONDS} s")

    def start_empty(self, number: int) -> float:
        """Start a node that lost all it had: it takes its own place and is given its data by the others."""
        option = f"-Dcassandra.replace_address_first_boot=127.0.0.{number}"
        self._empty(number)
        try:
            return self.start(number, option)
        except ServerUnavailableError:
            # On a busy machine the others do not answer in the few seconds that it waits for them.
            self._empty(number)
            return self.start(number, option)

    def _empty(self, number: int) -> None:
        for name in ("data", "commitlog", "saved_caches", "hints", "cdc"):
            shutil.rmtree(self._home(number) / name, ignore_errors=True)

    def send(self, number: int, what: signal.Signals) -> None:
        """Send a signal to a node."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid(number), what)

    def pid(self, number: int) -> int:
        """The process of a node."""
        return int((self._home(number) / "pid").read_text())

    def is_running(self, number: int) -> bool:
        """Whether a node's process is there."""
        return (self._home(number) / "pid").exists() and is_alive(self.pid(number))

    def kill(self, number: int) -> None:
        """End a node as a power cut would."""
        self.send(number, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while self.is_running(number) and time.monotonic() < deadline:
            time.sleep(0.05)

    def nodetool(self, number: int, *arguments: str) -> None:
        """Run a command of `nodetool` on a node."""
        home = self._home(number)
        command = (home / "command").read_text()
        java, port = command.splitlines()[0], re.findall(r"jmx\.local\.port=(\d+)", command)[0]
        options = [line for line in command.splitlines() if line.startswith("--add-")]
        options += [f"-Duser.home={self.folder}", f"-Dlogback.configurationFile=file://{home}/logback.xml"]
        program = ["-cp", f"{self.folder}/jars/*", "org.apache.cassandra.tools.NodeTool", "-h", "127.0.0.1", "-p", port]
        subprocess.run([java, *options, *program, *arguments], capture_output=True, check=True)

    def files_with(self, text: str) -> set[str]:
        """The folders of nodes, such as `data/sessions` or `commitlog`, in which a file has eight letters of a text."""
        found: set[str] = set()
        parts = [f"-e{text[start : start + 8]}" for start in range(0, len(text), 8)]
        for number in self.numbers:
            home = self._home(number)
            folders = [path for path in (*home.glob("data/*"), home / "commitlog", home / "hints") if path.is_dir()]
            for folder in folders:
                said = subprocess.run(["grep", "-rqF", *parts, str(folder)], check=False)  # noqa: S607 - of tests
                found |= {str(folder.relative_to(home))} if said.returncode == 0 else set()
        return found

    def close(self) -> None:
        """End all nodes and remove what they wrote."""
        for number in self.numbers:
            if self.is_running(number):
                self.kill(number)
        shutil.rmtree(self.folder, ignore_errors=True)

    def create_keyspace(self, name: str = KEYSPACE) -> None:
        """Create a keyspace of which every node has a copy."""
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile  # noqa: PLC0415 - an extra
        from cassandra.policies import RoundRobinPolicy  # noqa: PLC0415

        hosts = [f"127.0.0.{number}" for number in self.numbers]
        profiles = {EXEC_PROFILE_DEFAULT: ExecutionProfile(RoundRobinPolicy(), request_timeout=60)}
        cluster = Cluster(hosts, port=self.port, protocol_version=5, execution_profiles=profiles, **PATIENT)
        copies = f"{{'class': 'NetworkTopologyStrategy', 'datacenter1': {len(hosts)}}}"
        cluster.connect().execute(f'CREATE KEYSPACE IF NOT EXISTS "{name}" WITH replication = {copies}')
        cluster.shutdown()


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the nodes, run a command beside them, remove them; the result is its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers.cassandra", description=main.__doc__)
    parser.add_argument("--install", action="store_true", help="as root on Debian, install what is missing")
    parser.add_argument("command", nargs="+", help="the command, after --")
    options = parser.parse_args(arguments)
    if options.install and (find_java() is None or shutil.which("mvn") is None) and can_install():
        Path("/usr/share/man/man1").mkdir(parents=True, exist_ok=True)  # slim images lack it, and Java wants it
        install(PACKAGES)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda which, _: sys.exit(128 + which))
    try:
        nodes = Nodes.prepare()
    except ServerUnavailableError as error:
        print(f"cassandra: not available: {error}", file=sys.stderr)
        return 1
    watchdog = subprocess.Popen(
        ["/bin/sh", "-c", WATCHDOG, "watchdog", str(nodes.folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        took = [nodes.start(number) for number in nodes.numbers]
        said = ", ".join(f"{seconds:.0f} s" for seconds in took)
        print(f"cassandra: {RELEASE}, {len(took)} nodes on port {nodes.port} after {said}", file=sys.stderr, flush=True)
        nodes.create_keyspace()
        environment = {**os.environ, URL: nodes.url, FOLDER: str(nodes.folder)}
        return subprocess.run(options.command, env=environment, check=False).returncode
    finally:
        nodes.close()
        watchdog.kill()


if __name__ == "__main__":
    sys.exit(main())
