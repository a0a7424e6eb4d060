"""Which session a LangChain config means, and whose it is: the one place where both are decided."""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.config import get_config

from langchain_sessions._core.edge import check_id, require
from langchain_sessions._core.rows import ANYONE, Anyone, Owner, SessionKey
from langchain_sessions._log.log import Log, bound_to, log_of
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.stores._threads import CheckpointQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langgraph.runtime import Runtime

    from langchain_sessions._core.rows import SessionRow
    from langchain_sessions.service import SessionService

_FORK_BITS = 32
_LOWER = (1 << _FORK_BITS) - 1
_UUID_LENGTH = 36
_BEFORE_1970 = 0x01B21DD213814000
"""What a UUID counts from, in tenths of microseconds."""
_NEAR = 1 << 31
"""Of times what is less than this, either way, is a difference; a time so near to 1970 is put in a list."""
_ALTERED = "a version or a time is altered"
_CONFIG = 'pass {"configurable": {"session_id": ..., "user_id": ...}}'
_PLACES = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"})

_log = logging.getLogger(__name__)
# The constructor of a named tuple takes twice as long.
_tuple = tuple.__new__

OwnerPolicy = Literal["config", "ignore"] | Callable[[RunnableConfig], Owner]
"""Whose sessions a call reaches.

- `config`: those of `configurable["user_id"]`. A config that names nobody (no such key, None, an empty or a blank
  text) reaches sessions that nobody owns, and no others; it never searches across sessions.
- `ignore`: for hosts that authorise threads themselves, such as LangGraph's server. The config's user is not looked
  at; a session is reached by its id, whoever owns it, and new ones are owned by nobody.
- A function of the config returns the user. None, or a blank text, is nobody; `ANYONE` is as `ignore`.

A service that is bound by `as_user(u)` stays bound to u, whatever the policy says.
"""


class Address(NamedTuple):
    """A session as a config names it, and the view of its owner."""

    sessions: SessionService
    session_id: str


class Addressing:
    """How configs name sessions of a service.

    Args:
        sessions: The service.
        owner: Whose sessions a config reaches, see `OwnerPolicy`.

    Raises:
        InvalidInputError: There is no such policy, or something else was given than a service.
    """

    def __init__(self, sessions: SessionService, owner: OwnerPolicy = "config") -> None:
        """See the class."""
        log_of(sessions)  # refuses what is no service
        require(callable(owner) or owner in ("config", "ignore"), "owner", "give 'config', 'ignore' or a function")
        self._sessions = sessions
        self._owner = owner
        self._has_told = False
        self._newest: tuple[str | None, SessionService] | None = None
        self._newest_thread: tuple[object, object, Log, SessionKey] | None = None

    def find(self, config: RunnableConfig | None) -> Address | None:
        """The session of a config as its owner sees it; None where the config names no session.

        It is `thread_id` that names the session, else `session_id`.

        Raises:
            InvalidInputError: An id is unusable, or the config names another user than the service is bound to.
        """
        named = configurable(config)
        session_id = self._session_id(named)
        return None if session_id is None else Address(self._view(config, named), session_id)

    def require(self, config: RunnableConfig | None) -> Address:
        """`find`, or an error that says how to name a session.

        Raises:
            InvalidInputError: The config names no session, or as `find`.
        """
        address = self.find(config)
        if address is None:
            raise InvalidInputError("session_id", f"the config names no session; {_CONFIG}")
        return address

    def user(self, config: RunnableConfig | None) -> SessionService | None:
        """The view of the user whom a config names, for what crosses sessions; None where it is nobody's.

        Raises:
            InvalidInputError: As `find`.
        """
        view = self._view(config, configurable(config))
        return view if isinstance(view.owner, str) else None

    def thread(self, config: RunnableConfig) -> ThreadConfig:
        """What a config says of a thread.

        Raises:
            InvalidInputError: As `require`.
        """
        named, said = configurable(config), None
        thread, user, newest = named.get("thread_id"), named.get("user_id"), self._newest_thread
        # A run asks twice a step, each time with the very objects of its config.
        if newest is None or newest[0] is not thread or newest[1] is not user or "session_id" in named:
            sessions, session_id = self.require(config)
            log = log_of(sessions)
            newest = (thread, user, log, SessionKey(log.app, session_id, log.owner))
            if callable(self._owner):
                said = {key: value for key, value in _with_who_asked(named).items() if not _is_place(key)}
            elif type(thread) is str and type(user) in (str, type(None)) and "session_id" not in named:
                self._newest_thread = newest
        namespace, cid = str(named.get("checkpoint_ns") or ""), named.get("checkpoint_id") or None
        return _tuple(ThreadConfig, (newest[2], newest[3], newest[3].id, namespace, cid, said))

    def _view(self, config: RunnableConfig | None, configurable: Mapping[str, Any]) -> SessionService:
        sessions, owner, policy = self._sessions, log_of(self._sessions).owner, self._owner
        named: object = ANYONE
        if policy == "config":
            named = _with_who_asked(configurable).get("user_id")
        elif callable(policy):
            asked = _with_who_asked(configurable)
            named = policy(config or {} if asked is configurable else {**(config or {}), "configurable": {**asked}})
        if isinstance(named, Anyone):
            return sessions
        user = None if named is None else user_named(named)
        if isinstance(owner, Anyone):
            # A turn of a graph asks half a dozen times, each time for the same user.
            newest = self._newest
            if newest is None or newest[0] != user:
                self._newest = newest = (user, bound_to(sessions, user))
            return newest[1]
        require(user is None or user == owner, "user_id", "the service is bound to another user")
        return sessions

    def _session_id(self, configurable: Mapping[str, Any]) -> str | None:
        thread, session = configurable.get("thread_id"), configurable.get("session_id")
        if thread is None:
            return None if session is None else check_id(str(session), "session_id")
        if session is not None and str(session) != str(thread) and not self._has_told:
            self._has_told = True
            _log.warning("A config names a thread_id and another session_id: the thread is the session. Told once.")
        return check_id(str(thread), "thread_id")


