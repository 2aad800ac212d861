"""A batch: agents run on rows, some at once, each row on a clone of its agent and a thread of its own.

Tasks take rows off one iterator, and have each run at a place (`_places`). A row is in the journal before the caller
sees it, with no moment between its end and its line at which a cancellation could come.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, Unpack, cast, overload

import anyio

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.ground.concurrency import BackgroundLoop, LoopThread, side_by_side, spawn
from agui_client._core.ground.display import Displayed
from agui_client._core.ground.plain_text import printable
from agui_client._core.ground.prices import cost_of, dollars_in
from agui_client._core.ground.type_adapters import type_adapter
from agui_client._core.ground.waiting import next_item
from agui_client._core.plugs import shown_while
from agui_client._core.protocol.schema import is_a
from agui_client._core.run.options import RunOptions, checked_options, lists_keywords
from agui_client._core.transport.timeouts import check_number
from agui_client.batch._journal import Journal
from agui_client.batch._pace import Budget, Pace, RowRetry, is_refusal
from agui_client.batch._places import place_of
from agui_client.batch._progress import Counts, Progress, Summary
from agui_client.batch._results import ParsedT, RowResult, count_tokens, error_of, from_line, unfinished
from agui_client.batch._rows import PromptOf, Row, RowSource, read_rows
from agui_client.batch._workers import AgentSource, ClusterError
from agui_client.errors import AGUIError, ParseError, UsageError

if TYPE_CHECKING:
    from ag_ui.core import TokenUsage
    from anyio.streams.memory import MemoryObjectSendStream
    from pydantic import TypeAdapter

    from agui_client._core.run.result import RunResult
    from agui_client.batch._kept_rows import Ask
    from agui_client.batch._places import Place

Agents: TypeAlias = AgentSource | str | Mapping[str, AgentSource] | Mapping[str, str] | Sequence[AgentSource | str]
"""An agent, or several with their names; or functions that make them, or names by which they were added to runs."""

_CLOSING_SECONDS = 5.0
_logger = logging.getLogger("agui_client.batch")
_OF_ONE_RUN = ("run_id", "parent_run_id", "resume", "tool_results", "when_busy")


@overload
def run_many(
    agent: Agents,
    rows: RowSource,
    *,
    prompt: PromptOf = "prompt",
    key: str | None = None,
    at_once: int = 10,
    journal: str | Path | None = None,
    rerun_failed: bool = False,
    parse: type[ParsedT],
    per_minute: float | None = None,
    retry: RowRetry | int | None = None,
    budget: Budget | None = None,
    on: Any = None,
    name: str | None = None,
    **options: Unpack[RunOptions],
) -> Batch[ParsedT]: ...
@overload
def run_many(
    agent: Agents,
    rows: RowSource,
    *,
    prompt: PromptOf = "prompt",
    key: str | None = None,
    at_once: int = 10,
    journal: str | Path | None = None,
    rerun_failed: bool = False,
    parse: Any = None,
    per_minute: float | None = None,
    retry: RowRetry | int | None = None,
    budget: Budget | None = None,
    on: Any = None,
    name: str | None = None,
    **options: Unpack[RunOptions],
) -> Batch[Any]: ...
@lists_keywords(RunOptions)
def run_many(
    agent: Agents,
    rows: RowSource,
    *,
    prompt: PromptOf = "prompt",
    key: str | None = None,
    at_once: int = 10,
    journal: str | Path | None = None,
    rerun_failed: bool = False,
    parse: Any = None,
    per_minute: float | None = None,
    retry: RowRetry | int | None = None,
    budget: Budget | None = None,
    on: Any = None,
    name: str | None = None,
    **options: Unpack[RunOptions],
) -> Batch[Any]:
    """Run an agent on each row: `async for done in run_many(...)`, or `for done in run_many(...)` in a script.

    The rows are read and checked now; nothing is sent before the loop begins. Results come as rows are finished, those
    of the journal first; a row that fails has `done.error`, and does not end the batch. Leaving the loop stops what is
    running.

    Args:
        agent: The agent, whose conversation each row begins with, or a function that makes it; or several to compare,
            in a list or by name.
        rows: A file (.csv, .tsv, .jsonl, .ndjson, .parquet), a DataFrame, or an iterable of mappings or texts.
        prompt: The column of the prompts, or a function that makes the prompt of a row.
        key: The column that names each row, by which the journal knows it; None numbers the rows from 1.
        at_once: The number of rows that run at once, those of all agents together.
        journal: The file that has a line for each finished row. The next start with it resumes where this one ended.
        rerun_failed: Whether rows that failed in an earlier start are run again.
        parse: A type that pydantic knows; `done.parsed` is the reply as one, and a row whose reply is none fails.
        per_minute: The most rows and repetitions to begin in a minute, evenly spread.
        retry: The policy for failed rows, or the number of repetitions; see `RowRetry`.
        budget: The most that this start may use.
        on: The place where the rows run: a `distributed.Client`, to whose workers the agent is carried; or
            `agui_client.store.Store`, to whose runs an agent of the name was added. Then a row is a run, which is begun
            once, and continues when its program ends. Everything else stays here.
        name: With `on=Store(...)`, the name of the batch, by which the next start and other programs find its rows.
        options: See `RunOptions`, for every run.

    Returns:
        The batch, to iterate once; `progress` and `summary` are up to date at any moment.

    Raises:
        UsageError: The rows cannot be read, lack a column, or share a key; an option has a value that it does not
            take, such as a type of `parse=` that pydantic cannot read; the agent cannot be carried to the workers.
            Iterating raises it if the journal is none, belongs to other rows, or to another program, and a
            ClusterError if the cluster of `on=` is gone.
    """
    check_number("at_once", at_once, least=1, is_whole=True)
    agents = agents_by_name(agent)
    _check_start(budget, name, rerun_failed=rerun_failed)
    return Batch(
        place=place_of(on, name, agents, _options_of_many(options, agents.values())),
        jobs=_jobs(read_rows(rows, prompt, key), agents),
        at_once=at_once,
        journal=_journal_opener(journal, rerun_failed=rerun_failed),
        parse=parse,
        pace=Pace(per_minute),
        retry=RowRetry.of(retry),
        budget=budget or Budget(),
        is_kept=name is not None,
    )


def _check_start(budget: Any, name: str | None, *, rerun_failed: bool) -> None:
    """Check what no type says of the keywords of a batch."""
    if name is not None and rerun_failed:
        raise UsageError("rerun_failed= is not for on=Store(...), where failed rows are kept; retry= runs them again")
    if not is_a(budget, Budget | None):
        raise UsageError(f"budget= takes a Budget, such as Budget(rows=1000), not {budget!r}")


def _jobs(rows: Iterable[Row], agents: Iterable[str]) -> list[_Job]:
    """Return a job for each agent on each row."""
    return [_Job(row, name, number) for row in rows for number, name in enumerate(agents, start=1)]


@dataclass(frozen=True, slots=True)
class _Job:
    """A row for one agent."""

    row: Row
    name: str
    agent_number: int


@dataclass(slots=True)
class _Attempts:
    """The attempts of a row."""

    count: int = 0
    tokens: dict[str, int] = field(default_factory=dict[str, int])
    usage: list[TokenUsage] = field(default_factory=list["TokenUsage"])

    def add(self, used: Sequence[TokenUsage]) -> None:
        """Count the tokens of a run."""
        self.tokens = count_tokens(self.tokens, used)
        self.usage += used


class Batch(Displayed, Generic[ParsedT]):
    """A batch, made by `run_many`; iterate it once, with `async for` or with `for`.

    A notebook shows a bar while the loop runs, and a batch, its summary, and its rows with displays of their own.
    """

    def __init__(
        self,
        *,
        jobs: Sequence[_Job],
        place: Place,
        at_once: int,
        journal: Callable[..., Journal] | None,
        parse: Any,
        pace: Pace,
        retry: RowRetry,
        budget: Budget,
        is_kept: bool,
    ) -> None:
        self._is_kept = is_kept
        self._jobs, self._open_place, self._at_once, self._open_journal = jobs, place, at_once, journal
        self._parse, self._pace, self._retry, self._budget = parse, pace, retry, budget
        self._adapter: TypeAdapter[ParsedT] | None = (
            None if parse is None else type_adapter(parse, "parse=", is_read_now=True)
        )
        self._journal: Journal | None = None
        self._check_finished: Callable[[RowResult[ParsedT]], None] | None = None
        limit = None if budget.cost is None else dollars_in(budget.cost, "Budget.cost")
        self._tally = Counts(len(jobs), dict.fromkeys(job.name for job in jobs), limit)
        self._is_begun = False

    @property
    def progress(self) -> Progress:
        """The progress at this moment; `print(batch.progress)` prints a line with rate, time left and failures."""
        return self._tally.progress()

    @property
    def summary(self) -> Summary:
        """The summary, complete when the loop has ended; `print(batch.summary)` prints a few lines."""
        return self._tally.summary()

    def __repr__(self) -> str:
        names = ", ".join(name for name in self._tally.agents if name)
        return f"<Batch{f' of {printable(names)}' if names else ''}: {self.progress}>"

    def __aiter__(self) -> AsyncGenerator[RowResult[ParsedT]]:
        return self._results_shown()

    def __iter__(self) -> Generator[RowResult[ParsedT]]:
        return self._results_sync()

    def name_rows(self, noun: str) -> None:
        """Call the rows otherwise in the progress and the summary.

        Args:
            noun: The word for several of them.
        """
        self._tally.noun = noun

    def reject(self, done: RowResult[ParsedT], why: str) -> None:
        """Count a row as failed whose reply the caller has refused.

        Args:
            done: The row.
            why: The kind of the failure.
        """
        self._tally.reject(done.agent, why)

    def check_journal(self, check: Callable[[RowResult[ParsedT]], None]) -> None:
        """Have every row that the journal answers for checked before anything is sent.

        Args:
            check: Raises an error if a row of the journal is not one of this batch.
        """
        self._check_finished = check

    def hide_secrets_in_journal(self) -> None:
        """Write the lines of the journal without secrets, so that what the next start reads has none either."""
        if self._open_journal is not None:
            self._open_journal = partial(self._open_journal, hides_secrets=True)

    async def _results_shown(self) -> AsyncGenerator[RowResult[ParsedT]]:
        with shown_while(self):
            async with aclosing(self._results()) as results:
                async for done in results:
                    yield done

    async def _results(self) -> AsyncGenerator[RowResult[ParsedT]]:
        """Yield the rows of the journal, and then run the others."""
        if self._is_begun:
            raise UsageError("a batch is iterated once; call run_many() again, with the same journal")
        self._is_begun = True
        self._tally.start()
        if self._budget.seconds is not None:
            self._pace.ends_at = anyio.current_time() + self._budget.seconds
        try:
            with nullcontext() if self._open_journal is None else self._open_journal() as self._journal:
                finished, left = self._taken_up()
                for done in finished:
                    yield done
                async with aclosing(self._run(left)) as results:
                    async for done in results:
                        yield done
        finally:
            self._tally.end()

    def _taken_up(self) -> tuple[list[RowResult[ParsedT]], list[_Job]]:
        """Return what the journal has, and what is left to do."""
        finished: list[RowResult[ParsedT]] = []
        left: list[_Job] = []
        misfits: list[ParseError] = []
        lines = {} if self._journal is None else self._journal.lines
        for job in self._jobs:
            line = lines.get((job.row.key, job.name))
            try:
                if line is not None:
                    finished.append(from_line(line, job.row, self._adapter, job.agent_number))
                    continue
            except ParseError as error:
                misfits.append(error)
            left.append(job)
        if misfits and all(done.error is not None for done in finished):
            raise UsageError(f"{misfits[0]}; give another journal") from misfits[0]
        for misfit in misfits:
            _logger.warning("%s; it is run again", misfit)
        lines.clear()
        for done in finished:
            if self._check_finished is not None:
                self._check_finished(done)
            self._tally.add(done)
        return finished, left

    async def _run(self, jobs: Sequence[_Job]) -> AsyncGenerator[RowResult[ParsedT]]:
        """Run rows in a task of their own, because no generator may keep a task group open while it yields."""
        send, receive = anyio.create_memory_object_stream[RowResult[ParsedT]](self._at_once)
        scope, is_over, failures = anyio.CancelScope(), anyio.Event(), list[BaseException]()
        queue = iter(jobs)

        async def work() -> None:
            """Run the rows."""
            try:
                with scope, send:
                    async with self._open_place() as ask:
                        count = min(self._at_once, len(jobs))
                        await side_by_side([partial(self._work, queue, ask, send)] * count)
            except BaseException as error:
                failures.append(error)
            finally:
                is_over.set()

        spawn(work, copy_context())
        try:
            with receive:
                async for done in receive:
                    yield done
            await is_over.wait()
            if failures:
                raise failures[0]
        finally:
            scope.cancel()
            with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                await is_over.wait()

    async def _work(self, jobs: Iterator[_Job], ask: Ask, send: MemoryObjectSendStream[RowResult[ParsedT]]) -> None:
        """Run rows, one after the other, until none is left or the budget is spent."""
        for job in jobs:
            if self._is_spent():
                return
            self._tally.begun += 1
            self._tally.running += 1
            try:
                done = await self._run_row(job, ask)
            finally:
                self._tally.running -= 1
            if done is None:
                self._tally.stopped_by = "seconds"
                return
            # A run that is kept may be answered: then the next start finds another result.
            is_final = not (self._is_kept and done.result is not None and done.result.interrupts)
            if self._journal is not None and is_final:
                self._journal.append(done)
            self._tally.add(done)
            await send.send(done)

    def _is_spent(self) -> bool:
        budget, tally = self._budget, self._tally
        spent = {
            "rows": budget.rows is not None and tally.begun >= budget.rows,
            "cost": tally.is_spent,
            "tokens": budget.tokens is not None and tally.tokens >= budget.tokens,
            "failures": budget.failures is not None and tally.failed_now > budget.failures,
            "seconds": anyio.current_time() >= self._pace.ends_at,
        }
        tally.stopped_by = tally.stopped_by or next((name for name, is_spent in spent.items() if is_spent), None)
        return any(spent.values())

    async def _run_row(self, job: _Job, ask: Ask) -> RowResult[ParsedT] | None:
        """Run a row until it has a reply or has failed for good; None if the time is up before that."""
        attempts = _Attempts()
        while await self._pace.turn():
            attempts.count += 1
            start = time.perf_counter()
            result: RunResult | None = None
            try:
                result = await ask(job.name, job.row, attempts.count)
                attempts.add(result.usage)
                error = unfinished(result, is_parsed=self._parse is not None, is_kept=self._is_kept)
                parsed = None if self._parse is None or error is not None else result.parse(self._parse)
                return self._result(job, attempts, start, result, parsed=parsed, error=error)
            except ClusterError:
                raise
            except Exception as failure:
                if result is None and isinstance(failure, AGUIError) and failure.partial is not None:
                    partial = cast("RunResult", failure.partial)
                    result = partial
                    attempts.add(partial.usage)
                wait = self._retry.wait_before(attempts.count, failure)
                if wait is None:
                    return self._result(job, attempts, start, result, error=error_of(failure))
                if is_refusal(failure):
                    self._pace.hold(wait)
                elif anyio.current_time() + wait > self._pace.ends_at:
                    return None
                else:
                    await anyio.sleep(wait)
        return None

    def _result(
        self, job: _Job, attempts: _Attempts, start: float, result: RunResult | None, **outcome: Any
    ) -> RowResult[ParsedT]:
        return RowResult(
            number=job.row.number,
            key=job.row.key,
            agent=job.name,
            agent_number=job.agent_number,
            row=job.row.data,
            prompt=job.row.asked,
            text="" if result is None else result.text,
            usage=attempts.tokens,
            cost=self._cost_of(attempts, result),
            seconds=round(time.perf_counter() - start, 6),
            first_text=None if result is None else result.timings.first_text,
            attempts=attempts.count,
            result=result,
            **outcome,
        )

    def _cost_of(self, attempts: _Attempts, result: RunResult | None) -> float | None:
        """Count what a row cost; None if no money is counted, or it is not known."""
        if not self._budget.counts_money or (result is None and not attempts.usage):
            return None
        cost = cost_of(attempts.usage, self._budget.prices)
        self._tally.spend(cost)
        return None if cost.unknown else float(cost.dollars)

    def _results_sync(self) -> Generator[RowResult[ParsedT]]:
        """Yield results in a thread without an event loop; the batch runs in another thread."""
        finished: SimpleQueue[tuple[RowResult[ParsedT], Callable[[], None]] | BaseException | None] = SimpleQueue()

        async def produce() -> None:
            """Pass results on, as many as the caller's thread has room for."""
            loop, room = LoopThread(), anyio.Semaphore(self._at_once)
            async with aclosing(self._results()) as results:
                async for done in results:
                    await room.acquire()
                    finished.put((done, partial(loop.call, room.release)))

        loop = BackgroundLoop(produce, "agui batch", finished.put)
        with shown_while(self), _running(loop):
            while (item := next_item(finished)) is not None:
                if isinstance(item, BaseException):
                    raise item
                done, release = item
                release()
                yield done


