"""Steps, the entries of scripts.

A step is an event, an event as JSON (which the 1.0 models need not accept), a pause, a gate, or a part that makes
further steps. `play` flattens a step without awaiting anything; the agent or server that plays it does the waiting.
`sse` encodes a whole script, and `events_of` splits a body into its events (SSE-4).
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import anyio
from ag_ui.core import Event, Message, RunAgentInput

from agui_client._checking.texts import SSE_BLOCK, SSE_DATA
from agui_client._core.protocol.events import UnrecognizedEvent, WireEvent
from agui_client._core.verbs.sse import frame_of

_GATE_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause between two steps."""

    seconds: float
    """The length in seconds; `math.inf` waits until the client goes away."""

    async def wait(self) -> None:
        """Wait for the end of the pause."""
        if math.isinf(self.seconds):
            await anyio.sleep_forever()
        await anyio.sleep(self.seconds)


class Gate:
    """Stops a script or a reply until a test opens the gate, from any thread; a test needs no sleep for that.

    Once open, a gate stays open.
    """

    def __init__(self) -> None:
        self._opened = threading.Event()

    def open(self) -> None:
        """Let everything continue that waits at the gate."""
        self._opened.set()

    async def wait(self) -> None:
        """Wait until the gate is open."""
        # A gate may be opened from other threads and loops, which an event of this loop does not allow.
        while not self._opened.is_set():  # noqa: ASYNC110
            await anyio.sleep(_GATE_POLL_SECONDS)


class ScriptContext:
    """One run of a script: its input, and a source of ids that are new to the conversation.

    Args:
        input: The input of the run; its ids are avoided, so that ids stay unique on the thread (LIFE-15).
    """

    def __init__(self, input: RunAgentInput) -> None:
        self.input = input
        self.last_tool_call_id: str | None = None
        """The tool call that was started last; None before the first."""
        self._taken = set(_ids_of(input))

    def fresh_id(self, kind: str) -> str:
        """Return an unused, readable id, such as "message-1" or "call-2"."""
        candidates = (f"{kind}-{number}" for number in itertools.count(1))
        found = next(candidate for candidate in candidates if candidate not in self._taken)
        self._taken.add(found)
        return found


def _ids_of(input: RunAgentInput) -> Iterator[str]:
    # Not by a plain loop, for which an agent in this process gets copies of all messages.
    for message in list[Message].__iter__(input.messages):
        yield message.id
        # By the role: to ask a model for its class takes long, and there may be thousands.
        if message.role == "assistant":
            yield from (call.id for call in message.tool_calls or ())


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a script, made by `text`, `tool_call`, `turn` and similar functions; playing it makes its events."""

    make: Callable[[ScriptContext], Iterable[Step]] = field(repr=False)
    """Makes the steps of the part for one run."""


Step: TypeAlias = Event | UnrecognizedEvent | dict[str, Any] | Part | Pause | Gate
"""One entry of a script; a dict is an event as JSON, sent unchanged."""


def play(step: Step, scene: ScriptContext) -> Iterator[WireEvent | Pause | Gate]:
    """Flatten a step into events and the waits between them, lazily and in order."""
    match step:
        case Part():
            for inner in step.make(scene):
                yield from play(inner, scene)
        case dict():
            yield UnrecognizedEvent(str(step.get("type", "")), step)
        case _:
            yield step


T = TypeVar("T")


@asynccontextmanager
async def closing(source: AsyncIterator[T]) -> AsyncGenerator[AsyncIterator[T], None]:
    """Iterate inside the block; leaving it closes the source, if it can be closed."""
    try:
        yield source
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()


def sse(*steps: Step, newline: str = "\n", input: RunAgentInput | None = None) -> bytes:
    r"""Encode a whole script as SSE frames, without its pauses and gates: `sse(turn(text("Hi")))`.

    Args:
        *steps: Events, events as JSON (a dict, sent as it is), or parts.
        newline: The end of each line: "\n", "\r\n" or "\r" (SSE-7).
        input: The input of a `turn`; None is that of thread "thread-1", run "run-1".
    """
    scene = ScriptContext(input or RunAgentInput(thread_id="thread-1", run_id="run-1", messages=[]))
    played = [item for step in steps for item in play(step, scene)]
    frames = b"".join(frame_of(item) for item in played if not isinstance(item, Pause | Gate))
    return frames.replace(b"\n", newline.encode())


def events_of(body: bytes) -> list[bytes]:
    """Split an SSE body into its events; joined they are the body again.

    Each entry has the comments before its event and the blank line after it; bytes after the last event are an entry of
    their own. Lines may end in any of the three ways of SSE.
    """
    events: list[bytes] = []
    pending = b""
    for block in SSE_BLOCK.findall(body):
        pending += block
        if SSE_DATA.search(block):
            events.append(pending)
            pending = b""
    return [*events, pending] if pending else events
