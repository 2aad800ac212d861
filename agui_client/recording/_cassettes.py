"""Cassettes: recordings that take the place of all HTTP agents of a test, wherever in the program these are made.

To change

- the fixture `agui_cassette`, options of pytest: `_pytest_plugin.py`, which finds the file; this module replays it for
  the agents
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Collection, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from unittest.mock import patch
from weakref import WeakKeyDictionary

from agui_client._core.agent.http_agent import HttpAgent
from agui_client._core.ground.secrets import address_of
from agui_client._core.run.middleware import ObservedSource
from agui_client._core.run.scope import CURRENT_SCOPE, RunScope
from agui_client._core.transport.http_source import HttpSource
from agui_client.errors import UsageError
from agui_client.recording._format import AgentRecord
from agui_client.recording._player import Player
from agui_client.recording._recorder import Recorder

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from agui_client._core.ground.secrets import Redact
    from agui_client._core.protocol.events import WireEvent
    from agui_client.recording._matching import Match

Mode: TypeAlias = Literal["record", "replay"]
"""The use of a recording: it is made, or replayed."""


class CassetteFixture:
    """The recording of a test; the fixture `agui_cassette` gives it.

    Args:
        path: The file.
        mode: Whether the file is made or replayed.
        match: See `ReplayAgent`.
        ignore: See `ReplayAgent`.
        redact: See `record`.
    """

    def __init__(
        self,
        path: Path,
        mode: Mode,
        match: Match | None = None,
        redact: Redact | None = None,
        ignore: Collection[str] = (),
    ) -> None:
        self.path = path
        """The file."""
        self.mode: Mode = mode
        """The use of the file: it is made, or replayed."""
        self._match, self._ignored, self._redact = match, ignore, redact
        self._player: Player | None = None
        self._calls: WeakKeyDictionary[RunScope, str] = WeakKeyDictionary()

    @contextmanager
    def inserted(self) -> Generator[None]:
        """Record what every `HttpAgent` gets, or replay it in its place, while the block lasts.

        A recording takes its place in the folder only when the block is left without an exception.
        """
        if self.mode == "replay":
            with _replaying(self._replayed):
                yield
            self._warn_of_unasked()
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(f"{self.path.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        recorder, post = Recorder(unfinished, self._redact), HttpAgent.__dict__["_post"]
        try:
            with _replaying(partial(self._recorded, recorder, post)):
                yield
            recorder.close()
            if unfinished.exists():
                unfinished.replace(self.path)
        finally:
            recorder.close()
            unfinished.unlink(missing_ok=True)

    def _replayed(self, agent: HttpAgent, input: RunAgentInput, *, is_replay: bool = False) -> AsyncIterator[WireEvent]:
        if self._player is None:
            if not self.path.exists():
                how = "make it with `pytest --agui-record=once`, where the agent can be reached"
                raise UsageError(f"there is no recording {self.path}; {how}")
            self._player = Player(self.path, match=self._match, ignore=self._ignored, redact=self._redact)
        return self._player.respond(input, is_connecting=is_replay, url=address_of(agent.url))

    def _warn_of_unasked(self) -> None:
        """Warn of a recording of which a test that passed did not ask everything."""
        if self._player is None:
            if self.path.exists():
                warnings.warn(f"the test asks nothing of the recording {self.path}; remove it", stacklevel=2)
        elif unasked := self._player.unasked:
            which = f"{len(unasked)} of the {len(self._player.recording.exchanges)} requests"
            warnings.warn(f"the test no longer asks {which} in {self.path}; record it anew", stacklevel=2)

    def _recorded(
        self, recorder: Recorder, post: Any, agent: HttpAgent, input: RunAgentInput, *, is_replay: bool = False
    ) -> AsyncIterator[WireEvent]:
        scope = CURRENT_SCOPE.get()
        url_shown = address_of(agent.url)
        info = AgentRecord(agent_id=agent.agent_id, description=agent.description, url=url_shown)
        first = scope and (scope.first or scope)
        call = self._calls.get(first) if first else None
        if call is None:
            call = recorder.new_call()
            if first:
                self._calls[first] = call
        source = post(agent, input, is_replay=is_replay)
        sent = source.secrets if isinstance(source, HttpSource) else None
        request = recorder.begin_request(call, input, agent=info, is_connecting=is_replay, sent=sent)
        end = partial(recorder.end_request, request, is_in_process=False)
        return ObservedSource(source, partial(recorder.write_event, request), end)


@contextmanager
def _replaying(respond: Any) -> Generator[None]:
    """Let a function run in place of all agents of a URL."""

    def post(agent: HttpAgent, input: RunAgentInput, *, is_replay: bool = False) -> AsyncIterator[WireEvent]:
        """Respond to a request."""
        events: AsyncIterator[WireEvent] = respond(agent, input, is_replay=is_replay)
        return events

    with patch.object(HttpAgent, "_post", post):
        yield
