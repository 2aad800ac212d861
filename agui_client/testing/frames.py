"""Events as the bytes of an SSE stream (SSE-4), for byte-exact servers and fixtures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ag_ui.core import RunAgentInput
from ag_ui.encoder import EventEncoder

from agui_client._pipeline.events import UnrecognizedEvent
from agui_client.testing.steps import Gate, Pause, Scene, play

if TYPE_CHECKING:
    from agui_client._pipeline.events import WireEvent
    from agui_client.testing.steps import Step

_encode = EventEncoder().encode


def sse(*steps: Step, newline: str = "\n", input: RunAgentInput | None = None) -> bytes:
    r"""The frames of a whole script, pauses and gates left out: `sse(turn(text("Hi")))`.

    Args:
        *steps: Events, events as JSON (a dict, sent as it is), or parts.
        newline: What ends a line: "\n", "\r\n" or "\r" (SSE-7).
        input: The input a `turn` answers; None answers thread "thread-1", run "run-1".
    """
    scene = Scene(input or RunAgentInput(thread_id="thread-1", run_id="run-1", messages=[]))
    played = [item for step in steps for item in play(step, scene)]
    frames = "".join(frame(item) for item in played if not isinstance(item, Pause | Gate))
    return frames.replace("\n", newline).encode()


def frame(event: WireEvent) -> str:
    """One event as one SSE frame, lines ended by LF."""
    if isinstance(event, UnrecognizedEvent):
        return f"data: {json.dumps(event.data, ensure_ascii=False)}\n\n"
    return _encode(event)
