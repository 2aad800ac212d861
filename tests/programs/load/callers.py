"""Callers of the proxy, who note all that they see, and ask again when a run was ended by a deploy."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pydantic_core import from_json

_PATIENCE = 300.0
"""The longest time that a caller waits for anything, in seconds."""
_PAUSE = 0.1
"""The seconds before a caller asks again whose run was ended."""
_RETRY_AFTER = re.compile(rb"retry-after: *(\d+)", re.IGNORECASE)


@dataclass
class Seen:
    """All that callers saw."""

    texts: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The texts by thread and message."""
    results: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The results of tools by thread and call."""
    turns: list[float] = field(default_factory=list[float])
    """The seconds of each turn that nothing interrupted."""
    first: list[float] = field(default_factory=list[float])
    """The seconds from each request to the first event of its run, requests that were sent again included."""
    again: list[float] = field(default_factory=list[float])
    """The seconds from the end that a deploy made to the first event of the run after it."""
    failures: list[str] = field(default_factory=list[str])
    """What should not have happened."""


class EndedError(Exception):
    """The run was ended, or refused, because its server stops.

    Args:
        seconds: The time after which the caller may ask again.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class Caller:
    """One caller, with a thread.

    Args:
        port: The port of the proxy.
        place: The path of the app.
        seen: Gets what it sees.
    """

    def __init__(self, port: int, place: str, seen: Seen) -> None:
        self._port, self._place, self._seen, self.thread_id = port, place, seen, str(uuid4())
        self._messages: list[dict[str, Any]] = []

    async def turn(self) -> None:
        """Ask, and read the answer; go on after a deploy."""
        began, is_whole = time.perf_counter(), True
        ended: float | None = None
        self._messages.append({"id": str(uuid4()), "role": "user", "content": "Look around."})
        async with asyncio.timeout(_PATIENCE):
            while True:
                asked = time.perf_counter()
                try:
                    async for event in self._answer():
                        if event["type"] == "RUN_STARTED":
                            self._seen.first.append(time.perf_counter() - (began if ended is None else asked))
                            if ended is not None:
                                self._seen.again.append(time.perf_counter() - ended)
                                ended = None
                        self._note(event)
                    break
                except (EndedError, ConnectionError, asyncio.IncompleteReadError) as error:
                    ended, is_whole = ended or time.perf_counter(), False
                    await asyncio.sleep(error.seconds if isinstance(error, EndedError) else _PAUSE)
        if is_whole:
            self._seen.turns.append(time.perf_counter() - began)

    async def _answer(self) -> AsyncIterator[dict[str, Any]]:
        """Send the conversation; yield the events of the answer."""
        body = json.dumps({"threadId": self.thread_id, "runId": str(uuid4()), "messages": self._messages}).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"POST {self._place}/ HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nConnection: close\r\n"
        try:
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            if b" 503 " in answer[:14]:
                retry_after = _RETRY_AFTER.search(answer)
                raise EndedError(float(retry_after[1]) if retry_after else _PAUSE)
            if b" 200 " not in answer[:14]:
                raise AssertionError((answer[:14] + await reader.read()).decode())
            while line := await reader.readline():
                if not line.startswith(b"data: "):
                    continue
                event = from_json(line[6:])
                if event["type"] == "RUN_ERROR":
                    if event.get("code") != "shutting_down":
                        raise AssertionError(str(event))
                    raise EndedError(_PAUSE)
                yield event
                if event["type"] == "RUN_FINISHED":
                    return
            raise ConnectionError("the answer was cut")
        finally:
            writer.close()

    def _note(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "TEXT_MESSAGE_CONTENT":
                key = self.thread_id, event["messageId"]
                self._seen.texts[key] = self._seen.texts.get(key, "") + event["delta"]
            case "TOOL_CALL_RESULT":
                self._seen.results[self.thread_id, event["toolCallId"]] = event["content"]
            case _:
                pass


async def call(callers: list[Caller], seen: Seen, *, ramp: float, turns: int) -> None:
    """Have all callers ask, beginning one after the other.

    Args:
        callers: The callers.
        seen: Gets their failures.
        ramp: The seconds in which they begin.
        turns: The turns of each.
    """

    async def one(number: int, caller: Caller) -> None:
        await asyncio.sleep(ramp * number / len(callers))
        try:
            for _ in range(turns):
                await caller.turn()
        except Exception as error:
            seen.failures.append(f"{type(error).__name__}: {error}")

    await asyncio.gather(*(one(number, caller) for number, caller in enumerate(callers)))
