"""The hooks a subscriber may implement: one per event type, one per moment of a run.

Every hook may be a plain or an async method. What it returns is a `Mutation`, or None to leave things as they are.

To change

- a hook of subscribers: `Subscriber` here; `HookCalls` there calls it, at a moment that `_core/run/engine.py` names
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ag_ui import core
from pydantic_core import PydanticUndefined

from agui_client._core.conversation.changes import MessagesReplaced, StateReplaced
from agui_client._core.conversation.state_json import state_as_json
from agui_client._core.ground.concurrency import unasked
from agui_client._core.ground.field_docs import Record
from agui_client._core.protocol.reduce import Change
from agui_client._core.protocol.traits import TRAITS, Completed

if TYPE_CHECKING:
    from ag_ui.core import Message, RunAgentInput, ToolCall

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.run.scope import RunScope


@dataclass(frozen=True, slots=True)
class Mutation(Record):
    """A change that a hook asks for. In a hook of an event it takes effect before the event does."""

    messages: Sequence[Message] | None = None
    """The conversation's messages from now on; None leaves them."""
    state: Any = PydanticUndefined  # not given, where None is JSON's null; copies keep it
    """The state from now on, as in `set_state`; left out, the state stays."""
    stop_propagation: bool = False
    """Keep the event from later subscribers, and from the conversation's messages and state."""


HookReturn: TypeAlias = Mutation | Awaitable[Mutation | None] | None
"""The return value of a hook."""


def overriding(members: Sequence[object], base: type, name: str) -> list[Callable[..., Any]]:
    """Return the methods of a name that members override, rather than inherit empty.

    Args:
        members: Subscribers or observers, in order.
        base: The class whose method is empty; it may have none of that name.
        name: The name of the method.
    """
    return [
        getattr(member, name)
        for member in members
        if getattr(type(member), name, None) is not getattr(base, name, None) or name in vars(member)
    ]


class HookContext:
    """The run as a hook sees it: what has been applied so far.

    Args:
        scope: The run, as observers see it.
        run_id: The id of the run, if it is not the one that was asked for.
    """

    def __init__(
        self, run_input: RunAgentInput, conversation: Conversation, scope: RunScope, run_id: str | None = None
    ) -> None:
        self.input = run_input
        """The input of the run."""
        self.scope = scope
        """The run, as observers see it."""
        self.run_id: str = run_input.run_id if run_id is None else run_id
        """The id of the run that was asked for; in `on_abort` of a replay, of the run that is being replayed."""
        self._conversation = conversation

    @property
    def thread_id(self) -> str:
        """The conversation."""
        return self.input.thread_id

    @property
    def messages(self) -> list[Message]:
        """The messages so far; return a `Mutation` to change them."""
        return self._conversation.messages_to_show()

    @property
    def state(self) -> Any:
        """The state so far; treat it as read-only."""
        return self._conversation.state


OnAbort: TypeAlias = Callable[[HookContext], Awaitable[Any] | Any]
"""Called when a run is left before its end, for servers that have a way to stop one; a plain function in a thread."""


def check_hooks(kind: type) -> None:
    """Check that the methods of a new class that look like hooks are some: nothing would call a misspelled one.

    Args:
        kind: The class; its bases have the hooks.

    Raises:
        TypeError: One is none.
    """
    for name in vars(kind):
        if name.startswith("on_") and not any(hasattr(base, name) for base in kind.__bases__):
            from difflib import get_close_matches

            hooks = [each for base in kind.__bases__ for each in dir(base) if each.startswith("on_")]
            near = get_close_matches(name, hooks, n=1)
            raise TypeError(f"{kind.__name__}.{name} is not a hook" + (f"; did you mean {near[0]}?" if near else ""))


