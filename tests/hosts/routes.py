"""Every route of LangGraph's server that touches a thread, driven by its own client."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Any

import httpx
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import APIStatusError

from tests.openai_stub.replies import Hold, Say, call

if TYPE_CHECKING:
    from types import TracebackType

    from langgraph_sdk.client import SyncLangGraphClient
    from langgraph_sdk.schema import CancelAction
    from typing_extensions import Self

    from tests.openai_stub.server import OpenAIStub

AGENT = "agent"
Step = Callable[["Drive"], None]


def script(stub: OpenAIStub) -> Event:
    """Teach the model what it answers; the event releases an answer that somebody waits for."""
    release = Event()
    stub.answers |= {
        "blue drawer": Say("I will remember that."),
        "Where is": call("conversation_search", query="passport drawer"),
        "Buy": call("buy", item="milk"),
        "Take your time": Hold("It took a while.", release, after=1),
    }
    return release


def question(text: str) -> Any:
    """An input that asks something."""
    return {"messages": [{"role": "user", "content": text}]}


class Drive:
    """One client of one server, and the thread that it talks in."""

    def __init__(self, url: str, stub: OpenAIStub, release: Event, token: str | None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.client: SyncLangGraphClient = get_sync_client(url=url, headers=headers)
        self.url = url
        self.headers = headers
        self.stub = stub
        self.release = release
        self.thread = self.new_thread()
        self.copied = ""

    def __enter__(self) -> Self:
        """Use it as a context manager."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the client."""
        self.client.close()

    def new_thread(self) -> str:
        """A thread that nothing ran in."""
        return str(self.client.threads.create()["thread_id"])

    def may_see(self, thread: str) -> bool:
        """Whether the server shows a thread to whom this client is logged in as."""
        return httpx.get(f"{self.url}/threads/{thread}/state", headers=self.headers).is_success

    def ask(self, text: str, thread: str | None = None, **options: Any) -> dict[str, Any]:
        """Run the agent to its end."""
        answer: Any = self.client.runs.wait(thread or self.thread, AGENT, input=question(text), **options)
        return dict(answer)

    def begin(self, text: str, thread: str, **options: Any) -> str:
        """Begin a run and do not wait."""
        return str(self.client.runs.create(thread, AGENT, input=question(text), **options)["run_id"])

    def texts(self, thread: str | None = None, **options: Any) -> list[str]:
        """What stands in a thread's state."""
        values: Any = self.client.threads.get_state(thread or self.thread, **options)["values"]
        return [message["content"] for message in values["messages"]] if values else []


def assistants(drive: Drive) -> None:
    """Search, graph, schemas, subgraphs, create, update, versions, delete."""
    every = drive.client.assistants
    found = every.search(graph_id=AGENT)[0]["assistant_id"]
    assert every.get_graph(found)["nodes"]
    assert every.get_schemas(found)["state_schema"]
    every.get_subgraphs(found)
    mine = every.create(AGENT, metadata={"tone": "dry"})["assistant_id"]
    every.update(mine, metadata={"tone": "warm"})
    assert len(every.get_versions(mine)) == 2
    every.set_latest(mine, 1)
    every.delete(mine)


def threads(drive: Drive) -> None:
    """Create, get, update, search, count."""
    drive.client.threads.update(drive.thread, metadata={"topic": "passports"})
    assert drive.client.threads.get(drive.thread)["metadata"]["topic"] == "passports"  # type: ignore[index]
    found = drive.client.threads.search(metadata={"topic": "passports"})
    assert drive.thread in [thread["thread_id"] for thread in found]
    assert drive.client.threads.count(metadata={"topic": "passports"}) >= 1


def empty_state(drive: Drive) -> None:
    """State, history and copy of a thread that nothing ran in."""
    assert drive.texts() == []
    assert drive.client.threads.get_history(drive.thread) == []
    copied: Any = drive.client.http.post(f"/threads/{drive.thread}/copy", json=None)
    assert drive.texts(copied["thread_id"]) == []


def run_and_wait(drive: Drive) -> None:
    """A run that is waited for."""
    answer = drive.ask("My passport is in the blue drawer.")
    assert [message["content"] for message in answer["messages"]][-1] == "I will remember that."


