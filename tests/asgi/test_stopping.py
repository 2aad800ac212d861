"""Servers that are told to stop: runs end with a terminal event, and others can have their threads at once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpx
import pytest
from ag_ui.core import RunFinishedEvent, RunStartedEvent, ToolCallEndEvent, ToolCallResultEvent

from agui_client import FunctionAgent, HttpAgent, RunFailedError, UsageError, tool
from agui_client._serving import stopping
from agui_client.asgi import AppLimits, ASGITransport, agent_app
from agui_client.store import Store
from agui_client.teams import ParallelAgent, SequentialAgent
from agui_client.testing import Gate, ScriptedAgent, events_of, text, tool_call, turn
from support.stores import FOR_ALL
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ag_ui.core import Event, RunAgentInput

pytestmark = pytest.mark.anyio
_SECONDS = 20.0
_SERVER = '''
import asyncio, socket, sys
from contextlib import asynccontextmanager
import uvicorn
from fastapi import FastAPI
from agui_client import tool
from agui_client.asgi import agent_app, AppLimits
from agui_client.testing import Gate, ScriptedAgent, text, tool_call, turn
from agui_client.store import Store

@tool
async def wait() -> str:
    """Wait."""
    print("called", flush=True)
    await asyncio.sleep(60)
    return "late"

@tool
async def end() -> str:
    """End when the server stops."""
    print("called", flush=True)
    while not planner._stopping.has_begun:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    return "done"

agents = {
    "stream": ScriptedAgent(turn(text("One."), Gate(), text("Two."))),
    "tool": ScriptedAgent(turn(tool_call("wait", tool_call_id="c")), tools=[wait]),
    "ended": ScriptedAgent(turn(tool_call("end", tool_call_id="c")), turn(text("Never.")), tools=[end]),
}
store = Store(sys.argv[1])
limits = AppLimits(stop_within=0.5)
planner = agent_app(lambda _, input: store.threads.open(input.thread_id, agents[input.thread_id]), limits=limits)

@asynccontextmanager
async def lifespan(app):
    async with store, planner.lifespan():
        yield

app = FastAPI(lifespan=lifespan)
app.mount("/planner", planner)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
'''


def _body(thread_id: str) -> dict[str, Any]:
    return {
        "threadId": thread_id,
        "runId": f"{thread_id}-1",
        "messages": [{"id": "u", "role": "user", "content": "Hi"}],
    }


async def _read(url: str, thread_id: str, until: bytes, is_there: anyio.Event) -> dict[str, Any]:
    """Read a run to its end; return its last event."""
    body = b""
    client = httpx.AsyncClient(timeout=_SECONDS)
    async with client, client.stream("POST", url, json=_body(thread_id)) as response:
        async for chunk in response.aiter_bytes():
            body += chunk
            if until in body:
                is_there.set()
    last: dict[str, Any] = json.loads(events_of(body)[-1].removeprefix(b"data: "))
    return last


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM for other processes")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_signal_ends_streams_with_an_event_lets_tools_end_and_frees_their_threads(
    tmp_path: Path,
) -> None:
    database = f"sqlite:///{tmp_path / 'threads.db'}"
    command = [sys.executable, "-c", _SERVER, database]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: ASYNC220 - it stands alone
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/planner/"
            lasts = dict[str, dict[str, Any]]()

            async def read(thread_id: str, until: bytes, is_there: anyio.Event) -> None:
                lasts[thread_id] = await _read(url, thread_id, until, is_there)

            with anyio.fail_after(_SECONDS):
                async with anyio.create_task_group() as tasks:
                    for thread_id in ("stream", "tool", "ended"):
                        until = b"One." if thread_id == "stream" else b"TOOL_CALL_END"
                        tasks.start_soon(read, thread_id, until, is_there := anyio.Event())
                        await is_there.wait()
                    for _ in ("tool", "ended"):
                        assert await anyio.to_thread.run_sync(server.stdout.readline) == "called\n"
                    server.send_signal(signal.SIGTERM)
            server.wait(_SECONDS)
        finally:
            server.kill()
    ends = {key: (last["type"], last["code"]) for key, last in lasts.items()}
    assert ends == dict.fromkeys(("stream", "tool", "ended"), ("RUN_ERROR", "shutting_down"))
    async with Store(database) as store:
        threads = store.threads
        async with threads.open("stream", ScriptedAgent(turn()), wait=0) as agent:
            assert [each.content for each in agent.messages] == ["Hi", "One."]
        async with threads.open("tool", ScriptedAgent(turn()), wait=0) as agent:
            assert [call.id for call in agent.unknown_tool_calls] == ["c"]
        async with threads.open("ended", ScriptedAgent(turn()), wait=0) as agent:
            assert [each.content for each in agent.messages] == ["Hi", None, "done"]
            assert agent.unknown_tool_calls == []


async def test_an_app_that_was_shut_down_has_ended_its_runs_and_refuses_others() -> None:
    app = agent_app(ScriptedAgent(turn(text("One."), Gate())))
    caller = HttpAgent("http://app/", app=app)
    with anyio.fail_after(_SECONDS):
        async with caller.stream("Hi") as run:
            assert await anext(run.text_stream) == "One."
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(app.shutdown)
                with pytest.raises(RunFailedError, match="shutting_down"):
                    await run.result()
        async with httpx.AsyncClient(transport=ASGITransport(app)) as client:
            refused = await client.post("http://app/", json=_body("t"))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


async def test_runs_are_ended_one_after_the_other_and_those_that_are_over_before_are_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stopping, "_TURN_SECONDS", _SECONDS)
    pause, ends, began = 1.0, list[tuple[str, float]](), 0.0
    oldest = Gate()
    agents = {name: ScriptedAgent(turn(text("One."), Gate())) for name in "bc"}
    agents["a"] = ScriptedAgent(turn(text("One."), oldest, text("Two.")))
    app = agent_app(lambda request, input: agents[input.thread_id], limits=AppLimits(stop_within=3 * pause))

    async def ask(thread_id: str, has_begun: anyio.Event) -> None:
        async with HttpAgent("http://app/", app=app, thread_id=thread_id).stream("Hi") as run:
            assert await anext(run.text_stream) == "One."
            has_begun.set()
            if thread_id == "a":
                assert (await run.result()).text == "Two."
            else:
                with pytest.raises(RunFailedError, match="shutting_down"):
                    await run.result()
            ends.append((thread_id, anyio.current_time()))
            oldest.open()

    with anyio.fail_after(_SECONDS):
        async with anyio.create_task_group() as tasks:
            for thread_id in "abc":
                tasks.start_soon(ask, thread_id, has_begun := anyio.Event())
                await has_begun.wait()
            began = anyio.current_time()
            await app.shutdown()
    assert sorted(each for each, _ in ends[:2]) == ["a", "c"]
    assert ends[2][0] == "b"
    assert pause <= ends[2][1] - began


async def test_the_tools_of_members_end_and_no_member_begins_anything_new() -> None:
    gates, begun, threads = {"a": Gate(), "b": Gate()}, set[str](), Store().threads

    @tool
    async def end(name: str) -> str:
        """End in time."""
        begun.add(name)
        await gates[name].wait()
        return f"{name} is done"

    def member(name: str) -> ScriptedAgent:
        calls = turn(tool_call("end", {"name": name}))
        return ScriptedAgent(calls, turn(text("Never.")), agent_id=name, tools=[end])

    team = SequentialAgent(ParallelAgent(member("a"), member("b"), agent_id="both"), agent_id="team")
    app = agent_app(lambda request, input: threads.open(input.thread_id, team))

    async def read() -> None:
        async with HttpAgent("http://app/", app=app, thread_id="t").stream("Hi") as run:
            while not isinstance(await anext(run), ToolCallResultEvent):
                """The tool of the other member is at work."""
            gates["b"].open()
            with pytest.raises(RunFailedError, match="shutting_down"):
                await run.result()

    with anyio.fail_after(_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await until(lambda: len(begun) == 2, _SECONDS)
            tasks.start_soon(app.shutdown)
            await anyio.lowlevel.checkpoint()
            gates["a"].open()
    async with threads.open("t", team, wait=0) as agent:
        assert [each.content for each in agent.messages if each.role == "tool"] == ["a is done", "b is done"]
        assert [each.content for each in agent.messages if each.role == "assistant"] == [None, None]


@pytest.mark.parametrize("stop_within", [0, -1, "5", True])
def test_the_time_to_stop_is_a_number_of_seconds(stop_within: Any) -> None:
    with pytest.raises(UsageError, match="stop_within= is a number of seconds above zero"):
        agent_app(ScriptedAgent(turn()), limits=AppLimits(stop_within=stop_within))


@pytest.mark.one_loop
@pytest.mark.parametrize("place", ["no store", "memory", "sqlite"])
async def test_a_request_that_the_server_cancels_ends_with_an_event_unless_its_run_goes_on_elsewhere(
    place: str, tmp_path: Path
) -> None:
    sent, has_begun = list[bytes](), anyio.Event()
    url = f"sqlite:///{tmp_path / 'agents.db'}" if place == "sqlite" else None
    kept: Any = {} if place == "no store" else {"store": Store(url), **FOR_ALL}
    app = agent_app(FunctionAgent(_waiting), **kept)

    async def receive() -> dict[str, Any]:
        if has_begun.is_set():
            await anyio.sleep_forever()
        has_begun.set()
        return {"type": "http.request", "body": json.dumps(_body("t")).encode()}

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        if b"RUN_STARTED" in sent[-1]:
            tasks.cancel_scope.cancel()

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/", "headers": []}
    with anyio.fail_after(_SECONDS):
        async with app.lifespan(), anyio.create_task_group() as tasks:
            tasks.start_soon(app, scope, receive, send)
    assert (b"shutting_down" in sent[-2], sent[-1]) == (place != "sqlite", b"")


def test_runs_in_memory_are_ended_by_a_signal_and_a_function_that_takes_too_long_is_cut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    async def wait() -> str:
        """Wait."""
        await anyio.sleep_forever()
        return "late"

    async def serve() -> None:
        app = agent_app(
            ScriptedAgent(turn(tool_call("wait")), tools=[wait]),
            store=Store(),
            limits=AppLimits(stop_within=0.1),
            **FOR_ALL,
        )
        with anyio.fail_after(_SECONDS):
            async with app.lifespan(), HttpAgent("http://app/", app=app).stream("Hi") as run:
                while not isinstance(await anext(run), ToolCallEndEvent):
                    """The function is about to be called."""
                signal.raise_signal(signal.SIGTERM)
                with pytest.raises(RunFailedError, match="shutting down"):
                    await run.result()

    handled = list[int]()
    before = signal.signal(signal.SIGTERM, lambda number, _: handled.append(number))
    try:
        asyncio.run(serve())
    finally:
        signal.signal(signal.SIGTERM, before)
    # Nothing went wrong in the callback of the signal, which belongs to no task.
    assert (handled, [each.levelname for each in caplog.records]) == ([signal.SIGTERM], ["WARNING"])


async def _waiting(input: RunAgentInput) -> AsyncIterator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    await anyio.sleep_forever()
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)
