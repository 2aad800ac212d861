"""Subscribers: calling hooks, and carrying out what they return.

A `Roster` belongs to an agent; a run dispatches over it by event type, so that hooks nobody overrode cost nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui.core import (
    BaseEvent,
    ReasoningMessageEndEvent,
    TextMessageEndEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
)

from agui_client._pipeline.reduce import Change
from agui_client._surfaces.hooks import UNSET, HookContext, HookReturn, Mutation, Subscriber
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from ag_ui.core import Event

    from agui_client._pipeline.reduce import Reducer

Hook: TypeAlias = Callable[..., HookReturn]

# Combining and testing flags costs as much as an event may.
_NO_CHANGE = Change.NONE
_MOMENTS: dict[Change, tuple[str, ...]] = {
    Change.NONE: (),
    Change.MESSAGES: ("on_messages_changed",),
    Change.STATE: ("on_state_changed",),
    Change.MESSAGES | Change.STATE: ("on_messages_changed", "on_state_changed"),
}
_COMPLETING: frozenset[type] = frozenset(
    {TextMessageEndEvent, ReasoningMessageEndEvent, ToolCallResultEvent, ToolCallEndEvent}
)
_OUTCOME_HOOKS = ("on_messages_changed", "on_state_changed", "on_new_message", "on_new_tool_call")


class Subscription:
    """A subscriber's place on an agent; as a context manager it ends with the block."""

    def __init__(self, roster: Roster, subscriber: Subscriber) -> None:
        self._roster = roster
        self._subscriber = subscriber

    def unsubscribe(self) -> None:
        """Stop hearing; idempotent."""
        self._roster.remove(self._subscriber)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.unsubscribe()


class EventSubscriber(Subscriber):
    """A function as a subscriber to one type of event.

    Args:
        event_type: The class of event it hears of.
        function: Called with the event, and with the `HookContext` if it takes two arguments.
    """

    def __init__(self, event_type: type[BaseEvent], function: Callable[..., Any]) -> None:
        self.event_type = event_type
        self._function = function
        self._takes_context = _positional_count(function) > 1

    def call(self, event: BaseEvent, context: HookContext) -> HookReturn:
        """Call the function."""
        returned: HookReturn = self._function(event, context) if self._takes_context else self._function(event)
        return returned


class Roster:
    """The subscribers of an agent, in the order they came."""

    def __init__(self, subscribers: Sequence[Subscriber] = ()) -> None:
        self.members = list(subscribers)
        """The subscribers; replaced, never changed, when somebody comes or goes."""

    def add(self, subscriber: Subscriber) -> Subscription:
        """Add a subscriber; it hears of everything from the next event on."""
        self.members = [*self.members, subscriber]
        return Subscription(self, subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        """Remove a subscriber, if it is there."""
        self.members = [other for other in self.members if other is not subscriber]

    def copy(self) -> Roster:
        """The same subscribers in a list of its own."""
        return Roster(self.members)


class Dispatcher:
    """Calls the hooks of one run.

    Args:
        roster: Who listens.
        context: What the hooks are shown.
        reducer: What their mutations change.
    """

    def __init__(self, roster: Roster, context: HookContext, reducer: Reducer) -> None:
        self._roster = roster
        self._context = context
        self._reducer = reducer
        self._members: list[Subscriber] = []
        self._hooks: dict[type[BaseEvent] | str, list[Hook]] = {}
        self.watches_outcome = False
        """Whether anybody asks what events did to the conversation."""
        self.mutated = _NO_CHANGE
        """What hooks changed since `take_mutated()`."""

    def hooks_for(self, event: Event) -> list[Hook]:
        """The hooks of an event, in the order of the subscribers."""
        if self._members is not self._roster.members:
            self._refresh()
        kind = type(event)
        found = self._hooks.get(kind)
        if found is None:
            found = self._hooks[kind] = _event_hooks(self._members, event)
        return found

    async def call(self, hooks: Sequence[Hook], *details: object) -> bool:
        """Call hooks and carry out what they return.

        Args:
            hooks: What to call, in order.
            details: What they are told, before the context.

        Returns:
            Whether nobody stopped the propagation.
        """
        for hook in hooks:
            try:
                returned = hook(*details, self._context)
                mutation = await returned if isinstance(returned, Awaitable) else returned
            except StopAsyncIteration as error:
                # Out of the stream's iteration it would pass for the stream's end (PEP 479).
                raise RuntimeError("a hook raised StopAsyncIteration") from error
            if isinstance(mutation, Mutation):
                self._carry_out(mutation)
                if mutation.stop_propagation:
                    return False
        return True

    async def tell(self, moment: str, *details: object) -> None:
        """Call the hooks of one moment of the run.

        Args:
            moment: The hook's name.
            details: What it is told, before the context.
        """
        if self._members is not self._roster.members:
            self._refresh()
        found = self._hooks.get(moment)
        if found is None:
            found = self._hooks[moment] = _overridden(self._members, moment)
        if found:
            await self.call(found, *details)

    async def after(self, event: Event, change: Change) -> None:
        """Call the hooks about what an event, and the mutations on its way, did to the conversation."""
        touched = change if self.mutated is _NO_CHANGE else change | self.mutated
        for moment in _MOMENTS[touched]:
            await self.tell(moment)
        if type(event) in _COMPLETING:
            await self._tell_complete(event)

    async def _tell_complete(self, event: Event) -> None:
        if isinstance(event, TextMessageEndEvent | ReasoningMessageEndEvent | ToolCallResultEvent):
            message = self._reducer.message(event.message_id)
            if message is not None:
                await self.tell("on_new_message", message)
        elif isinstance(event, ToolCallEndEvent):
            call = self._reducer.tool_call(event.tool_call_id)
            if call is not None:
                await self.tell("on_new_tool_call", call)

    def take_mutated(self) -> Change:
        """What hooks changed since this was last asked."""
        mutated, self.mutated = self.mutated, _NO_CHANGE
        return mutated

    def _carry_out(self, mutation: Mutation) -> None:
        if mutation.messages is not None:
            self._reducer.set_messages(mutation.messages)
            self.mutated |= Change.MESSAGES
        if mutation.state is not UNSET:
            self._reducer.set_state(mutation.state)
            self.mutated |= Change.STATE

    def _refresh(self) -> None:
        """Make the tables anew, at the start and when somebody subscribes or leaves in the middle of the run."""
        self._members = self._roster.members
        self._hooks.clear()
        self.watches_outcome = any(_overridden(self._members, moment) for moment in _OUTCOME_HOOKS)


def _event_hooks(subscribers: Sequence[Subscriber], event: Event) -> list[Hook]:
    name = f"on_{event.type.value.lower()}_event"
    hooks: list[Hook] = []
    for subscriber in subscribers:
        if isinstance(subscriber, EventSubscriber):
            if isinstance(event, subscriber.event_type):
                hooks.append(subscriber.call)
        else:
            hooks += _overridden([subscriber], "on_event") + _overridden([subscriber], name)
    return hooks


def _overridden(subscribers: Sequence[Subscriber], name: str) -> list[Hook]:
    """The hooks of that name that somebody wrote, rather than inherited empty."""
    return [
        getattr(subscriber, name)
        for subscriber in subscribers
        if getattr(type(subscriber), name) is not getattr(Subscriber, name) or name in vars(subscriber)
    ]


def _positional_count(function: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return 2
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(parameter.kind in kinds for parameter in parameters)
    if not count:
        raise UsageError("a function given to on() must take the event, and may take the run's context after it")
    return count
