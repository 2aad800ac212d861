"""A CancelledError out of code of the application, though nothing cancelled the task, is a failure of the run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

import anyio
import httpx
import pytest

from agui_client import AGUIError, FunctionAgent, HttpAgent, RunObserver, Subscriber, Toolset, tool
from agui_client.asgi import agent_app
from agui_client.testing import ScriptedAgent, interrupt, text, tool_call, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ag_ui.core import RunAgentInput, Tool

    from agui_client import AbstractAgent

pytestmark = pytest.mark.anyio
_SECONDS = 10.0
_SAID = "something that a function of the application waited for had been cancelled"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # on trio a task raises no cancellation but its own


async def _wait_for_cancelled(*_: Any, **__: Any) -> NoReturn:
    """Wait for a task that another part of the program has cancelled."""
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    await task
    raise AssertionError


def _read_cancelled(*_: Any, **__: Any) -> NoReturn:
    """Read the result of a future that was cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    future.result()
    raise AssertionError


async def _texts(input: RunAgentInput) -> AsyncIterator[str]:
    yield "Hel"
    await _wait_for_cancelled()


async def _middleware(input: RunAgentInput, next: Any) -> AsyncIterator[Any]:
    async for event in next(input):
        yield event
        await _wait_for_cancelled()


class _Tools(Toolset):
    def __init__(self, step: str) -> None:
        self._step = step

    async def __aenter__(self) -> _Tools:
        if self._step == "open":
            await _wait_for_cancelled()
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def tools(self, ctx: RunAgentInput) -> list[Tool]:
        await _wait_for_cancelled()

    async def call(self, call: Any, ctx: Any) -> str:
        return ""


class _Hooks(Subscriber):
    async def on_run_started_event(self, event: Any, context: Any) -> NoReturn:
        await _wait_for_cancelled()


class _LastHook(Subscriber):
    async def on_run_finalized(self, context: Any) -> NoReturn:
        await _wait_for_cancelled()


class _Transport(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> NoReturn:
        await _wait_for_cancelled()


def _refused(request: httpx.Request) -> httpx.Response:
    return httpx.Response(401)


def _http(**options: Any) -> HttpAgent:
    client = httpx.AsyncClient(transport=httpx.MockTransport(_refused))
    return HttpAgent("http://localhost/", http_client=client, **options)


@tool(approval="always")
def pay() -> str:
    """Pay."""
    return "paid"


def _subscribed(subscriber: Subscriber) -> AbstractAgent:
    agent = ScriptedAgent(turn())
    agent.subscribe(subscriber)
    return agent


_AGENTS: dict[str, Callable[[], AbstractAgent]] = {
    "an agent that yields": lambda: FunctionAgent(_texts),
    "an agent that returns": lambda: FunctionAgent(_wait_for_cancelled),
    "an agent that is called": lambda: FunctionAgent(_read_cancelled),
    "headers": lambda: _http(headers=_wait_for_cancelled),
    "headers of a plain function": lambda: _http(headers=_read_cancelled),
    "credentials": lambda: _http(headers={"Authorization": "Bearer a"}, on_unauthorized=_wait_for_cancelled),
    "a transport": lambda: HttpAgent("http://localhost/", http_client=httpx.AsyncClient(transport=_Transport())),
    "a toolset that is opened": lambda: ScriptedAgent(turn(), tools=[_Tools("open")]),
    "a toolset that lists": lambda: ScriptedAgent(turn(), tools=[_Tools("list")]),
    "tools that are chosen": lambda: ScriptedAgent(turn(), tools=_read_cancelled),
    "middleware": lambda: ScriptedAgent(turn(), middleware=[_middleware]),
    "middleware that is called": lambda: ScriptedAgent(turn(), middleware=[_read_cancelled]),
    "history": lambda: ScriptedAgent(turn(), history=_wait_for_cancelled),
    "a hook": lambda: _subscribed(_Hooks()),
    "the last hook": lambda: _subscribed(_LastHook()),
    "save_with": lambda: ScriptedAgent(turn()).save_with(_wait_for_cancelled),
    "answer": lambda: ScriptedAgent(turn(interrupt("Sure?")), answer=_wait_for_cancelled),
}


@pytest.mark.parametrize("name", _AGENTS)
async def test_a_cancellation_that_nobody_asked_for_is_a_failure_of_the_run(name: str) -> None:
    agent = _AGENTS[name]()
    with anyio.fail_after(_SECONDS), pytest.raises(Exception, match=_SAID):
        await agent.run_agent("Hi")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_the_answer_to_a_call_whose_approver_waited_for_something_cancelled_is_a_refusal() -> None:
    agent = ScriptedAgent(turn(tool_call("pay", {})), turn(), tools=[pay], approve=_wait_for_cancelled)
    with anyio.fail_after(_SECONDS):
        result = await agent.run_agent("Hi")
    assert [each.status for each in result.tool_executions] != ["succeeded"]


async def test_an_observer_that_reads_a_cancelled_future_changes_nothing() -> None:
    class Observer(RunObserver):
        def on_event(self, run: Any, event: Any, change: Any) -> NoReturn:
            _read_cancelled()

        def on_enter(self, run: Any) -> NoReturn:
            _read_cancelled()

    with anyio.fail_after(_SECONDS):
        result = await ScriptedAgent(turn(text("Hello")), observers=[Observer()]).run_agent("Hi")
    assert result.text == "Hello"


async def test_a_caller_that_is_cancelled_is_cancelled() -> None:
    begun = asyncio.Event()

    async def wait(input: RunAgentInput) -> str:
        begun.set()
        await asyncio.sleep(60)
        return ""

    task = asyncio.create_task(FunctionAgent(wait).run_agent("Hi"))
    with anyio.fail_after(_SECONDS):
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("name", ["an agent that yields", "an agent that returns"])
async def test_a_served_agent_reports_it_as_a_failure_of_its_own(name: str) -> None:
    caller = HttpAgent("http://localhost/", app=agent_app(_AGENTS[name]()))
    with anyio.fail_after(_SECONDS), pytest.raises(AGUIError) as failed:
        await caller.run_agent("Hi")
    assert getattr(failed.value, "code", None) == "agent_failed"


@pytest.mark.parametrize("option", ["agent", "authorize"])
async def test_a_function_of_an_app_that_waited_for_something_cancelled_fails_its_request(option: str) -> None:
    options: dict[str, Any] = {"agent": ScriptedAgent(turn())} | {option: _wait_for_cancelled}
    with anyio.fail_after(_SECONDS), pytest.raises(AGUIError) as failed:
        await HttpAgent("http://localhost/", app=agent_app(options.pop("agent"), **options)).run_agent("Hi")
    assert "RuntimeError" in str(failed.value)
