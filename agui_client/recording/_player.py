"""Playing a recording: the response to a request is looked for, gets the caller's ids, and is replayed in its time."""

from __future__ import annotations

import json
import math
import os
from collections.abc import AsyncIterator, Collection, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from agui_client._core.ground.secrets import Redact, hidden_line
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.request import request_body
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import UsageError
from agui_client.recording._failures import exception_of
from agui_client.recording._matching import Match, no_answer, question
from agui_client.recording._reading import Exchange, Recording

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._core.protocol.events import WireEvent


class Player:
    """Responds to requests out of a recording.

    Args:
        recording: The recording, or its file.
        speed: See `ReplayAgent`.
        match: See `ReplayAgent`.
        ignore: See `ReplayAgent`.
        redact: See `ReplayAgent`.

    Raises:
        UsageError: The file cannot be read, the speed is below zero, or a pointer is none.
    """

    def __init__(
        self,
        recording: Recording | str | os.PathLike[str],
        *,
        speed: float = math.inf,
        match: Match | None = None,
        ignore: Collection[str] = (),
        redact: Redact | None = None,
    ) -> None:
        if isinstance(ignore, str) or not all(each.startswith("/") for each in ignore) or (ignore and match):
            raise UsageError(f'ignore= takes JSON pointers, as in ["/context"], and no match= beside; not {ignore!r}')
        if not speed >= 0:
            raise UsageError(f"speed= takes 1 for the recorded pace, 2 for twice that, 0 for no pauses; not {speed!r}")
        self.recording: Recording = recording if isinstance(recording, Recording) else Recording.read(recording)
        """The recording."""
        self._speed, self._match, self._redact = speed or math.inf, match, redact
        self._ignored = tuple(ignore)
        self._played: set[str] = set()
        self._inputs = _redacted_inputs(self.recording)

    @property
    def unasked(self) -> list[Exchange]:
        """The recorded requests that were not asked."""
        return [each for each in self.recording.exchanges if each.request.request not in self._played]

    def respond(
        self, input: RunAgentInput, *, is_connecting: bool = False, url: str | None = None
    ) -> AsyncIterator[WireEvent]:
        """Return the events of the response to a request.

        Args:
            is_connecting: Whether the thread is to be sent again.
            url: The address of the agent that is asked; the response of another agent counts only if the recording
                does not know the address, such as that of a test server with another port.

        Raises:
            UnrecordedRequestError: The recording has no response.
        """
        body = request_body(input).decode()
        given: dict[str, Any] = json.loads(body)
        asked: dict[str, Any] = json.loads(hidden_line(f'{{"input":{body}}}', self._redact))["input"]
        exchange = self._find(input, asked, "connect" if is_connecting else "run", url)
        self._played.add(exchange.request.request)
        return self._play(exchange, _renamed(exchange.request.input, given))

    def _find(self, input: RunAgentInput, asked: dict[str, Any], verb: str, url: str | None) -> Exchange:
        """Return the first response that was not given yet, or else the last one that was."""
        own = [each for each in self.recording.exchanges if url is not None and each.request.agent.url == url]
        exchanges = [each for each in own or self.recording.exchanges if each.request.verb == verb]
        candidates = [each for each in exchanges if each.request.base is None]
        if self._match is None:
            wanted = question(asked, self._ignored)
            found = [each for each in candidates if self._question(each) == wanted]
        else:
            found = [each for each in candidates if self._match(each.input, input)]
        if not found:
            error = no_answer(
                self.recording.path.name,
                question(asked, self._ignored),
                [self._question(each) for each in candidates],
                is_matched=self._match is not None,
            )
            if lost := len(exchanges) - len(candidates):
                error.add_note(f"Of its requests {lost} cannot be read: they refer to others that are not in the file.")
            raise error
        return next((each for each in found if each.request.request not in self._played), found[-1])

    def _question(self, exchange: Exchange) -> dict[str, Any]:
        return question(self._inputs.get(exchange.request.request, exchange.request.input), self._ignored)

    async def _play(self, exchange: Exchange, ids: Mapping[str, str]) -> AsyncIterator[WireEvent]:
        # A decoder, so that the events are what they were when they came from the wire.
        decode, before = Decoder(WarningLog()).feed_all, exchange.request.at
        for line in exchange.events:
            await self._pause(line.at - before)
            before = line.at
            for event in decode([json.dumps(_rewritten(line.event, ids) if ids else line.event)]):
                yield event
        if exchange.end is not None:
            await self._pause(exchange.end.at - before)
            if exchange.end.error is not None:
                raise exception_of(exchange.end.error)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0 and self._speed < math.inf:
            await anyio.sleep(seconds / self._speed)


def _redacted_inputs(recording: Recording) -> dict[str, dict[str, Any]]:
    """Return the inputs of format 1 that have secrets without them; fewer names counted as secret in that format."""
    sessions = {header.session for header in recording.headers if header.format == 1}
    found: dict[str, dict[str, Any]] = {}
    for request in (exchange.request for exchange in recording.exchanges):
        if request.request.rpartition("-")[0] in sessions:
            text = json.dumps({"input": request.input})
            if (redacted := hidden_line(text)) != text:
                found[request.request] = json.loads(redacted)["input"]
    return found


def _renamed(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, str]:
    """Return the ids of a recorded request with those that the caller has in their places."""
    pairs = [(recorded.get(name), asked.get(name)) for name in ("threadId", "runId", "parentRunId")]
    messages = zip(recorded.get("messages", ()), asked.get("messages", ()), strict=False)
    pairs += [(before.get("id"), now.get("id")) for before, now in messages]
    return {before: now for before, now in pairs if isinstance(before, str) and isinstance(now, str) and before != now}


def _rewritten(value: Any, ids: Mapping[str, str], name: str = "") -> Any:
    """Return an event with other ids: in members that are called an id, at any depth."""
    if is_object(value):
        return {key: _rewritten(item, ids, key) for key, item in value.items()}
    if is_array(value):
        return [_rewritten(item, ids, name) for item in value]
    return ids.get(value, value) if isinstance(value, str) and name.lower().endswith(("id", "ids")) else value
