"""Views: functions of the application that draw tool calls, activities or custom events, wherever runs are shown.

To change

- what a view gets: `ShownCall`, `ShownCustom` and `shown_call` here
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    CustomEvent,
    Event,
)
from pydantic_core import from_json

from agui_client._core.ground.field_docs import Record
from agui_client._rendering.story import CallStage, ToolCallStory, read_json
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client._core.verbs.async_run import RunView

CallViewT = TypeVar("CallViewT", bound=Callable[["ShownCall"], object])
ActivityViewT = TypeVar("ActivityViewT", bound=Callable[[ActivityMessage], object])
CustomViewT = TypeVar("CustomViewT", bound=Callable[["ShownCustom"], object])
Kind = Literal["tool", "activity", "custom"]
Key = tuple[Kind, str]
"""The kind of what a view draws, and the tool, the activity's type or the custom event's name."""

Viewed = ActivityMessage | CustomEvent

MOST_VALUES = 1_000
"""The number of values of custom events that a view gets."""

_logger = logging.getLogger("agui_client")
_views: dict[Key, Callable[[Any], object]] = {}
_reported: set[Key] = set()
"""The views that a warning was written about."""


@dataclass(frozen=True, slots=True)
class ShownCall(Record):
    """A tool call at the moment when it is drawn."""

    tool_call_id: str
    """The id of the call."""
    name: str
    """The tool's name."""
    partial_arguments: Any
    """The arguments as far as they can be read, usually a dict, whose last text may be cut short; None if none can. If
    a person changed them, those that the tool is executed with."""
    status: CallStage
    """The stage of the call: "arriving" while its arguments come, "called" without a result, "answered" with one, or
    "failed" or "denied"; of a tool that is executed here, the stage of the execution."""
    progress: Sequence[Any] = ()
    """The values that a tool here passed to `ctx.report(...)`."""
    result: Any = None
    """The result, decoded if it is JSON, otherwise as text; None before it is there."""
    seconds: float | None = None
    """The time that a tool here ran; None for others, and before its end."""


@dataclass(frozen=True, slots=True)
class ShownCustom(Record):
    """The custom events of one name at the moment when they are drawn."""

    name: str
    """The name of the events."""
    value: Any
    """The value of the latest event."""
    values: Sequence[Any]
    """The values of the events of the call, the latest 1000, in order."""


@overload
def renders(name: str, /, *names: str) -> Callable[[CallViewT], CallViewT]: ...
@overload
def renders(*, activity: str) -> Callable[[ActivityViewT], ActivityViewT]: ...
@overload
def renders(*, custom: str) -> Callable[[CustomViewT], CustomViewT]: ...
def renders(*names: str, activity: str | None = None, custom: str | None = None) -> Callable[[Any], Any]:
    """Decorate a function that draws the calls of a tool: `@renders("get_weather")`; or something else of a run.

    `show`, `agui chat` and `agui run` draw with it. It is called again whenever its subject has changed, in a thread of
    its own. If it raises, that is logged once; if it takes longer than two seconds, it is logged and not called any
    more. The usual form is shown then.

    Args:
        names: The names of the tools.
        activity: The type of the activities to draw instead; the function takes the `ActivityMessage`.
        custom: The name of the custom events to draw instead, all of a call together; the function takes a
            `ShownCustom`.

    Returns:
        The decorator. The function takes a `ShownCall`, and returns text, a renderable of rich, an object that displays
        itself in notebooks (HTML, SVG, PNG, JPEG, Markdown or LaTeX), a list of records, which becomes a table, or None
        for the usual form. HTML that it returns is trusted: escape what the agent wrote.

    Raises:
        UsageError: No name was given, or several kinds of names; or the function is asynchronous.
    """
    given: dict[Kind, Sequence[object]] = {
        "tool": names,
        "activity": [activity] if activity is not None else [],
        "custom": [custom] if custom is not None else [],
    }
    keys: list[Key] = [(kind, name) for kind, each in given.items() for name in each if isinstance(name, str)]
    if len({kind for kind, _ in keys}) != 1 or len(keys) < sum(map(len, given.values())):
        raise UsageError('write @renders("tool_name"), @renders(activity="TYPE") or @renders(custom="name")')

    def register(view: Any) -> Any:
        """Draw with the function from now on."""
        if iscoroutinefunction(view):
            raise UsageError("a view is a plain function: it draws what is there, and waits for nothing")
        for key in keys:
            _views[key] = view
        _reported.difference_update(keys)
        return view

    return register


def find_view(key: Key) -> Callable[[Any], object] | None:
    """Return the view of a tool, activity or custom event; None if it has none."""
    return _views.get(key)


def has_views() -> bool:
    """Return whether there is any view."""
    return bool(_views)


def drop_view(key: Key, view: Callable[[Any], object]) -> bool:
    """Draw without a view from now on; return whether it was there before."""
    return _views.get(key) is view and _views.pop(key, None) is not None


def is_first_report(key: Key) -> bool:
    """Return whether nothing was logged of a view yet, and take note that something is."""
    is_first = key not in _reported
    _reported.add(key)
    return is_first


def shown_call(call: ToolCallStory) -> ShownCall:
    """Return what a view gets to know of a call."""
    ids, result = (call.tool_call_id, call.name), None if call.result is None else read_json(call.result)
    return ShownCall(*ids, _partial(call.arguments), call.status, call.progress, result, call.seconds)


def viewed(event: Event, run: RunView) -> Viewed | None:
    """Return the custom event itself, or the activity that an event of a run changed, if a view draws it."""
    match event:
        case CustomEvent() if ("custom", event.name) in _views:
            return event
        case ActivitySnapshotEvent() | ActivityDeltaEvent() if ("activity", event.activity_type) in _views:
            found = (each for each in reversed(run.messages) if each.id == event.message_id)
            return next((each for each in found if isinstance(each, ActivityMessage)), None)
        case _:
            return None


def warn_of_unknown(run: RunView) -> None:
    """Warn once of each view whose tool a run neither offered nor called; a run without tools proves nothing."""
    tools = {*run.call.tools.offered, *(call.name for call in run.tool_calls.values())}
    for kind, name in _views.keys() - _reported if tools else ():
        if kind == "tool" and name not in tools and is_first_report((kind, name)):
            _logger.warning("there is a view for %r, and no tool of the run has that name", name)


def _partial(arguments: str) -> Any:
    try:
        return from_json(arguments, allow_partial="trailing-strings") if arguments.strip() else {}
    except ValueError:
        return None