class Subscriber:
    """Watches and changes runs: override the hooks of interest, the others cost nothing.

    A hook of an event is called after the event was verified and before it is applied. An exception in a hook ends the
    run with that exception. A method named `on_...` that is not a hook is refused when the class is made.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_hooks(cls)

    def on_run_initialized(self, context: HookContext) -> HookReturn:
        """The run is about to be sent; messages and state may still be changed on the way out."""

    def on_run_failed(self, error: Exception, context: HookContext) -> HookReturn:
        """The run ended with an error, which is raised afterwards."""

    def on_run_finalized(self, context: HookContext) -> HookReturn:
        """The run is over, whichever way."""

    def on_messages_changed(self, context: HookContext) -> HookReturn:
        """An event or a mutation changed the messages."""

    def on_state_changed(self, context: HookContext) -> HookReturn:
        """An event or a mutation changed the state."""

    def on_new_message(self, message: Message, context: HookContext) -> HookReturn:
        """A text message, reasoning message or tool result is complete."""

    def on_new_tool_call(self, tool_call: ToolCall, context: HookContext) -> HookReturn:
        """A tool call is complete; whether its arguments are valid JSON is not checked."""

    def on_event(self, event: core.Event, context: HookContext) -> HookReturn:
        """Any event, before the hook of its own type."""

    def on_run_started_event(self, event: core.RunStartedEvent, context: HookContext) -> HookReturn:
        """A run began."""

    def on_run_finished_event(self, event: core.RunFinishedEvent, context: HookContext) -> HookReturn:
        """A run finished; its outcome may still be turned into a failure by a late RUN_ERROR."""

    def on_run_error_event(self, event: core.RunErrorEvent, context: HookContext) -> HookReturn:
        """A run failed."""

    def on_step_started_event(self, event: core.StepStartedEvent, context: HookContext) -> HookReturn:
        """A step began."""

    def on_step_finished_event(self, event: core.StepFinishedEvent, context: HookContext) -> HookReturn:
        """A step ended."""

    def on_text_message_start_event(self, event: core.TextMessageStartEvent, context: HookContext) -> HookReturn:
        """A text message began."""

    def on_text_message_content_event(self, event: core.TextMessageContentEvent, context: HookContext) -> HookReturn:
        """A piece of text arrived."""

    def on_text_message_end_event(self, event: core.TextMessageEndEvent, context: HookContext) -> HookReturn:
        """A text message is complete."""

    def on_tool_call_start_event(self, event: core.ToolCallStartEvent, context: HookContext) -> HookReturn:
        """A tool call began."""

    def on_tool_call_args_event(self, event: core.ToolCallArgsEvent, context: HookContext) -> HookReturn:
        """A piece of a tool call's arguments arrived."""

    def on_tool_call_end_event(self, event: core.ToolCallEndEvent, context: HookContext) -> HookReturn:
        """A tool call is complete."""

    def on_tool_call_result_event(self, event: core.ToolCallResultEvent, context: HookContext) -> HookReturn:
        """A tool call got its result."""

    def on_state_snapshot_event(self, event: core.StateSnapshotEvent, context: HookContext) -> HookReturn:
        """The state is replaced."""

    def on_state_delta_event(self, event: core.StateDeltaEvent, context: HookContext) -> HookReturn:
        """The state is patched."""

    def on_messages_snapshot_event(self, event: core.MessagesSnapshotEvent, context: HookContext) -> HookReturn:
        """The messages are reconciled."""

    def on_activity_snapshot_event(self, event: core.ActivitySnapshotEvent, context: HookContext) -> HookReturn:
        """An activity is shown or replaced."""

    def on_activity_delta_event(self, event: core.ActivityDeltaEvent, context: HookContext) -> HookReturn:
        """An activity is patched."""

    def on_raw_event(self, event: core.RawEvent, context: HookContext) -> HookReturn:
        """A provider's own event passed through."""

    def on_custom_event(self, event: core.CustomEvent, context: HookContext) -> HookReturn:
        """An application's own event."""

    def on_reasoning_start_event(self, event: core.ReasoningStartEvent, context: HookContext) -> HookReturn:
        """A span of reasoning began."""

    def on_reasoning_end_event(self, event: core.ReasoningEndEvent, context: HookContext) -> HookReturn:
        """A span of reasoning ended."""

    def on_reasoning_message_start_event(
        self, event: core.ReasoningMessageStartEvent, context: HookContext
    ) -> HookReturn:
        """A reasoning message began."""

    def on_reasoning_message_content_event(
        self, event: core.ReasoningMessageContentEvent, context: HookContext
    ) -> HookReturn:
        """A piece of reasoning arrived."""

    def on_reasoning_message_end_event(self, event: core.ReasoningMessageEndEvent, context: HookContext) -> HookReturn:
        """A reasoning message is complete."""

    def on_reasoning_encrypted_value_event(
        self, event: core.ReasoningEncryptedValueEvent, context: HookContext
    ) -> HookReturn:
        """A provider's opaque value for a message or tool call."""

    def on_subagent_started_event(self, event: core.SubagentStartedEvent, context: HookContext) -> HookReturn:
        """A subagent was invoked."""

    def on_subagent_finished_event(self, event: core.SubagentFinishedEvent, context: HookContext) -> HookReturn:
        """A subagent finished."""

    def on_subagent_error_event(self, event: core.SubagentErrorEvent, context: HookContext) -> HookReturn:
        """A subagent failed."""


Hook: TypeAlias = Callable[..., HookReturn]