def run_in_background(drive: Drive) -> None:
    """Create, join, get, list."""
    run = drive.begin("Good evening.", drive.thread)
    drive.client.runs.join(drive.thread, run)
    assert drive.client.runs.get(drive.thread, run)["status"] == "success"
    assert run in [known["run_id"] for known in drive.client.runs.list(drive.thread)]
    assert drive.texts()[-2] == "Good evening."


def run_and_stream(drive: Drive) -> None:
    """Every stream mode."""
    modes: Any = ["values", "messages-tuple", "updates", "custom", "debug", "checkpoints", "tasks", "events"]
    seen = {
        part.event.partition("|")[0]
        for part in drive.client.runs.stream(drive.thread, AGENT, input=question("Say something."), stream_mode=modes)
    }
    assert {"values", "messages", "updates", "checkpoints", "tasks", "events"} <= seen, seen


def stream_joined(drive: Drive) -> None:
    """A run that another reader joins while it goes on."""
    thread = drive.new_thread()
    run = drive.begin("Say this.", thread, stream_mode=["values"], stream_resumable=True)
    last = [part for part in drive.client.runs.join_stream(thread, run, stream_mode="values") if part.event == "values"]
    drive.client.runs.join(thread, run)
    assert not last or last[-1].data["messages"]


def search_tool(drive: Drive) -> None:
    """The agent looks something up in its conversation."""
    answer = drive.ask("Where is my passport?")
    result = next(message for message in reversed(answer["messages"]) if message["type"] == "tool")
    assert "blue drawer" in result["content"], result


def state(drive: Drive) -> None:
    """The newest state, with subgraphs, and one by its checkpoint."""
    newest = drive.client.threads.get_state(drive.thread, subgraphs=True)
    assert newest["values"]["messages"]  # type: ignore[call-overload]
    named: Any = newest["checkpoint"]
    again = drive.client.threads.get_state(drive.thread, checkpoint=named)
    assert again["values"] == newest["values"]
    by_id = drive.client.threads.get_state(drive.thread, checkpoint_id=named["checkpoint_id"])
    assert by_id["values"] == newest["values"]
    assert drive.client.threads.get(drive.thread)["values"] == newest["values"]


def history(drive: Drive) -> None:
    """All of it, limited, and by what the metadata say."""
    every = drive.client.threads.get_history(drive.thread, limit=100)
    assert len(every) > 4
    assert drive.client.threads.get_history(drive.thread, limit=2) == every[:2]
    loops = drive.client.threads.get_history(drive.thread, metadata={"source": "input"}, limit=100)
    assert 0 < len(loops) < len(every)


def history_before(drive: Drive) -> None:
    """What came before a checkpoint."""
    thread = drive.new_thread()
    drive.ask("What came before?", thread)
    every = drive.client.threads.get_history(thread, limit=100)
    before: Any = every[1]["checkpoint"]
    earlier = drive.client.threads.get_history(thread, before=before, limit=100)
    assert [item["checkpoint"] for item in earlier] == [item["checkpoint"] for item in every[2:]]


def update_state(drive: Drive) -> None:
    """A value written by hand, at the head and in the past."""
    before = drive.client.threads.get_state(drive.thread)
    note = {"messages": [{"role": "user", "content": "By the way, it is raining."}]}
    drive.client.threads.update_state(drive.thread, note, as_node="model")
    assert drive.texts()[-1] == "By the way, it is raining."
    old: Any = before["checkpoint"]
    other = {"messages": [{"role": "user", "content": "By the way, the sun shines."}]}
    drive.client.threads.update_state(drive.thread, other, as_node="model", checkpoint=old)
    assert drive.texts()[-1] == "By the way, the sun shines."
    assert "By the way, it is raining." not in drive.texts()


def run_from_the_past(drive: Drive) -> None:
    """A run that goes on from an older checkpoint."""
    thread = drive.new_thread()
    drive.ask("First question.", thread)
    old = drive.client.threads.get_state(thread)["checkpoint"]["checkpoint_id"]
    drive.ask("Second question.", thread)
    drive.ask("Another second question.", thread, checkpoint_id=old)
    assert "Another second question." in drive.texts(thread)
    assert "Second question." not in drive.texts(thread)