def user_named(value: object) -> str | None:
    """The user that a value of a config names; None where it is missing, empty or blank, which is nobody."""
    # Servers put an empty user into the configs of calls that nobody is logged in for.
    user = "" if value is None else str(value)
    return user if user.strip() else None


def configurable(config: RunnableConfig | None) -> Mapping[str, Any]:
    """What a config says of the session; empty where it says nothing.

    Raises:
        InvalidInputError: It is no config, such as the bare id of a session.
    """
    if config is None:
        return {}
    # The plain class first: to ask an abstract one takes twenty times as long.
    if type(config) is dict and type(named := config.get("configurable")) is dict:
        return named
    named = config.get("configurable") if isinstance(config, (dict, Mapping)) else config
    if named is not None and not isinstance(named, (dict, Mapping)):
        raise InvalidInputError("config", f"{_CONFIG}, not {type(named).__name__}")
    return named or {}


def merged(kept: RunnableConfig, config: RunnableConfig | None) -> RunnableConfig | None:
    """A config of a call over one that was kept for it.

    Raises:
        InvalidInputError: It is no config; LangChain would look into it all the same.
    """
    configurable(config)
    return merge_configs(kept, config) if kept else config


def config_of_run(runtime: Runtime[Any]) -> RunnableConfig:
    """The config of the run that a middleware works for.

    On Python 3.10 LangGraph hides it from async code; there the run's `context` has to name session and user.

    Raises:
        InvalidInputError: It is hidden and the context names no session.
    """
    try:
        return get_config()
    except RuntimeError:
        context: Any = runtime.context
        given = context if isinstance(context, Mapping) else getattr(context, "__dict__", {})
        named = {name: given[name] for name in ("thread_id", "session_id", "user_id") if name in given}
        if named.keys() <= {"user_id"}:
            problem = (
                "LangGraph hides the config from async code on Python 3.10: use Python 3.11, or name session_id and "
                "user_id in the run's context too"
            )
            raise InvalidInputError("context", problem) from None
        return {"configurable": named}


