"""Subscribers: the hooks of an agent's subscribers, called during a run, and the mutations that they return.

Hooks are looked up by event type, so that one that nobody overrides costs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui import core

from agui_client._protocol.reduce import Change
from agui_client._run.hooks import UNSET, HookContext, HookReturn, Mutation, Subscriber, overriding
from agui_client.conversation import state_as_json

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from agui_client.conversation import Conversation

Hook: TypeAlias = Callable[..., HookReturn]

# Combining and testing flags costs as much as an event may.
_NO_CHANGE = Change.NONE
_EFFECT_HOOKS = ((), ("on_messages_changed",), ("on_state_changed",), ("on_messages_changed", "on_state_changed"))
"""The hooks about a change, by its flags."""
_MESSAGE_ENDS = (core.TextMessageEndEvent, core.ReasoningMessageEndEvent, core.ToolCallResultEvent)
_COMPLETING = frozenset({*_MESSAGE_ENDS, core.ToolCallEndEvent})
_ALL_EFFECT_HOOKS = ("on_messages_changed", "on_state_changed", "on_new_message", "on_new_tool_call")


class Subscription:
    """A subscriber's place on an agent; as a context manager it ends with the block."""

    def __init__(self, subscribers: list[Subscriber], subscriber: Subscriber) -> None:
        self._subscribers = subscribers
        self._subscriber = subscriber

    def unsubscribe(self) -> None:
        """Stop calling the subscriber's hooks; idempotent."""
        self._subscribers[:] = [other for other in self._subscribers if other is not self._subscriber]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.unsubscribe()


class EventSubscriber(Subscriber):
    """A function as a subscriber to one type of event.

    Args:
        event_type: The class of events.
        function: Called with the event, and with the `HookContext` if it takes two arguments.
    """

    def __init__(self, event_type: type[core.BaseEvent], function: Callable[..., Any]) -> None:
        self.event_type = event_type
        self._function = function
        self._takes_context = takes_two(function)

    def call(self, event: core.BaseEvent, context: HookContext) -> HookReturn:
        """Call the function."""
        returned: HookReturn = self._function(event, context) if self._takes_context else self._function(event)
        return returned


class HookCalls:
    """Calls the hooks of one run.

    Args:
        subscribers: The agent's subscribers, who may come and go during the run.
        context: The run, as hooks see it.
        conversation: The conversation that mutations change.
    """

    def __init__(self, subscribers: Sequence[Subscriber], context: HookContext, conversation: Conversation) -> None:
        self._subscribers = subscribers
        self._context = context
        self._conversation = conversation
        self._members: list[Subscriber] = []
        self._hooks: dict[type[core.BaseEvent] | str, list[Hook]] = {}
        self._watches_effects = False
        self._mutated = _NO_CHANGE

    def concern(self, event: core.Event) -> bool:
        """Whether there are hooks to call for an event."""
        return bool(self._hooks_for(event)) or self._watches_effects

    async def deliver(self, event: core.Event, apply: Callable[[core.Event], Change] | None = None) -> Change:
        """Call the hooks of an event, apply it unless one of them stops it, and call the hooks about its effects.

        Args:
            event: The event.
            apply: Reduces it; None for the result of a tool, which the conversation has already.

        Returns:
            The parts of the conversation that the event and the hooks changed.
        """
        hooks = self._hooks_for(event)
        is_wanted = not hooks or await self._call(hooks, event)
        change = Change.MESSAGES if apply is None else apply(event) if is_wanted else _NO_CHANGE
        if self._watches_effects:
            touched = change if self._mutated is _NO_CHANGE else change | self._mutated
            for moment in _EFFECT_HOOKS[touched]:
                await self._call(self._hooks_at(moment))
            if type(event) in _COMPLETING:
                await self._tell_complete(event)
        return change if self._mutated is _NO_CHANGE else change | self._take_mutated()

    async def tell(self, moment: str, *details: object) -> None:
        """Call the hooks of one moment of the run.

        Args:
            moment: The name of the hook.
            details: Its arguments, before the context.
        """
        await self._call(self._hooks_at(moment), *details)
        self._conversation.notify(self._take_mutated())

    def _hooks_at(self, moment: str) -> list[Hook]:
        if self._members != self._subscribers:
            self._refresh()
        found = self._hooks.get(moment)
        if found is None:
            found = self._hooks[moment] = _overriding(self._members, moment)
        return found

    def _take_mutated(self) -> Change:
        mutated, self._mutated = self._mutated, _NO_CHANGE
        return mutated

    def _hooks_for(self, event: core.Event) -> list[Hook]:
        """Return the hooks of an event, in the order of the subscribers."""
        if self._members != self._subscribers:
            self._refresh()
        kind = type(event)
        found = self._hooks.get(kind)
        if found is None:
            found = self._hooks[kind] = _event_hooks(self._members, event)
        return found

    async def _call(self, hooks: Sequence[Hook], *details: object) -> bool:
        """Call hooks and apply the mutations that they return; return whether none stopped the propagation."""
        try:
            for hook in hooks:
                returned = hook(*details, self._context)
                if returned is None:
                    continue
                mutation = await returned if isinstance(returned, Awaitable) else returned
                if isinstance(mutation, Mutation):
                    self._apply(mutation)
                    if mutation.stop_propagation:
                        return False
        except StopAsyncIteration as error:
            # Out of the stream's iteration it would pass for the stream's end (PEP 479).
            raise RuntimeError("a hook raised StopAsyncIteration") from error
        return True

    async def _tell_complete(self, event: core.Event) -> None:
        reducer = self._conversation.reducer
        if isinstance(event, _MESSAGE_ENDS):
            if (message := reducer.message(event.message_id)) is not None:
                await self._call(self._hooks_at("on_new_message"), message)
        elif isinstance(event, core.ToolCallEndEvent) and (call := reducer.tool_call(event.tool_call_id)) is not None:
            await self._call(self._hooks_at("on_new_tool_call"), call)

    def _apply(self, mutation: Mutation) -> None:
        if mutation.messages is not None:
            self._conversation.reducer.set_messages(mutation.messages)
            self._conversation.unreceived = None
            self._mutated |= Change.MESSAGES
        if mutation.state is not UNSET:
            self._conversation.replace_state(state_as_json(mutation.state))
            self._mutated |= Change.STATE

    def _refresh(self) -> None:
        """Look hooks up anew, at the start and when somebody subscribes or leaves in the middle of the run."""
        self._members = list(self._subscribers)
        self._hooks.clear()
        self._watches_effects = any(_overriding(self._members, moment) for moment in _ALL_EFFECT_HOOKS)


def _event_hooks(subscribers: Sequence[Subscriber], event: core.Event) -> list[Hook]:
    name = f"on_{event.type.value.lower()}_event"
    hooks: list[Hook] = []
    for subscriber in subscribers:
        if isinstance(subscriber, EventSubscriber):
            if isinstance(event, subscriber.event_type):
                hooks.append(subscriber.call)
        else:
            hooks += _overriding([subscriber], "on_event") + _overriding([subscriber], name)
    return hooks


def _overriding(subscribers: Sequence[Subscriber], name: str) -> list[Hook]:
    return overriding(subscribers, Subscriber, name)


def takes_two(function: Callable[..., Any]) -> bool:
    """Return whether a function takes a second argument."""
    try:
        inspect.signature(function).bind("the event", "the context")
    except (TypeError, ValueError):
        return False
    return True
