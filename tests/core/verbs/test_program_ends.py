"""A program ends at once, whatever is still open: after Ctrl-C, pressed twice at any moment, and at its last line."""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import pytest

from agui_client.testing import Reply, serve_bytes, sse, text, turn
from support.programs import Program, run_program
from support.waiting import LIMIT

FRAMES = sse(turn(text("One two", message_id="m1")))
BEGUN = FRAMES[: FRAMES.index(b'data: {"type":"TEXT_MESSAGE_END')]
MOMENTS = int(os.environ.get("AGUI_CLIENT_MOMENTS", "6"))
"""Moments at which Ctrl-C is pressed; 200 and more for a soak, on a machine that does nothing else."""

BEGINNING = """
import asyncio, logging, os, signal, sys, threading, time
logging.disable()
from agui_client import FunctionAgent, HttpAgent, Timeouts, Toolset, tool
from agui_client.testing import ScriptedAgent, tool_call, turn
agent = HttpAgent(sys.argv[1])

class Nothing(Toolset):
    async def tools(self, ctx):
        return []

    async def call(self, call, ctx):
        pass

def events():
    with agent.stream_sync("Hi") as run:
        yield from run
"""
OPEN_AT_THE_END = {
    "a generator that asyncio closes": """
async def pieces(**options):
    async with HttpAgent(sys.argv[1], **options).stream("Hi") as run:
        async for piece in run.text_stream:
            yield piece

async def main(**options):
    async for piece in pieces(**options):
        break

logging.disable(logging.WARNING)
asyncio.run(main())
asyncio.run(main(timeout=Timeouts(total=60), tools=Nothing()))
""",
    "generators around a generator that asyncio closes": """
async def inner():
    async with HttpAgent(sys.argv[1]).stream("Hi") as run:
        async for event in run:
            yield event

async def around(events):
    async for event in events:
        yield event

async def main(depth, kept):
    events = inner()
    for _ in range(depth):
        events = around(events)
    kept.append(events)
    if depth == 1:
        kept.clear()
    async for event in events:
        break

logging.disable(logging.WARNING)
for depth in range(3):
    asyncio.run(main(depth, []))
asyncio.run(main(2, kept := []))
""",
    "a suspended generator": """
kept = events()
next(kept)
""",
    "a block that is not left": """
kept = agent.stream_sync("Hi").__enter__()
next(kept)
""",
    "a block that is not left, in another thread": """
seen = threading.Event()

def iterate():
    for event in events():
        seen.set()

threading.Thread(target=iterate, daemon=True).start()
seen.wait()
""",
    "a run that is observed": """
seen = threading.Event()
kept = agent.observe("Hi").subscribe(lambda event: seen.set())
seen.wait()
""",
    "a subscription of this moment": """
kept = agent.observe("Hi").subscribe()
""",
    "a tool that sleeps in its thread": """
seen = threading.Event()

@tool
def nap() -> str:
    seen.set()
    time.sleep(60)

kept = ScriptedAgent(turn(tool_call("nap")), tools=[nap]).observe("Hi").subscribe()
seen.wait()
""",
    "a run that is dropped": """
kept = agent.stream_sync("Hi").__enter__()
next(kept)
del kept
give_up = time.monotonic() + 5
while agent.is_running and time.monotonic() < give_up:
    time.sleep(0.001)
assert not agent.is_running
""",
    "an iteration without a block": """
try:
    for event in agent.stream_sync("Hi"):
        break
except Exception as error:
    assert "inside its block" in str(error)
else:
    raise AssertionError("it iterates")
""",
    "ctrl_c_before_the_thread_began": """
def pressed(*args):
    raise KeyboardInterrupt

start, threading._start_new_thread = threading._start_new_thread, pressed
try:
    agent.run_agent_sync("Hi")
except KeyboardInterrupt:
    threading._start_new_thread = start
else:
    raise AssertionError("it runs")
""",
}
PRESSED_TWICE = """
def ask():
    if sys.argv[2] == "run_agent_sync":
        agent.run_agent_sync("Hi")
    else:
        for event in events():
            pass

try:
    try:
        print("ready", flush=True)
        while True:
            ask()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the second may have come before the line above

def begun():
    # Without a thread that Ctrl-C kept from its start: Python lists it for ever, and it has no identity.
    return [thread.name for thread in threading.enumerate() if thread.ident is not None]

give_up = time.monotonic() + 5
while (agent.is_running or len(begun()) > 1) and time.monotonic() < give_up:
    time.sleep(0.001)
agent.stream_sync("Again").__enter__().__exit__(None, None, None)
print(begun(), flush=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
raise KeyboardInterrupt
"""


@pytest.mark.parametrize("program", OPEN_AT_THE_END.values(), ids=list(OPEN_AT_THE_END))
def test_a_program_ends_at_its_last_line_without_a_word(program: str) -> None:
    with serve_bytes(Reply([BEGUN], end="stall")) as server:
        assert run_program("-c", BEGINNING + program, server.url) == ("", "", 0)


FORKED = """
import warnings

warnings.simplefilter("ignore")  # of forks while there are threads

def in_child(result):
    if os.fork():
        return os.wait()[1]
    signal.alarm(20)
    try:
        print(result(), flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    os._exit(0)

with agent.stream_sync("Hi") as run:
    next(run)
    assert in_child(run.result) == 0
    agent.abort_run()

async def main():
    async with agent.clone().stream("Hi") as run:
        await anext(run)
        if pid := os.fork():
            return
        signal.alarm(20)
        await run.result()

try:
    asyncio.run(main())
except Exception as error:
    print(type(error).__name__, error, flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_child_forked_in_the_middle_of_a_run_is_told_whose_run_it_is() -> None:
    what = "UsageError this process was forked in the middle of the run, which continues in the process it came from"
    said = f"{what}; run a clone() of the agent here\n"
    with serve_bytes(Reply([BEGUN], end="stall")) as server:
        assert run_program("-c", BEGINNING + FORKED, server.url) == (said * 2, "", 0)


@pytest.mark.skipif(sys.platform == "win32", reason="signals to another process are POSIX's")
@pytest.mark.parametrize("moment", range(MOMENTS))
def test_ctrl_c_twice_ends_the_run_and_leaves_an_agent_that_can_be_used(moment: int) -> None:
    chance = random.Random(moment)
    reply = chance.choice([Reply([BEGUN], end="stall"), Reply([FRAMES])])
    verb = chance.choice(["run_agent_sync", "stream_sync"])
    with serve_bytes(reply) as server, Program("-c", BEGINNING + PRESSED_TWICE, server.url, verb) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0, chance.choice([0.02, 0.3])))
        process.send_signal(signal.SIGINT)
        time.sleep(chance.uniform(0.001, 0.01))
        process.send_signal(signal.SIGINT)
        output, complaints = process.communicate(timeout=LIMIT)
    assert output == "['MainThread']\n", complaints
    assert process.returncode == -signal.SIGINT, complaints
