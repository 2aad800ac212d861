"""A thread as one JSON document, as the events of a thread that is sent again.

Some servers answer with `{"threadId": ..., "messages": [...], "state": ...}` where others send events; ADK's
`/agents/state` does.
"""

from __future__ import annotations

import json
from typing import Any

from agui_client._protocol.schema import is_array, is_object
from agui_client._transport.sse import Framer
from agui_client.errors import DecodeError, StreamTooLargeError


class DocumentFramer(Framer):
    """Reads a document to its end, and returns frames with the events of a run that restates the thread.

    Args:
        max_event_bytes: The largest document that is accepted, in bytes.
        posted: The input that was posted for it, as JSON.
    """

    def __init__(self, max_event_bytes: int, posted: bytes) -> None:
        super().__init__(max_event_bytes)
        self._document, self._posted = bytearray(), posted

    def feed(self, chunk: bytes) -> list[str]:
        """Take in the next bytes; there is no event before the end.

        Raises:
            StreamTooLargeError: The document is larger than allowed.
        """
        self._document += chunk
        if len(self._document) > self._max_event_bytes:
            what = f"the thread has more than max_event_bytes={self._max_event_bytes}"
            raise StreamTooLargeError(f"{what}; raise that option if it is really so large", rule="SSE-12")
        return []

    def finish(self) -> list[str]:
        """Return the events; none if the server has no such thread.

        Raises:
            DecodeError: The document is no thread.
        """
        thread: Any = None
        try:
            thread = json.loads(self._document)
        except (ValueError, RecursionError) as error:
            raise DecodeError(f"the thread that was sent again is not JSON: {error}", rule="PROC-12") from None
        if not is_object(thread) or not is_array(messages := thread.get("messages")):
            what = "the JSON that was sent has no list of `messages`, so it is no thread"
            raise DecodeError(f"{what}; is connect_url= the address that sends threads?", rule="PROC-12")
        if thread.get("threadExists") is False:
            return []
        asked = json.loads(self._posted)
        ids = {"threadId": asked["threadId"], "runId": asked["runId"]}
        events: list[dict[str, Any]] = [{"type": "RUN_STARTED", **ids}]
        if thread.get("state") is not None:
            events.append({"type": "STATE_SNAPSHOT", "snapshot": thread["state"]})
        # Outside of event streams, null is how many servers write that a member is absent.
        whole = [
            {name: value for name, value in each.items() if value is not None} for each in messages if is_object(each)
        ]
        events += [{"type": "MESSAGES_SNAPSHOT", "messages": whole}, {"type": "RUN_FINISHED", **ids}]
        return [json.dumps(event) for event in events]
