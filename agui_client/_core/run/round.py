"""One run of a call: its input, the stages and the source of its events, and its hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar, TypeVarTuple, Unpack

import anyio.to_thread
from ag_ui.core import ActivityMessage, ActivitySnapshotEvent

from agui_client._core.conversation.history import chosen_messages
from agui_client._core.ground.concurrency import no_collection
from agui_client._core.protocol.pipeline import Pipeline
from agui_client._core.protocol.reduce import Change
from agui_client._core.protocol.request import is_large, prepare_input
from agui_client._core.run.hooks import HookCalls, HookContext
from agui_client._core.run.middleware import RunSource, observed_run
from agui_client._core.run.predictions import PREDICT_STATE, Predictions
from agui_client._core.run.scope import CURRENT_SCOPE, RunScope
from agui_client._core.run.turn_input import with_conversation

if TYPE_CHECKING:
    from ag_ui.core import CustomEvent, Event, Message, RunAgentInput

    from agui_client._core.conversation.conversation import Conversation
    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.protocol.outcome import OutcomeTracker
    from agui_client._core.run.call import Call
    from agui_client._core.run.run_loop import RunLoop
    from agui_client._core.tools.interrupts import AnsweredInterrupt
    from agui_client._core.transport.source import Source

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
WaitFor: TypeAlias = Callable[[Callable[[], Awaitable[T]]], Awaitable[T | None]]
"""Waits for code of the application, which the argument begins; returns None if the call was stopped."""

# Looking up the member of an enum, or its truth, costs a tenth of what an event may.
_NO_CHANGE = Change.NONE


class Run(RunScope):
    """One run of a call, which code inside of it and observers know as a `RunScope`.

    Args:
        run_input: The input of the run, before middleware.
        loop: The event loop for asynchronous work.
        answered: The interrupts whose answers it is sent.
    """

    source: Source | None = None
    """The source of the events; None as long as the agent was not called."""
    ended_at: float | None = None
    """`time.perf_counter()` when the run ended; None while it is running."""
    people_seconds: float = 0.0
    """Seconds in which people were asked in the call until the run ended."""
    _prepared: tuple[RunAgentInput, RunAgentInput] | None = None
    is_behind = False
    """Whether this is a replay that ended before it came as far as the local thread."""

    def __init__(
        self, call: Call, run_input: RunAgentInput, loop: RunLoop, answered: Sequence[AnsweredInterrupt]
    ) -> None:
        around, options = CURRENT_SCOPE.get(), call.agent_options
        first = call.rounds[0] if call.rounds else None
        # An agent without handlers of its own uses those of the run around it.
        super().__init__(
            agent=call.agent,
            input=run_input,
            warnings=call.warnings,
            observers=call.observers,
            owner=call.owner,
            options=call.options,
            approve=options.get("approve") or (around.approve if around else None),
            answer=options.get("answer") or (around.answer if around else None),
            people=options.get("people") or (around.people if around else None),
            until=call.time.until,
            is_replay=call.is_replay,
            is_saved=call.is_saved or call.also_save is not None or (around is not None and around.is_saved),
            answered=tuple(answered),
            people_time=call.people_time,
            first=first,
            parent=around,
            remote_texts=before.remote_texts if (before := first or around) else set(),
            leaving=call.leaving,
        )
        self.people_before: float = self.people_time.seconds
        """Seconds in which people were asked in the call before the run."""
        # Not the call itself: it holds its runs, and what is in a cycle stays in memory until the collector comes.
        self._subscribers, self._custom_models = call.subscribers, call.custom_models
        self._max_protocol_version = call.max_protocol_version
        self._loop = loop
        self._first_input = run_input
        self._collected = 0
        self.conversation: Conversation = (conversation := call.conversation)
        """The conversation."""
        reducer = conversation.begin_run(self.warnings, is_local=call.agent.is_local, is_replay=call.is_replay)
        nulls, strict = options.get("null_fields", "reject"), options.get("strict", False)
        self.pipeline: Pipeline = Pipeline(reducer, self.warnings, null_fields=nulls, strict=strict)
        """The stages that its events pass."""
        self.outcome: OutcomeTracker = self.pipeline.outcome
        """The outcome of the run, as far as it has come."""
        self.outcome.read_custom = self._read_custom
        self.predictions: Predictions = Predictions(self.outcome, conversation)
        """The changes of the state that the server has announced."""

    @property
    def run_id(self) -> str:
        """The id of the run that was asked for; of a replay, of the last run that was replayed."""
        started = self.outcome.started
        return started.run_id if started is not None and self.is_replay else self.input.run_id

    @property
    def may_have_started(self) -> bool:
        """Whether the agent may have begun to work on the run: not as long as it was not called."""
        return self.source is not None and super().may_have_started

    # --- the beginning

    def renew_input(self) -> None:
        """Put the messages and the state into the input that the conversation has now."""
        self.input: RunAgentInput = with_conversation(self.input, self.conversation)

    async def choose_messages(self, call: Call, wait_for: WaitFor[list[Message]]) -> bool:
        """Leave out what `history=` does not send.

        Args:
            wait_for: Waits for a function of the application.

        Returns:
            Whether the call continues, rather than was stopped meanwhile.
        """
        history, conversation = call.agent_options.get("history", "full"), self.conversation
        is_given = call.has_given_input and self.first is None
        if history != "full" and not is_given:
            choose = partial(chosen_messages, history, conversation.messages, conversation.unreceived)
            chosen = await wait_for(choose)
            if chosen is None:
                return False
            self.input = self.input.model_copy(update={"messages": chosen})
        return True

    async def prepare(self) -> None:
        """Prepare a large input in a thread, while the event loop continues; what middleware makes of it comes later.

        Raises:
            UsageError: It cannot be sent.
        """
        # Looked at here, as a call into the loop costs a sync run two changes of threads.
        if is_large(self.input):
            self._prepared = self.input, await self._loop.call(self._prepare_in_thread, self.input)

    async def _prepare_in_thread(self, run_input: RunAgentInput) -> RunAgentInput:
        return await anyio.to_thread.run_sync(self._prepare_aside, run_input)

    def _prepare_aside(self, run_input: RunAgentInput) -> RunAgentInput:
        with no_collection():
            return self._prepare(run_input)

    def _prepare(self, run_input: RunAgentInput) -> RunAgentInput:
        peer, is_copied = self._max_protocol_version, self.agent.is_local
        return prepare_input(run_input, self.warnings, max_protocol_version=peer, is_copied=is_copied)

    def open(self, call: Call) -> Source:
        """Call the agent's `run`; return the source of its events."""
        pipeline = self.pipeline
        agent_run = observed_run(call.agent_run, self, call.timeouts, has_middleware=bool(call.middleware))

        def run(run_input: RunAgentInput) -> AsyncIterator[WireEvent]:
            """Call the agent with an input that was checked after middleware."""
            given, prepared = self._prepared or (None, None)
            # Once: the agent may change what it gets, and middleware may call it again.
            self._prepared = None
            return agent_run(prepared if prepared and given is run_input else self._prepare(run_input))

        self.source = self._loop.source(partial(RunSource, run, call.middleware, call.timeouts, pipeline.compat, self))
        pipeline.is_conforming = self.source.conforming
        pipeline.verifier.begin(self.input.thread_id, None if call.is_replay else self.input.run_id)
        return self.source

    # --- events, hooks and observers

    def _read_custom(self, event: CustomEvent) -> CustomEvent:
        if event.name == PREDICT_STATE:
            self.predictions.announce(event.value)
        models = self._custom_models
        return event if models is None else models.typed(event, self.warnings)

    async def deliver(self, event: Event) -> None:
        """Reduce an event that the pipeline has admitted, and call the hooks of subscribers and those who watch."""
        if self._hooks.concern(event):
            change = await self.inside(self._hooks.deliver, event, self.pipeline.apply)
        else:
            change = self.pipeline.apply(event)
        if self.conversation.listeners or self.observers.of_events:
            self.publish(event, change)

    def publish(self, event: Event, change: Change) -> None:
        """Tell the listeners of the conversation, and observers, about an event that was reduced."""
        if change is not _NO_CHANGE:
            self.conversation.listeners.notify(change)
        self.observers.event(self, event, change)

    def store_activities(self) -> list[ActivitySnapshotEvent]:
        """Put the activities that tools have shown since the last look into the conversation; return their events."""
        new = self.tool_events[self._collected :]
        shown = [event for event in new if isinstance(event, ActivitySnapshotEvent)]
        for event in shown:
            self.conversation.store_activity(
                ActivityMessage(id=event.message_id, activity_type=event.activity_type, content=event.content)
            )
        return shown

    async def deliver_stored(self, event: Event) -> None:
        """Call hooks and observers about what tools returned or showed, which the conversation has already."""
        if self._subscribers:
            await self.inside(self._hooks.deliver, event)
        self.observers.event(self, event, Change.MESSAGES)

    async def collect_agents(self) -> list[Event]:
        """Return the events of agents that tools have asked, which hooks and observers have seen."""
        new = self.tool_events[self._collected :]
        self._collected += len(new)
        events: list[Event] = [event for event in new if not isinstance(event, ActivitySnapshotEvent)]
        for event in events:
            self.outcome.note(event)
            if self._subscribers:
                await self.inside(self._hooks.deliver, event)
            self.observers.event(self, event, _NO_CHANGE)
        return events

    async def call_hooks(self, moment: str, *details: object) -> None:
        """Call the hooks of one moment of the run.

        Args:
            moment: The name of the hook.
            details: Its arguments, before the context.
        """
        if self._subscribers:
            await self.inside(self._hooks.tell, moment, *details)

    def inside(self, function: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> Awaitable[T]:
        """Call an asynchronous function that calls code of the application, with observers around it.

        Args:
            function: The function, called in the event loop of the run.
            args: Its arguments.
        """
        return self._loop.call(self.observers.inside, self, function, *args)

    @cached_property
    def _hooks(self) -> HookCalls:
        context = HookContext(self._first_input, self.conversation, self)
        return HookCalls(self._subscribers, context, self.conversation)
