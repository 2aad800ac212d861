"""The end of the requested run in a response: what comes later is waited for only shortly (LIFE-4, LIFE-13).

Frames are looked at as text: events are decoded as they are iterated, perhaps in another thread and much later, while
the next read waits already.
"""

from __future__ import annotations

from collections.abc import Sequence

from agui_client._core.protocol.plain_json import object_in


class RunEnd:
    """Follows the runs of one response.

    Args:
        run_id: The id of the requested run; None for a replay, which ends with its response alone.
    """

    def __init__(self, run_id: str | None) -> None:
        # A RUN_ERROR without a RUN_STARTED before it is about the requested run (LIFE-1).
        self._run_id = self._latest_id = run_id

    def end_with(self, frames: Sequence[str]) -> bool:
        """Return whether the requested run has its terminal event with the last of these frames.

        Args:
            frames: The data of the next frames, at least one; those without "RUN_" may be left out.
        """
        event_type = None
        for data in frames:
            event = object_in(data) if "RUN_" in data else {}
            event_type = event.get("type")
            if event_type == "RUN_STARTED":
                self._latest_id = event.get("runId")
        is_terminal = event_type in ("RUN_FINISHED", "RUN_ERROR")
        return is_terminal and self._run_id is not None and self._latest_id == self._run_id
