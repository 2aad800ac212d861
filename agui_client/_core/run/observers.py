"""The observer seam: objects that watch runs and can neither change nor fail them.

OpenTelemetry, the log and views are observers. Requests and tools are observed in the task that does the work, so that
an observer may set context variables from a beginning to its end. The log has a record of each run and of each call,
with counts and timings and no payload; events only on request.

To change

- a field of the log that `logging` gets: `LogObserver` here; a new fact in `RunEnd` or `CallEnd` there, which `run_end`
  and `call_end` in `_core/run/result_building.py` fill; `FIELDS` in `tests/core/run/test_logs.py` lists them
- a time in `result.timings`: `Timings` here, filled by `_timings` in `_core/run/result_building.py`
- a number that each event adds to: `_core/protocol/pipeline.py`, in its loop; a handler would be another function for
  each piece of text
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.plain_text import printable
from agui_client._core.ground.secrets import hidden_json
from agui_client._core.plugs import DEFAULT_OBSERVERS
from agui_client._core.run.hooks import HookContext, Subscriber, check_hooks, overriding

if TYPE_CHECKING:
    from ag_ui.core import Event, RunAgentInput, TokenUsage

    from agui_client._core.ground.prices import Cost
    from agui_client._core.protocol.events import WireEvent
    from agui_client._core.protocol.reduce import Change
    from agui_client._core.run.scope import RunScope
    from agui_client._core.tools.context import ToolExecution
    from agui_client._core.transport.client import Attempt

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_logger = logging.getLogger("agui_client")


@dataclass(frozen=True, slots=True)
class Timings(Record):
    """The moments of a run, in seconds since it was started; None for what did not happen."""

    connect: float | None = None
    """Until the response's headers were there; None for agents in this process."""
    first_event: float | None = None
    """Until the first event."""
    first_text: float | None = None
    """Until the first piece of a text message."""
    total: float | None = None
    """Until the run ended."""
    people: float = 0.0
    """The part of the total in which people were asked: in `approve=`, in `answer=`, and questions of tools."""


@dataclass(frozen=True, slots=True)
class RunEnd(Record):
    """The end of one run."""

    run_id: str
    """The id of the run; of a replay, of the last run that was replayed."""
    ending: str | None
    """The outcome: "success", "interrupt", "cancelled", "aborted", "nothing" for an empty replay; None if it failed."""
    error: Exception | None
    """The exception that the run failed with; None if it did not fail."""
    events: int
    """The number of events that arrived."""
    usage: Sequence[TokenUsage]
    """Tokens per provider and model, as the run reported them."""
    timings: Timings
    """Seconds since the run began."""
    attempts: Sequence[Attempt] = field(default=())
    """The requests that were posted for the run."""
    warnings: int = 0
    """The number of kinds of warnings that the run added to those of the call."""


@dataclass(frozen=True, slots=True)
class CallEnd(RunEnd):
    """The end of a turn: its ending, error and run id are those of the last run, its numbers are about all of it."""

    runs: int = 1
    """The number of runs."""
    tool_executions: Sequence[ToolExecution] = field(default=())
    """The tools that were executed here, in the order they were begun."""
    cost: Cost | None = None
    """The price of the tokens; None without `ToolLimits(cost=...)` or `ToolLimits(prices=...)`."""


