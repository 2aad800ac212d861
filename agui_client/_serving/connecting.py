"""A thread that is sent again to a caller who connects, run by run as the agent sends it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ag_ui.core import (
    PROTOCOL_VERSION,
    Event,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    SubagentErrorEvent,
)

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.conversation.state_base import split_base
from agui_client._core.protocol.outcome import ThreadFacts
from agui_client._core.run.subagents import without_journal
from agui_client._core.tools.toolset import known_functions
from agui_client._core.transport.client import CONNECT_HEADER
from agui_client._core.verbs.caller_interrupts import stored_interrupts
from agui_client._core.verbs.caller_run import Reader, failure_event, reported_error
from agui_client._serving.caller_clone import clone_for
from agui_client._serving.served_request import RequestRefusedError
from agui_client.errors import RunFailedError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from ag_ui.core import Message, RunAgentInput

    from agui_client._core.conversation.snapshot import ConversationSnapshot
    from agui_client._core.tools.toolset import OfferedTool
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client._core.verbs.signer import SignedInterrupts, Signer
    from agui_client._serving.served_request import ServedRequest


def check_wants_run(request: ServedRequest) -> None:
    """Refuse a request for a thread at an address that would begin a run, which its caller has not asked for.

    Args:
        request: The request, whose path need not end in /connect.

    Raises:
        RequestRefusedError: The request says that it wants a thread, as those of `connect_agent()` do.
    """
    if CONNECT_HEADER in request.headers and not request.is_connect:
        what = "this address begins runs; the one that sends a thread again is the agent's with /connect behind it"
        raise RequestRefusedError(404, what)


def connected_run(agent: AbstractAgent, input: RunAgentInput, signing: SignedInterrupts) -> AgentRun:
    """Return the replay of an agent's thread for a caller who connects.

    Args:
        agent: The agent; it is left as it is unless it has the caller's thread. One that cannot send a thread again
            has to have it.
        input: The input that the caller sent.
        signing: Says how the ids of interrupts are signed.

    Returns:
        The run, not entered yet.
    """
    is_stored = agent.thread_id == input.thread_id
    if not agent.can_connect:
        signer = signing.signer(input.thread_id, is_stored=is_stored)
        agent = _StoredThread(agent.snapshot(), known_functions(agent.tools), signer, input.messages)
    elif not is_stored:
        agent = clone_for(agent, input)
    return agent.stream_connect(context=input.context or (), forwarded_props=split_base(input.forwarded_props)[1])


class _StoredThread(AbstractAgent):
    """Sends a conversation that is stored here, with the interrupts that wait in it.

    Args:
        document: The conversation.
        functions: The functions of the agent that are known outside runs, by name.
        signer: The signer of interrupts; None if they are not signed.
        theirs: The messages of the caller.
    """

    def __init__(
        self,
        document: ConversationSnapshot,
        functions: Mapping[str, OfferedTool],
        signer: Signer | None,
        theirs: Sequence[Message],
    ) -> None:
        super().__init__(thread_id=document.thread_id)
        self._document, self._functions, self._signer = document, functions, signer
        stored = {each.id for each in document.messages}
        self._facts = ThreadFacts(document.incomplete_ids, [each.id for each in theirs if each.id not in stored])

    async def run(self, input: RunAgentInput) -> AsyncGenerator[Event]:
        """Yield nothing: the agent of the thread runs."""
        for event in list[Event]():
            yield event

    async def connect(self, input: RunAgentInput) -> AsyncGenerator[Event]:
        """Yield one run with the messages, the state and the interrupts."""
        thread_id, run_id = input.thread_id, input.run_id
        interrupts = stored_interrupts(self._document, self._functions, self._signer)
        yield RunStartedEvent(thread_id=thread_id, run_id=run_id)
        yield MessagesSnapshotEvent(messages=self._document.messages, metadata=self._facts.metadata)
        yield StateSnapshotEvent(snapshot=without_journal(self._document.state))
        outcome = RunFinishedInterruptOutcome(interrupts=interrupts) if interrupts else None
        yield RunFinishedEvent(thread_id=thread_id, run_id=run_id, outcome=outcome)


async def replayed_events(
    run: AgentRun,
    *,
    expose_errors: bool,
    block: AbstractAsyncContextManager[object],
    stopped_with: Callable[[], RunErrorEvent | None],
) -> AsyncGenerator[Event]:
    """Iterate a thread that is sent again, run by run as the agent sends it.

    Args:
        run: The replay, entered.
        expose_errors: Whether the caller gets the text of exceptions.
        block: Left when the replay is over.
        stopped_with: Returns the last event of a replay that the server has stopped for a reason of its own; None if
            it has none.

    Yields:
        The events of all runs, and a RUN_ERROR if the replay was stopped, or failed in another way than by one.
    """
    reader = Reader()
    try:
        async with block, reader:
            async for event in run:
                if isinstance(event, RunErrorEvent | SubagentErrorEvent):
                    yield reported_error(event, run, expose_errors=expose_errors)
                elif isinstance(event, RunStartedEvent):
                    yield event.model_copy(update={"protocol_version": PROTOCOL_VERSION})
                else:
                    yield event
        if run.partial.aborted and (error := stopped_with()) is not None:
            yield error
    except Exception as error:
        if reader.has_left:
            raise
        if isinstance(error, RunFailedError) and error.raised is None:
            return  # its RUN_ERROR was sent
        yield failure_event(error, run.run_id, run.thread_id, expose_errors=expose_errors)
