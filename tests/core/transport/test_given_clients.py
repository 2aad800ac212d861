"""HTTP clients of other libraries: httpx2's do what httpx's do, over real connections."""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import gc
from typing import Any

import httpx
import httpx2
import pytest

from agui_client import (
    ConnectError,
    HttpAgent,
    HTTPStatusError,
    IdleTimeoutError,
    IncompleteRunError,
    RetryPolicy,
    RunResult,
    Timeouts,
    UsageError,
)
from agui_client.testing import ScriptedAgent, faults, serve, serve_bytes, sse, text, turn
from support import scenario

ANSWER = sse(turn(text("Hello")))


@pytest.mark.anyio
async def test_a_client_of_httpx2_runs_an_agent_with_its_own_headers_and_stays_open() -> None:
    with serve_bytes(ANSWER) as server:
        async with httpx2.AsyncClient(headers={"X-Tenant": "acme", "User-Agent": "mine"}) as client:
            agent = HttpAgent(server.url, http_client=client, headers={"X-Token": "t"})
            assert (await agent.run_agent("Hi")).text == "Hello"
            agent.set_messages([])
            async with agent:
                assert (await agent.run_agent("Hi")).text == "Hello"
            assert not client.is_closed
    sent = server.requests[0].headers
    assert [sent[name] for name in ("x-tenant", "user-agent", "x-token")] == ["acme", "mine", "t"]


def test_a_function_makes_a_client_of_httpx2_for_each_run_which_is_closed_with_it() -> None:
    made: list[httpx2.AsyncClient] = []

    def make() -> httpx2.AsyncClient:
        made.append(httpx2.AsyncClient())
        return made[-1]

    with serve_bytes(ANSWER) as server:
        agent = HttpAgent(server.url, http_client=make)
        assert [each.run_agent_sync("Hi").text for each in (agent.clone(), agent)] == ["Hello", "Hello"]
    assert [client.is_closed for client in made] == [True, True]


@pytest.mark.anyio
async def test_failures_of_httpx2_are_our_errors() -> None:
    async with httpx2.AsyncClient() as client:
        with serve_bytes(faults.status(503, retry_after=1)) as server, pytest.raises(HTTPStatusError):
            await HttpAgent(server.url, http_client=client).run_agent("Hi")
        with pytest.raises(ConnectError, match="nothing listens there") as caught:
            await HttpAgent(server.url, http_client=client, retry=RetryPolicy(first_wait=0)).run_agent("Hi")
        assert isinstance(caught.value.partial, RunResult)
        assert len(caught.value.partial.attempts) == 3
        with serve_bytes(faults.reset(ANSWER, events=2)) as server, pytest.raises(IncompleteRunError, match="broke"):
            await HttpAgent(server.url, http_client=client).run_agent("Hi")
        with serve_bytes(faults.stall(ANSWER, events=2)) as server, pytest.raises(IdleTimeoutError):
            await HttpAgent(server.url, http_client=client, timeout=Timeouts(idle=0.1)).run_agent("Hi")


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_client_with_connections_of_another_event_loop_is_refused_with_the_way_out(library: Any) -> None:
    with serve(ScriptedAgent(turn(text("Hello")))) as server:
        agent = HttpAgent(server.url, http_client=library.AsyncClient())
        assert agent.run_agent_sync("Hi").text == "Hello"
        with pytest.raises(UsageError, match="give a function that makes a client, such as http_client="):
            agent.run_agent_sync("Hi")
    # Nobody can close its connections any more.
    del agent
    gc.collect()


def test_a_function_that_makes_no_client_is_refused() -> None:
    number: Any = lambda: 5  # noqa: E731
    agent = HttpAgent("http://agent.test/", http_client=number)
    with pytest.raises(UsageError, match="http_client= cannot be a int"):
        agent.run_agent_sync(scenario.PROMPT)


@pytest.mark.anyio
async def test_retry_takes_the_number_of_repetitions() -> None:
    with serve_bytes(faults.status(503, retry_after=0)) as server, pytest.raises(HTTPStatusError) as error:
        await HttpAgent(server.url, retry=2).run_agent("Hi")
    assert isinstance(error.value.partial, RunResult)
    assert len(error.value.partial.attempts) == 3


@pytest.mark.anyio
async def test_an_exception_of_the_applications_own_transport_stays_what_it_is() -> None:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise LookupError("no route")

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(fail))
    with pytest.raises(LookupError, match="no route"):
        await HttpAgent("http://agent.test/", http_client=client).run_agent("Hi")
