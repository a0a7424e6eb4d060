"""The operations whose instructions and ways are counted, and the program that a fresh process runs for one of them.

The program is run by path, with the tree that it is to measure on `PYTHONPATH`, so that one and the same text drives
an old tree and a new one. It therefore imports nothing of this folder, and of the package only what every tree has.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import io
import json
import os
import random
import sqlite3
import sys
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

PACKAGE = "langchain_sessions"
WORDS = (
    *("harbour", "boat", "weather", "morning", "captain", "lantern", "market", "river"),
    *("bridge", "violin", "garden", "winter", "letter", "station", "coffee"),
)
_CALLS = 3
STEPS = 50
TURNS, ANSWER = 200, "Fair weather, I think, with a little wind from the west towards the evening."


def public(name: str) -> Any:
    """A name of the package, from the door that the tree at hand has it in."""
    for door in (PACKAGE, f"{PACKAGE}.adapters", f"{PACKAGE}.compaction"):
        try:
            return getattr(importlib.import_module(door), name)
        except AttributeError:
            pass
        except ModuleNotFoundError as error:
            if error.name != door:
                raise
    raise ImportError(f"{PACKAGE} has no {name}")


def text(number: int) -> str:
    """Some 400 characters in words that come back, in another order each time."""
    words = (WORDS[(number * 7 + at * (1 + number % 5)) % len(WORDS)] for at in range(60))
    return f"{number}: {' '.join(words)}"


def conversation(first: int, last: int) -> list[Any]:
    """Questions and answers in turn."""
    from langchain_core.messages import AIMessage, HumanMessage

    return [(AIMessage if number % 2 else HumanMessage)(text(number)) for number in range(first, last)]


class Operation(NamedTuple):
    """What is done, how its database comes to be, and how often it is done before and while it is counted.

    `prepare` fills a database, in a process that nobody counts; `ready` opens it and returns the operation, which is
    told how many times it was done before. What is counted is shared out among the `of` things that it is done to.
    """

    title: str
    prepare: Callable[[str], None]
    ready: Callable[[str], Callable[[int], object]]
    warm: int
    times: int
    of: int = 1


def _service(url: str, **options: Any) -> Any:
    return public("SessionService")(url, create_schema=True, **options)


def _filled(messages: int) -> Callable[[str], None]:
    def prepare(url: str) -> None:
        with _service(url) as service:
            ada = service.as_user("ada")
            ada.open("s")
            for first in range(0, messages, 100):
                ada.append("s", conversation(first, min(first + 100, messages)))
            ada.search("harbour", session_id="s")

    return prepare


def _append(url: str) -> Callable[[int], object]:
    ada = _service(url).as_user("ada")
    messages = conversation(0, 2_000)
    return lambda number: ada.append("s", messages[number])


def _change(url: str) -> Callable[[int], object]:
    ada = _service(url).as_user("ada")
    messages = conversation(0, 2_000)
    return lambda number: ada.append("s", messages[number], state_delta={"step": number})


def _repeat(url: str) -> Callable[[int], object]:
    from langchain_core.messages import HumanMessage

    ada = _service(url).as_user("ada")
    message = HumanMessage(text(0), id="q")
    return lambda _: ada.append("s", message)


def _turn(url: str) -> Callable[[int], object]:
    ada = _service(url).as_user("ada")
    messages = conversation(0, 4 * 600)
    return lambda number: ada.append("s", messages[4 * number : 4 * number + 4])


def _naked(url: str) -> Callable[[int], object]:
    """The floor of an append: the same work in as many statements, by the driver alone."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    for statement in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
        connection.execute(f"PRAGMA {statement}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS s (k INTEGER PRIMARY KEY, id TEXT UNIQUE, last INT, at INT, tokens INT)"
    )
    connection.execute(
        "CREATE TABLE IF NOT EXISTS e (k INT, seq INT, ident TEXT, kind INT, at INT, tokens INT, body TEXT,"
        " PRIMARY KEY (k, seq), UNIQUE (k, ident))"
    )
    connection.execute("INSERT OR IGNORE INTO s VALUES (1, 's', 0, 0, 0)")
    texts = [text(number) for number in range(600)]  # as messages are made before they are appended

    def append(number: int) -> None:
        said = texts[number]
        connection.execute("BEGIN IMMEDIATE")
        moved = "UPDATE s SET last = last + 1, at = ?, tokens = tokens + ? WHERE id = ? RETURNING k, last"
        key, seq = connection.execute(moved, (number, len(said) // 4, "s")).fetchone()
        row = (key, seq, os.urandom(16).hex(), 1, number, len(said) // 4, json.dumps({"content": said}))
        connection.execute("INSERT INTO e VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.execute("COMMIT")

    return append


def _last_messages(url: str) -> Callable[[int], object]:
    ada = _service(url).as_user("ada")
    return lambda _: ada.messages("s", last_n=20)


def _advisor(url: str) -> Callable[[int], object]:
    from langchain_core.language_models import FakeListChatModel

    memory = public("SessionMemoryAdvisor")(_service(url), last_n=20)
    chat = memory.wrap(FakeListChatModel(responses=[ANSWER]))
    config = {"configurable": {"session_id": "s", "user_id": "ada"}}
    return lambda number: chat.invoke(f"And now, {number}?", config)


def _graph(url: str) -> Callable[[int], object]:
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import START, MessagesState, StateGraph

    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage(text(len(state["messages"])))]})
    builder.add_edge(START, "model")
    graph = builder.compile(checkpointer=public("SessionCheckpointSaver")(_service(url)))
    config = {"configurable": {"thread_id": "s", "user_id": "ada"}}
    return lambda number: graph.invoke({"messages": [HumanMessage(text(number))]}, config)


def _played(url: str) -> None:
    turn = _graph(url)
    for number in range(TURNS):
        turn(number)


def _unhurried() -> None:
    """Under callgrind all takes fifty times as long: what tasks wrote would be tired of waiting for its checkpoint."""
    line: Any = importlib.import_module(f"{PACKAGE}._threads.save")
    vars(line).update(_PATIENCE=1_000.0, _ALONE=1_000.0)


def _step(url: str) -> Callable[[int], object]:
    from typing import TypedDict

    from langgraph.graph import END, START, StateGraph

    _unhurried()
    builder: Any = StateGraph(TypedDict("State", {"count": int}))
    builder.add_node("work", lambda state: {"count": state["count"] + 1})
    builder.add_edge(START, "work")
    builder.add_conditional_edges("work", lambda state: "work" if state["count"] < STEPS else END)
    graph = builder.compile(checkpointer=public("SessionCheckpointSaver")(_service(url)))
    return lambda number: graph.invoke(
        {"count": 0}, {"configurable": {"thread_id": f"s{number}"}, "recursion_limit": 2 * STEPS}
    )


def _first_turn(url: str) -> Callable[[int], object]:
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import START, MessagesState, StateGraph

    _unhurried()
    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", lambda _: {"messages": [AIMessage(text(1))]})
    builder.add_edge(START, "model")
    graph = builder.compile(checkpointer=public("SessionCheckpointSaver")(_service(url)))
    asked = text(0)
    return lambda number: graph.invoke(
        {"messages": [HumanMessage(asked, id=f"h{number}")]}, {"configurable": {"thread_id": f"s{number}"}}
    )


def _search(url: str) -> Callable[[int], object]:
    ada = _service(url).as_user("ada")
    return lambda _: ada.search("the captain's lantern", session_id="s")


def _unknown_words(sessions: int, size: int) -> Callable[[str], None]:
    """Logs without an index, of messages of 400 characters whose nth word is as frequent as a language's."""

    def prepare(url: str) -> None:
        from langchain_core.messages import HumanMessage

        drawn = random.Random(9)  # noqa: S311 - reproducible text
        syllables = [first + then for first in "bcdfghjklmnprstvwz" for then in ("a", "e", "i", "o", "u", "ai", "er")]
        words = ["".join(drawn.choices(syllables, k=drawn.choice((2, 2, 3, 3, 4)))) for _ in range(20_000)]
        function = ("the", "a", "of", "and", "to", "in", "is", "it", "you", "that", "was", "for", "on", "with", "this")
        weights = [1 / (rank + 8) for rank in range(len(words))]
        with _service(url, search=False) as service:
            ada = service.as_user("ada")
            for session in range(sessions):
                ada.open(f"s{session}")
                picked = [drawn.choices(words, weights, k=36) for _ in range(size)]
                said = [" ".join(f"{drawn.choice(function)} {word}" for word in each)[:400] for each in picked]
                ada.append(f"s{session}", [HumanMessage(text) for text in said])
            for user, times in (("one", 1), ("many", 30)):
                view = service.as_user(user)
                for session in range(times):
                    view.open(f"{user}{session}")
                    view.append(f"{user}{session}", conversation(0, 600 // times))

    return prepare


def _index(session_id: str | None) -> Callable[[str], Callable[[int], object]]:
    def ready(url: str) -> Callable[[int], object]:
        service = _service(url)
        for user in ("one", "many"):  # what the first index of a process takes besides words is not counted
            service.as_user(user).search("qqx")
        return lambda _: service.as_user("ada").search("qqx", session_id=session_id)

    return ready


OPERATIONS = {
    "append": Operation("append of one", _filled(100), _append, 20, 256),
    "change": Operation("append with a change of state", _filled(100), _change, 20, 256),
    "repeat": Operation("append of what is there", _filled(100), _repeat, 20, 256),
    "floor": Operation("the floor of an append", lambda _: None, _naked, 20, 256),
    "turn": Operation("append of a turn of four", _filled(100), _turn, 20, 64),
    "indexed": Operation("append of one, with its share of the index", _filled(100), _append, 20, 512),
    "messages": Operation("messages(last_n=20) of 400", _filled(400), _last_messages, 20, 100),
    "advisor": Operation("a turn of wrap(model), last_n=20 of 200", _filled(200), _advisor, 5, 20),
    "graph": Operation(f"a turn of a graph after {TURNS}", _played, _graph, 5, 20),
    "step": Operation("a step of a loop of a graph", lambda _: None, _step, 3, 4, STEPS),
    "first": Operation("the first turn of a thread of a graph", lambda _: None, _first_turn, 20, 30),
    "search": Operation("a page of a search in 500", _filled(500), _search, 5, 20),
    "upkeep": Operation("the index, of an event of 2048", _unknown_words(1, 2048), _index("s0"), 0, 1, 2048),
    "shelves": Operation("the index, of an event of 100 x 20", _unknown_words(100, 20), _index(None), 0, 1, 2000),
}


GATED = ("append", "floor", "turn", "messages", "advisor", "search")
"""What gates look at. A graph writes from threads of its own, so that its counts differ from run to run."""
SERVED = ("append", "messages", "change", "repeat")
"""What they look at on a server, too."""


class Marks:
    """Where counting begins and ends: two functions of a library that callgrind listens to; nothing without one."""

    def __init__(self, library: Path | None) -> None:
        """Load the library."""
        self._library = None if library is None else ctypes.CDLL(str(library))

    def __enter__(self) -> None:
        """Begin to count."""
        if self._library is not None:
            self._library.begin()

    def __exit__(self, *_: object) -> None:
        """Write down what was counted."""
        if self._library is not None:
            self._library.end()


def count(name: str, url: str, marks: Marks) -> None:
    """Do an operation some times between two marks, warm. All threads count, freed garbage too."""
    operation = OPERATIONS[name]
    act = operation.ready(url)
    for number in range(operation.warm):
        act(number)
    gc.collect()
    gc.freeze()  # what was loaded before is not looked through again by a collection that happens to fall in here
    with marks:
        for number in range(operation.warm, operation.warm + operation.times):
            act(number)


def counts(name: str, url: str, library: Path) -> dict[str, float]:
    """What an operation has the kernel, the database and Python do, warm, per time that it is done."""
    counting = ctypes.CDLL(str(library))
    statements, functions = 0, 0

    def spoken(_: str) -> None:
        nonlocal statements
        statements += 1

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain(*args, **options)
        connection.set_trace_callback(spoken)
        return connection

    def follow(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal functions
        functions += event == "call"

    plain, sqlite3.dbapi2.connect = sqlite3.dbapi2.connect, connect  # type: ignore[assignment]
    operation = OPERATIONS[name]
    try:
        act = operation.ready(url)
        for number in range(operation.warm):
            act(number)
    finally:
        sqlite3.dbapi2.connect = plain
    named = {"bytes written": "bytes", "fsyncs": "fsyncs", "packets": "sends"}
    before = {what: ctypes.c_long.in_dll(counting, f"counted_{of}").value for what, of in named.items()}
    statements, end = 0, operation.warm + operation.times
    for number in range(operation.warm, end):
        act(number)
    found = {
        what: (ctypes.c_long.in_dll(counting, f"counted_{of}").value - before[what]) / operation.times
        for what, of in named.items()
    }
    found["statements"] = statements / operation.times
    called: list[int] = []
    for number in range(end, end + _CALLS):  # of which one may fall on the minute, when a session's activity is moved
        functions = 0
        sys.setprofile(follow)
        try:
            act(number)
        finally:
            sys.setprofile(None)
        called.append(functions)
    held = _held(lambda: act(end + _CALLS), lambda: act(end + _CALLS + 1))
    return {what: count for what, count in {**found, "functions": min(called), "bytes held": held}.items() if count}


def _held(before: Callable[[], object], call: Callable[[], object]) -> int:
    """The most bytes of Python that a call has at any time, beyond what there was before it."""
    gc.collect()
    gc.disable()  # a collection would give back what other calls left
    tracemalloc.start()
    try:
        before()  # what is made once, such as the memory of a free list, is made here
        start, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - start
    finally:
        tracemalloc.stop()
        gc.enable()


def start(url: str, marks: Marks) -> dict[str, float]:
    """What a cold process spends: the import, then a service and its first append; the seconds of CPU of both."""
    begin = time.process_time()
    with marks:
        from langchain_core.messages import HumanMessage

        service_class = public("SessionService")
    imported = time.process_time()
    with marks:
        service = service_class(url)
        service.open("s")
        service.append("s", HumanMessage(text(0)))
    done = time.process_time()
    return {"import": imported - begin, "first append": done - imported}


# -- the ways of calls ------------------------------------------------------------------------------------------------


class Way:
    """The functions of the package that a call enters, in their order; a generator is entered each time it goes on."""

    def __init__(self, call: Callable[[], object]) -> None:
        """Make the call and follow it on this thread."""
        self._root = f"{Path(importlib.import_module(PACKAGE).__file__ or '').parent}/"
        self._entered: list[CodeType] = []
        before = sys.getprofile()
        sys.setprofile(self._follow)
        try:
            call()
        finally:
            sys.setprofile(before)

    def _follow(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self._root):
            self._entered.append(frame.f_code)

    @property
    def path(self) -> list[str]:
        """The files that it passes, below the package, one for each function entered."""
        return [code.co_filename.removeprefix(self._root) for code in self._entered]

    def figures(self) -> dict[str, Any]:
        """How long the way is, and through which modules it goes."""
        path = self.path
        arrivals = [here for before, here in zip([None, *path], path, strict=False) if before != here]
        return {
            "calls": len(path),
            "functions": len(set(self._entered)),
            "modules": sorted(set(path)),
            "moves": max(0, len(arrivals) - 1),
            "again": sum(times > 1 for times in Counter(arrivals).values()),
        }


def _chat_with_summaries(url: str) -> tuple[Any, Callable[[str, str], object]]:
    """A chat that begins a summary in the background with each of its turns, of which some were done."""
    from langchain_core.language_models import FakeListChatModel

    model = FakeListChatModel(responses=[ANSWER])
    strategy = public("Summarize")(model, keep_events=2)
    compaction = public("Compaction")(public("EventCount")(1), strategy, where="background")
    service = _service(url)
    chat = public("SessionMemoryAdvisor")(service, compaction=compaction).wrap(model)

    def turn(session_id: str, question: str) -> object:
        return chat.invoke(question, {"configurable": {"session_id": session_id, "user_id": "ada"}})

    for number in range(3):
        turn("warm", f"And now, {number}?")
    return service, turn


def _saver_steps(url: str) -> tuple[Any, list[tuple[str, Callable[[], object]]]]:
    """A thread of a turn, and the calls of the saver that the next step makes."""
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint

    service = _service(url)
    saver = public("SessionCheckpointSaver")(service)
    config: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": "", "user_id": "ada"}}

    def put(base: Any, step: int) -> Any:
        version = saver.get_next_version(base["channel_versions"].get("messages"), None)
        checkpoint = {
            **create_checkpoint(base, None, step),
            "channel_values": {"messages": messages[: step + 2]},
            "channel_versions": {"messages": version},
        }
        at = saver.put(config, checkpoint, {"source": "loop", "step": step, "parents": {}}, {"messages": version})
        return checkpoint, at

    messages = [message.model_copy(update={"id": f"m{at}"}) for at, message in enumerate(conversation(0, 6))]
    newest: Any = empty_checkpoint()
    for step in range(2):
        newest, config = put(newest, step)
        config["configurable"]["user_id"] = "ada"
        saver.put_writes(config, [("messages", [AIMessage(text(step), id=f"w{step}")])], f"task-{step}")
        saver.get_tuple(config)
    writes = [("messages", [messages[3]])]
    steps: list[tuple[str, Callable[[], object]]] = [
        ("put_writes", lambda: saver.put_writes(config, writes, "task-2")),
        ("put", lambda: put(newest, 2)),
        ("get_tuple", lambda: saver.get_tuple({"configurable": {"thread_id": "s", "user_id": "ada"}})),
    ]
    return service, steps


def ways(url: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    """The ways of the calls that people make most, each warm: done before, on a database of its own."""
    from langchain_core.messages import HumanMessage

    found: dict[str, dict[str, Any]] = {}
    with _service(url("log")) as service:
        ada = service.as_user("ada")
        ada.open("s")
        for message in conversation(0, 4):
            ada.append("s", message)
        ada.messages("s")
        found["append"] = Way(lambda: ada.append("s", HumanMessage(text(4)))).figures()
        found["messages"] = Way(lambda: ada.messages("s")).figures()
    chatting, turn = _chat_with_summaries(url("chat"))
    with chatting:
        found["first turn"] = Way(lambda: turn("s", "What is it like?")).figures()
        found["turn"] = Way(lambda: turn("s", "And now?")).figures()
    saving, steps = _saver_steps(url("thread"))
    with saving:
        for name, step in steps:
            found[name] = Way(step).figures()
    with _service(url("search")) as service:
        ada = service.as_user("ada")
        ada.open("s")
        ada.append("s", [HumanMessage(text(number)[:40]) for number in range(61)])
        ada.search("harbour", session_id="s")
        found["search"] = Way(lambda: ada.search("the captain's lantern", session_id="s")).figures()
    return found


def _draw_alike(seed: str) -> None:
    """Have ids drawn alike in every run: where a random one falls in an index decides which pages are written."""
    # Read from a pool: a function of Python would be counted with what draws.
    pool = random.Random(seed).randbytes(1 << 20)  # noqa: S311 - they are to be alike
    os.urandom = random._urandom = io.BytesIO(pool).read  # type: ignore[attr-defined]  # noqa: SLF001 - what `secrets` draws from


def main() -> None:
    """Do one thing in this process; what there is to tell is printed as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["prepare", "count", "counts", "start", "ways"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--operation", choices=sorted(OPERATIONS), action="append", default=[])
    parser.add_argument("--url", help="a database that is no file")
    parser.add_argument("--counting", type=Path, help="the library that counts what reaches the kernel")
    parser.add_argument("--marks", type=Path, help="the library that tells callgrind where to count")
    given = parser.parse_args()
    _draw_alike(given.what)
    marks = Marks(given.marks)

    def url(name: str) -> str:
        return given.url or f"sqlite:///{given.directory / name}.db"

    if given.what == "prepare":
        for name in given.operation:
            OPERATIONS[name].prepare(url(name))
    elif given.what == "count":
        for name in given.operation:
            count(name, url(name), marks)
    elif given.what == "counts":
        print(json.dumps({name: counts(name, url(name), given.counting) for name in given.operation}))
    elif given.what == "start":
        print(json.dumps(start(url("start"), marks)))
    else:
        print(json.dumps(ways(url)))


if __name__ == "__main__":
    main()
