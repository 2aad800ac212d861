"""Runs that belong to the server: callers come, leave and come back, and the run goes on without them."""

from __future__ import annotations

import json
import logging
from collections import Counter
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.lowlevel
import httpx
import pytest
from ag_ui.core import AssistantMessage, RunErrorEvent, RunFinishedEvent, TextMessageContentEvent

from agui_client import (
    Approve,
    HttpAgent,
    HTTPStatusError,
    InterruptsNotCoveredError,
    Resolve,
    RunFailedError,
    RunInProgressError,
    ThreadStoreUnavailableError,
    UsageError,
    tool,
)
from agui_client.asgi import AppLimits, ASGITransport, RequestRefusedError, agent_app
from agui_client.store import Keeping, MemoryStore, RunStatus, RunsUnavailableError, Store, Threads, WaitingRun
from agui_client.store._runs import run_log
from agui_client.teams import ParallelAgent, SequentialAgent
from agui_client.testing import Gate, ScriptedAgent, interrupt, text, tool_call, turn
from support.on_call import signs_of
from support.stores import FOR_ALL
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, MutableMapping

    from ag_ui.core import Event, RunAgentInput

    from agui_client import AbstractAgent, UnrecognizedEvent
    from agui_client.asgi import ServedRequest

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]
_SECONDS = 10.0
_SECRET = "a secret of this server"

paid: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


@tool(approval="always")
def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return f"paid {amount}"


@tool
def look() -> str:
    """Look."""
    paid.append(0)
    return "sun"


class Caller:
    """A caller that writes its requests by hand."""

    def __init__(self, agent: Any, store: Store, **options: Any) -> None:
        self.app = agent_app(agent, store=store, **{**FOR_ALL, **options})
        self._client = httpx.AsyncClient(transport=ASGITransport(self.app))

    async def post(self, path: str = "", *, headers: Mapping[str, str] | None = None, **body: Any) -> httpx.Response:
        """Send a request, and read its response to the end."""
        with anyio.fail_after(_SECONDS):
            return await self._client.post(f"http://app/{path}", json=_input(**body), headers=headers)

    async def read(self, events: int, **body: Any) -> list[tuple[str, dict[str, Any]]]:
        """Begin a run, read a number of its events, and leave."""
        frames, left = bytearray(), anyio.Event()
        requests = [{"type": "http.request", "body": json.dumps(_input(**body)).encode()}]

        async def receive() -> dict[str, Any]:
            if requests:
                return requests.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            frames.extend(message.get("body", b""))
            if frames.count(b"\n\n") >= events:
                left.set()

        with anyio.fail_after(_SECONDS):
            await self.app({"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send)
        return _frames(bytes(frames))[:events]


def _input(**body: Any) -> dict[str, Any]:
    messages = [{"id": "u", "role": "user", "content": "Hi"}]
    return {"threadId": "t", "runId": "r", "messages": messages, **body}


def _frames(body: bytes | str) -> list[tuple[str, dict[str, Any]]]:
    """The cursors and the events of a response."""
    lines = (body.decode() if isinstance(body, bytes) else body).split("\n\n")
    pairs = [each.removeprefix("id: ").rpartition("\ndata: ") for each in lines if "data: " in each]
    return [(cursor, json.loads(data.removeprefix("data: "))) for cursor, _, data in pairs]


def _last(response: httpx.Response) -> dict[str, Any]:
    return _frames(response.text)[-1][1]


def _gated(gate: Gate, **options: Any) -> ScriptedAgent:
    """An agent that waits at a gate in the middle of a text."""
    return ScriptedAgent(turn(text("One. "), gate, text("Two."), tool_call("look", {})), turn(text("Sun.")), **options)


def _stored(threads: Threads, agent: AbstractAgent) -> Any:
    """A function that opens the stored thread of a request."""

    def choose(request: ServedRequest, input: RunAgentInput) -> Any:
        return threads.open(input.thread_id, agent, wait=0)

    return choose


async def test_a_caller_who_leaves_comes_back_at_its_cursor_and_misses_nothing() -> None:
    gate, store = Gate(), Store()
    agent = _gated(gate, tools=[look])
    caller = Caller(agent, store)
    seen = await caller.read(3)
    [going_on] = await store.runs.list()
    gate.open()
    rest = _frames((await caller.post(headers={"last-event-id": seen[-1][0]})).text)
    whole = _frames((await caller.post()).text)
    assert (going_on.status, going_on.ended_at) == (RunStatus.RUNNING, None)
    assert [*seen, *rest] == whole
    assert [each["type"] for _, each in whole][-1] == "RUN_FINISHED"
    # The same run id twice followed the run, and called nothing again: one call, and one run for its result.
    assert (paid, len(agent.inputs)) == ([0], 2)


async def test_callers_of_a_team_come_back_at_their_cursor_or_connect_and_no_member_works_twice() -> None:
    gate, store = Gate(), Store()
    members = [
        ScriptedAgent(turn(text("Planned.")), agent_id="planner"),
        ScriptedAgent(turn(text("One. "), gate, tool_call("look", {})), turn(text("Sun.")), agent_id="a", tools=[look]),
        ScriptedAgent(turn(text("Two. "), gate, text("Three.")), agent_id="b"),
    ]
    caller = Caller(SequentialAgent(members[0], ParallelAgent(*members[1:])), store)
    # The caller leaves in the middle of two members.
    seen = await caller.read(12)
    page = HttpAgent("http://app/", app=caller.app, connect_url="http://app/connect", thread_id="t")
    with anyio.fail_after(_SECONDS):
        async with page.stream_connect() as run:
            async for event in run:
                if isinstance(event, TextMessageContentEvent) and event.delta == "Two. ":
                    gate.open()
            result = await run.result()
    rest = _frames((await caller.post(headers={"last-event-id": seen[-1][0]})).text)
    whole = _frames((await caller.post()).text)
    assert [*seen, *rest] == whole
    assert [each["type"] for _, each in whole].count("RUN_FINISHED") == 1
    assert sorted(str(each.content) for each in page.messages) == sorted(
        ["Hi", "Planned.", "One. ", "None", "sun", "Sun.", "Two. ", "Three."]
    )
    assert (paid, [len(each.inputs) for each in members], result.warnings) == ([0], [1, 2, 1], [])
    # Once more, when the run has ended: from its log.
    again = HttpAgent("http://app/", app=caller.app, connect_url="http://app/connect", thread_id="t")
    await again.connect_agent()
    assert (again.messages, again.state) == (page.messages, page.state)


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "in the caller's input"])
async def test_a_caller_who_connects_gets_the_thread_and_follows_its_run(*, is_stored: bool) -> None:
    gate, store = Gate(), Store()
    agent = _gated(gate, tools=[look])
    caller = Caller(_stored(Store().threads, agent) if is_stored else agent, store)
    await caller.read(3, state={"city": "Oslo"})
    page = HttpAgent("http://app/", app=caller.app, connect_url="http://app/connect", thread_id="t")
    with anyio.fail_after(_SECONDS):
        async with page.stream_connect() as run:
            async for event in run:
                if isinstance(event, TextMessageContentEvent):
                    gate.open()
            result = await run.result()
    contents = ["Hi", "One. ", "Two.", None, "sun", "Sun."]
    assert ([each.content for each in page.messages], page.state) == (contents, {"city": "Oslo"})
    assert (result.run_id, result.warnings) == ("r", [])
    # Once more, when the run has ended: from what is stored, or from its log.
    again = HttpAgent("http://app/", app=caller.app, connect_url="http://app/connect", thread_id="t")
    await again.connect_agent()
    assert [each.content for each in again.messages] == contents
    new = await caller.post("connect", threadId="other")
    assert (new.status_code, bool(new.text)) == (200, is_stored)


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "in the caller's input"])
async def test_a_caller_who_connects_with_the_id_of_its_run_gets_that_run_when_others_have_followed(
    *, is_stored: bool
) -> None:
    agent = ScriptedAgent(turn(text("One.")), turn(text("Two.")), turn(text("Three.")))
    caller = Caller(_stored(Store().threads, agent) if is_stored else agent, Store())
    for run_id in ("r", "second", "third"):
        await caller.post(runId=run_id, messages=[{"id": run_id, "role": "user", "content": "Hi"}])
    for run_id, said in (("r", "One."), ("second", "Two.")):
        first, *shown, last = [event for _, event in _frames((await caller.post("connect", runId=run_id)).text)]
        assert [first["type"], first["runId"], last["type"], last["runId"]] == [
            "RUN_STARTED",
            run_id,
            "RUN_FINISHED",
            run_id,
        ]
        assert "".join(each.get("delta", "") for each in shown) == said


