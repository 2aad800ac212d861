"""Servers with durable runs as processes of their own, and callers of them."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx

from agui_client import HttpAgent, RetryPolicy
from agui_client.store import Store
from support.programs import ROOT, Program

if TYPE_CHECKING:
    from ag_ui.core import Message, Tool

    from agui_client.reconnect import ReconnectPolicy

_PROGRAM = Path(__file__).parent / "durable_server.py"
_SECONDS = 60.0
_PIECES = 6
_ERRORS = 2


class Servers:
    """Servers on one database, and the folder that their tools write to."""

    def __init__(self, folder: Path, url: str, stack: ExitStack, program: Path = _PROGRAM) -> None:
        self.folder, self.url, self._stack, self._program = folder, url, stack, str(program)

    async def start(self, port: int = 0) -> tuple[Program, str]:
        port = port or _free_port()
        # The output of a server would fill its pipe if nobody read it.
        program = self._stack.enter_context(
            Program(self._program, self.url, str(self.folder), str(port), stdout=_ERRORS, stderr=_ERRORS)
        )
        url = f"http://127.0.0.1:{port}/"
        await _until_served(url)
        return program, url

    async def start_many(self, kind: str) -> tuple[subprocess.Popen[bytes], str]:
        """Start a server that has two workers of a kind: `spawned` or `forked`."""
        port = _free_port()
        server = self._started(port, kind)
        url = f"http://127.0.0.1:{port}/"
        await _until_served(url)
        return server, url

    def _started(self, port: int, kind: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, self._program, self.url, str(self.folder), str(port), kind]
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        server = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, start_new_session=True)
        self._stack.callback(_end_group, server)
        return server

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().split() if file.exists() else []

    def lines(self, name: str) -> list[str]:
        """The lines of a file of the folder."""
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    @property
    def members(self) -> list[str]:
        """The members of teams that have begun, each with its thread, and with a point if it has ended."""
        file = self.folder / "members"
        return file.read_text().split() if file.exists() else []

    async def stored_messages(self, thread_id: str) -> list[Message]:
        """The messages of a stored thread, as the database has them."""
        async with Store(self.url) as store:
            threads = store.threads
            saved = await threads.get(thread_id)
        assert saved is not None
        return saved.conversation.messages

    @property
    def pids(self) -> list[int]:
        """The processes that have run the agent or a member, in the order of the runs."""
        file = self.folder / "pids"
        return [int(each) for each in file.read_text().split()] if file.exists() else []

    def flag(self, name: str, *, up: bool) -> None:
        (self.folder / name).touch() if up else (self.folder / name).unlink()


def page(
    url: str, thread_id: str = "t", reconnect: ReconnectPolicy | None = None, tools: Sequence[Tool] = ()
) -> HttpAgent:
    retry = RetryPolicy(first_wait=0.05, max_wait=0.2)
    return HttpAgent(
        url, thread_id=thread_id, connect_url=f"{url}connect", reconnect=reconnect, retry=retry, tools=tools
    )


async def status_of(url: str, thread_id: str) -> str:
    """The status of the latest run of a thread."""
    async with httpx.AsyncClient(timeout=_SECONDS) as client:
        infos = (await client.post(f"{url}runs", json={})).json()
    return next(str(each["status"]) for each in infos if each["threadId"] == thread_id)


def _free_port() -> int:
    """Return a free port that no connection gets by itself before the server has bound it."""
    while True:
        port = random.randrange(20_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


async def _until_served(url: str) -> None:
    async with httpx.AsyncClient() as client:
        with anyio.fail_after(_SECONDS):
            while True:
                try:
                    await client.get(url)
                except httpx.TransportError:
                    await anyio.sleep(0.02)
                else:
                    return


def _end_group(server: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait(_SECONDS)


async def read_until(agent: HttpAgent, prompt: str, is_enough: Callable[[], bool]) -> None:
    """Read a run until something holds, and leave it."""
    async with agent.stream(prompt, run_id="r") as run:
        async for _ in run:
            if is_enough():
                return


def texts(messages: list[Message]) -> str:
    return "".join(str(each.content) for each in messages if each.role == "assistant")


def told(rounds: int) -> str:
    return "".join(f"{each}.{number} " for each in range(rounds) for number in range(_PIECES))
