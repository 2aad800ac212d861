"""The agent that an app serves: chosen for a request, opened with its stored thread, and entered with the input.

An exception becomes a response with a status. Which addresses there are, and what becomes of the events, is not
known here.

To change

- the agent of a request, and the statuses of runs that cannot begin: `ServedAgent` here
"""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio.to_thread
from ag_ui.core import RunAgentInput

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.ground.concurrency import whole
from agui_client._core.protocol.open_items import quoted
from agui_client._core.run.hooks import takes_two
from agui_client._core.verbs.caller_run import caller_events
from agui_client._core.verbs.signer import SignedInterrupts, UnverifiedError
from agui_client._serving.answering import ResumedRun, answering_run, continued_run
from agui_client._serving.connecting import check_wants_run, connected_run, replayed_events
from agui_client._serving.divergence import check_on_divergence
from agui_client._serving.served_request import RequestRefusedError, ServedRequest
from agui_client.asgi._request_body import is_large
from agui_client.errors import (
    RequestExpiredError,
    RequestRepeatedError,
    RunInProgressError,
    ThreadBusyError,
    ThreadStoreUnavailableError,
    UsageError,
)

if TYPE_CHECKING:
    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.verbs.async_run import AgentRun
    from agui_client._serving.divergence import OnDivergence
    from agui_client._serving.stopping import Stopping
    from agui_client.store import Threads

# One sentence for all that is signed, whatever was wrong with it.
_UNVERIFIED = (
    "an answer cannot be verified: it was signed with another secret, or for another caller or thread, or was changed "
    "since; what was asked before has to be asked again"
)
_SOON, _AFTER_OUTAGE = {"retry-after": "1"}, {"retry-after": "5"}
"""When a caller may try again: where another process may take it or a run may end, and where a database is away."""
_logger = logging.getLogger("agui_client.asgi")

Chosen: TypeAlias = AbstractAgent | AbstractAsyncContextManager[AbstractAgent]
"""An agent, or a block with one."""
Chooser: TypeAlias = Callable[[ServedRequest, RunAgentInput], Chosen | Awaitable[Chosen]]
"""A function, sync or async, that returns the agent for a request; the block of an agent lasts as long as its run."""


