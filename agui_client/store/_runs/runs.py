"""Runs: the public face of the runs that a process keeps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, Unpack, cast
from uuid import uuid4

from ag_ui.core import RunAgentInput

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.agent.run_records import (
    FollowedEvent,
    OnCrash,
    Place,
    RunFilter,
    RunInfo,
    RunKey,
    RunsClosedError,
    StoredRequest,
    WaitingRun,
    check_on_crash,
    cursor_of,
    read_cursor,
    status_of,
)
from agui_client._core.protocol.prompts import prompt_messages
from agui_client._core.protocol.schema import is_a
from agui_client._core.run.options import RunOptions, lists_keywords
from agui_client._core.verbs.sse import event_of
from agui_client.errors import UsageError
from agui_client.store._runs.kept_runs import RunService
from agui_client.store._runs.program_runs import AgentSource, NamedOpener, ProgramRun, input_of, opener_of

if TYPE_CHECKING:
    from agui_client._core.protocol.prompts import Prompt
    from agui_client._core.tools.interrupts import Resume

OnWaiting = TypeVar("OnWaiting", bound=Callable[[WaitingRun], object])

_STORED_OPTIONS = frozenset({"run_id", "context", "forwarded_props"})
"""The keywords of a run that can be stored."""


class Runs:
    """Runs that belong to the server, not to the connection of the caller that asked for them: `store.runs`.

        store = Store()
        app = agent_app(planner, store=store, authorize=user_of)
        run = await store.runs.start(planner, "Plan a trip")
        async for cursor, event in store.runs.follow(run.run_id): ...

    Each run continues in a task of its own, which writes its events to a log. Callers follow the log: they may come
    late, leave, come back, and be slow. Used in one event loop, asyncio's or trio's.

    In a database, the runs outlive the process: another one that has the database continues with them. They need
    asyncio, and agents with names: `add`, and `name=` of `agent_app`.
    """

    def __init__(self, kept: RunService) -> None:
        self._kept = kept

    @lists_keywords(RunOptions)
    async def start(
        self,
        agent: AgentSource | str,
        prompt: Prompt = None,
        *,
        thread_id: str | None = None,
        owner: str = "",
        expose_errors: bool = False,
        **options: Unpack[RunOptions],
    ) -> RunInfo:
        """Begin a run, and return as soon as it has begun.

        Cancelling this call does not take the run back: it continues, as one does whose caller leaves. `stop` ends it.

        Args:
            agent: The agent, or its name (`add`), which runs with a URL need. With another `thread_id`, a clone of the
                agent runs. A function of the thread id may open a stored thread instead:
                `lambda thread_id: threads.open(thread_id, agent)`.
            prompt: The prompt, as for `agent.run_agent`.
            thread_id: The thread; by default that of the agent, or a new one if a function is given.
            owner: The owner of the run.
            expose_errors: Whether followers get the text of exceptions.
            options: Further keywords of `agent.run_agent`.

        Returns:
            The description of the run.

        Raises:
            RunInProgressError: A run of the thread is in progress.
            UsageError: The run cannot begin, or a run of the id is kept.
        """
        options["run_id"] = options.get("run_id") or str(uuid4())
        stored_request: StoredRequest | None = None
        if isinstance(agent, str):
            thread_id = thread_id or str(uuid4())
            asked = self._stored_request(agent, prompt, thread_id, options)
            stored_request = replace(asked, expose_errors=expose_errors)
            input = RunAgentInput.model_validate(stored_request.input)
            enter = self._kept.added(agent).enter_as(stored_request)
        else:
            open_agent = opener_of(agent, thread_id)
            thread_id = thread_id or (agent.thread_id if isinstance(agent, AbstractAgent) else str(uuid4()))
            begun = ProgramRun(open_agent, thread_id, prompt, options)
            input, enter = begun.input, begun.enter
        key = RunKey(owner, thread_id, options["run_id"])
        if await self._kept.keeper.get(key) is not None:
            raise UsageError(f"a run {key.run_id!r} of thread {thread_id!r} is kept already; leave run_id= out")
        run = await self._kept.begin(key, input, enter, expose_errors=expose_errors, stored_request=stored_request)
        return (await self._kept.opened(run)).log.info

    def add(self, name: str, agent: AgentSource, *, on_crash: OnCrash = "again") -> None:
        """Name an agent for `start`. With a URL, each process has to name the same agents before it is used.

        Args:
            agent: The agent, of which each run gets a clone without messages; or a function of a thread id, as for
                `start`.
            on_crash: With a URL, says what becomes of a run whose process ends: "again" runs the part again that was
                cut, "fail" ends the run with RUN_ERROR (`process_ended`).

        Raises:
            UsageError: With a URL, another agent has the name; or an argument has a wrong value.
        """
        check_on_crash(on_crash, is_durable=self._kept.keeper.is_durable)
        if not is_a(name, str):
            raise UsageError(f'runs.add takes a name and an agent, as in runs.add("helper", agent), not {name!r}')
        self._kept.name(name, NamedOpener(agent, on_crash))

    def _stored_request(self, name: str, prompt: Prompt, thread_id: str, options: RunOptions) -> StoredRequest:
        """Return what any process needs to run an agent with a name.

        Raises:
            UsageError: There is none, or an argument cannot be stored.
        """
        named = self._kept.added(name)
        if refused := sorted(options.keys() - _STORED_OPTIONS):
            raise UsageError(f"{refused[0]}= cannot be stored; give it to the agent that is named {name!r}")
        if isinstance(prompt, RunAgentInput):
            raise UsageError("an agent with a name takes a prompt, not a RunAgentInput, which is for agent_app")
        input = input_of(thread_id, options).model_copy(update={"messages": prompt_messages(prompt)})
        return StoredRequest(
            name, {}, input.model_dump(mode="json", by_alias=True, exclude_none=True), on_crash=named.on_crash
        )

    async def follow(
        self, run_id: str, *, after: str | None = None, thread_id: str | None = None, owner: str | None = None
    ) -> AsyncGenerator[FollowedEvent]:
        """Iterate the events of a run, those that were there before and then those that come, until its end.

        Args:
            after: The cursor of the last event that you have; None begins with the first event.
            thread_id: The thread of the run; None for any.
            owner: The owner of the run; None for any.

        Yields:
            Each event, with its cursor.

        Raises:
            UsageError: No such run is kept, several are, or the cursor is of another run.
        """
        if after is not None and not is_a(after, str):
            raise UsageError(f"after= is the cursor that came with an event, a text, not {after!r}")
        run = await self._kept.find(run_id, thread_id, owner)
        of, place = (run_id, Place(0)) if after is None else read_cursor(after)
        if of != run_id:
            raise UsageError(f"the cursor {after!r} is of run {of!r}, not {run_id!r}")
        while True:
            with run.log.followed():
                try:
                    await run.log.opened()
                    run.log.check(place)
                    while frames := await run.log.read(place):
                        for at, frame in frames:
                            place = at
                            yield FollowedEvent(cursor_of(run_id, at), event_of(frame))
                except RunsClosedError as error:
                    left = error
                else:
                    return
            run = await self._kept.elsewhere(run, left)

    async def stop(self, run_id: str, *, thread_id: str | None = None, owner: str | None = None) -> RunInfo:
        """Stop a run, and wait until it has ended; one that has ended stays as it is.

        Its last event is a RUN_FINISHED with the outcome `cancelled`, or a RUN_ERROR (`stopped`) if it had not begun.
        With a URL, a run that no process carries out ends, too.

        Args:
            thread_id: The thread of the run; None for any.
            owner: The owner of the run; None for any.

        Returns:
            The description of the run.

        Raises:
            UsageError: No such run is kept, or several are.
        """
        run = await self._kept.find(run_id, thread_id, owner)
        if run.log.is_running:
            await self._kept.keeper.stop(run)
        return run.log.info

    async def answer(
        self, run_id: str, answers: Resume, *, thread_id: str | None = None, owner: str | None = None
    ) -> RunInfo:
        """Answer the interrupts of a run: another run of the thread begins, and continues with the answers.

        With a URL, the other run begins in a process that has the agent. If there is none, the run is queued, and this
        call waits for one; cancelling the call leaves the run in the queue. `stop` withdraws it: this call returns, and
        the run that waits can be answered again.

        Args:
            run_id: The id of the run that waits.
            answers: The answers by interrupt id, as `resume=` of `agent.run_agent` takes them.
            thread_id: The thread of the run; None for any.
            owner: The owner of the run; None for any.

        Returns:
            The description of the run that has begun.

        Raises:
            InterruptsNotCoveredError: The answers do not answer each interrupt once.
            RequestRepeatedError: An interrupt was answered at the same moment.
            RunInProgressError: A run of the thread is in progress.
            UsageError: No such run is kept, several are, it waits for no answer, or the answers are refused.
        """
        run = await self._kept.find(run_id, thread_id, owner)
        next_run = await self._kept.continue_run(run, answers)
        return (await self._kept.opened(next_run)).log.info

    async def info(self, run_id: str, *, thread_id: str | None = None, owner: str | None = None) -> RunInfo:
        """Describe a run.

        Args:
            thread_id: The thread of the run; None for any.
            owner: The owner of the run; None for any.

        Returns:
            The description of the run as it is now.

        Raises:
            UsageError: No such run is kept, or several are.
        """
        return await self._kept.info(run_id, thread_id, owner)

    async def list(
        self, *, owner: str | None = None, status: str | None = None, limit: int = 50, after: RunInfo | None = None
    ) -> list[RunInfo]:
        """List the runs that are kept, those that began last first.

        `list(owner="ann", status="waiting")` is the inbox of a person: the runs that wait for an answer.

        Args:
            owner: The owner; None for the runs of all.
            status: The status of the runs, a `RunStatus` or its text; None for any.
            limit: The most to return.
            after: The last run of the page before; None for the first page.

        Raises:
            UsageError: The owner is not text, the limit is not a number of runs, or there is no such status.
        """
        if owner is not None and not is_a(owner, str):
            raise UsageError(f"owner= is a text, or None for the runs of all, not {owner!r}")
        if isinstance(limit, bool) or not is_a(limit, int) or limit < 0:
            raise UsageError(f"limit= is a number of runs from 0 up, not {limit!r}")
        wanted = RunFilter(owner, status=status_of(status))
        return [*await self._kept.keeper.infos(wanted, limit, after)]

    async def delete(self, *, owner: str | None = None, everybody: bool = False) -> int:
        """Remove all runs of an owner with their events and inputs: those that are in progress are stopped before.

        Runs that wait for an answer are removed, too, and no link to them can be answered any more. Runs that begin
        meanwhile go as well. The conversations of stored threads are removed by `store.delete(owner=)`, too.

        Args:
            owner: The owner; "" for the runs without one.
            everybody: Whether the runs of all owners are removed, which takes the place of `owner`.

        Returns:
            The number of runs that were removed.

        Raises:
            UsageError: Neither an owner nor everybody is named, or both are.
        """
        if everybody is (owner is not None) or not is_a(owner, str | None):
            raise UsageError(f"delete takes owner=, a text, or everybody=True for the runs of all, not {owner!r}")
        return await self._kept.keeper.delete(owner)

    def on_waiting(self, function: OnWaiting) -> OnWaiting:
        """Call a function with each run that has ended with interrupts; also a decorator.

        With a URL, a function is called at least once with each run: if the process ends before the function has
        returned, another process that has the agent, and functions, calls those. So a function may be called twice
        with a run, and should then do nothing more; the run id tells.

        Args:
            function: A function, sync or async, of a `WaitingRun`. A sync one is called in a thread. An exception in
                it is logged, and it is not called again with the run.

        Returns:
            The function.

        Raises:
            UsageError: It is not a function.
        """
        if not callable(cast("object", function)):
            raise UsageError(f"on_waiting takes a function of a WaitingRun, not {function!r}")
        self._kept.on_waiting.append(function)
        return function


def kept_by(runs: Runs) -> RunService:
    """Return what other parts of the package use of runs."""
    return runs._kept  # pyright: ignore[reportPrivateUsage] # private to programs
