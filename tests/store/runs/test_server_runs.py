"""`agent.runs`: the runs that a server keeps, over HTTP, with the records and exceptions of the server's own `Runs`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from agui_client import Approve, HttpAgent, UsageError, tool
from agui_client.asgi import agent_app
from agui_client.errors import InterruptsNotCoveredError, RequestExpiredError, RequestRepeatedError, RunNotFoundError
from agui_client.store import RunStatus, Store
from agui_client.testing import Reply, ScriptedAgent, pause, serve, serve_bytes, text, tool_call, turn
from support.stores import FOR_ALL

pytestmark = pytest.mark.anyio


@contextmanager
def _paying() -> Generator[HttpAgent]:
    """Serve an agent that asks before it pays."""

    @tool(approval="always")
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    def choose(request: object, input: object) -> ScriptedAgent:
        if getattr(input, "thread_id", "") == "slow":
            return ScriptedAgent(turn(text("Well,"), pause(float("inf"))))
        asks = turn(text("I pay."), tool_call("pay", {"amount": 3}))
        return ScriptedAgent(turn(text("Done.")) if getattr(input, "resume", None) else asks, tools=[pay])

    with serve(agent_app(choose, store=Store(), **FOR_ALL)) as server:
        yield HttpAgent(server.url, thread_id="bills")


async def test_runs_are_listed_followed_answered_and_stopped_with_the_records_of_the_server() -> None:
    with _paying() as agent:
        await agent.run_agent("Pay", run_id="r1")
        [info] = await agent.runs.list()
        assert (info.run_id, info.thread_id, info.status) == ("r1", "bills", RunStatus.WAITING)
        followed = [each async for each in agent.runs.follow("r1")]
        assert [followed[0].event.type.value, followed[-1].event.type.value] == ["RUN_STARTED", "RUN_FINISHED"]
        assert [each async for each in agent.runs.follow("r1", after=followed[3].cursor)] == followed[4:]
        with pytest.raises(InterruptsNotCoveredError):
            await agent.runs.answer("r1", {})
        answered = await agent.runs.answer("r1", {info.interrupts[0].id: Approve()})
        kinds = [each.event.type.value async for each in agent.runs.follow(answered.run_id)]
        assert kinds[-1] == "RUN_FINISHED"
        assert [each.run_id for each in await agent.runs.list(limit=1, after=answered)] == ["r1"]
        with pytest.raises(RequestRepeatedError, match="it was answered"):
            await agent.runs.answer("r1", {info.interrupts[0].id: Approve()})


def test_code_without_await_does_the_same() -> None:
    with _paying() as agent:
        agent.run_agent_sync("Pay", run_id="r1")
        [info] = agent.runs.list_sync()
        assert (agent.runs.list_sync(status="waiting"), agent.runs.list_sync(status="failed")) == ([info], [])
        answered = agent.runs.answer_sync("r1", {info.interrupts[0].id: Approve()})
        followed = list(agent.runs.follow_sync(answered.run_id))
        assert followed[-1].event.type.value == "RUN_FINISHED"
        first = next(agent.runs.follow_sync(answered.run_id))
        assert first == followed[0]
        slow = HttpAgent(agent.url, thread_id="slow")
        with slow.stream_sync("Wait", run_id="r2") as run:
            assert next(run.text_stream) == "Well,"
        assert agent.runs.info_sync("r2").status is RunStatus.RUNNING
        assert agent.runs.stop_sync("r2", thread_id="slow").status is RunStatus.STOPPED


async def test_a_run_that_is_not_kept_and_a_server_that_keeps_none_are_told_apart() -> None:
    with _paying() as agent:
        with pytest.raises(RunNotFoundError, match="no such run is kept here"):
            await agent.runs.stop("other")
        with pytest.raises(RunNotFoundError):
            await anext(agent.runs.follow("other"))
        with pytest.raises(RunNotFoundError):
            await anext(agent.runs.follow("other", thread_id="bills"))
    with (
        serve(ScriptedAgent(turn(text("Hi")))) as bare,
        pytest.raises(UsageError, match="no agent at this address"),
    ):
        await HttpAgent(bare.url).runs.list()
    with pytest.raises(UsageError, match="the response describes no runs that"):
        await HttpAgent("http://other/", app=_answer_otherwise).runs.stop("r")


async def _answer_otherwise(scope: Any, receive: Any, send: Any) -> None:
    """Answer each request with JSON, as a server that knows nothing of runs."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": b'{"ok": true}'})


@pytest.mark.parametrize(
    ("status", "kind"), [(404, RunNotFoundError), (409, RequestRepeatedError), (410, RequestExpiredError)]
)
async def test_what_a_server_that_keeps_runs_refuses_is_the_error_that_it_would_be_here(
    status: int, kind: type[UsageError]
) -> None:
    refusal = Reply([b'{"detail": "too late"}'], status=status, headers={"x-agui-runs": "continue"})
    with serve_bytes(refusal) as server, pytest.raises(UsageError) as caught:
        await HttpAgent(server.url).runs.stop("r")
    assert (type(caught.value), str(caught.value)) == (kind, "too late")
