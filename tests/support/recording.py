"""A subscriber that notes the name and the arguments of every hook that is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agui_client import AbstractAgent, Subscriber
from support import scenario
from support.verbs import Verb


class Recorder(Subscriber):
    """Notes the name and the arguments of every hook that is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        for name in dir(Subscriber):
            if name.startswith("on_"):
                setattr(self, name, self._noting(name))

    def _noting(self, name: str) -> Callable[..., None]:
        def note(*details: Any) -> None:
            self.calls.append((name, details))

        return note

    @property
    def names(self) -> list[str]:
        """The hooks, in order."""
        return [name for name, _ in self.calls]

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """What one hook was called with."""
        return [details for called, details in self.calls if called == name]


def recorded(verb: Verb, agent: AbstractAgent) -> Recorder:
    recorder = Recorder()
    with agent.subscribe(recorder):
        verb(agent, scenario.PROMPT, run_id="run-1")
    return recorder
