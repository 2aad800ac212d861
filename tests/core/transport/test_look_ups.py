"""A name that is looked up for ever holds nothing up: time-outs, abort, Ctrl-C, the end of the program."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Generator
from typing import Any

import anyio
import pytest

from agui_client import ConnectError, ConnectTimeoutError, HttpAgent, RunTimeoutError, Timeouts
from agui_client.testing import serve_bytes, sse, text, turn
from support.programs import run_program
from support.verbs import KINDS, RESULT_VERBS, Verb, by_verb
from support.waiting import until, until_sync

URL = "http://agent.test/"
LIMITS = {
    "connect": (Timeouts(connect=0.1), ConnectTimeoutError),
    "total": (Timeouts(total=0.1), RunTimeoutError),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """The names that were looked up, none of which is ever found."""
    names, over = list[str](), threading.Event()

    def look_up(host: str, *_: Any, **__: Any) -> Any:
        names.append(host)
        over.wait(30)
        raise socket.gaierror("too late")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield names
    over.set()


@by_verb("limit", LIMITS, ["connect"], KINDS, thorough=["stream-trio"])
def test_every_kind_of_verb_gives_a_look_up_up_in_time(
    verb: Verb, limit: tuple[Timeouts, type[Exception]], asked: list[str]
) -> None:
    limits, kind = limit
    began = time.monotonic()
    error = verb(HttpAgent(URL, timeout=limits, retry=0), "Hi").error
    assert type(error) is kind
    assert asked == ["agent.test"]
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("verb", [pytest.param(verb, id=name) for name, verb in RESULT_VERBS.items()])
def test_an_abort_does_not_wait_for_a_look_up(verb: Verb, asked: list[str]) -> None:
    agent = HttpAgent(URL)

    def abort() -> None:
        until_sync(lambda: asked)
        agent.abort_run()

    threading.Thread(target=abort, daemon=True).start()
    result = verb(agent, "Hi").result
    assert result is not None
    assert result.aborted


@pytest.mark.anyio
async def test_a_cancelled_task_does_not_wait_for_a_look_up(asked: list[str]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(HttpAgent(URL).run_agent, "Hi")
        await until(lambda: asked)
        tasks.cancel_scope.cancel()


_PROGRAM = """
import asyncio, os, signal, socket, threading, time
from agui_client import HttpAgent
asked = threading.Event()
def look_up(*_, **__):
    asked.set()
    time.sleep(60)
socket.getaddrinfo = look_up
async def given_up():
    await asyncio.wait_for(HttpAgent("http://agent.test/").run_agent("Hi"), 0.1)
def interrupt():
    asked.wait()
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)
"""
_GIVEN_UP = """
try:
    asyncio.run(given_up())
except TimeoutError:
    print("over")
"""
_CTRL_C = """
threading.Thread(target=interrupt).start()
try:
    HttpAgent("http://agent.test/").run_agent_sync("Hi")
except KeyboardInterrupt:
    print("over")
"""


@pytest.mark.parametrize("ending", [_GIVEN_UP, _CTRL_C], ids=["given up", "Ctrl-C"])
def test_the_end_of_a_program_does_not_wait_for_a_look_up(ending: str) -> None:
    printed, _, code = run_program("-c", _PROGRAM + ending)
    assert (printed, code) == ("over\n", 0)


def test_a_name_that_nobody_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(ConnectError, match=r"^no connection to http://agent\.test/: the name agent\.test is not") as it:
        HttpAgent(URL, retry=0).run_agent_sync("Hi")
    assert not it.value.may_have_started


@pytest.mark.anyio
async def test_connections_that_are_there_need_no_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real = list[Any](), socket.getaddrinfo

    def look_up(host: Any, *args: Any, **options: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with serve_bytes(sse(turn(text("Hi.")))) as server:
        async with HttpAgent(server.url.replace("127.0.0.1", "agent.test")) as agent:
            await agent.run_agent("Hi")
            first = len(asked)
            await agent.run_agent("Hi")
    # The server closes its connections, so httpx connects, and looks up, once more; we do not.
    assert 0 < len(asked) < 2 * first
