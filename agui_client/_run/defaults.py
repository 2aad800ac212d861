"""The observers and traces of every call, which `agui_client/__init__.py` names: it alone may know the features."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from agui_client._run.observers import RunObserver

DEFAULT_OBSERVERS: list[Callable[[], Sequence[RunObserver | None]]] = []
"""Functions that make observers of every call."""
TAKE_OVERS: list[Callable[[str], None]] = []
"""Functions that count take-overs from processes that gave no sign of life; each gets "thread" or "run"."""
INCOMING_TRACES: list[Callable[[Mapping[str, str]], AbstractContextManager[None]]] = []
"""Functions that make the trace in the headers of an incoming request the current one, for a block."""
