"""Places of the state by JSON Pointer, `*` standing for every member, and what changed there.

A state never changes once it was looked at, and a later one shares what did not change: parts that are the same object
are not gone through.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from itertools import compress, count
from operator import is_not
from typing import TYPE_CHECKING, Any, TypeAlias

from agui_client._core.conversation.state_merging import ABSENT
from agui_client._core.ground.json_pointers import parts_of, pointer
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.reduce import Change
from agui_client._core.protocol.schema import is_a, is_array, is_object
from agui_client._core.run.hooks import takes_two
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from reactivex import Observable

    from agui_client._core.conversation.conversation import Conversation

# Longer numbers lie outside any array.
_INDEX = re.compile("0|[1-9][0-9]{0,17}")
_logger = logging.getLogger("agui_client")
Observe: TypeAlias = Callable[[Any, str], object]
"""Takes the new value of a place, `ABSENT` where it was removed, and the JSON pointer of the place."""


class Places:
    """Places of the state.

    Args:
        path: A JSON pointer, in which `*` stands for every member of an object or element of an array.

    Raises:
        UsageError: It is not a JSON pointer.
    """

    def __init__(self, path: str) -> None:
        if not is_a(path, str) or not path.startswith("/"):
            raise UsageError(f"a place of the state is a JSON pointer, such as '/legs/*/price', not {path!r}")
        self.path = path
        """The pointer, as it was given."""
        self._members = parts_of(path)

    def changes(self, before: Any, after: Any) -> Iterator[tuple[str, Any]]:
        """Yield the pointers and new values of the places that differ; `ABSENT` where there is nothing any more.

        Args:
            before: The earlier state; `ABSENT` to get every place that there is.
            after: The later one.
        """
        return self._changes(before, after, 0, "")

    def _changes(self, before: Any, after: Any, depth: int, path: str) -> Iterator[tuple[str, Any]]:
        if before is after:
            return
        if depth == len(self._members):
            if before is ABSENT or after is ABSENT or not is_same_json(before, after):
                yield path, after
            return
        member = self._members[depth]
        # No JSON Patch of the whole state: that would compare what nobody watches, with each event.
        for name in _differing(before, after) if member == "*" else (member,):
            yield from self._changes(member_of(before, name), member_of(after, name), depth + 1, pointer(path, name))


def member_of(value: Any, name: str | int) -> Any:
    """Return a member of an object or an element of an array."""
    if is_object(value):
        return value.get(str(name), ABSENT)
    if is_array(value) and _INDEX.fullmatch(str(name)):
        index = int(name)
        return value[index] if index < len(value) else ABSENT
    return ABSENT


def _differing(before: Any, after: Any) -> list[str | int]:
    """Return the names of members that may differ."""
    if is_array(before) and is_array(after):
        longer = range(min(len(before), len(after)), max(len(before), len(after)))
        return [*compress(count(), map(is_not, before, after)), *longer]
    names: dict[str | int, None] = {}
    for value in (after, before):
        names.update(dict.fromkeys(value if is_object(value) else range(len(value)) if is_array(value) else ()))
    return [name for name in names if member_of(before, name) is not member_of(after, name)]


def watch(conversation: Conversation, places: Places, observe: Observe) -> Callable[[], None]:
    """Call a function with every new value at places of the state.

    Args:
        observe: Called with each value; of its exceptions only the first is logged.

    Returns:
        A function that ends it; idempotent.
    """
    seen, has_failed = conversation.state, False

    def look(change: Change) -> None:
        """Call the function with what changed."""
        nonlocal seen, has_failed
        if not change & Change.STATE:
            return
        before, seen = seen, conversation.state
        for path, value in places.changes(before, seen):
            try:
                observe(value, path)
            except Exception:
                # A function that watches the state must not break the runs.
                if not has_failed:
                    has_failed = True
                    what = "a function that watches the state at %r failed; it is called again all the same"
                    _logger.exception(what, places.path)

    return conversation.listeners.add(look)


def watch_with(conversation: Conversation, places: Places, function: Callable[..., object]) -> None:
    """Watch places with a function that takes the value, and the JSON pointer after it if it wants.

    Raises:
        UsageError: The function is async, or no function.
    """
    if iscoroutinefunction(function) or not callable(function):
        raise UsageError(f"on_state() takes a plain function, not {function!r}; it may start a task")
    watch(conversation, places, function if takes_two(function) else lambda value, _: function(value))


def observe_places(conversation: Conversation, path: str) -> Observable[Any]:
    """Return the values at places of the state as a hot observable.

    Args:
        path: The JSON pointer of the places; `*` stands for every member.

    Returns:
        The present values at once, then every new value; it never completes.

    Raises:
        UsageError: The path is not a JSON pointer.
    """
    from agui_client._core.verbs.observable import observe_values

    places = Places(path)
    return observe_values(
        lambda: (value for _, value in places.changes(ABSENT, conversation.state)),
        lambda observe: watch(conversation, places, lambda value, _: observe(value)),
    )
