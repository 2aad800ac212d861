"""The lists by which features plug into the layers below them: `agui_client/__init__.py` alone fills them."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from contextlib import AbstractContextManager


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


DEFAULT_OBSERVERS: list[Callable[[], Sequence[Any]]] = []
"""Functions that make observers of every call, each a `RunObserver` or None."""
DISPLAYS: list[Callable[[object], dict[str, Any]]] = []
"""Functions that write an object as a notebook displays it, by MIME type."""
PAGES: list[Callable[[Any], bytes]] = []
"""Functions that write an inspected run as a page."""
BARS: list[Callable[[object], AbstractContextManager[object] | None]] = []
"""Functions that show how far a batch is, for a block; they return None where nobody looks."""
METRICS: list[Callable[[str, float, Mapping[str, str] | None], None]] = []
"""Functions that take a measurement of a store: the name of the metric, the value, and attributes."""
INCOMING_TRACES: list[Callable[[Mapping[str, str]], AbstractContextManager[None]]] = []
"""Functions that make the trace in the headers of an incoming request the current one, for a block."""
TRACE_HEADERS: list[Callable[[], Mapping[str, str]]] = []
"""Functions that return the current trace as headers, to be stored with a run."""
SENDING: list[Callable[[], AbstractContextManager[None]]] = []
"""Functions that make a block in which an HTTP library sends a request."""
ATTEMPT_SPANS: list[Callable[[str, str, int, Mapping[str, str]], AttemptSpan | None]] = []
"""Functions of a thread, a run, a number and a stored trace that begin the span of an attempt at a stored run."""


def measure(name: str, value: float = 1, attributes: Mapping[str, str] | None = None) -> None:
    """Take a measurement of a store.

    Args:
        name: The name of a metric of `STORE_METRICS` in `agui_client/_otel.py`.
        value: What a counter is increased by; otherwise the measured value.
        attributes: Attributes of few values; a constant, so that nothing is made where nobody listens.
    """
    for each in METRICS:
        each(name, value, attributes)


@contextmanager
def counted(name: str, attributes: Mapping[str, str]) -> Generator[None]:
    """Count one more in a metric that goes up and down, for a block."""
    measure(name, 1, attributes)
    try:
        yield
    finally:
        measure(name, -1, attributes)


def shown_while(watched: object) -> AbstractContextManager[object]:
    """Show how far a batch is while a block lasts, if this is a notebook, or stderr a terminal."""
    return next((bar for make in BARS if (bar := make(watched)) is not None), nullcontext())