def copy(drive: Drive) -> None:
    """A thread with what ran in it."""
    given: Any = drive.client.http.post(f"/threads/{drive.thread}/copy", json=None)
    drive.copied = given["thread_id"]
    assert drive.texts(drive.copied) == drive.texts()
    drive.ask("Only in the copy.", drive.copied)
    assert "Only in the copy." in drive.texts(drive.copied)
    assert "Only in the copy." not in drive.texts()


def interrupt_and_resume(drive: Drive) -> None:
    """A tool that waits for somebody."""
    thread = drive.new_thread()
    waiting = drive.ask("Buy milk.", thread)
    assert waiting["__interrupt__"][0]["value"] == "Buy milk?"
    assert drive.client.threads.get(thread)["status"] == "interrupted"
    assert drive.client.threads.get_state(thread)["interrupts"]
    done: Any = drive.client.runs.wait(thread, AGENT, command={"resume": True})
    assert "Bought milk." in [message["content"] for message in done["messages"]]


def interrupt_before(drive: Drive) -> None:
    """A run that stops before a node and goes on."""
    thread = drive.new_thread()
    drive.ask("Anything new?", thread, interrupt_before=["model"])
    assert drive.client.threads.get_state(thread)["next"] == ["model"]
    drive.client.runs.wait(thread, AGENT, input=None)
    assert len(drive.texts(thread)) == 2


def cancel(drive: Drive) -> None:
    """A run that is broken off: kept as far as it came, or taken back."""
    actions: tuple[CancelAction, ...] = ("interrupt", "rollback")
    for action in actions:
        thread = drive.new_thread()
        run = drive.begin("Take your time.", thread)
        while drive.client.runs.get(thread, run)["status"] != "running":
            time.sleep(0.05)
        drive.client.runs.cancel(thread, run, wait=True, action=action)
        drive.release.set()
        drive.ask("Are you there?", thread)
        assert drive.texts(thread)[-2] == "Are you there?"
        drive.release.clear()


def two_runs_at_once(drive: Drive) -> None:
    """Every strategy for a second run on a busy thread."""
    for strategy in ("enqueue", "interrupt", "rollback"):
        thread = drive.new_thread()
        drive.begin("Take your time.", thread)
        second = drive.begin("And now this.", thread, multitask_strategy=strategy)
        drive.release.set()
        drive.client.runs.join(thread, second)
        assert drive.texts(thread)[-2] == "And now this."
        drive.release.clear()


def stateless(drive: Drive) -> None:
    """Runs without a thread of their own: waited for, in the background, several at once."""
    once = question("Just once.")
    answer: Any = drive.client.runs.wait(None, AGENT, input=once)
    assert len(answer["messages"]) == 2
    assert list(drive.client.runs.stream(None, AGENT, input=once))
    payloads: Any = [{"assistant_id": AGENT, "input": once}] * 2
    begun: Any = drive.client.runs.create_batch(payloads)
    # Their threads go when they are over, in the background, and the database is looked at next.
    deadline = time.monotonic() + 60
    while any(drive.may_see(run["thread_id"]) for run in begun) and time.monotonic() < deadline:
        time.sleep(0.2)


def event_stream(drive: Drive) -> None:
    """The thread's stream of events, as newer clients ask for it."""
    thread = drive.new_thread()
    with drive.client.threads.stream(thread, assistant_id=AGENT) as stream:
        stream.run.start(input={"messages": [{"role": "user", "content": "One event after the other."}]})
        assert stream.output["messages"]


def refused_run(drive: Drive) -> None:
    """A second run on a busy thread that wants to be refused."""
    thread = drive.new_thread()
    first = drive.begin("Take your time.", thread)
    try:
        drive.begin("And now this.", thread, multitask_strategy="reject")
    except APIStatusError as error:
        assert error.response.status_code == 409  # noqa: PT017 - anything else is an error
    else:
        message = "it was not refused"
        raise AssertionError(message)
    drive.release.set()
    drive.client.runs.join(thread, first)
    assert "And now this." not in drive.texts(thread)
    drive.release.clear()