async def test_a_page_that_connects_to_a_stored_thread_answers_what_waits_in_it() -> None:
    threads = Store().threads
    agent = ScriptedAgent(turn(tool_call("pay", {"amount": 3})), turn(text("Done.")), tools=[pay])
    # No run is kept any more when the page comes.
    caller = Caller(_stored(threads, agent), Store(keep=0), secret=_SECRET)
    waiting = _last(await caller.post())["outcome"]["interrupts"]
    page = HttpAgent("http://app/", app=caller.app, connect_url="http://app/connect", thread_id="t")
    with anyio.fail_after(_SECONDS):
        result = await page.connect_agent()
        assert [each.id for each in result.interrupts] == [each["id"] for each in waiting]
        await page.run_agent(resume={waiting[0]["id"]: Approve()})
    assert ([each.content for each in page.messages], paid) == (["Hi", None, "paid 3", "Done."], [3])
    assert (await threads.get("t")) is not None


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_request_for_a_thread_begins_no_run_at_a_wrong_address(*, keeps: bool) -> None:
    agent = ScriptedAgent(turn(text("One.")), turn(text("Two.")))
    app = agent_app(agent, store=Store(), **FOR_ALL) if keeps else agent_app(agent)
    caller = HttpAgent("http://app/", app=app, thread_id="t", connect_url="conect")
    await caller.run_agent("Hi")
    with pytest.raises(HTTPStatusError, match=r"this address begins runs; .* with /connect behind it") as refused:
        await caller.connect_agent()
    assert (refused.value.status_code, len(agent.inputs)) == (404, 1)


