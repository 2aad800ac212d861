"""Steps, the entries of scripts.

A step is an event, an event as JSON (which the 1.0 models need not accept), a pause, a gate, or a part that makes
further steps. `play` flattens a step without awaiting anything; the agent or server that plays it does the waiting.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from ag_ui.core import AssistantMessage, Event, RunAgentInput

from agui_client._core.protocol.events import UnrecognizedEvent, WireEvent

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
        """Let everything go on that waits at the gate."""
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
    for message in input.messages:
        yield message.id
        if isinstance(message, AssistantMessage):
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
