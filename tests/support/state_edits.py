"""What the tests of edits share: a model, and edits in the middle of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ag_ui.core import BaseEvent, RunStartedEvent
from pydantic import BaseModel

from agui_client import RunObserver

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client import Change
    from agui_client.types import RunScope


class Leg(BaseModel):
    to: str
    price: float = 0


class Trip(BaseModel):
    budget: int = 0
    legs: list[Leg] = []


class After(RunObserver):
    """Calls a function in the middle of a run: once, right after an event of a type, with every verb.

    Args:
        function: The function.
        event_type: The type of the event.
    """

    def __init__(self, function: Callable[[], object], event_type: type[BaseEvent] = RunStartedEvent) -> None:
        self.errors: list[Exception] = []
        self._function, self._event_type, self._is_done = function, event_type, False

    def on_event(self, run: RunScope, event: Event, change: Change) -> None:
        if isinstance(event, self._event_type) and not self._is_done:
            self._is_done = True
            try:
                self._function()
            except Exception as error:
                self.errors.append(error)
