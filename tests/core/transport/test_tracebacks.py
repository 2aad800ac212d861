"""What a newcomer sees when a server is not as expected: the cause first, what to do, and few lines of traceback."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from agui_client import AGUIError, ConnectError, HttpAgent, HTTPStatusError, UnexpectedContentTypeError
from agui_client.testing import Reply, serve_bytes, sse, text, turn
from support.bodies import memory_agent
from support.waiting import LIMIT

_LINES = 21


def _lines_of(error: BaseException) -> list[str]:
    """Return the lines of a traceback, without the marks below them, of which 3.13 makes more."""
    return [line for line in "".join(traceback.format_exception(error)).splitlines() if line.strip(" ~^")]


def _looped(agent: HttpAgent) -> None:
    with agent.stream_sync("Hi") as run:
        for _ in run:
            pass


async def _iterated(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        async for _ in run:
            pass


WAYS: dict[str, Callable[[HttpAgent], object]] = {
    "run_agent": lambda agent: asyncio.run(agent.run_agent("Hi")),
    "stream": lambda agent: asyncio.run(_iterated(agent)),
    "run_agent_sync": lambda agent: agent.run_agent_sync("Hi"),
    "stream_sync": _looped,
}


def gone() -> str:
    """An address at which nothing listens."""
    with serve_bytes(b"") as server:
        return server.url


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_server_that_is_down_is_said_first_and_briefly(way: Callable[[HttpAgent], object]) -> None:
    url = gone()
    with pytest.raises(ConnectError) as caught:
        way(HttpAgent(url, retry=0))
    assert str(caught.value) == f"no connection to {url}: nothing listens there; is the agent running?"
    shown = _lines_of(caught.value)
    assert len(shown) <= _LINES
    assert "httpx" not in "".join(shown)


@pytest.mark.parametrize("verb", ["await agent.run_agent('Hi')", "agent.run_agent_sync('Hi')"])
def test_in_ipython_only_the_cell_is_shown(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # IPython warns of one that it does not run in
    shell: Any = InteractiveShell.instance()
    try:
        shell.run_cell(f"from agui_client import HttpAgent\nagent = HttpAgent({gone()!r}, retry=0)\n{verb}\n")
    finally:
        InteractiveShell.clear_instance()
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) <= _LINES + 4
    assert verb in "".join(shown)
    assert "nothing listens there" in shown[-1]


WAITING_CELLS = {
    "await agent.run_agent('Hi')": "await agent.run_agent('Hi')",
    "async for _ in run": "async with agent.stream('Hi') as run:\n    async for _ in run:\n        pass\n",
}
"""Cells, by the line that waits."""


@pytest.mark.parametrize(("line", "cell"), WAITING_CELLS.items(), ids=["run_agent", "stream"])
def test_of_a_cell_that_is_interrupted_while_it_waits_only_the_cell_is_shown(
    line: str, cell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    is_waiting = asyncio.Event()

    async def be_silent() -> None:
        is_waiting.set()
        await asyncio.Event().wait()

    async def interrupt(shell: Any) -> None:
        task = asyncio.create_task(shell.run_cell_async(cell, transformed_cell=cell))
        await asyncio.wait_for(is_waiting.wait(), LIMIT)
        task.cancel()
        await asyncio.wait_for(task, LIMIT)

    shell: Any = InteractiveShell.instance(user_ns={"agent": memory_agent(be_silent)})
    try:
        asyncio.run(interrupt(shell))
    finally:
        InteractiveShell.clear_instance()
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) <= 10
    assert line in "".join(shown)
    assert "CancelledError" in shown[-1]


FAULTS = {
    "404": (
        Reply([b"no"], status=404),
        HTTPStatusError,
        r"responded with 404 Not Found: no; is this the address that takes runs\?$",
    ),
    "HTML": (
        Reply([b"<html>\n"], content_type="text/html"),
        UnexpectedContentTypeError,
        r"responded with 200 OK and text/html .*, beginning with '<html>.*; is this the agent's address\?$",
    ),
    "cut": (
        Reply([sse(turn(text("Hi")))[:200]], end="reset"),
        AGUIError,
        r"^the run was cut off, as the connection to \S+ broke: .*what arrived is kept",
    ),
}


@pytest.mark.parametrize(("reply", "kind", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_what_happened_comes_first_then_what_to_do(reply: Reply, kind: type[AGUIError], message: str) -> None:
    with serve_bytes(reply) as server, pytest.raises(kind, match=message) as caught:
        HttpAgent(server.url).run_agent_sync("Hi")
    assert len(_lines_of(caught.value)) <= _LINES - 5
