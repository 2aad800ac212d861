"""The state as it will be once tool calls have arrived, which servers announce with the CUSTOM event `PredictState`.

Its value is a list of `{"state_key", "tool", "tool_argument"}`: the argument of a call of the tool is what the key of
the state will be; without an argument, all arguments are. The protocol does not know this event: it changes no state.

To change

- what `run.predicted_state` follows: this module
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ag_ui.core import StepFinishedEvent, ToolCallEndEvent, ToolCallStartEvent

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
        self._announced: dict[str, list[Prediction]] = {}
        # The calls of the present run, which the outcome replaces with the next one.
        self._calls: dict[str, None] | None = None
        self._begin({})

    def _begin(self, calls: dict[str, None]) -> None:
        self._calls = calls
        # The predictions that count now, by the ids of their calls; which of these have ended since the agent last sent
        # the state; and the calls for which nothing counts any more.
        self._by_call: dict[str, list[Prediction]] = {}
        self._ended: dict[str, None] = {}
        self._settled: dict[str, None] = {}  # unlike a set, nothing to the garbage collector while it is empty
        # The open calls without a prediction, by their tools: some servers announce one behind the start of its call.
        self._waiting: dict[str, dict[str, None]] = {}
        self._tools: dict[str, str] = {}

    def announce(self, value: Any) -> None:
        """Take the value of a `PredictState` event, which replaces the one before for later calls."""
        if self._calls is not self._outcome.tool_call_ids:
            self._watch()
        self._announced = {}
        for each in _read(value):
            self._announced.setdefault(each.tool, []).append(each)
        for tool, predictions in self._announced.items():
            for tool_call_id in self._waiting.pop(tool, ()):
                self._by_call[tool_call_id] = predictions

    def live(self) -> Iterable[tuple[str, list[Prediction]]]:
        """Return the predictions that count now, with the ids of their calls."""
        is_live = self._calls is self._outcome.tool_call_ids and not self._outcome.is_terminal
        return list(self._by_call.items()) if is_live else ()

    def _watch(self) -> None:
        """Follow the calls of the present run from now on, so that runs without predictions pay nothing."""
        outcome, handlers = self._outcome, self._outcome.handlers
        self._begin(outcome.tool_call_ids)
        for tool_call_id in outcome.tool_call_ids.keys() - outcome.ended_tool_call_ids:
            if (call := self._conversation.tool_call(tool_call_id)) is not None:
                self._start(tool_call_id, call.function.name)
        if StepFinishedEvent in handlers:
            return
        for state_event in STATE_EVENTS:
            handlers[state_event] = lambda _, event: self._settle(event)
        handlers[StepFinishedEvent] = lambda _, event: self._forget(event)
        note_start, note_end = handlers[ToolCallStartEvent], handlers[ToolCallEndEvent]

        def start(outcome: OutcomeTracker, event: ToolCallStartEvent) -> None:
            """Take a call that starts."""
            note_start(outcome, event)
            self._start(event.tool_call_id, event.tool_call_name)

        def end(outcome: OutcomeTracker, event: ToolCallEndEvent) -> None:
            """Take a call that ends."""
            note_end(outcome, event)
            self._end(event.tool_call_id)

        handlers[ToolCallStartEvent], handlers[ToolCallEndEvent] = start, end

    def _start(self, tool_call_id: str, tool: str) -> None:
        if self._calls is not self._outcome.tool_call_ids:
            self._begin(self._outcome.tool_call_ids)
        self._ended.pop(tool_call_id, None)
        if tool_call_id in self._by_call or tool_call_id in self._settled:
            return
        if tool in self._announced:
            self._by_call[tool_call_id] = self._announced[tool]
        else:
            self._waiting.setdefault(tool, {})[tool_call_id] = None
            self._tools[tool_call_id] = tool

    def _end(self, tool_call_id: str) -> None:
        if tool_call_id in self._by_call:
            self._ended[tool_call_id] = None
        elif (tool := self._tools.get(tool_call_id)) is not None:
            self._waiting.get(tool, {}).pop(tool_call_id, None)

    def _settle(self, event: object) -> None:
        """Note that the agent has sent the state since the calls that have ended."""
        self._settled.update(self._ended)
        for tool_call_id in self._ended:
            self._by_call.pop(tool_call_id, None)
        self._ended.clear()

    def _forget(self, event: object) -> None:
        """Note that announcements end with the step, as in the reference client."""
        self._announced = {}


def _read(value: Any) -> Iterator[Prediction]:
    """Yield the predictions that can be understood."""
    for each in value if is_array(value) else ():
        if is_object(each) and isinstance(each.get("state_key"), str) and isinstance(each.get("tool"), str):
            argument = each.get("tool_argument")
            yield Prediction(
                each["state_key"], each["tool"], argument if isinstance(argument, str) and argument else None
            )
