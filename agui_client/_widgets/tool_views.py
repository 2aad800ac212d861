"""Views of tool calls: functions of the application that draw the calls of one tool, wherever runs are shown."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic_core import from_json

from agui_client._field_docs import Record
from agui_client._tools.context import ToolStatus
from agui_client.errors import printable

if TYPE_CHECKING:
    from agui_client._tools.context import ToolExecution

ViewT = TypeVar("ViewT", bound=Callable[["ShownCall"], object])

_logger = logging.getLogger("agui_client")
_views: dict[str, Callable[[ShownCall], object]] = {}
_reported: set[str] = set()
"""The names of views that a warning was written about."""


@dataclass(frozen=True, slots=True)
class ShownCall(Record):
    """A tool call at the moment when it is drawn."""

    tool_call_id: str
    """The id of the call."""
    name: str
    """The tool's name."""
    partial_arguments: Any
    """The arguments as far as they can be read, usually a dict, whose last text may be cut short; None if none can."""
    status: Literal["arriving", "called", "answered"] | ToolStatus
    """The stage of the call: "arriving" while its arguments come, "called" without a result, "answered" with one; of a
    tool that is executed here, the stage of the execution."""
    progress: Sequence[Any] = ()
    """The values that a tool here passed to `ctx.report(...)`."""
    result: Any = None
    """The result, decoded if it is JSON, otherwise as text; None before it is there."""
    seconds: float | None = None
    """The time that a tool here ran; None for others, and before its end."""


def renders(name: str, /, *names: str) -> Callable[[ViewT], ViewT]:
    """Decorate a function that draws the calls of a tool: `@renders("get_weather")`.

    `show`, `agui chat` and `agui run` draw with it. It is called again whenever a call has changed, so it should be
    quick; if it raises, that is logged, and the call is drawn as if there were no view.

    Args:
        name: The name of the tool.
        names: The names of other tools that are drawn alike.

    Returns:
        The decorator. The function takes a `ShownCall`, and returns text, a renderable of rich, an object with
        `_repr_html_` or `_repr_mimebundle_`, or None for the usual form. HTML that it returns is trusted: escape what
        the agent wrote.
    """

    def register(view: ViewT) -> ViewT:
        """Draw the tools with the function from now on."""
        _views.update(dict.fromkeys((name, *names), view))
        _reported.difference_update((name, *names))
        return view

    return register


def has_view(name: str) -> bool:
    """Return whether a tool has a view."""
    return name in _views


def draw(call: ShownCall) -> object:
    """Return what the view of a tool makes of a call; None if it has none, or if that failed."""
    view = _views.get(call.name)
    if view is None:
        return None
    try:
        return view(call)
    except Exception:
        if call.name not in _reported:
            _reported.add(call.name)
            _logger.exception("the view of tool %s failed; its calls are shown without it", printable(call.name))
        return None


def shown_call(
    tool_call_id: str, name: str, arguments: str, result: str | None = None, execution: ToolExecution | None = None
) -> ShownCall:
    """Put together what a view gets to know of a call.

    Args:
        tool_call_id: The id of the call.
        name: The tool.
        arguments: The arguments so far, as they were sent.
        result: The text of the result; None before it is there.
        execution: The execution, if the tool is executed here.
    """
    whole, partial = _read(arguments)
    status = execution.status if execution is not None else "answered" if result is not None else whole
    return ShownCall(
        tool_call_id,
        name,
        partial,
        status,
        progress=execution.progress if execution is not None else (),
        result=None if result is None else _decoded(result),
        seconds=execution.seconds if execution is not None else None,
    )


def warn_of_unknown(tools: Collection[str]) -> None:
    """Warn once of each view whose tool is none of a run's; a run without tools shows nothing about that.

    Args:
        tools: The names of the tools that the run offered or called.
    """
    for name in _views.keys() - set(tools) - _reported if tools else ():
        _reported.add(name)
        _logger.warning("there is a view for %r, and no tool of the run has that name", name)


def _read(arguments: str) -> tuple[Literal["arriving", "called"], Any]:
    try:
        return "called", from_json(arguments) if arguments.strip() else {}
    except ValueError:
        pass
    try:
        return "arriving", from_json(arguments, allow_partial="trailing-strings")
    except ValueError:
        return "arriving", None


def _decoded(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return text
