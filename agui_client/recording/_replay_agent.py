"""ReplayAgent: an agent that replays a recording."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack

from agui_client._core.agent.agent import AbstractAgent, as_run_input
from agui_client._core.run.options import lists_keywords
from agui_client._core.run.scope import AgentOptions, StateT
from agui_client.recording._player import Player

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from ag_ui.core import RunAgentInput

    from agui_client._core.ground.secrets import Redact
    from agui_client._core.protocol.events import WireEvent
    from agui_client.recording._matching import Match
    from agui_client.recording._reading import Recording


@lists_keywords(AgentOptions)
class ReplayAgent(AbstractAgent[StateT]):
    """Responds to each run as the recorded agent did when it was asked the same; nothing is sent anywhere.

    Two inputs ask the same if they differ only in the ids of threads, runs and messages. Equal questions get the
    recorded responses in turn, and then the last one again. Tools are executed anew, and people asked anew: give the
    agent the same tools and handlers as the recorded one. Events get the caller's ids in the place of the recorded.

    Args:
        recording: The file, or a `Recording`.
        speed: The pace of the events: 1 as recorded, 10 ten times as fast; 0 or infinity without pauses.
        match: A function of a recorded input and the one that is asked now, in place of the comparison: returns whether
            the recorded response fits. `match=lambda recorded, asked: True` gives the responses in order.
        ignore: The JSON pointers of values of inputs that do not count in the comparison, as in ["/context"]; "*" is
            each member or element.
        redact: The function that the recording was made with, so that questions can be compared.
        max_protocol_version: As the recorded agent had it.
        options: See `AgentOptions`.

    Raises:
        RecordingError: The file cannot be read.
        UsageError: The speed is below zero, or a pointer is none.
    """

    def __init__(
        self,
        recording: Recording | str | os.PathLike[str],
        *,
        speed: float = 0,
        match: Match | None = None,
        ignore: Collection[str] = (),
        redact: Redact | None = None,
        max_protocol_version: str | None = None,
        **options: Unpack[AgentOptions[StateT]],
    ) -> None:
        super().__init__(**options)
        self._player = Player(recording, speed=speed, match=match, ignore=ignore, redact=redact)
        self._max_protocol_version = max_protocol_version

    @property
    def recording(self) -> Recording:
        """The recording."""
        return self._player.recording

    def run(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Replay one run.

        Returns:
            The recorded events.

        Raises:
            UnrecordedRequestError: The recording has no response to this.
        """
        return self._player.respond(as_run_input(input))

    def connect(self, input: RunAgentInput) -> AsyncIterator[WireEvent]:
        """Send a thread again as it was sent again in the recording.

        Args:
            input: The thread, with the messages that the client has.

        Returns:
            The recorded events.

        Raises:
            UnrecordedRequestError: The recording has no response to this.
        """
        return self._player.respond(as_run_input(input), is_connecting=True)
