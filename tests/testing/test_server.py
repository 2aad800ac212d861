"""`agui_app` and `serve`: an agent behind real HTTP, and gone without a trace afterwards."""

from __future__ import annotations

import builtins
import logging
import math
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import psutil
import pytest
from ag_ui.core import RunAgentInput, RunErrorEvent, StateSnapshotEvent
from starlette.types import Receive, Send

from agui_client.testing import ScriptedAgent, Server, Step, agui_app, pause, serve, sse, state, text, turn

INPUT: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [], "state": {"n": 1}}


@pytest.fixture
def hello() -> ScriptedAgent:
    return ScriptedAgent(turn(text("Hi Ada")))


@pytest.fixture
def server(hello: ScriptedAgent) -> Iterator[Server]:
    with serve(hello) as running:
        yield running


@pytest.mark.requirement("SSE-1", "SSE-2", "SSE-3", "SSE-4")
def test_a_post_streams_the_run(server: Server, hello: ScriptedAgent) -> None:
    response = httpx.post(server.url, verify=False, json=INPUT)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream"
    assert response.content == sse(turn(text("Hi Ada")), input=RunAgentInput.model_validate(INPUT))
    assert hello.inputs == [RunAgentInput.model_validate(INPUT)]
    assert server.disconnects == 0
    assert server.errors == []


def test_an_answer_on_a_kept_connection_is_sent_at_once(server: Server) -> None:
    with httpx.Client(verify=False) as client:
        client.post(server.url, json=INPUT)
        port = httpx.URL(server.url).port
        connections = psutil.Process().net_connections("tcp")
        [kept] = [each for each in connections if each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port]
        with socket.socket(fileno=os.dup(kept.fd)) as theirs:
            assert theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_another_method_is_refused(server: Server) -> None:
    response = httpx.get(server.url, verify=False)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.json() == {"detail": "GET is not allowed; POST a RunAgentInput"}


@pytest.mark.requirement("SSE-8")
def test_a_body_that_is_no_json_is_refused_with_400(server: Server, hello: ScriptedAgent) -> None:
    response = httpx.post(server.url, verify=False, content=b'{"threadId": ')
    assert response.status_code == 400
    assert response.json()["detail"][0]["type"] == "json_invalid"
    assert hello.inputs == []


@pytest.mark.requirement("SSE-8")
def test_wrong_and_missing_fields_are_refused_with_422_without_echoing_them(server: Server) -> None:
    response = httpx.post(server.url, verify=False, json={"thread_id": ["secret"], "runId": "r"})
    assert response.status_code == 422
    assert {tuple(error["loc"]) for error in response.json()["detail"]} == {("threadId",), ("messages",)}
    assert "secret" not in response.text


def test_an_agent_that_raises_ends_its_run_with_run_error() -> None:
    async def broken(input: RunAgentInput) -> AsyncIterator[Step]:
        yield state(1)
        raise ValueError("boom")

    with serve(ScriptedAgent(broken)) as server:
        response = httpx.post(server.url, verify=False, json=INPUT)
        assert response.content == sse(
            StateSnapshotEvent(snapshot=1), RunErrorEvent(message="the agent raised ValueError: boom")
        )
        assert [str(error) for error in server.errors] == ["boom"]


def test_an_agent_is_stopped_and_counted_when_its_client_goes_away() -> None:
    stopped = threading.Event()

    async def endless(input: RunAgentInput) -> AsyncIterator[Step]:
        try:
            yield state(1)
            yield pause(math.inf)
        finally:
            stopped.set()

    with serve(ScriptedAgent(endless)) as server:
        with httpx.stream("POST", server.url, verify=False, json=INPUT) as response:
            body = response.iter_raw()
            assert next(body) == sse(StateSnapshotEvent(snapshot=1))
            assert not server.disconnected.is_set()
        assert server.disconnected.wait(5)
        assert server.disconnects == 1
        assert stopped.is_set()


def test_a_client_that_leaves_an_agent_that_never_waits_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    async def tireless(input: RunAgentInput) -> AsyncIterator[Step]:
        while True:
            yield state(1)

    with serve(ScriptedAgent(tireless)) as server:
        with httpx.stream("POST", server.url, verify=False, json=INPUT) as response:
            body = response.iter_raw()
            next(body)
        assert server.disconnected.wait(5)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_leaving_the_block_drops_open_runs_and_leaves_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    before = set(threading.enumerate())
    with httpx.Client(timeout=5, verify=False) as client:
        with serve(ScriptedAgent([state(1), pause(math.inf)])) as server:
            request = client.build_request("POST", server.url, json=INPUT)
            response = client.send(request, stream=True)
            body = response.iter_raw()
            assert next(body) == sse(StateSnapshotEvent(snapshot=1))
        with pytest.raises(httpx.TransportError):
            next(body)
        response.close()
        with pytest.raises(httpx.ConnectError):
            client.post(server.url, json=INPUT)
    assert set(threading.enumerate()) - before == set()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_error_in_the_block_comes_out_as_it_is(hello: ScriptedAgent) -> None:
    before = set(threading.enumerate())
    with pytest.raises(KeyError, match="mine"), serve(hello):
        raise KeyError("mine")
    assert set(threading.enumerate()) - before == set()


def test_any_asgi_app_can_be_served_on_a_chosen_port(server: Server, hello: ScriptedAgent) -> None:
    inner = agui_app(hello)

    async def wrapped(scope: Any, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "the server copes with apps that know no lifespan"
        await inner(scope, receive, send)

    with serve(hello) as freed:
        pass
    port = httpx.URL(freed.url).port or 0
    with serve(wrapped, port=port) as other:
        assert other.url == freed.url
        assert httpx.post(other.url + "any/path", verify=False, json=INPUT).status_code == 200
        with pytest.raises(TypeError, match="serve the agent"):
            _ = other.disconnects
    with pytest.raises(OSError, match="in use"), serve(hello, port=httpx.URL(server.url).port or 0):
        pass


def test_an_app_whose_startup_fails_is_reported() -> None:
    async def refuses(scope: Any, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    before = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="refused to start"), serve(refuses):
        pass
    assert set(threading.enumerate()) - before == set()


def test_without_uvicorn_the_error_names_the_extra(hello: ScriptedAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without_uvicorn(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "uvicorn":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return original(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "agui_client.asgi._uvicorn", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_uvicorn)
    with pytest.raises(ImportError, match=r"pip install 'agui-client\[cli\]'"), serve(hello):
        pass


def test_the_app_speaks_only_http(hello: ScriptedAgent) -> None:
    app = agui_app(hello)
    unused: Any = None
    with pytest.raises(ValueError, match="not websocket"):
        app({"type": "websocket"}, unused, unused).send(None)
