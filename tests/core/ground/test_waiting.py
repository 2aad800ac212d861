"""Ctrl-C counts wherever the main thread waits for a thread or for input, also when it does not wake it."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import anyio
import pytest

from agui_client import FunctionToolset, HttpAgent
from agui_client._cli.input_lines import GivenLines
from agui_client.batch import run_many
from agui_client.store import Store
from agui_client.testing import Reply, ScriptedAgent, pause, serve_bytes, text, turn
from support.waiting import LIMIT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals to a thread are POSIX's")


class _Closing(FunctionToolset):
    async def __aexit__(self, *exc_info: object) -> None:
        await anyio.sleep(2 * LIMIT)


def _endless() -> ScriptedAgent:
    return ScriptedAgent(turn(text("Hi"), pause(math.inf)))


def _run(stack: ExitStack, folder: Path) -> None:
    _endless().run_agent_sync("Hi")


def _leave(stack: ExitStack, folder: Path) -> None:
    ScriptedAgent(turn(text("Hi")), tools=_Closing([])).run_agent_sync("Hi")


def _send_body(stack: ExitStack, folder: Path) -> None:
    list(_endless().stream_sync("Hi").sse())


def _batch(stack: ExitStack, folder: Path) -> None:
    list(run_many(_endless(), ["Hi"]))


def _ask_about_runs(stack: ExitStack, folder: Path) -> None:
    server = stack.enter_context(serve_bytes(Reply([], end="stall")))
    HttpAgent(server.url).runs.list_sync()


def _follow_run(stack: ExitStack, folder: Path) -> None:
    server = stack.enter_context(serve_bytes(Reply([], end="stall")))
    list(HttpAgent(server.url).runs.follow_sync("a run"))


def _read_store(stack: ExitStack, folder: Path) -> None:
    store = Store(f"sqlite:///{folder}/threads.db")
    store.threads.list().result()
    other = stack.enter_context(closing(sqlite3.connect(folder / "threads.db")))
    other.execute("begin exclusive")
    stack.callback(other.rollback)
    store.threads.delete("t").result()


def _read_lines(stack: ExitStack, folder: Path) -> None:
    ours, theirs = os.pipe()
    stack.enter_context(os.fdopen(theirs, "w"))
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setattr(sys, "stdin", stack.enter_context(os.fdopen(ours)))
    GivenLines().next()


WAITS = [_run, _leave, _send_body, _batch, _ask_about_runs, _follow_run, _read_store, _read_lines]


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_that_another_thread_receives_ends_the_wait(
    wait: Callable[[ExitStack, Path], None], tmp_path: Path
) -> None:
    pressed_at: list[float] = []

    def press() -> None:
        """Press Ctrl-C as a main thread sees it that is about to sleep: the flag is set, and nothing wakes it."""
        pressed_at.append(time.monotonic())
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    with ExitStack() as stack:
        threading.Timer(0.3, press).start()
        with pytest.raises(KeyboardInterrupt):
            wait(stack, tmp_path)
        assert time.monotonic() - pressed_at[0] < LIMIT / 2