class LogsThreads:
    """A checkpointer that logs what its threads hold."""


# -- configs ---------------------------------------------------------------------------------------------------


def checkpoint_id(config: RunnableConfig | None) -> str | None:
    """The checkpoint that a config names; None where it names none, or says so by an empty text."""
    return (configurable(config).get("checkpoint_id") if config else None) or None


class ThreadConfig(NamedTuple):
    """What a config says: a thread as its owner sees it, a namespace of it, and a checkpoint if it names one."""

    log: Log
    key: SessionKey
    session_id: str
    namespace: str
    checkpoint_id: str | None
    said: Mapping[str, Any] | None = None
    """What says who asks, beside the places; None where the config's user alone does."""

    def query(self, **wanted: Any) -> CheckpointQuery:
        """A query for checkpoints of the thread, of the namespace unless `ns` says otherwise."""
        if "ns" not in wanted:
            wanted = {"ns": namespace_digest(self.namespace), "ns_name": self.namespace, **wanted}
        log = self.log
        return CheckpointQuery(app=log.app, owner=log.owner, now=log.now(), session_id=self.session_id, **wanted)


class ThreadInReach(str):
    """The id of a thread, in the config of a checkpoint that was handed out: an object that knows who asked for it.

    LangGraph asks for a subgraph's state by this object and a namespace, and leaves out who asks. Whoever has it was
    let in before; the same text from elsewhere, a request or a file, is an id like any other.
    """

    __slots__ = ("said",)
    said: Mapping[str, Any]
    """What says who asks: what the config had beside the places, and the owner."""

    def __str__(self) -> str:
        # LangGraph makes a text of it on the way to a history, and this one must arrive.
        return self

    def __copy__(self) -> ThreadInReach:
        return self

    def __deepcopy__(self, memo: object) -> ThreadInReach:
        # What was said may hold what cannot be copied: clients, locks.
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # An id that comes from a file is an id like any other, and what was said here is for nobody else.
        return str, (str.__str__(self),)