class ServedAgent:
    """Enters the runs of callers.

    Args:
        agent: The agent, or the function that chooses one.
        signing: Says how the ids of interrupts are signed.
        on_divergence: What becomes of an input whose messages leave the stored thread.
        expose_errors: Whether callers get the text of exceptions.
        stopping: Returns the runs of the app that are in progress.

    Raises:
        UsageError: It is not an agent, or an argument has a wrong value.
    """

    def __init__(
        self,
        agent: AbstractAgent | Chooser,
        signing: SignedInterrupts,
        on_divergence: OnDivergence,
        *,
        expose_errors: bool,
        stopping: Callable[[], Stopping],
    ) -> None:
        _check(agent)
        check_on_divergence(on_divergence)
        self._agent, self._signing, self._has_warned = agent, signing, False
        self._on_divergence: OnDivergence = on_divergence
        self._expose_errors, self._stopping = expose_errors, stopping
        self._has_store, self._are_runs_stored = False, False
        self._threads: Threads | None = None

    def serve_store(self, threads: Threads | None, *, are_runs_stored: bool) -> None:
        """Have a store behind the app.

        Args:
            threads: Has the threads with which agents continue; None if callers have the conversations.
            are_runs_stored: Whether the runs outlive their process.
        """
        self._has_store, self._threads, self._are_runs_stored = True, threads, are_runs_stored

    def warn_of_team(self) -> None:
        """Log what has to be known of an agent that no function chooses."""
        if not callable(self._agent):
            self._note_team(self._agent)

    @asynccontextmanager
    async def open(self, request: ServedRequest, input: RunAgentInput) -> AsyncGenerator[AsyncIterator[WireEvent]]:
        """Begin a run, as a block with the events of its response; leaving the block ends the run.

        Raises:
            RequestRefusedError: The run cannot be begun.
        """
        stopping = self._stopping()
        if stopping.has_begun:
            raise RequestRefusedError(503, "the server is shutting down", _SOON)
        check_wants_run(request)
        async with AsyncExitStack() as stack:
            run = await self.enter(request, input, stack)
            events_of = replayed_events if request.is_connect else caller_events
            stack.enter_context(stopping.run(run))
            # The block of the chosen agent is left before the run's last event is sent: it may have saved the thread.
            block = aclosing(stack)
            last_event = stopping.last_event
            events = events_of(run, expose_errors=self._expose_errors, block=block, stopped_with=last_event)
            async with aclosing(events):
                yield events

    async def enter(
        self, request: ServedRequest, input: RunAgentInput, stack: AsyncExitStack, cut: ResumedRun | None = None
    ) -> AgentRun:
        """Enter a run, with the block that its agent may come in.

        Args:
            request: The request that asks for the run.
            stack: The stack of blocks in which both are entered.
            cut: What is known of the run if its process ended; None if it begins.

        Raises:
            RequestRefusedError: The run cannot be begun.
        """
        answer = connected_run if request.is_connect else partial(answering_run, on_divergence=self._on_divergence)
        # Tools of one name may differ from agent to agent: what one agent asked approves no call of another one.
        path = request.path.rstrip("/") if callable(self._agent) else ""
        signing = replace(self._signing, path=path, owner=request.owner)
        try:
            agent = await self.choose(request, input, stack)
            if request.is_connect and not agent.can_connect and agent.thread_id != input.thread_id:
                raise RequestRefusedError(405, "this agent cannot send a thread again", {"allow": ""})
            begin = partial(answer, agent, input, signing)
            if cut is not None and (place := await cut.find(agent)) is not None:
                begin = partial(continued_run, agent, input, place, signing)
            # The conversation of a large input is copied, which takes some tenths of a second.
            run = await anyio.to_thread.run_sync(begin) if is_large(request.headers) else begin()
            return await stack.enter_async_context(run)
        except (RunInProgressError, ThreadBusyError) as error:
            raise RequestRefusedError(409, "a run is in progress in this thread", _retry_after(error)) from error
        except RequestExpiredError as error:
            raise RequestRefusedError(410, str(error)) from error
        except RequestRepeatedError as error:
            raise RequestRefusedError(409, str(error)) from error
        except ThreadStoreUnavailableError as error:
            _logger.error("refused a request: %s", error)
            raise RequestRefusedError(503, "the threads cannot be reached now", _AFTER_OUTAGE) from error
        except UsageError as error:
            _logger.warning("refused a request: %s", error)
            shown = _UNVERIFIED if isinstance(error, UnverifiedError) else "the run cannot be begun"
            raise RequestRefusedError(422, str(error) if self._expose_errors else shown) from error

    async def choose(self, request: ServedRequest, input: RunAgentInput, stack: AsyncExitStack) -> AbstractAgent:
        """Return the agent for a request, with its stored thread; blocks that it comes in are left with the stack."""
        agent = self._agent
        if callable(agent):
            agent = await self._chosen(agent, request, input, stack)
            self._note_team(agent)
        if self._threads is None or agent.is_stored or agent.answers_aside(input):
            return agent
        from agui_client.store._threads.opened import enter_for_call

        return await enter_for_call(self._threads.open(input.thread_id, agent, owner=request.owner), stack)

    def _note_team(self, agent: AbstractAgent) -> None:
        """Log, once, that what teams ask is in the memory of this process."""
        if agent.is_team and not self._has_store and not agent.is_stored and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "app %s serves a team and has no store: what its members ask and have done is kept in the memory of "
                "this process for an hour, so other workers and restarts lose questions; agent_app(store=Store(URL)) "
                "keeps it",
                quoted(self._signing.app),
            )

    async def _chosen(
        self, choose: Chooser, request: ServedRequest, input: RunAgentInput, stack: AsyncExitStack
    ) -> AbstractAgent:
        chosen = choose(request.as_stored() if self._are_runs_stored else request, input)
        if inspect.isawaitable(chosen):
            chosen = await whole(chosen)
        _check_chosen(chosen, AbstractAgent, AbstractAsyncContextManager)
        if isinstance(chosen, AbstractAgent):
            return chosen
        from agui_client.store._threads.opened import enter_for_call

        agent = await whole(enter_for_call(chosen, stack))
        _check_chosen(agent, AbstractAgent)
        return agent


def _check_chosen(chosen: object, *kinds: type[Any]) -> None:
    if not isinstance(chosen, kinds):
        raise TypeError(f"the function that chooses agents returned no agent, but {chosen!r}")


def _check(agent: Any) -> None:
    is_chooser = callable(agent) and not (inspect.isclass(agent) or inspect.isasyncgenfunction(agent))
    if not isinstance(agent, AbstractAgent) and not is_chooser:
        takes = "an agent, such as FunctionAgent(function), or a function of the request and the input that returns one"
        raise UsageError(f"agent_app takes {takes}, not {agent!r}")
    if is_chooser and not isinstance(agent, AbstractAgent) and not takes_two(agent, if_unknown=True):
        raise UsageError(
            "the function that agent_app takes is called with (request, input), and has to return an agent"
        )


def _retry_after(error: RunInProgressError | ThreadBusyError) -> dict[str, str]:
    """Return the header that says when a thread may be free."""
    seconds = error.retry_after if isinstance(error, ThreadBusyError) else None
    return _SOON if seconds is None else {"retry-after": str(max(1, math.ceil(seconds)))}
