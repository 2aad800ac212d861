"""Apps in this process: `HttpAgent(url, app=app)` and `ASGITransport`, as if they stood behind a socket."""

from __future__ import annotations

from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from agui_client import AGUIError, HttpAgent, TransportError
from agui_client.asgi import ASGITransport, agent_app
from agui_client.testing import Gate, ScriptedAgent, agui_app, events_of, pause, sse, text, turn
from support.leaks import nothing_left_behind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from starlette.types import ASGIApp, Receive, Send

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]
_SECONDS = 5.0
_seen: ContextVar[str] = ContextVar("seen", default="nothing")


async def test_the_first_event_is_there_before_the_app_has_made_its_second() -> None:
    gate = Gate()
    agent = HttpAgent("http://app/", app=agui_app(ScriptedAgent(turn(gate))))
    with anyio.fail_after(_SECONDS):
        async with agent.stream("hello") as run:
            first = await anext(run)
            gate.open()
            assert [first.type.value, *[event.type.value async for event in run]] == ["RUN_STARTED", "RUN_FINISHED"]


async def test_a_framework_answers_like_a_server() -> None:
    app = FastAPI()
    script = sse(turn(text("Hi Ada")))

    @app.post("/agents/{name}")
    async def answer(name: str, request: Request) -> StreamingResponse:
        assert (name, request.query_params["key"], request.headers["x-user"]) == ("ada l", "1", "me")
        assert (request.scope["raw_path"], request.scope["http_version"]) == (b"/agents/ada%20l", "1.1")
        assert (await request.json())["messages"][0]["content"] == "hello"
        return StreamingResponse(_one_by_one(script), media_type="text/event-stream")

    result = await HttpAgent("http://app/agents/ada%20l?key=1", app=app, headers={"x-user": "me"}).run_agent("hello")
    assert (result.text, result.response and result.response.status_code) == ("Hi Ada", 200)


async def _one_by_one(data: bytes) -> AsyncIterator[bytes]:
    for index in range(len(data)):
        yield data[index : index + 1]


async def test_leaving_the_run_cancels_an_app_that_listens_for_nothing() -> None:
    left = anyio.Event()

    async def deaf(scope: Any, receive: Receive, send: Send) -> None:
        """An app that never listens for a disconnect."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": events_of(sse(turn()))[0], "more_body": True})
        try:
            await anyio.sleep(60)
        finally:
            left.set()

    with anyio.fail_after(_SECONDS):
        async with HttpAgent("http://app/", app=deaf).stream("hello") as run:
            await anext(run)
            run.cancel()
        await left.wait()


async def test_a_disconnect_reaches_an_app_that_listens() -> None:
    messages: list[str] = []

    async def listening(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": events_of(sse(turn()))[0], "more_body": True})
        while "http.disconnect" not in messages:
            messages.append((await receive())["type"])
        with pytest.raises(OSError, match="left"):
            await send({"type": "http.response.body", "body": b"", "more_body": True})
        messages.append("ended by itself")

    with anyio.fail_after(_SECONDS):
        async with HttpAgent("http://app/", app=listening).stream("hello") as run:
            await anext(run)
    assert messages == ["http.request", "http.disconnect", "ended by itself"]


async def test_an_exception_of_the_app_is_an_error_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Any, receive: Receive, send: Send) -> None:
        raise LookupError("no such thing")

    with pytest.raises(TransportError, match=r"broke: the app raised LookupError$"):
        await HttpAgent("http://app/", app=broken).run_agent("hello")
    assert "LookupError: no such thing" in caplog.text


async def test_a_body_without_a_start_is_an_error_of_the_run() -> None:
    async def broken(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.body", "body": b"data"})

    with anyio.fail_after(_SECONDS), pytest.raises(TransportError, match="the app raised RuntimeError"):
        await HttpAgent("http://app/", app=broken).run_agent("hello")


@pytest.mark.parametrize("app", [ScriptedAgent(turn()), "http://app/"])
def test_an_agent_is_no_app(app: Any) -> None:
    with pytest.raises(AGUIError, match=r"app= takes an ASGI app, such as agent_app\(agent\), not "):
        HttpAgent("http://app/", app=app)


async def test_an_exception_in_the_middle_is_an_error_with_what_had_arrived() -> None:
    async def broken(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send(
            {"type": "http.response.body", "body": b"".join(events_of(sse(turn(text("Hi"))))[:-1]), "more_body": True}
        )
        raise LookupError("no such thing")

    with pytest.raises(AGUIError) as caught:
        await HttpAgent("http://app/", app=broken).run_agent("hello")
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"


async def test_the_context_variables_of_app_and_caller_stay_apart() -> None:
    shown: list[str] = []
    inner = agui_app(ScriptedAgent(turn(text("Hi"))))

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        shown.append(_seen.get())
        _seen.set("the app's")
        await inner(scope, receive, send)

    _seen.set("the caller's")
    await HttpAgent("http://app/", app=app).run_agent("hello")
    assert (shown, _seen.get()) == (["nothing"], "the caller's")


async def test_the_lifespan_runs_with_the_client_when_it_is_asked_for() -> None:
    happened: list[str] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[dict[str, str]]:
        happened.append("up")
        yield {"greeting": "Hi from the state"}
        happened.append("down")

    app = FastAPI(lifespan=lifespan)

    @app.post("/")
    async def answer(request: Request) -> StreamingResponse:
        happened.append("run")
        return StreamingResponse(_one_by_one(sse(turn(text(request.state.greeting)))), media_type="text/event-stream")

    with anyio.fail_after(_SECONDS):
        async with httpx.AsyncClient(transport=ASGITransport(app, lifespan=True)) as client:
            assert (await HttpAgent("http://app/", http_client=client).run_agent("hello")).text == "Hi from the state"
    assert happened == ["up", "run", "down"]


async def test_an_app_that_refuses_to_start_says_why() -> None:
    async def app(scope: Any, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    with pytest.raises(RuntimeError, match="no database"):
        async with httpx.AsyncClient(transport=ASGITransport(app, lifespan=True)):
            pass


async def test_fifty_runs_at_once_leave_nothing_behind() -> None:
    app = agent_app(ScriptedAgent(turn(text("Hi"), pause(0.01))))
    texts: list[str] = []

    async def ask() -> None:
        texts.append((await HttpAgent("http://app/", app=app).run_agent("hello")).text)

    await ask()  # what is imported and kept by then
    async with nothing_left_behind():
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(ask)
    assert texts == ["Hi"] * 51


def test_a_client_and_an_app_exclude_each_other() -> None:
    app: ASGIApp = agui_app(ScriptedAgent(turn()))
    with pytest.raises(AGUIError, match="not both"):
        HttpAgent("http://app/", app=app, http_client=httpx.AsyncClient())


async def test_an_app_that_ends_before_its_response_is_complete_has_broken_it() -> None:
    async def half(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": sse(turn(text("Hi")))[:40], "more_body": True})

    with pytest.raises(TransportError, match="the app ended before its response was complete"):
        await HttpAgent("http://app/", app=half).run_agent("hello")
