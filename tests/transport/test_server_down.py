"""A server that is down: a short traceback, whose last line says what happened before it says what to do."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Callable

import pytest

from agui_client import ConnectError, HttpAgent

MOST_LINES = 25


def _in_a_loop(agent: HttpAgent) -> None:
    async def main() -> None:
        await agent.run_agent("Hi")

    asyncio.run(main())


def _without_one(agent: HttpAgent) -> None:
    agent.run_agent_sync("Hi")


@pytest.mark.parametrize("ask", [_in_a_loop, _without_one])
def test_the_traceback_is_short_and_says_first_that_nothing_listens(ask: Callable[[HttpAgent], None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
    with pytest.raises(ConnectError) as caught:
        ask(HttpAgent(url))
    error = caught.value.with_traceback(caught.tb.tb_next)  # from the program's own line on
    lines = "".join(traceback.format_exception(error)).splitlines()
    assert len(lines) <= MOST_LINES
    assert f"no connection to {url}: nothing listens there; is the agent running?" in lines[-1]
    assert str(error).startswith(f"no connection to {url}: nothing listens there")