@contextmanager
def _running(loop: BackgroundLoop) -> Generator[None]:
    loop.start()
    try:
        yield
    finally:
        loop.cancel_and_wait()


def _options_of_many(options: RunOptions, agents: Iterable[AgentSource | str]) -> RunOptions:
    """Check the options of the runs of agents; those of agents that a function makes are checked with each row."""
    given = checked_options(options, RunOptions, "run_many", run_many)
    if wrong := next((name for name in _OF_ONE_RUN if name in given), None):
        raise UsageError(f"{wrong}= is for one run, and a batch makes many")
    for each in agents:
        if isinstance(each, AbstractAgent):
            each.check_options(given)
    return given


def _journal_opener(path: str | Path | None, *, rerun_failed: bool) -> Callable[..., Journal] | None:
    """Return the function that opens the journal when the loop begins; None without a journal."""
    if path is not None:
        return partial(Journal, Path(path), rerun_failed=rerun_failed)
    if rerun_failed:
        raise UsageError("rerun_failed= is about rows of an earlier start: give journal=, too")
    return None


def agents_by_name(agent: Agents) -> dict[str, AgentSource | str]:
    """Return the agents by their names."""
    if isinstance(agent, AbstractAgent | str) or callable(agent):
        return {"": agent}
    if isinstance(agent, Mapping):
        agents: dict[str, AgentSource | str] = dict(agent)
    else:
        names = [_name(each) or f"agent {number}" for number, each in enumerate(agent, start=1)]
        agents = dict(zip(names, agent, strict=True))
        if len(agents) < len(names):
            raise UsageError("two agents have one name; give a mapping of names to agents")
    if not agents or not all(isinstance(each, AbstractAgent | str) or callable(each) for each in agents.values()):
        raise UsageError("a batch takes an agent, a list of agents, or a mapping of names to agents")
    if "" in agents:
        raise UsageError("the name of an agent is not empty")
    return agents


def _name(agent: object) -> str | None:
    if isinstance(agent, str):
        return agent
    return getattr(agent, "name", None) or getattr(agent, "__name__", None)