async def test_a_slash_behind_an_address_changes_nothing() -> None:
    agent = ScriptedAgent(turn(text("One.")), turn(text("Two.")))
    app = agent_app(agent, store=Store(), **FOR_ALL)
    await HttpAgent("http://app/", app=app, thread_id="t").run_agent("Hi")
    page = HttpAgent("http://app/", app=app, thread_id="t", connect_url="connect/")
    assert ((await page.connect_agent()).text, len(agent.inputs)) == ("One.", 1)


async def test_a_page_that_connects_before_its_thread_has_a_run_gets_nothing() -> None:
    agent = ScriptedAgent(turn(text("One.")))
    page = HttpAgent("http://app/", app=agent_app(agent, store=Store(), **FOR_ALL), connect_url="connect")
    page.add_messages([AssistantMessage(id="g", content="Good day.")])
    connected = await page.connect_agent()
    assert (connected.outcome, connected.warnings) == (None, [])
    assert (await page.run_agent("Hi")).text == "One."
    assert [each.content for each in page.messages] == ["Good day.", "Hi", "One."]


async def test_a_thread_has_one_run_at_a_time_and_a_refused_run_leaves_nothing() -> None:
    gate, store = Gate(), Store()

    def choose(request: Any, input: Any) -> AbstractAgent:
        if input.run_id == "refused":
            raise RequestRefusedError(418, "no")
        return _gated(gate, tools=[look])

    caller = Caller(choose, store)
    assert (await caller.post(runId="refused")).status_code == 418
    await caller.read(1)
    statuses = [(await caller.post(runId="other")).status_code]
    with pytest.raises(RunInProgressError):
        await store.runs.start(lambda thread_id: ScriptedAgent(turn(), thread_id=thread_id), thread_id="t")
    gate.open()
    statuses += [(await caller.post()).status_code, (await caller.post(runId="other")).status_code]
    assert statuses == [409, 200, 200]
    assert [(each.run_id, each.status) for each in await store.runs.list()] == [
        ("other", RunStatus.FINISHED),
        ("r", RunStatus.FINISHED),
    ]


async def test_a_caller_who_connects_does_not_get_the_refusal_of_another_request() -> None:
    store, asked, may_answer = Store(), anyio.Event(), anyio.Event()

    async def choose(request: ServedRequest, input: RunAgentInput) -> AbstractAgent:
        if input.run_id == "refused":
            asked.set()
            await may_answer.wait()
            raise RequestRefusedError(418, "no")
        return ScriptedAgent(turn(text("Hi")))

    caller, statuses = Caller(choose, store), dict[str, int]()

    async def post(path: str, **body: Any) -> None:
        statuses[path] = (await caller.post(path, **body)).status_code

    await caller.post()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(post, "", runId="refused"))
        await asked.wait()
        tasks.start_soon(partial(post, "connect", runId="new"))
        await anyio.wait_all_tasks_blocked()
        may_answer.set()
    assert statuses == {"": 418, "connect": 200}


@pytest.mark.parametrize("by", ["request", "program", "leaving"])
async def test_a_run_that_is_stopped_ends_cancelled_and_calls_nothing_more(by: str) -> None:
    gate, store = Gate(), Store()
    caller = Caller(
        _gated(gate, tools=[look]),
        store,
        keeping=Keeping(threads="transcripts", when_left="stop" if by == "leaving" else "continue"),
    )
    await caller.read(3)
    if by == "request":
        stopped = (await caller.post("stop", runId=None)).json()
        assert (stopped["runId"], stopped["status"]) == ("r", "stopped")
    elif by == "program":
        await store.runs.stop("r")
    with anyio.fail_after(_SECONDS):
        events = [event async for _, event in store.runs.follow("r")]
    gate.open()
    last = events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert (last.outcome and last.outcome.type, paid) == ("cancelled", [])
    assert (await store.runs.stop("r")).status is RunStatus.STOPPED


def _named(method: str, path: str, headers: Mapping[str, str]) -> object:
    return {"name": headers["x-user"]}


async def test_users_neither_see_nor_stop_nor_follow_the_runs_of_others() -> None:
    gate, store = Gate(), Store()
    gate.open()
    caller = Caller(_gated(gate, tools=[look]), store, authorize=_named, owner_of=itemgetter("name"))
    await caller.post(headers={"x-user": "bob"}, threadId="b")
    ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
    own = ScriptedAgent(turn(Gate()), thread_id="t")
    await store.runs.start(own, "Hi", run_id="r", owner="ann")
    assert [each["threadId"] for each in (await caller.post("runs", headers=bob)).json()] == ["b"]
    assert [each["threadId"] for each in (await caller.post("runs", headers=ann)).json()] == ["t"]
    refused = [
        await caller.post("stop", headers=bob, threadId=None),
        await caller.post("stop", headers=bob, runId=None),
        await caller.post("answer", headers=bob, threadId="t"),
        await caller.post(headers={**bob, "last-event-id": "0-r"}),
    ]
    assert [each.status_code for each in refused] == [200, 404, 404, 404]
    assert refused[0].json()["threadId"] == "b"
    # Ids are the callers' to choose: a run of the same thread and id is another run of bob's.
    assert _last(await caller.post(headers=bob))["type"] == "RUN_FINISHED"
    assert [each.status.value for each in await store.runs.list(owner="ann")] == ["running"]
    await store.aclose()