def _with_who_asked(configurable: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a config says, with who asked for what LangGraph made it of: a graph within a thread, and nothing else."""
    thread = configurable.get("thread_id")
    if type(thread) is ThreadInReach and configurable.get("checkpoint_ns") and all(map(_is_place, configurable)):
        return {**thread.said, **configurable}
    return configurable


def _is_place(key: str) -> bool:
    return key in _PLACES or key.startswith("__pregel_")


def config_of(session: SessionRow, namespace: str, cid: str, said: Mapping[str, Any] | None = None) -> RunnableConfig:
    """The config of a checkpoint. It names the owner, so that going on from an old state needs nothing else."""
    thread = session.id if session.user_id is None and not said else _in_reach(session, said)
    named = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": cid}
    if session.user_id is not None:
        named["user_id"] = session.user_id
    return {"configurable": named}


def config_again(session: SessionRow, config: RunnableConfig, said: Mapping[str, Any] | None = None) -> RunnableConfig:
    """The config that asked for a checkpoint, as one of this checkpoint."""
    if session.user_id is None and not said:
        return config
    return {**config, "configurable": {**configurable(config), "thread_id": _in_reach(session, said)}}


def _in_reach(session: SessionRow, said: Mapping[str, Any] | None) -> ThreadInReach:
    thread = ThreadInReach(session.id)
    thread.said = {"user_id": session.user_id, **(said or {})} if session.user_id is not None else said or {}
    return thread


# -- versions and digests --------------------------------------------------------------------------------------


def next_version(current: Any) -> Any:  # noqa: ANN401 - a version is of the kind that the graph began with
    """The version after another, of its own kind.

    Ours are 64-bit integers: a counter and 32 random bits, which tell forks that count alike apart. Plain small
    integers and the strings of the official savers go on as they are, since kinds do not compare.
    """
    if current is None:
        return 1 << _FORK_BITS | random.getrandbits(_FORK_BITS)
    if isinstance(current, str):
        count = int(current.split(".", 1)[0]) + 1
        return f"{count:032}.{random.random():016}"  # noqa: S311 - tells forks apart, guards nothing
    if isinstance(current, float) or current < 1 << _FORK_BITS:
        return current + 1
    return ((current >> _FORK_BITS) + 1) << _FORK_BITS | random.getrandbits(_FORK_BITS)


def short_digest(data: bytes) -> int:
    """A signed 64-bit digest that names something within one session."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)


def namespace_digest(name: str) -> int:
    """The digest of a namespace; the root's is 0."""
    return short_digest(name.encode("utf-8", "surrogatepass")) or 1 if name else 0


# -- branches --------------------------------------------------------------------------------------------------


def branch_of(namespace: str) -> str | None:
    """The branch of a namespace: the path of its nodes, without task ids; None for the root graph."""
    if not namespace:
        return None
    segments = (part.split(":", 1)[0] for part in namespace.split("|"))
    path = ".".join(segment.replace("%", "%25").replace(".", "%2E") for segment in segments if segment)
    return path[:255].rstrip(".") or None


def channel_branch(branch: str | None, channel: str) -> str:
    """The branch of a further channel that holds messages."""
    name = "#" + channel.replace("%", "%25").replace(".", "%2E").replace("\0", "%00")
    return (name if branch is None else f"{branch}.{name}")[:255].rstrip(".")


# -- versions and times of checkpoints in few bytes ----------------------------------------------------------


def brief_versions(versions: Sequence[Any]) -> list[Any]:
    """Versions as one list: the largest step, then of each version its low bits and how many steps it is before.

    One that was there is told by its place among the different ones, as a negative number. What no saver of ours gives
    out is kept as it is, in a list of its own.
    """
    if {*map(type, versions)} - {int} or min(versions, default=0) < 0:
        return [list(versions)]
    newest = max(versions, default=0) >> _FORK_BITS
    known: dict[int, int] = {}
    told = [newest]
    for version in versions:
        place = known.get(version)
        if place is None:
            known[version] = -1 - len(known)
            told += (version & _LOWER, newest - (version >> _FORK_BITS))
        else:
            told.append(place)
    return told


def whole_versions(told: Sequence[Any]) -> list[Any]:
    """What `brief_versions` was given.

    Raises:
        ValueError: It was altered; so do other errors of reading.
    """
    newest = told[0]
    if type(newest) is list:
        return newest
    if type(newest) is not int:
        raise ValueError(_ALTERED)
    known: list[int] = []
    found: list[Any] = []
    at, end = 1, len(told)
    while at < end:
        low = told[at]
        if low < 0:
            found.append(known[-1 - low])
            at += 1
        else:
            step = newest - told[at + 1]
            if step < 0 or low > _LOWER:
                raise ValueError(_ALTERED)
            known.append(step << _FORK_BITS | low)
            found.append(known[-1])
            at += 2
    return found


def brief_time(ts: int | str, cid: str) -> int | str | list[int]:
    """A time as what it differs from the one in the id of its checkpoint, in microseconds, where that is little."""
    if isinstance(ts, str):
        return ts
    begin = _made_at(cid)
    if begin is not None and -_NEAR < ts - begin < _NEAR:
        return ts - begin
    return [ts] if -_NEAR < ts < _NEAR else ts


def whole_time(told: Any, cid: str) -> Any:  # noqa: ANN401 - what was stored may be anything
    """The time that `brief_time` was given.

    Raises:
        ValueError: It was altered; so do other errors of reading.
    """
    if type(told) is list:
        (told,) = told
    elif type(told) is int and -_NEAR < told < _NEAR:
        begin = _made_at(cid)
        if begin is None:
            raise ValueError(_ALTERED)
        return told + begin
    return told


def _made_at(cid: str) -> int | None:
    """When an id says that it was made; None where it does not."""
    if len(cid) != _UUID_LENGTH or cid[14] != "6":
        return None
    try:
        return (int(cid[:8] + cid[9:13] + cid[15:18], 16) - _BEFORE_1970) // 10
    except ValueError:
        return None
