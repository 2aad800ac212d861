"""The state as it will be once tool calls have arrived, which servers announce with the CUSTOM event `PredictState`.

Its value is a list of `{"state_key", "tool", "tool_argument"}`: the argument of a call of the tool is what the key of
the state will be; without an argument, all arguments are. The protocol does not know this event: it changes no state.

To change

- what `run.predicted_state` follows: this module
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ag_ui.core import StepFinishedEvent

from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.protocol.traits import STATE_EVENTS

if TYPE_CHECKING:
    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.protocol.outcome import OutcomeTracker

PREDICT_STATE = "PredictState"
"""The name of the event."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The announcement that calls of a tool change one key of the state."""

    state_key: str
    """The key."""
    tool: str
    """The name of the tool."""
    argument: str | None
    """The argument that the value will be; None for all arguments."""

    def applied(self, state: Any, arguments: Any) -> Any:
        """Return a state with what has arrived of a call; as it is if nothing for the key has.

        Args:
            state: The state.
            arguments: The arguments so far.
        """
        if not is_object(arguments) or not (self.argument is None or self.argument in arguments):
            return state
        value = arguments if self.argument is None else arguments[self.argument]
        return {**(state if is_object(state) else {}), self.state_key: value}


class Predictions:
    """The predictions of one run; each counts until the server says what the state is after the call.

    Args:
        outcome: The outcome of the run, which knows its calls.
        conversation: The conversation, which knows their tools.
    """

    def __init__(self, outcome: OutcomeTracker, conversation: Conversation) -> None:
        self._outcome, self._conversation = outcome, conversation
        self._announced: list[Prediction] = []
        self._by_call: dict[str, list[Prediction]] = {}
        self._settled: set[str] = set()

    def announce(self, value: Any) -> None:
        """Take the value of a `PredictState` event, which replaces the one before for later calls."""
        self._assign()
        # Calls that ended before are not meant; one that has begun is: some servers announce it behind its start.
        self._settled.update(self._outcome.ended_tool_call_ids - self._by_call.keys())
        self._announced = list(_read(value))
        # Only now, so that runs without predictions pay nothing.
        for state_event in STATE_EVENTS:
            self._outcome.handlers[state_event] = self._settle
        self._outcome.handlers[StepFinishedEvent] = self._forget

    def live(self) -> Iterator[tuple[str, list[Prediction]]]:
        """Yield the predictions that count now, with the ids of their calls."""
        if self._outcome.is_terminal:
            return
        self._assign()
        for tool_call_id in self._outcome.tool_call_ids:
            if tool_call_id in self._by_call and tool_call_id not in self._settled:
                yield tool_call_id, self._by_call[tool_call_id]

    def _assign(self) -> None:
        """Note what was announced for the calls that have begun since."""
        if not self._announced:
            return
        for tool_call_id in self._outcome.tool_call_ids:
            call = self._conversation.tool_call(tool_call_id)
            if call is not None and tool_call_id not in self._by_call and tool_call_id not in self._settled:
                meant = [each for each in self._announced if each.tool == call.function.name]
                if meant:
                    self._by_call[tool_call_id] = meant

    def _settle(self, event: object) -> None:
        """Note that the agent has sent the state since the calls that have ended."""
        self._assign()
        self._settled.update(self._outcome.ended_tool_call_ids)

    def _forget(self, event: object) -> None:
        """Note that announcements end with the step, as in the reference client."""
        self._assign()
        self._announced = []


def _read(value: Any) -> Iterator[Prediction]:
    """Yield the predictions that can be understood."""
    for each in value if is_array(value) else ():
        if is_object(each) and isinstance(each.get("state_key"), str) and isinstance(each.get("tool"), str):
            argument = each.get("tool_argument")
            yield Prediction(
                each["state_key"], each["tool"], argument if isinstance(argument, str) and argument else None
            )