async def test_a_request_that_is_refused_gets_the_reason() -> None:
    gate, store = Gate(), Store()
    caller = Caller(_gated(gate, tools=[look]), store)
    await caller.read(1)
    place: dict[str, Any] = {"threadId": None, "runId": None}
    requests: list[tuple[int, str, httpx.Response]] = [
        (
            409,
            "a run is in progress in this thread: follow it at /connect, stop it at /stop, or use another thread",
            await caller.post(runId="other"),
        ),
        (409, "run 'r' waits for no answer: it is running", await caller.post("answer", runId=None, resume=[])),
        (404, "no run 'x' of thread 't' is kept here", await caller.post(headers={"last-event-id": "0-x"})),
        (
            404,
            "no such run is kept here, or not so many events of it",
            await caller.post(headers={"last-event-id": "99-r"}),
        ),
        (404, "no such run is kept here", await caller.post("stop", runId="x")),
        (404, "no run of thread 'x' is kept here", await caller.post("stop", runId=None, threadId="x")),
        (422, "name a run with threadId, runId or both", await caller.post("stop", **place)),
        (422, "the runId of a run that is kept has 1 to 256 characters", await caller.post(threadId="u", runId="")),
    ]
    for status, detail, response in requests:
        assert (response.status_code, response.json()) == (status, {"detail": detail})
    malformed = await caller.post(headers={"last-event-id": "r"})
    assert (malformed.status_code, malformed.json()["detail"].startswith("Last-Event-ID: ")) == (422, True)
    await store.aclose()


async def test_a_caller_who_does_not_read_is_served_from_the_log_and_never_slows_the_run() -> None:
    store = Store()
    many = [text(f"{number} ") for number in range(400)]
    caller = Caller(ScriptedAgent(turn(*many)), store)
    client = httpx.AsyncClient(transport=ASGITransport(caller.app))
    async with client, client.stream("POST", "http://app/", json=_input()) as response:
        # The transport holds back the app until its chunk is read.
        await until_ended(store, "r")
        body = await response.aread()
    assert len(_frames(body)) == (await store.runs.list())[0].event_count == 2 + 3 * len(many)


async def until_ended(store: Store, run_id: str) -> None:
    with anyio.fail_after(_SECONDS):
        # Following the run would keep its log from being dropped.
        while any(each.run_id == run_id and each.status is RunStatus.RUNNING for each in await store.runs.list()):  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def test_a_server_that_stops_ends_its_runs() -> None:
    store = Store()
    async with ASGITransport(agent_app(ScriptedAgent(turn()), store=store, **FOR_ALL), lifespan=True):
        run = await store.runs.start(ScriptedAgent(turn(Gate())), "Hi")
    with anyio.fail_after(_SECONDS):
        events = [event async for _, event in store.runs.follow(run.run_id)]
    assert events[-1] == RunErrorEvent(
        message="The server is shutting down, and has stopped this run.", code="shutting_down"
    )


async def test_ended_runs_are_dropped_when_their_time_has_passed_or_their_memory_is_needed() -> None:
    store = Store(keep=0)
    run = await store.runs.start(ScriptedAgent(turn(text("Hi"))), "Hi")
    await until_ended(store, run.run_id)
    with pytest.raises(UsageError, match=r"no run .* is kept here"):
        await anext(store.runs.follow(run.run_id))

    store, agent = Store(max_bytes=200_000), ScriptedAgent(turn(text("x" * 70_000)))
    for number in range(5):
        with anyio.fail_after(_SECONDS):
            await store.runs.start(agent, "Hi", thread_id=f"t{number}", run_id=f"r{number}")
            async for _ in store.runs.follow(f"r{number}"):
                pass
    assert [each.run_id for each in await store.runs.list()] == ["r4", "r3"]


async def test_runs_are_dropped_in_time_when_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(days=1)

    store, agent = Store(keep=0), ScriptedAgent(turn(text("Hi")))
    monkeypatch.setattr(run_log, "datetime", Tomorrow)
    run = await store.runs.start(agent, "Hi")
    with anyio.fail_after(_SECONDS):
        while any(each.run_id == run.run_id for each in await store.runs.list()):  # noqa: ASYNC110 # it ends in its task
            await anyio.sleep(0.005)


async def test_a_run_that_writes_more_than_all_memory_ends_with_an_error() -> None:
    store = Store(max_bytes=100_000)
    parts = [text("x" * 1000) for _ in range(1000)]
    small, large = ScriptedAgent(turn(Gate())), ScriptedAgent(turn(*parts))
    await store.runs.start(small, "Hi", run_id="small")
    await store.runs.start(large, "Hi", run_id="large")
    await until_ended(store, "large")
    infos = {each.run_id: each.status.value for each in await store.runs.list()}
    assert infos == {"small": "running", "large": "failed"}
    *_, (_, last) = [each async for each in store.runs.follow("large")]
    assert last == RunErrorEvent(message="The run has more events than the server can keep.", code="log_full")
    await store.runs.stop("small")


