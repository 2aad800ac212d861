"""Bytes of SSE streams from scripts, and events from such bytes (SSE-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ag_ui.core import RunAgentInput

from agui_client._checking.texts import SSE_BLOCK, SSE_DATA
from agui_client._core.verbs.sse import frame_of
from agui_client.testing._steps import Gate, Pause, ScriptContext, play

if TYPE_CHECKING:
    from agui_client.testing._steps import Step


def sse(*steps: Step, newline: str = "\n", input: RunAgentInput | None = None) -> bytes:
    r"""Encode a whole script as SSE frames, without its pauses and gates: `sse(turn(text("Hi")))`.

    Args:
        *steps: Events, events as JSON (a dict, sent as it is), or parts.
        newline: The end of each line: "\n", "\r\n" or "\r" (SSE-7).
        input: The input a `turn` answers; None answers thread "thread-1", run "run-1".
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