def cancel_all(drive: Drive) -> None:
    """Every run of a thread, broken off at once."""
    thread = drive.new_thread()
    runs = [drive.begin("Take your time.", thread), drive.begin("And then this.", thread)]
    drive.client.runs.cancel_many(thread_id=thread, run_ids=runs)
    drive.release.set()
    drive.ask("Are you there?", thread)
    assert drive.texts(thread)[-2] == "Are you there?"
    drive.release.clear()


def store(drive: Drive) -> None:
    """Items beside the threads: put, get, search, namespaces, delete."""
    items = drive.client.store
    items.put_item(("notes", "ada"), key="tea", value={"likes": "tea"})
    found = items.get_item(("notes", "ada"), key="tea")
    assert found["value"] == {"likes": "tea"}
    assert [item["key"] for item in items.search_items(("notes",))["items"]] == ["tea"]
    assert ["notes", "ada"] in items.list_namespaces()["namespaces"]
    items.delete_item(("notes", "ada"), key="tea")
    assert items.search_items(("notes",))["items"] == []


def crons(drive: Drive) -> None:
    """A run at fixed times in a thread: create, search, count, delete."""
    thread = drive.new_thread()
    made: Any = drive.client.crons.create_for_thread(thread, AGENT, schedule="0 0 1 1 *", input=question("Yearly."))
    found = drive.client.crons.search(thread_id=thread)
    assert [each["cron_id"] for each in found] == [made["cron_id"]]
    drive.client.crons.delete(made["cron_id"])
    assert drive.client.crons.search(thread_id=thread) == []


def delete_run(drive: Drive) -> None:
    """A run is forgotten; the thread stays."""
    thread = drive.new_thread()
    run = drive.begin("Forget the run.", thread)
    drive.client.runs.join(thread, run)
    drive.client.runs.delete(thread, run)
    assert drive.client.threads.get(thread)["thread_id"] == thread


def delete(drive: Drive) -> None:
    """A thread goes with everything in it; so do several."""
    drive.client.threads.delete(drive.copied)
    gone = drive.new_thread()
    drive.ask("This will go.", gone)
    assert drive.client.threads.prune([gone])["pruned_count"] == 1
    assert not drive.may_see(drive.copied)
    assert not drive.may_see(gone)


LANES: tuple[tuple[Step, ...], ...] = (
    (threads, empty_state, run_and_wait, run_in_background, run_and_stream, search_tool, state, history, update_state),
    (stream_joined, run_from_the_past, interrupt_and_resume),
    (event_stream, history_before, interrupt_before),
)
"""What goes on at the same time: a run waits for the server's queue, which looks twice a second. Only the first lane
talks in the drive's own thread."""
AFTERWARDS: tuple[Step, ...] = (
    copy,
    assistants,
    cancel,
    two_runs_at_once,
    refused_run,
    cancel_all,
    store,
    crons,
    delete_run,
    delete,
    stateless,
)
"""What removes something. The server's records are lists that a removal replaces by others: whatever another request
adds meanwhile is lost, and who waits for it waits for ever. Runs without a thread remove the one that they were given
when they are over, in the background, so nothing comes after them."""
STEPS = (*(step for lane in LANES for step in lane), *AFTERWARDS)


def name_of(step: Step) -> str:
    """A step as the page names it."""
    return step.__name__.replace("_", " ")


def drive_every_route(drive: Drive) -> dict[str, str]:
    """What each route answers."""

    def in_turn(lane: tuple[Step, ...]) -> dict[str, str]:
        return {name_of(step): outcome(step, drive) for step in lane}

    with ThreadPoolExecutor(len(LANES)) as pool:
        found = list(pool.map(in_turn, LANES))
    return {name: said for lane in (*found, in_turn(AFTERWARDS)) for name, said in lane.items()}


def outcome(step: Step, drive: Drive) -> str:
    """`yes`, or what went wrong."""
    try:
        step(drive)
    except APIStatusError as error:
        return f"{error.response.status_code}: {error}"
    except Exception as error:  # noqa: BLE001 - the client raises plain exceptions of its own
        return f"{type(error).__name__}: {error}"
    return "yes"