async def test_runs_beyond_a_limit_wait_for_their_turn_and_may_be_stopped_while_they_wait() -> None:
    gate, store = Gate(), Store(at_once=1)
    first = await store.runs.start(_gated(gate), "Hi", thread_id="t1")
    later: dict[str, list[str]] = {"t2": [], "t3": []}

    async def follow(thread_id: str) -> None:
        await store.runs.start(ScriptedAgent(turn(text("Hello."))), "Hi", thread_id=thread_id, run_id=thread_id)
        later[thread_id] = [event.type.value async for _, event in store.runs.follow(thread_id)]

    with anyio.fail_after(_SECONDS):
        async with anyio.create_task_group() as tasks:
            for thread_id in later:
                tasks.start_soon(follow, thread_id)
            while len(await store.runs.list()) < 3:
                await anyio.lowlevel.checkpoint()
            assert (await store.runs.stop("t3")).status is RunStatus.STOPPED
            assert later["t2"] == []
            gate.open()
        assert [event.type async for _, event in store.runs.follow(first.run_id)][-1] == "RUN_FINISHED"
    assert (later["t2"][-1], later["t3"]) == ("RUN_FINISHED", ["RUN_ERROR"])


async def test_an_owner_with_many_runs_takes_no_turns_of_others() -> None:
    store, gate = Store(at_once=3, at_once_per_owner=2), Gate()
    begun: list[str] = []
    ends: list[list[Event]] = []
    with anyio.fail_after(_SECONDS):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(partial(store.runs.start, _gated(gate), "Hi", run_id=f"a{number}", owner="ann"))
            while len(await store.runs.list()) < 5:
                await anyio.lowlevel.checkpoint()
            await store.runs.start(ScriptedAgent(turn(text("Hello."))), "Hi", run_id="b", owner="bob")
            ends.append([each async for _, each in store.runs.follow("b")])
            begun += [each.run_id for each in await store.runs.list(owner="ann") if each.event_count]
            gate.open()
        ends += [[each async for _, each in store.runs.follow(f"a{number}")] for number in range(5)]
    assert (len(begun), [each[-1].type for each in ends]) == (2, ["RUN_FINISHED"] * 6)


async def test_an_owner_has_eight_turns_unless_the_application_says_otherwise_and_no_owner_any_number() -> None:
    store, gate, begun = Store(), Gate(), Counter[str]()
    with anyio.fail_after(_SECONDS):
        async with anyio.create_task_group() as tasks:
            for owner in ("ann", ""):
                for number in range(12):
                    start = partial(store.runs.start, _gated(gate), "Hi", run_id=f"{owner}{number}", owner=owner)
                    tasks.start_soon(start)
            while sum(each.event_count > 0 for each in await store.runs.list()) < 8 + 12:
                await anyio.lowlevel.checkpoint()
            begun = Counter(each.owner for each in await store.runs.list() if each.event_count)
            gate.open()
    assert begun == {"ann": 8, "": 12}


async def test_the_owner_who_takes_most_memory_loses_runs_and_questions_go_last() -> None:
    store = Store(max_bytes=100_000)

    async def run(agent: ScriptedAgent, run_id: str, owner: str) -> None:
        await store.runs.start(agent, "Hi", run_id=run_id, thread_id=run_id, owner=owner)
        async for _ in store.runs.follow(run_id):
            pass

    asking = ScriptedAgent(turn(text("x" * 10_000), interrupt("Proceed?", interrupt_id="i")), turn(text("Done.")))
    with anyio.fail_after(_SECONDS):
        for owner in ("ann", "bob"):
            await run(asking.clone(), f"{owner} asks", owner)
        for number in range(9):
            await run(ScriptedAgent(turn(text("x" * 20_000))), f"r{number}", "bob")
        assert [each.run_id for each in await store.runs.list()] == ["r8", "r7", "bob asks", "ann asks"]
        # Questions pay where an owner has nothing else.
        for number in range(9):
            await run(asking.clone(), f"q{number}", "bob")
        infos = await store.runs.list()
        assert {each.run_id for each in infos if each.status is RunStatus.WAITING} >= {"ann asks", "q8", "q7"}
        assert "bob asks" not in {each.run_id for each in infos}
        assert (await store.runs.answer("ann asks", {"i": Resolve(True)})).owner == "ann"


async def test_a_run_that_is_stopped_before_it_has_begun_ends_with_an_error() -> None:
    store, waits = Store(), anyio.Event()

    async def choose(request: ServedRequest, input: RunAgentInput) -> AbstractAgent:
        waits.set()
        await anyio.sleep_forever()
        raise AssertionError

    caller = Caller(choose, store)
    bodies: list[str] = []

    async def post() -> None:
        bodies.append((await caller.post()).text)

    with anyio.fail_after(_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post)
            await waits.wait()
            assert (await store.runs.stop("r")).status is RunStatus.STOPPED
    assert '"message":"The run was stopped before it had begun."' in bodies[0]