# Combining and testing flags costs as much as an event may.
_NO_CHANGE = Change.NONE
_EFFECT_HOOKS = ((), ("on_messages_changed",), ("on_state_changed",), ("on_messages_changed", "on_state_changed"))
"""The hooks about a change, by its flags."""
_ALL_EFFECT_HOOKS = ("on_messages_changed", "on_state_changed", "on_new_message", "on_new_tool_call")


class Subscription(AbstractContextManager["Subscription"]):
    """A subscriber's place on an agent; as a context manager it ends with the block."""

    def __init__(self, subscribers: list[Subscriber], subscriber: Subscriber) -> None:
        self._subscribers = subscribers
        self._subscriber = subscriber

    def unsubscribe(self) -> None:
        """Stop calling the subscriber's hooks; idempotent."""
        self._subscribers[:] = [other for other in self._subscribers if other is not self._subscriber]

    def __exit__(self, *failure: object) -> None:
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
        """Return whether there are hooks to call for an event."""
        return bool(self._hooks_of(type(event))) or self._watches_effects

    async def deliver(self, event: core.Event, apply: Callable[[core.Event], Change] | None = None) -> Change:
        """Call the hooks of an event, apply it unless one of them stops it, and call the hooks about its effects.

        Args:
            apply: Reduces it; None for the result of a tool, which the conversation has already.

        Returns:
            The parts of the conversation that the event and the hooks changed.
        """
        hooks = self._hooks_of(type(event))
        is_wanted = not hooks or await self._call(hooks, event)
        change = Change.MESSAGES if apply is None else apply(event) if is_wanted else _NO_CHANGE
        if self._watches_effects:
            touched = change if self._mutated is _NO_CHANGE else change | self._mutated
            for moment in _EFFECT_HOOKS[touched]:
                await self._call(self._hooks_of(moment))
            if (completed := TRAITS[type(event)].completes) is not None:
                await self._tell_complete(completed, event)
        return change if self._mutated is _NO_CHANGE else change | self._pop_mutated()

    async def tell(self, moment: str, *details: object) -> None:
        """Call the hooks of one moment of the run.

        Args:
            moment: The name of the hook.
            details: Its arguments, before the context.
        """
        await self._call(self._hooks_of(moment), *details)
        self._conversation.listeners.notify(self._pop_mutated())

    def _pop_mutated(self) -> Change:
        mutated, self._mutated = self._mutated, _NO_CHANGE
        return mutated

    def _hooks_of(self, subject: type[core.BaseEvent] | str) -> list[Hook]:
        """Return the hooks of a type of events, or those of a name, in the order of the subscribers."""
        if self._members != self._subscribers:
            # A subscriber was added or removed, perhaps in the middle of the run.
            self._members = list(self._subscribers)
            self._hooks.clear()
            self._watches_effects = any(self._hooks_of(moment) for moment in _ALL_EFFECT_HOOKS)
        found = self._hooks.get(subject)
        if found is None:
            if isinstance(subject, str):
                found = overriding(self._members, Subscriber, subject)
            else:
                found = self._event_hooks(subject)
            self._hooks[subject] = found
        return found

    def _event_hooks(self, kind: type[core.BaseEvent]) -> list[Hook]:
        name = f"on_{kind.model_fields['type'].default.value.lower()}_event"
        hooks: list[Hook] = []
        for subscriber in self._members:
            if not isinstance(subscriber, EventSubscriber):
                hooks += [hook for each in ("on_event", name) for hook in overriding([subscriber], Subscriber, each)]
            elif issubclass(kind, subscriber.event_type):
                hooks.append(subscriber.call)
        return hooks

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
        except asyncio.CancelledError as error:
            raise unasked(error) from error
        return True

    async def _tell_complete(self, completed: Completed, event: Any) -> None:
        conversation = self._conversation
        if completed == "message":
            if (message := conversation.message(event.message_id)) is not None:
                await self._call(self._hooks_of("on_new_message"), message)
        elif (call := conversation.tool_call(event.tool_call_id)) is not None:
            await self._call(self._hooks_of("on_new_tool_call"), call)

    def _apply(self, mutation: Mutation) -> None:
        if mutation.messages is not None:
            self._mutated |= self._conversation.apply(MessagesReplaced(mutation.messages))
        if mutation.state is not PydanticUndefined:
            self._mutated |= self._conversation.apply(StateReplaced(state_as_json(mutation.state)))


def takes_two(function: Callable[..., Any], *, if_unknown: bool = False) -> bool:
    """Return whether a function can be called with two arguments.

    Args:
        if_unknown: The value for functions that have no signature.
    """
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        return if_unknown
    return True
