"""Long texts and arguments that are looked at after each delta, in an interpreter of their own: memory is new there."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable

from ag_ui import core

from agui_client import Reducer
from programs.benchmarks.measure import Row, child_environment

_SIZE, _LOOKS = 2_000_000, 100_000
_SECONDS = 3.0
_ID = "item-1"


def looked_at(repeat: int) -> list[Row]:
    """A text, a thought and arguments of 2 MB, in 100 000 deltas; `repeat` does not matter for seconds."""
    del repeat
    rows: list[Row] = []
    for kind in _KINDS:
        command = [sys.executable, "-m", "programs.benchmarks.growing", kind]
        output = subprocess.run(command, env=child_environment(), check=True, capture_output=True, text=True).stdout
        seconds = float(output)
        work = f"messages after each delta of {kind} of 2 MB"
        rows.append(Row(work, seconds, _SECONDS, "a second of CPU", f"{seconds:.2f} s, {_LOOKS} looks"))
    return rows


def _text(delta: str) -> tuple[core.Event, core.Event]:
    return core.TextMessageStartEvent(message_id=_ID), core.TextMessageContentEvent(message_id=_ID, delta=delta)


def _thought(delta: str) -> tuple[core.Event, core.Event]:
    return (
        core.ReasoningMessageStartEvent(message_id=_ID, role="reasoning"),
        core.ReasoningMessageContentEvent(message_id=_ID, delta=delta),
    )


def _arguments(delta: str) -> tuple[core.Event, core.Event]:
    start = core.ToolCallStartEvent(tool_call_id=_ID, tool_call_name="write_file")
    return start, core.ToolCallArgsEvent(tool_call_id=_ID, delta=delta)


_KINDS: dict[str, Callable[[str], tuple[core.Event, core.Event]]] = {
    "a text": _text,
    "a thought": _thought,
    "arguments": _arguments,
}


def main(kind: str) -> float:
    """Return the CPU seconds of the looks, the kernel's included."""
    start, delta = _KINDS[kind]("x" * (_SIZE // _LOOKS))
    reducer = Reducer()
    reducer.feed(start)
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(_LOOKS):
        reducer.feed(delta)
        _ = reducer.messages
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    print(main(sys.argv[1]))