async def test_an_exception_in_the_block_of_a_run_is_logged_and_ends_the_run(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def opened(thread_id: str) -> AsyncGenerator[AbstractAgent]:
        yield ScriptedAgent(turn(text("Hi")), thread_id=thread_id)
        raise LookupError("no database")

    store = Store()
    with caplog.at_level(logging.ERROR), anyio.fail_after(_SECONDS):
        run = await store.runs.start(opened, "Hi", thread_id="t", run_id="r")
        events = [event async for _, event in store.runs.follow(run.run_id)]
    assert events[-1] == RunErrorEvent(
        message="The agent failed; the server's log has the reason.", code="agent_failed"
    )
    assert [(each.name, each.getMessage()) for each in caplog.records] == [
        ("agui_client.sse", "run 'r' of thread 't' failed")
    ]


class _FullAtTheEnd(MemoryStore):
    """Has no room for what is saved as a block is left."""

    async def append_and_release(self, *args: Any, **options: Any) -> bool:
        raise ThreadStoreUnavailableError("the disk is full")


@pytest.mark.parametrize("is_served", [False, True])
async def test_a_run_whose_thread_is_not_saved_at_its_end_has_failed(*, is_served: bool) -> None:
    store, agent = Store(_FullAtTheEnd()), ScriptedAgent(turn(text("Hello.")))
    with anyio.fail_after(_SECONDS):
        if is_served:
            app = agent_app(agent, store=store, owner_of=lambda _: "")
            with pytest.raises(RunFailedError):
                await HttpAgent("http://app/", app=app, thread_id="t").run_agent("Hi", run_id="r")
        else:
            await store.runs.start(lambda thread_id: store.threads.open(thread_id, agent), "Hi", run_id="r")
        last = [event async for _, event in store.runs.follow("r")][-1]
    assert isinstance(last, RunErrorEvent)
    assert (last.code, (await store.runs.info("r")).status) == ("store_unavailable", RunStatus.FAILED)


async def test_the_end_of_a_run_is_saved_while_its_program_has_the_thread_open() -> None:
    store = Store()
    with anyio.fail_after(_SECONDS):
        async with store.threads.open("t", ScriptedAgent(turn(text("Hello.")))) as agent:
            run = await store.runs.start(agent, "Hi", thread_id="t")
            assert [event async for _, event in store.runs.follow(run.run_id)] != []
            saved = await store.threads.get("t")
    assert saved is not None
    assert [each.content for each in saved.conversation.messages] == ["Hi", "Hello."]


async def test_a_run_is_found_by_its_thread_and_owner_where_others_have_its_id() -> None:
    store = Store()
    places = [("t", "ann"), ("u", "ann"), ("u", "bob")]
    for thread_id, owner in places:
        await store.runs.start(
            ScriptedAgent(turn(text(f"{thread_id} {owner}"))), thread_id=thread_id, owner=owner, run_id="r"
        )
    found: list[list[str]] = []
    with anyio.fail_after(_SECONDS):
        for named in ({"thread_id": "t"}, {"owner": "bob"}, {"thread_id": "u", "owner": "ann"}):
            events = [event async for _, event in store.runs.follow("r", **named)]
            found.append([each.delta for each in events if isinstance(each, TextMessageContentEvent)])
            info = await store.runs.info("r", **named)
            assert [f"{info.thread_id} ", info.owner] == found[-1]
            assert info in await store.runs.list()
    assert found == [["t ", "ann"], ["u ", "bob"], ["u ", "ann"]]
    for named, many in (({}, 3), ({"owner": "ann"}, 2)):
        with pytest.raises(UsageError, match=rf"^{many} runs have the id 'r'; name one with thread_id= and owner=$"):
            await store.runs.stop("r", **named)
    for ask in (store.runs.stop, store.runs.info):
        with pytest.raises(
            UsageError, match=r"^no run 'r' is kept here; a run that has ended is kept for Store\(keep=\)"
        ):
            await ask("r", owner="eve")


async def test_a_run_that_is_still_read_is_kept_when_its_time_has_passed() -> None:
    store = Store(keep=0)
    gate = Gate()
    with anyio.fail_after(_SECONDS):
        for run_id in ("followed", "other"):
            await store.runs.start(ScriptedAgent(turn(gate, text("Hi"))), thread_id=run_id, run_id=run_id)
        followed = store.runs.follow("followed")
        seen = [(await anext(followed)).event]
        gate.open()
        while [each.run_id for each in await store.runs.list()] != ["followed"]:  # noqa: ASYNC110 # they end in their tasks
            await anyio.sleep(0.005)
        seen += [each.event async for each in followed]
        assert [each.type.value for each in seen][:: len(seen) - 1] == ["RUN_STARTED", "RUN_FINISHED"]
        assert await store.runs.list() == []


async def test_inputs_count_as_memory_and_neither_long_ids_nor_large_commands_make_the_server_grow() -> None:
    store = Store(max_bytes=100_000)
    caller = Caller(ScriptedAgent(turn(text("Hi"))), store)
    for number in range(3):
        await caller.post(threadId=f"t{number}", runId=f"r{number}", forwardedProps={"x": "x" * 40_000})
    assert [each.run_id for each in await store.runs.list()] == ["r2", "r1"]
    # The id is in the cursor of each event.
    statuses = [(await caller.post(runId=run_id)).status_code for run_id in ("r" * 256, "r" * 257, "")]
    assert statuses == [200, 422, 422]
    # Each of these would be a fault of its own in the answer, and together they would hold up all other runs.
    few, many = [(await caller.post("answer", runId="r2", resume=[0] * number)) for number in (1000, 70_000)]
    assert (few.status_code, len(few.json()["detail"]), many.status_code) == (422, 1, 413)


async def test_a_program_follows_a_run_and_answers_what_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    waiting: list[WaitingRun] = []
    store = Store()

    @store.runs.on_waiting
    def fail(run: WaitingRun) -> None:
        raise LookupError("no mail today")

    store.runs.on_waiting(waiting.append)
    agent = ScriptedAgent(
        turn(tool_call("pay", {"amount": 3})),
        turn(outcome=interrupt("Which hotel?", interrupt_id="hotel")),
        turn(text("Done.")),
    )
    first = await store.runs.start(agent, "Book", tools=[pay], owner="ann", thread_id="t")
    with anyio.fail_after(_SECONDS):
        events = [each async for each in store.runs.follow(first.run_id, owner="ann")]
        await until(lambda: waiting)
        behind = [each async for each in store.runs.follow(first.run_id, after=events[1].cursor)]
    [asked] = waiting
    assert (behind, asked.thread_id, asked.owner, asked.query) == (
        events[2:],
        "t",
        "ann",
        f"thread=t&run={first.run_id}",
    )
    with pytest.raises(InterruptsNotCoveredError):
        await store.runs.answer(first.run_id, {"other": Approve()})
    [approval] = asked.interrupts
    second = await store.runs.answer(first.run_id, {approval.id: Approve({"amount": 2})})
    await until(lambda: len(waiting) == 2)
    third = await store.runs.answer(second.run_id, {"hotel": Resolve("Grand")}, owner="ann", thread_id="t")
    with anyio.fail_after(_SECONDS):
        events = [each async for each in store.runs.follow(third.run_id)]
    assert "Done." in [getattr(each.event, "delta", None) for each in events]
    assert paid == [2]
    assert [each.content for each in agent.inputs[0].messages] == ["Book"]
    assert [each.status.value for each in await store.runs.list()] == ["finished"] * 3
    assert [(each.name, each.getMessage()) for each in caplog.records] == [
        ("agui_client.runs", f"a function of on_waiting failed for run {each.run_id!r}") for each in waiting
    ]
    assert signs_of("a function of `on_waiting` raises").are_in(caplog.records)
    with pytest.raises(UsageError, match="waits for no answer"):
        await store.runs.answer(first.run_id, {approval.id: Approve()})


async def test_the_run_that_answers_has_the_keywords_of_the_run_that_asked() -> None:
    class Remote(ScriptedAgent):
        takes = frozenset({"headers", "timeout"})

        def run(self, input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
            options = self.call_options
            seen.append((options.get("headers"), options.get("timeout"), input.forwarded_props))
            return super().run(input)

    seen: list[tuple[object, object, object]] = []
    store = Store()
    agent = Remote(turn(outcome=interrupt("Which hotel?", interrupt_id="hotel")), turn(text("Done.")))
    keywords = {"headers": {"x-tenant": "acme"}, "timeout": 7.0, "forwarded_props": {"a": 1}}
    first = await store.runs.start(agent, "Book", **cast("Any", keywords))
    with anyio.fail_after(_SECONDS):
        assert [each async for each in store.runs.follow(first.run_id)]
        second = await store.runs.answer(first.run_id, {"hotel": Resolve("Grand")})
        assert [each async for each in store.runs.follow(second.run_id)]
    assert seen == [tuple(keywords.values())] * 2


@pytest.mark.parametrize("place", ["stored", "in the caller's input"])
async def test_a_served_run_that_waits_is_answered_at_its_address_without_its_caller(place: str) -> None:
    store, threads = Store(), Store().threads
    agent = SequentialAgent(
        ScriptedAgent(turn(text("Planned.")), agent_id="planner"),
        ScriptedAgent(turn(tool_call("pay", {"amount": 3})), turn(text("Done.")), agent_id="payer", tools=[pay]),
    )
    is_stored = place == "stored"
    caller = Caller(_stored(threads, agent) if is_stored else agent, store, secret=_SECRET)
    await caller.read(1)
    await until_ended(store, "r")
    [waiting] = (await caller.post("runs")).json()
    [asked] = waiting["interrupts"]
    entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
    refused = await caller.post("answer", resume=[{**entry, "interruptId": "made up"}])
    begun = (await caller.post("answer", resume=[entry])).json()
    with anyio.fail_after(_SECONDS):
        events = [event async for _, event in store.runs.follow(begun["runId"])]
    assert (waiting["status"], refused.status_code, paid) == ("waiting", 422, [3])
    assert [each.delta for each in events if isinstance(each, TextMessageContentEvent)] == ["Done."]
    assert [each.status.value for each in await store.runs.list()] == ["finished", "finished"]


async def test_an_answer_to_a_server_that_stops_may_be_given_again() -> None:
    store = Store()
    caller = Caller(ScriptedAgent(turn(tool_call("pay", {"amount": 3})), tools=[pay]), store)
    [asked] = _last(await caller.post())["outcome"]["interrupts"]
    await caller.app.shutdown()
    entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
    answered, posted = await caller.post("answer", resume=[entry]), await caller.post(runId="another")
    assert [(each.status_code, each.headers.get("retry-after")) for each in (answered, posted)] == [(503, "1")] * 2


async def test_runs_that_are_closed_end_with_an_error_and_give_back_their_threads() -> None:
    store, threads = Store(), Store().threads
    agent = _gated(Gate(), tools=[look])
    caller = Caller(_stored(threads, agent), store)
    seen = await caller.read(3)
    with anyio.fail_after(_SECONDS):
        await store.aclose()
        events = [event async for _, event in store.runs.follow("r")]
    ended = RunErrorEvent(message="The server is shutting down, and has stopped this run.", code="shutting_down")
    assert (len(seen), events[-1]) == (3, ended)
    assert (await caller.post(runId="another")).status_code == 503
    async with threads.open("t", agent, wait=0) as stored:
        assert [each.content for each in stored.messages] == ["Hi", "One. "]


async def test_runs_that_are_closed_let_functions_end_for_a_while_and_begin_nothing_new() -> None:
    store, may_end, begun = Store(), Gate(), list[str]()
    app = agent_app(ScriptedAgent(turn()), store=store, **FOR_ALL, limits=AppLimits(stop_within=0.5))

    @tool
    async def end() -> str:
        """End."""
        begun.append("end")
        await may_end.wait()
        return "ended"

    @tool
    async def stay() -> str:
        """Stay."""
        begun.append("stay")
        await Gate().wait()
        return "never"

    with anyio.fail_after(_SECONDS):
        for name in ("end", "stay"):
            agent = ScriptedAgent(turn(tool_call(name)), turn(text("Never.")), tools=[end, stay])
            await store.runs.start(agent, "Hi", run_id=name)
        await until(lambda: len(begun) == 2, _SECONDS)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(app.shutdown)
            await anyio.lowlevel.checkpoint()
            may_end.open()
        ends = {name: [event.type.value async for _, event in store.runs.follow(name)] for name in begun}
    assert {name: ends[name][-2:] for name in ends} == {
        "end": ["TOOL_CALL_RESULT", "RUN_ERROR"],
        "stay": ["TOOL_CALL_END", "RUN_ERROR"],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": -1}, "keep= is a number of seconds from 0 up, not -1"),
        ({"max_bytes": 0}, "max_bytes= is a whole number above zero, not 0"),
        ({"keep": "long"}, "keep= is a number of seconds from 0 up, not 'long'"),
        ({"at_once": 0}, "at_once= is a whole number above zero, or None for no limit, not 0"),
        ({"at_once_per_owner": 1.5}, "at_once_per_owner= is a whole number above zero, or None for no limit, not 1.5"),
        ({"answer_within": 0}, "answer_within= is a number of seconds above zero or None, not 0"),
    ],
)
def test_bounds_that_are_none_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        Store(**options)
    assert str(refused.value) == message


async def test_arguments_of_a_wrong_kind_are_refused_with_what_to_give() -> None:
    store, agent = Store(), ScriptedAgent(turn(text("Hi")))
    given: Any = store.runs
    store.runs.add("helper", agent)
    info = await store.runs.start("helper", "Hi")
    ways: dict[str, Any] = {
        r"^run_id= is the id of a run, such as info\.run_id, not a RunInfo$": lambda: anext(given.follow(info)),
        r"^after= is the cursor that came with an event, a text, not 3$": lambda: anext(
            given.follow(info.run_id, after=3)
        ),
        r"^owner= is a text, or None for the runs of all, not 3$": lambda: given.list(owner=3),
        r"^tools= cannot be stored; give it to the agent that is named 'helper'$": lambda: given.start(
            "helper", "Hi", tools=[look]
        ),
    }
    for message, ask in ways.items():
        with pytest.raises(UsageError, match=message):
            await ask()
    added = r'^runs\.add takes a name and an agent, as in runs\.add\("helper", agent\), not '
    for swapped in ((3, agent), (agent, "helper")):
        with pytest.raises(UsageError, match=added):
            given.add(*swapped)
    named = "^the name of an agent of runs is a text that is not empty, not "
    for name in ("", 3):
        with pytest.raises(UsageError, match=named):
            agent_app(agent, store=store, **FOR_ALL, name=name)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^runs take an agent, or a function of a thread id"):
        given.add("wrong", "helper")
    with pytest.raises(UsageError, match=r"^on_waiting takes a function of a WaitingRun, not 'x'$"):
        given.on_waiting("x")


async def test_an_answer_that_is_left_out_is_asked_for_in_the_words_of_runs() -> None:
    store, agent = Store(), ScriptedAgent(turn(outcome=interrupt("Proceed?", interrupt_id="i")))
    asking = await store.runs.start(agent, "Hi")
    _ = [each async for each in store.runs.follow(asking.run_id)]
    message = r"^nothing was sent: no answer to 'i'; give each id its answer, Resolve\(answer\), Approve\(\), "
    with pytest.raises(InterruptsNotCoveredError, match=message + r"Deny\(reason\) or Cancel\(\)$"):
        await store.runs.answer(asking.run_id, {})


async def test_runs_that_were_closed_are_not_opened_again() -> None:
    async with Store() as store:
        pass
    with pytest.raises(UsageError, match=r"^the store of these runs was closed") as closed:
        await store.runs.start(ScriptedAgent(turn()))
    # In a server that stops, an answer by a link may be given again, to another process: 503 and not 409.
    assert isinstance(closed.value, RunsUnavailableError)
