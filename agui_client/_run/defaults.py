"""The observers and traces of every call, which `agui_client/__init__.py` names: it alone may know the features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from agui_client._run.observers import RunObserver


class AttemptSpan(Protocol):
    """The span of an attempt at a stored run, as a block that is its attempt."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by which the spans of later attempts find this one, as the first one."""
        ...

    def __enter__(self) -> None:
        """Make the span the current one."""

    def __exit__(self, *about: object) -> None:
        """End the span."""


DEFAULT_OBSERVERS: list[Callable[[], Sequence[RunObserver | None]]] = []
"""Functions that make observers of every call."""
TAKE_OVERS: list[Callable[[str], None]] = []
"""Functions that count take-overs from processes that gave no sign of life; each gets "thread" or "run"."""
INCOMING_TRACES: list[Callable[[Mapping[str, str]], AbstractContextManager[None]]] = []
"""Functions that make the trace in the headers of an incoming request the current one, for a block."""
TRACE_HEADERS: list[Callable[[], Mapping[str, str]]] = []
"""Functions that return the current trace as headers, to be stored with a run."""
ATTEMPT_SPANS: list[Callable[[str, str, int, Mapping[str, str]], AttemptSpan | None]] = []
"""Functions of a thread, a run, a number and a stored trace that begin the span of an attempt at a stored run."""
