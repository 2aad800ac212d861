"""Ctrl-C in a program closes the connection at once and ends the program without complaints."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from agui_client.testing import Reply, serve_bytes, sse, text, turn
from support.programs import DEV, Program
from support.waiting import LIMIT, SOON, until_sync

FRAMES = sse(turn(text("One two", message_id="m1")))
BEGUN = FRAMES[: FRAMES.index(b'data: {"type":"TEXT_MESSAGE_END')]

RUN_AGENT_SYNC = """
agent.run_agent_sync("Hi")
"""
STREAM_SYNC = """
with agent.stream_sync("Hi") as run:
    for event in run:
        pass
"""
STREAM_ASYNCIO = """
async def main():
    async with agent.stream("Hi") as run:
        async for event in run:
            pass

import asyncio
asyncio.run(main())
"""
RUN_AGENT_TRIO = """
import trio
trio.run(agent.run_agent, "Hi")
"""
OBSERVE_IN_LOOP = """
import asyncio

async def main():
    agent.observe("Hi").subscribe()
    await asyncio.Event().wait()

asyncio.run(main())
"""
OBSERVE_IN_THREAD = """
import threading
subscription = agent.observe("Hi").subscribe()
try:
    threading.Event().wait()
finally:
    subscription.dispose()
"""
PROGRAMS = {
    "run_agent_sync": RUN_AGENT_SYNC,
    "stream_sync": STREAM_SYNC,
    "stream, asyncio": STREAM_ASYNCIO,
    "run_agent, trio": RUN_AGENT_TRIO,
    "observe in a loop": OBSERVE_IN_LOOP,
    "observe in a thread": OBSERVE_IN_THREAD,
}
BEGINNING = """
import sys
from ag_ui.core import TextMessageContentEvent
from agui_client import HttpAgent
agent = HttpAgent(sys.argv[1])

@agent.on(TextMessageContentEvent)
def ready(event):
    print("ready", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals to another process are POSIX's")
@pytest.mark.parametrize("source", PROGRAMS.values(), ids=list(PROGRAMS))
def test_ctrl_c_closes_the_connection_and_ends_the_program(source: str) -> None:
    with (
        serve_bytes(Reply([BEGUN], end="stall")) as server,
        Program("-c", BEGINNING + source, server.url, flags=DEV) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert process.stdout.readline() == "ready\n"
        # Inside of httpx's own generators Ctrl-C would leave those unfinished below them, of which trio warns.
        process.until_asleep()
        pressed_at = time.monotonic()
        process.send_signal(signal.SIGINT)
        until_sync(server.disconnected.is_set, LIMIT)
        assert server.disconnected_at is not None
        assert server.disconnected_at - pressed_at < SOON
        _, complaints = process.communicate(timeout=LIMIT)
    assert process.returncode == -signal.SIGINT
    assert complaints.rstrip().endswith("KeyboardInterrupt")
    assert complaints.count("Traceback") - complaints.count("another exception occurred") == 1
    for word in ("Warning", "never awaited", "was destroyed", "Exception ignored", "never retrieved"):
        assert word not in complaints
