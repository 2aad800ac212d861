"""Runs: the public face of the runs that a process keeps."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack, cast
from uuid import uuid4

import anyio
from ag_ui.core import ResumeEntry, RunAgentInput

from agui_client._concurrency import call_aside, spawn
from agui_client._interrupts.answers import cover
from agui_client._protocol.open_items import quoted
from agui_client._run.scope import CURRENT_SCOPE
from agui_client._transport.timeouts import is_duration
from agui_client.agent import AbstractAgent
from agui_client.asgi.caller_input import trusted_run
from agui_client.errors import RunInProgressError, UsageError
from agui_client.runs.kept_run import SHUTTING_DOWN, KeptRun
from agui_client.runs.records import (
    FollowedEvent,
    RunInfo,
    RunKey,
    RunsClosedError,
    RunStatus,
    WaitingRun,
    cursor_of,
    read_cursor,
)
from agui_client.runs.run_log import RunLog, event_of
from agui_client.runs.shelf import RunShelf

if TYPE_CHECKING:
    from typing import Self

    from agui_client._interrupts.answers import Resume
    from agui_client._run.async_run import AgentRun
    from agui_client.messages import Prompt
    from agui_client.options import RunOptions
    from agui_client.runs.kept_run import Enter, Reenter, WhenLeft

Agent: TypeAlias = AbstractAgent[Any]
Chosen: TypeAlias = Agent | AbstractAsyncContextManager[Agent]
"""An agent, or a block with one."""
Opener: TypeAlias = Callable[[str], Chosen]
AgentSource: TypeAlias = Agent | Opener
"""An agent, or a function of a thread id that returns one or a block with one, such as `Threads.open` makes."""
OnWaiting = TypeVar("OnWaiting", bound=Callable[[WaitingRun], object])

_DEFAULT_MAX_BYTES = 64 * 1024 * 1024
_logger = logging.getLogger("agui_client.runs")


class Runs:
    """Runs that belong to this process, not to the connection of whoever asked for them.

        runs = Runs()
        app = agent_app(planner, runs=runs)

    Each run is carried out in a task of its own, which writes its events to a log in memory. Callers follow the log:
    they may come late, leave, come back, and be slow. Used in one event loop, asyncio's or trio's.

    Args:
        keep: Seconds for which the events of a run are kept after its end.
        max_bytes: The bytes that all logs and the inputs of their runs may take, about. If they take more, ended runs
            are dropped, those that ended first before others; if that is not enough, the largest run ends with
            RUN_ERROR (`log_full`).
        owner_of: A function that returns the owner of a caller's runs, of what `authorize=` of the app returned. By
            default that is the owner itself if it is a text, and there is none if it is None or True. Nobody can
            follow, list, stop or answer runs of another owner over HTTP.

    Raises:
        UsageError: An argument has a wrong value.
    """

    def __init__(
        self,
        *,
        keep: float = 300.0,
        max_bytes: int = _DEFAULT_MAX_BYTES,
        owner_of: Callable[[Any], str] | None = None,
    ) -> None:
        if keep != 0 and not is_duration(keep):
            raise UsageError(f"keep= is a number of seconds from 0 up, not {keep!r}")
        if not isinstance(cast("object", max_bytes), int) or max_bytes < 1:
            raise UsageError(f"max_bytes= is a whole number above zero, not {max_bytes!r}")
        self._shelf = RunShelf(keep, max_bytes)
        self._owner_of = owner_of
        self._on_waiting: list[Callable[[WaitingRun], object]] = []
        self._is_closed = False

    async def start(
        self,
        agent: AgentSource,
        prompt: Prompt = None,
        *,
        thread_id: str | None = None,
        owner: str = "",
        **options: Unpack[RunOptions],
    ) -> RunInfo:
        """Begin a run, and return as soon as it has begun.

        Args:
            agent: The agent. With another `thread_id`, a clone of it runs. A function of the thread id may open a
                stored thread instead: `lambda thread_id: threads.open(thread_id, agent)`.
            prompt: The prompt, as for `agent.run_agent`.
            thread_id: The thread; by default that of the agent, or a new one if a function is given.
            owner: The owner of the run.
            options: Further keywords of `agent.run_agent`.

        Returns:
            The description of the run.

        Raises:
            RunInProgressError: A run of the thread is going on.
            UsageError: The run cannot begin, or a run of the id is kept.
        """
        open_agent = _opener(agent, thread_id)
        thread_id = thread_id or (agent.thread_id if isinstance(agent, AbstractAgent) else str(uuid4()))
        options["run_id"] = options.get("run_id") or str(uuid4())
        key = RunKey(owner, thread_id, options["run_id"])
        if self._shelf.get(key) is not None:
            raise UsageError(f"a run {key.run_id!r} of thread {thread_id!r} is kept already; leave run_id= out")
        begun = _ProgramRun(open_agent, key, prompt, options)
        run = self.begin(key, begun.input, begun.enter, begun.reenter)
        await run.log.opened()
        return run.log.info

    async def follow(
        self, run_id: str, *, after: str | None = None, thread_id: str | None = None, owner: str | None = None
    ) -> AsyncGenerator[FollowedEvent]:
        """Iterate the events of a run, those that were there before and then those that come, until its end.

        Args:
            run_id: The id of the run.
            after: The cursor of the event to go on behind; None begins with the first event.
            thread_id: The thread of the run; None for any.
            owner: The owner of the run; None for any.

        Yields:
            Each event, with its cursor.

        Raises:
            UsageError: No such run is kept, several are, or the cursor is of another run.
        """
        log = self.find(run_id, thread_id, owner).log
        of, position = (run_id, 0) if after is None else read_cursor(after)
        if of != run_id:
            raise UsageError(f"the cursor {after!r} is of run {of!r}, not {run_id!r}")
        with log.followed():
            await log.opened()
            log.check(position)
            while frames := await log.read(position):
                for frame in frames:
                    position += 1
                    yield FollowedEvent(cursor_of(run_id, position), event_of(frame))

    async def stop(self, run_id: str, *, thread_id: str | None = None, owner: str | None = None) -> RunInfo:
        """Stop a run, and wait until it has ended; one that has ended stays as it is.

        Its last event is a RUN_FINISHED with the outcome `cancelled`.

        Args:
            run_id: The id of the run.
            thread_id: The thread of the run; None for any.
            owner: The owner of the run; None for any.

        Returns:
            The description of the run.

        Raises:
            UsageError: No such run is kept, or several are.
        """
        run = self.find(run_id, thread_id, owner)
        if run.log.is_going_on:
            run.stop()
            await run.log.ended()
        return run.log.info

    async def answer(
        self, run_id: str, answers: Resume, *, thread_id: str | None = None, owner: str | None = None
    ) -> RunInfo:
        """Answer the interrupts of a run: another run of the thread begins, and goes on with the answers.

        Args:
            run_id: The id of the run that waits.
            answers: The answers by interrupt id, as `resume=` of `agent.run_agent` takes them.
            thread_id: The thread of the run; None for any.
            owner: The owner of the run; None for any.

        Returns:
            The description of the run that has begun.

        Raises:
            InterruptsNotCoveredError: The answers do not answer each interrupt once.
            RunInProgressError: A run of the thread is going on.
            UsageError: No such run is kept, several are, it waits for no answer, or the answers are refused.
        """
        run = self.find(run_id, thread_id, owner)
        log, left = run.log, run.log.left_input
        if log.status is not RunStatus.WAITING or left is None:
            raise UsageError(f"run {run_id!r} waits for no answer: it is {log.status.value}")
        entries = [ResumeEntry.model_validate(each) for each in cover(log.interrupts, answers)]
        input = left.model_copy(update={"run_id": str(uuid4()), "resume": entries})
        next_run = self.begin(
            log.key._replace(run_id=input.run_id),
            input,
            run.reenter(input),
            run.reenter,
            when_left=run.when_left,
            expose_errors=run.expose_errors,
            input_size=log.input_size,
        )
        await next_run.log.opened()
        return next_run.log.info

    async def list(self, *, owner: str | None = None) -> list[RunInfo]:
        """List the runs that are kept, those that began last first.

        Args:
            owner: The owner; None for the runs of all.
        """
        infos = [each.log.info for each in self._shelf if owner in (None, each.log.key.owner)]
        return infos[::-1]

    def on_waiting(self, function: OnWaiting) -> OnWaiting:
        """Call a function with each run that has ended with interrupts; also a decorator.

        Args:
            function: A function, sync or async, of a `WaitingRun`. A sync one is called in a thread. An exception in
                it is logged.

        Returns:
            The function.
        """
        self._on_waiting.append(function)
        return function

    async def aclose(self) -> None:
        """End the runs that are going on with RUN_ERROR (`shutting_down`), and let no more begin. Idempotent."""
        going_on = self.stop_all()
        with anyio.CancelScope(shield=True):
            for run in going_on:
                await run.log.ended()

    def stop_all(self) -> Sequence[KeptRun]:
        """Stop the runs that are going on as `aclose` does, without waiting for their end; return them."""
        self._is_closed = True
        going_on = [each for each in self._shelf if each.log.is_going_on]
        for run in going_on:
            run.stop(SHUTTING_DOWN)
        return going_on

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *about: object) -> None:
        await self.aclose()

    # --- for served agents

    def begin(
        self,
        key: RunKey,
        input: RunAgentInput,
        enter: Enter,
        reenter: Reenter,
        *,
        when_left: WhenLeft = "continue",
        expose_errors: bool = False,
        input_size: int = 0,
    ) -> KeptRun:
        """Begin a run in a task of its own, for other parts of the package.

        Args:
            key: The identity of the run.
            input: The input that asks for the run.
            enter: Enters the run.
            reenter: Makes the run that goes on with answers to its interrupts.
            when_left: Says what becomes of the run when its last caller has left.
            expose_errors: Whether callers get the text of exceptions.
            input_size: The bytes of the input.

        Returns:
            The run, which may yet be refused: `log.opened()` waits for that.

        Raises:
            RunInProgressError: A run of the thread is going on.
            UsageError: These runs were closed.
        """
        if self._is_closed:
            raise RunsClosedError("these runs were closed, so no run can begin; make another Runs()")
        latest = self.latest(key.owner, key.thread_id)
        if latest is not None and latest.log.is_going_on:
            raise RunInProgressError(f"run {latest.log.key.run_id!r} is going on in thread {key.thread_id!r}")
        log = RunLog(key, self._shelf, input_size)
        run = KeptRun(log, input, enter, reenter, when_left=when_left, expose_errors=expose_errors)
        self._shelf.add(run)
        context = copy_context()
        # A run inside of another one would be given its handlers and its time limit, and this one outlives it.
        context.run(CURRENT_SCOPE.set, None)
        spawn(partial(self._carry_out, run, None if latest is None else latest.log), context)
        return run

    def get(self, key: RunKey) -> KeptRun | None:
        """Return a run, for other parts of the package; None if it is not kept."""
        return self._shelf.get(key)

    def find(self, run_id: str, thread_id: str | None, owner: str | None) -> KeptRun:
        """Return the run of an id, for other parts of the package.

        Raises:
            UsageError: There is none, or there are several.
        """
        return self._shelf.find(run_id, thread_id, owner)

    def latest(self, owner: str, thread_id: str) -> KeptRun | None:
        """Return the latest run of a thread, for other parts of the package; None if none is kept."""
        return self._shelf.latest(owner, thread_id)

    def owner_of(self, caller: object) -> str:
        """Return the owner of a caller's runs, for other parts of the package.

        Raises:
            TypeError: The owner is no text.
        """
        owner = self._owner_of(caller) if self._owner_of is not None else "" if caller in (None, True) else caller
        if not isinstance(owner, str):
            what = f"the owner of a run is a text, not a {type(owner).__name__}"
            raise TypeError(f"{what}; Runs(owner_of=...) takes a function that makes one of what authorize= returned")
        return owner

    # --- inside

    async def _carry_out(self, run: KeptRun, before: RunLog | None) -> None:
        await run.carry_out(before)
        log = run.log
        if log.status is not RunStatus.WAITING:
            return
        waiting = WaitingRun(log.key.run_id, log.key.thread_id, log.key.owner, log.interrupts)
        for function in self._on_waiting:
            try:
                await call_aside(partial(function, waiting), "on_waiting")
            except Exception:
                _logger.exception("a function of on_waiting failed for run %s", quoted(log.key.run_id))


def _opener(agent: AgentSource, thread_id: str | None) -> Opener:
    """Return a function that gives the agent of a thread, each time the same one if an agent was given.

    Raises:
        UsageError: It is neither an agent nor a function.
    """
    if isinstance(agent, AbstractAgent):
        given: Agent = cast("Any", agent)
        own = given if thread_id in (None, given.thread_id) else given.clone(thread_id=thread_id)
        return lambda _: own
    if not callable(cast("object", agent)) or inspect.isclass(agent):
        raise UsageError(f"runs.start takes an agent, or a function of a thread id that returns one, not {agent!r}")
    return agent


class _ProgramRun:
    """The run that a program begins, and those that answer its interrupts."""

    def __init__(self, open_agent: Opener, key: RunKey, prompt: Prompt, options: RunOptions) -> None:
        self.input = RunAgentInput(
            thread_id=key.thread_id,
            run_id=key.run_id,
            state=None,
            messages=[],
            tools=[],
            context=list(options.get("context") or ()),
            forwarded_props=options.get("forwarded_props"),
        )
        """The input that asks for the run, as far as the runs that answer its interrupts have the same."""
        self._open, self._thread_id, self._prompt, self._options = open_agent, key.thread_id, prompt, options

    async def enter(self, stack: AsyncExitStack) -> AgentRun:
        """Enter the run of the prompt."""
        agent = await self._enter_agent(stack)
        return await stack.enter_async_context(agent.stream(self._prompt, **self._options))

    def reenter(self, input: RunAgentInput) -> Enter:
        """Return what enters the run of an input with answers."""
        # The agent has the conversation, and so has the thread that the function opens.
        return partial(self._enter_answers, input.model_copy(update={"messages": [], "state": None}))

    async def _enter_answers(self, input: RunAgentInput, stack: AsyncExitStack) -> AgentRun:
        agent = await self._enter_agent(stack)
        return await stack.enter_async_context(trusted_run(agent, input, self._options.get("tools")))

    async def _enter_agent(self, stack: AsyncExitStack) -> Agent:
        chosen = self._open(self._thread_id)
        agent: Agent = chosen if isinstance(chosen, AbstractAgent) else await stack.enter_async_context(chosen)
        if agent.thread_id != self._thread_id:
            what = f"the function opened thread {agent.thread_id!r}, not {self._thread_id!r}"
            raise UsageError(f"{what}, which it was called with")
        return agent