class RunObserver:
    """Watches the runs of an agent: override the methods of interest, the others cost nothing.

    Give an instance to an agent with `observers=[...]` or `agent.add_observer(...)`. Methods are plain functions that
    should return quickly, because the run waits for them. The first exception of a method in a call is logged, and the
    run continues.
    Arguments are to be read only; to change a run, use middleware or a `Subscriber`.

    A call with tools consists of several runs. Its methods are called in this order: `on_call_start`; for each run
    `on_start`, `on_request`, then `on_attempt_start` and `on_attempt_end` for each attempt to post it, `on_wire_event`
    and `on_event` for each event, `on_request_end`, and `on_end`; between two runs `on_tool_execution` for each step of
    a tool, and `on_event` for each result; and `on_call_end`. Middleware may send a run any number of times.
    A method named `on_...` that is none of these is refused when the class is made.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_hooks(cls)

    def on_call_start(self, run: RunScope) -> None:
        """Observe that a call begins: its first event was asked for; nothing was sent yet.

        Args:
            run: The first run of the call, which begins after the calls that were approved with it are executed.
        """

    def on_start(self, run: RunScope) -> None:
        """Observe that a run begins; nothing was sent yet, and no hook was called.

        Args:
            run: The run: its agent, its input, and the run inside which it was called. All methods get the same object.
        """

    def on_enter(self, run: RunScope) -> Callable[[], object] | None:
        """Observe that code of the application is about to be called for a run, in the task that calls it.

        That is each step of the agent's own code and of middleware, hooks, approvers, answerers and tools.

        Args:
            run: The run; between two runs, the one before.

        Returns:
            A function to call in the same task when the code is done, as to reset a context variable; None for none.
        """

    def on_request(self, run: RunScope, number: int, input: RunAgentInput) -> None:
        """Observe that the agent's `run` or `connect` is called.

        Args:
            number: The number of the request in its run, from 1; only middleware makes several.
            input: The input as the agent gets it, middleware's changes included.
        """

    def on_wire_event(self, run: RunScope, number: int, event: WireEvent) -> None:
        """Observe an event as the agent sent it, before it is translated, seen by middleware and validated.

        Args:
            number: The number of the request that the event came for.
            event: The event; an `UnrecognizedEvent` where the official classes do not hold all of it.
        """

    def on_request_end(self, run: RunScope, number: int, error: Exception | None, *, is_whole: bool) -> None:
        """Observe that the response to a request is over.

        Args:
            number: The number of the request in its run.
            error: The exception that the agent or the connection failed with; None if neither did.
            is_whole: Whether the response was read to its end, rather than left by this side.
        """

    def on_attempt_start(self, run: RunScope, number: int, url: str) -> Mapping[str, str] | None:
        """Observe that a request is about to be posted, called in the task that posts it.

        Args:
            run: The run that the request is for.
            number: The number of the attempt to deliver the request, from 1.
            url: The address; it may contain a user, a password and a query.

        Returns:
            Headers that carry a trace to the server, such as `traceparent`; None for none.
        """

    def on_attempt_end(self, run: RunScope, attempt: Attempt, error: BaseException | None) -> None:
        """Observe that an event stream came for a request, or that it failed; called in the task that posted it.

        Args:
            run: The run that the request was for.
            attempt: The request: its address, status and duration.
            error: The exception that the request failed with; None if it did not fail, if a redirect follows, or if the
                run was stopped.
        """

    def on_event(self, run: RunScope, event: Event, change: Change) -> None:
        """Observe an event: `agent.messages` and `agent.state` include it, and the caller gets it next.

        Args:
            run: The run; for the result of a tool that the application executed, the run that called the tool.
            event: The event, verified and expanded.
            change: The parts of the conversation that the event changed: `change & Change.STATE`.
        """

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        """Observe a step of a tool that the application executes: waiting, running, a progress report, or the end.

        "running" and the end are observed in the task that executes the tool.

        Args:
            run: The run that called the tool.
            execution: The execution at this moment; the same status comes again with more progress.
        """

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        """Observe the end of a run, successful or not; of several observers, the last one is called first.

        Args:
            end: The outcome and the numbers of the run.
        """

    def on_call_end(self, run: RunScope, end: CallEnd) -> None:
        """Observe the end of a call, after its last run; of several observers, the last one is called first.

        Args:
            run: The last run.
            end: The outcome of the last run, and the numbers of the call.
        """


class RunKeeper(RunObserver):
    """An observer that keeps what it sees, for `result.inspect()`."""

    def kept(self, run: RunScope) -> Callable[[], Sequence[Any]]:
        """Return a function that reads the lines of a recording that were kept of a call; none if it kept none.

        Args:
            run: The first run of the call.
        """
        raise NotImplementedError


_METHODS = [name for name in vars(RunObserver) if name.startswith("on_")]


class Observers:
    """The observers of one call.

    Args:
        members: The agent's observers, in order; those of every call come after them.
    """

    def __init__(self, members: Sequence[RunObserver]) -> None:
        defaults: list[RunObserver | None] = [run_log(), *(made for make in DEFAULT_OBSERVERS for made in make())]
        members = [*members, *(each for each in defaults if each is not None)]
        # Those alone that are overridden: most calls have no observer at all.
        named = ((name, overriding(members, RunObserver, name)) for name in _METHODS)
        self._methods = {name: methods for name, methods in named if methods}
        for name in ("on_end", "on_call_end"):
            # In reverse order, as blocks that were entered one after the other are left.
            self._methods.get(name, []).reverse()
        self.keepers: list[RunKeeper] = [each for each in members if isinstance(each, RunKeeper)]
        """The observers that keep what they see, those of the application first."""
        self._failed: set[Callable[..., Any]] = set()
        self.of_events: list[Callable[..., Any]] = self._methods.get("on_event", [])
        """The `on_event` methods that were overridden."""
        self.of_code: list[Callable[..., Any]] = self._methods.get("on_enter", [])
        """The `on_enter` methods that were overridden."""
        self.watches_ends: bool = any(name in self._methods for name in ("on_end", "on_call_end"))
        """Whether an observer watches the ends of runs or calls, which are summed up for it."""
        self.has_wire: bool = any(name in self._methods for name in ("on_request", "on_wire_event", "on_request_end"))
        """Whether an observer watches requests and their responses before the pipeline."""

    def call(self, name: str, run: RunScope, *details: object, **named: object) -> list[Any]:
        """Call the method of a name of all observers, and return the values; ends in reverse, so that they nest.

        Args:
            name: The name of the method.
            details: The further arguments.
            named: Those that are given by name.
        """
        methods = self._methods.get(name)
        return [self._safely(method, run, *details, **named) for method in methods] if methods else []

    def watch_tools(self, tell: Callable[[ToolExecution], object]) -> None:
        """Call a function for each step of a tool's execution, from now on."""

        def on_tool_execution(_: RunScope, execution: ToolExecution) -> None:
            """Pass the step on."""
            tell(execution)

        self._methods.setdefault("on_tool_execution", []).append(on_tool_execution)

    def attempt_start(self, run: RunScope, number: int, url: str) -> dict[str, str]:
        """Call `on_attempt_start`; return the headers that observers add to the request."""
        headers: dict[str, str] = {}
        for added in self.call("on_attempt_start", run, number, url):
            headers.update(self._safely(_texts, added) or {})
        return headers

    def enter(self, run: RunScope) -> ExitStack:
        """Call `on_enter`; return a block at whose end the functions are called that the observers returned."""
        block = ExitStack()
        for exit_step in self.call("on_enter", run):
            if exit_step is not None:
                block.callback(self._safely, exit_step)
        return block

    def inside(self, run: RunScope, function: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> Awaitable[T]:
        """Call an asynchronous function that calls code of the application, with `on_enter` around it.

        Args:
            args: Its arguments.
        """
        return self._entered(run, function, *args) if self.of_code else function(*args)

    async def _entered(self, run: RunScope, function: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        with self.enter(run):
            return await function(*args)

    def event(self, run: RunScope, event: Event, change: Change) -> None:
        """Call `on_event`."""
        for observe in self.of_events:
            self._safely(observe, run, event, change)

    def _safely(self, method: Callable[..., Any], *details: object, **named: object) -> Any:
        """Call a method; of its exceptions in this call only the first is logged."""
        try:
            return method(*details, **named)
        except (Exception, CancelledError):  # it waits for nothing, so nobody cancels it
            # Once in a call: a run has thousands of events, and each would log the same traceback.
            if method not in self._failed:
                self._failed.add(method)
                _logger.exception("an observer of runs failed; the run continues")
            return None


def asynchronous_method(observer: RunObserver) -> str | None:
    """Return the name of an observer's method that is async by mistake; None if there is none."""
    return next((name for name in _METHODS if iscoroutinefunction(getattr(observer, name))), None)


def _texts(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {str(name): str(value) for name, value in dict(headers or {}).items()}


_runs = logging.getLogger("agui_client.run")
_calls = logging.getLogger("agui_client.call")
_events = logging.getLogger("agui_client.events")


def run_log() -> LogObserver | None:
    """Return the log of the ends of a call; None if the application logs neither runs nor calls."""
    # Without a log, a call may have no observer of its end, and then its end is not summed up.
    return LogObserver() if _runs.isEnabledFor(logging.INFO) or _calls.isEnabledFor(logging.INFO) else None


class LogObserver(RunObserver):
    """Logs the end of each run and call at INFO, also of a failed one, whose error is raised.

    `record.agui` has the numbers: of a run its own, of a call those of all its runs.
    """

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        """Log the end of a run; of a failure only its class."""
        if not _runs.isEnabledFor(logging.INFO):
            return
        thread_id, seconds = printable(run.input.thread_id), end.timings.total or 0.0
        shown = printable(end.run_id), thread_id, _ending(end), end.events, seconds
        _runs.info("run %s of thread %s: %s, %d events in %.3f s", *shown, extra={"agui": _fields(run, end)})

    def on_call_end(self, run: RunScope, end: CallEnd) -> None:
        """Log the end of a call, and what its runs add up to."""
        if not _calls.isEnabledFor(logging.INFO):
            return
        tools = len(end.tool_executions)
        fields = {**_fields(run, end), "runs": end.runs, "tool_executions": tools}
        shown = printable(run.input.thread_id), _ending(end), end.runs, end.events, tools, end.timings.total or 0.0
        form = "call on thread %s: %s, %d runs, %d events, %d tools in %.3f s"
        _calls.info(form, *shown, extra={"agui": fields})


def reconnects_in(attempts: Sequence[Attempt]) -> int:
    """Return how often a stream that was cut was taken up."""
    return sum(attempt.is_reconnect and attempt.error is None for attempt in attempts)


def _ending(end: RunEnd) -> str:
    return end.ending or type(end.error).__name__


def _fields(run: RunScope, end: RunEnd) -> dict[str, object]:
    return {
        "thread_id": run.input.thread_id,
        "run_id": end.run_id,
        "ending": _ending(end),
        "events": end.events,
        "attempts": len(end.attempts),
        "reconnects": reconnects_in(end.attempts),
        "warnings": end.warnings,
        "connect_seconds": end.timings.connect,
        "first_event_seconds": end.timings.first_event,
        "first_text_seconds": end.timings.first_text,
        "total_seconds": end.timings.total,
    }


class EventLog(Subscriber):
    """Logs every event with its payload, at DEBUG on `agui_client.events`: `agent.subscribe(EventLog())`.

    Without it no payload is ever logged. Secrets are redacted as in recordings, `rawEvent` as a whole.
    """

    def on_event(self, event: Event, context: HookContext) -> None:
        """Log an event as JSON."""
        if _events.isEnabledFor(logging.DEBUG):
            sent = context.scope.warnings.secrets.credentials
            shown = hidden_json(event.model_dump(mode="json", by_alias=True, exclude_none=True), sent)
            _events.debug("run %s: %s", context.run_id, shown)
