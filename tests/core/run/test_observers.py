"""Observers watch every moment of a run, and can neither change nor fail it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from ag_ui.core import RunAgentInput, RunStartedEvent

from agui_client import (
    AbstractAgent,
    Approve,
    Change,
    FunctionAgent,
    HookContext,
    HttpAgent,
    RunFailedError,
    RunObserver,
    Subscriber,
    Timeouts,
    ToolExecution,
    UsageError,
    tool,
)
from agui_client.testing import Reply, ScriptedAgent, faults, pause, serve_bytes, sse, text, tool_call, turn
from agui_client.types import Attempt, CallEnd, RunEnd, RunScope
from support.verbs import RESULT_VERBS, Ending, Verb, by_verb, every_result_verb, every_verb, shown
from support.waiting import LIMIT

if TYPE_CHECKING:
    from ag_ui.core import Event

    from agui_client import UnrecognizedEvent
    from agui_client.types import Next

CALLING = turn(text("Wait.", message_id="answer-1"), tool_call("look", tool_call_id="call-1"))
DONE = turn(text("Done.", message_id="answer-2"))
FRAMES = sse(turn(text("Hello.", message_id="answer-1")))
INPUT = RunAgentInput(thread_id="thread-1", run_id="run-1", messages=[])
MESSAGES, NOTHING = Change.MESSAGES, Change.NONE


class Noting(RunObserver):
    """Notes everything, a line each."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.runs: list[RunScope] = []
        self.ends: list[RunEnd] = []

    def on_start(self, run: RunScope) -> None:
        self.runs.append(run)
        self.lines.append("start")

    def on_attempt_start(self, run: RunScope, number: int, url: str) -> None:
        assert run is self.runs[-1]
        self.lines.append(("attempt", number, url))

    def on_attempt_end(self, run: RunScope, attempt: Attempt, error: BaseException | None) -> None:
        assert run is self.runs[-1]
        self.lines.append(("answered", attempt.status_code, type(error).__name__))

    def on_event(self, run: RunScope, event: Event, change: Change) -> None:
        assert run is self.runs[-1]
        self.lines.append((event.type.value, change))

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        assert run is self.runs[-1]
        self.lines.append((execution.name, execution.status))

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        assert run is self.runs[-1]
        self.ends.append(end)
        self.lines.append("end")


@tool
def look() -> str:
    """Looks."""
    return "seen"


def streamed(*events: tuple[str, Change]) -> list[Any]:
    return [("RUN_STARTED", NOTHING), *events, ("RUN_FINISHED", NOTHING)]


TEXT = [
    ("TEXT_MESSAGE_START", MESSAGES),
    ("TEXT_MESSAGE_CONTENT", MESSAGES),
    ("TEXT_MESSAGE_END", NOTHING),
]
CALL = [
    ("TOOL_CALL_START", MESSAGES),
    ("TOOL_CALL_ARGS", MESSAGES),
    ("TOOL_CALL_END", NOTHING),
]


@every_verb
def test_every_moment_of_a_call_is_observed_in_order(verb: Verb) -> None:
    noting = Noting()
    with serve_bytes(sse(CALLING), sse(DONE)) as server:
        url = server.url
        ending = verb(HttpAgent(url, tools=[look], observers=[noting]), "Hi")
    assert ending.error is None
    posted = [("attempt", 1, url), ("answered", 200, "NoneType")]
    execution = [("look", "waiting"), ("look", "running"), ("look", "succeeded")]
    assert noting.lines == [
        *("start", *posted, *streamed(*TEXT, *CALL), "end"),
        *(*execution, ("TOOL_CALL_RESULT", MESSAGES)),
        *("start", *posted, *streamed(*TEXT), "end"),
    ]
    first, second = noting.runs
    assert (first.first, second.first) == (None, first)
    assert second.input.messages[-1].role == "tool"
    assert [(end.ending, end.error, end.events, len(end.attempts)) for end in noting.ends] == [
        ("success", None, 8, 1),
        ("success", None, 5, 1),
    ]
    assert [end.run_id for end in noting.ends] == [first.input.run_id, second.input.run_id]
    if ending.events is not None:
        observed = [line[0] for line in noting.lines if isinstance(line[1], Change)]
        assert ending.types == observed


@every_verb
def test_every_attempt_and_a_failure_are_observed(verb: Verb) -> None:
    noting = Noting()
    with serve_bytes(faults.redirect("/there"), faults.status(500)) as server:
        url = server.url
        error = verb(HttpAgent(url, observers=[noting]), "Hi").error
    assert noting.lines == [
        "start",
        *[("attempt", 1, url), ("answered", 307, "NoneType")],
        *[("attempt", 2, f"{url}there"), ("answered", 500, "HTTPStatusError")],
        "end",
    ]
    (end,) = noting.ends
    assert (end.ending, end.error, end.events, len(end.attempts)) == (None, error, 0, 2)


def test_a_replay_is_observed_as_runs_are() -> None:
    noting = Noting()
    with serve_bytes(FRAMES) as server:
        anyio.run(HttpAgent(server.url, connect_url="again", observers=[noting]).connect_agent)
    assert [line if isinstance(line, str) else line[0] for line in noting.lines[:5]] == [
        "start",
        "attempt",
        "answered",
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
    ]
    assert noting.lines[-1] == "end"


class Calls(RunObserver):
    """Notes what is about the whole call."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ends: list[CallEnd] = []

    def on_call_start(self, run: RunScope) -> None:
        assert run.first is None
        self.lines.append("call")

    def on_start(self, run: RunScope) -> None:
        self.lines.append("run")

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        self.lines.append(execution.status)

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        self.lines.append("end of run")

    def on_call_end(self, run: RunScope, end: CallEnd) -> None:
        self.ends.append(end)
        self.lines.append("end of call")


RUN = ["run", "end of run"]


@every_verb
def test_a_call_begins_before_everything_of_it_and_ends_after_it(verb: Verb) -> None:
    calls = Calls()
    agent = ScriptedAgent(CALLING, DONE, tools=[look], observers=[calls])
    ending = verb(agent, "Hi")
    assert calls.lines == ["call", *RUN, "waiting", "running", "succeeded", *RUN, "end of call"]
    (end,) = calls.ends
    assert (end.ending, end.runs, end.events, len(end.tool_executions)) == ("success", 2, 13, 1)
    assert ending.error is None


def test_a_call_begins_before_the_tools_that_were_approved_with_it() -> None:
    calls = Calls()

    @tool(approval="always")
    def pay() -> str:
        return "paid"

    agent = ScriptedAgent(turn(tool_call("pay", tool_call_id="call-1")), DONE, tools=[pay])
    agent.run_agent_sync("Hi")
    agent.add_observer(calls).run_agent_sync(tool_results={"call-1": Approve()})
    assert calls.lines == ["call", "waiting", "running", "succeeded", *RUN, "end of call"]


def test_a_call_whose_hook_fails_ends_like_its_run() -> None:
    calls = Calls()

    class Failing(Subscriber):
        def on_run_finalized(self, context: HookContext) -> None:
            raise ZeroDivisionError

    agent = ScriptedAgent(DONE, observers=[calls])
    agent.subscribe(Failing())
    with pytest.raises(ZeroDivisionError):
        agent.run_agent_sync("Hi")
    assert [(end.ending, type(end.error)) for end in calls.ends] == [(None, ZeroDivisionError)]


@every_verb
def test_an_observer_may_set_a_context_variable_around_the_code_of_a_run(verb: Verb) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="outside")
    seen: set[tuple[str, str]] = set()

    class Setting(RunObserver):
        def on_enter(self, run: RunScope) -> Callable[[], object]:
            return partial(variable.reset, variable.set("inside"))

    class Hook(Subscriber):
        async def on_event(self, event: Event, context: HookContext) -> None:
            await anyio.lowlevel.checkpoint()
            seen.add(("hook", variable.get()))

    async def answer(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        async for event in ScriptedAgent(DONE).run(input):
            seen.add(("agent", variable.get()))
            yield event
            seen.add(("agent", variable.get()))

    agent = FunctionAgent(answer, observers=[Setting()])
    agent.subscribe(Hook())
    assert verb(agent, "Hi").error is None
    assert seen == {("hook", "inside"), ("agent", "inside")}
    assert variable.get() == "outside"


# --- observing changes nothing


class Failing(RunObserver):
    """Fails at every moment."""

    def on_start(self, run: RunScope) -> None:
        raise ZeroDivisionError("on_start")

    def on_attempt_start(self, run: RunScope, number: int, url: str) -> None:
        raise ZeroDivisionError("on_attempt_start")

    def on_attempt_end(self, run: RunScope, attempt: Attempt, error: BaseException | None) -> None:
        raise ZeroDivisionError("on_attempt_end")

    def on_event(self, run: RunScope, event: Event, change: Change) -> None:
        raise ZeroDivisionError("on_event")

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        raise ZeroDivisionError("on_tool_execution")

    def on_end(self, run: RunScope, end: RunEnd) -> None:
        raise ZeroDivisionError("on_end")

    def on_call_start(self, run: RunScope) -> None:
        raise ZeroDivisionError("on_call_start")

    def on_call_end(self, run: RunScope, end: CallEnd) -> None:
        raise ZeroDivisionError("on_call_end")


def came_to(ending: Ending, agent: AbstractAgent) -> list[Any]:
    """Return what a caller gets, without ids and times of its own."""
    results = [each.message and each.message.content for each in ending.result.tool_executions] if ending.result else []
    messages = [(message["role"], message.get("content")) for message in shown(agent.messages)]
    return [ending.types, ending.outcome, ending.usage, ending.error, results, messages, agent.state]


@every_verb
def test_a_failing_observer_is_logged_and_the_run_is_the_same(verb: Verb, caplog: pytest.LogCaptureFixture) -> None:
    def run(*observers: RunObserver) -> list[Any]:
        with serve_bytes(sse(CALLING), sse(DONE)) as server:
            agent = HttpAgent(server.url, tools=[look], observers=observers)
            return came_to(verb(agent, "Hi"), agent)

    unobserved = run()
    assert unobserved[3] is None
    caplog.clear()
    noting = Noting()
    assert run(Failing(), noting) == unobserved
    failures = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert {record.getMessage() for record in failures} == {"an observer of runs failed; the run continues"}
    # Once in a call, however often the method fails; an observer after one that fails is called, too.
    assert sorted(str(record.exc_info[1]) for record in failures if record.exc_info) == sorted(
        name for name in vars(Failing) if name.startswith("on_")
    )
    assert len(noting.lines) > len(failures)


def test_an_observer_with_an_async_method_is_refused_since_nobody_would_await_it() -> None:
    class Asynchronous(RunObserver):
        async def on_event(self, run: RunScope, event: Event, change: Change) -> None:  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride]
            """Never awaited."""

    with pytest.raises(UsageError, match=r"Asynchronous\.on_event is async.*use a Subscriber"):
        ScriptedAgent(DONE, observers=[Asynchronous()])


@pytest.mark.parametrize("headers", ["traceparent", 7, [1], {"x-number": 7}], ids=repr)
def test_headers_that_make_no_sense_do_not_fail_the_run(headers: Any) -> None:
    class Adding(RunObserver):
        def on_attempt_start(self, run: RunScope, number: int, url: str) -> Any:
            return headers

    class Tracing(RunObserver):
        def on_attempt_start(self, run: RunScope, number: int, url: str) -> dict[str, str]:
            return {"x-trace": "1"}

    with serve_bytes(FRAMES) as server:
        agent = HttpAgent(server.url, observers=[Adding(), Tracing()])
        assert agent.run_agent_sync("Hi").text == "Hello."
    assert server.requests[0].headers["x-trace"] == "1"


@pytest.mark.parametrize("watcher", [print, Noting, object()], ids=("function", "class", "object"))
def test_what_is_no_observer_is_refused_when_it_is_given(watcher: Any) -> None:
    with pytest.raises(UsageError, match="an observer is an instance of a RunObserver subclass"):
        ScriptedAgent(DONE, observers=[watcher])
    with pytest.raises(UsageError, match="an observer is an instance of a RunObserver subclass"):
        ScriptedAgent(DONE).add_observer(watcher)


def test_an_observer_that_is_added_watches_from_the_next_call_on_and_a_clone_has_observers_of_its_own() -> None:
    early, late = Noting(), Noting()
    agent = ScriptedAgent(DONE)
    assert agent.add_observer(early) is agent
    with agent.stream_sync("Hi") as run:
        agent.add_observer(late)
        list(run)
    assert (len(early.runs), late.lines) == (1, [])
    twin = agent.clone()
    later = Noting()
    twin.add_observer(later)
    twin.run_agent_sync("Hi")
    agent.run_agent_sync("Hi")
    assert [len(each.runs) for each in (early, late, later)] == [3, 2, 1]


def test_the_end_is_observed_in_reverse_so_that_observers_nest() -> None:
    order: list[str] = []

    class Named(RunObserver):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_start(self, run: RunScope) -> None:
            order.append(f"{self.name} starts")

        def on_end(self, run: RunScope, end: RunEnd) -> None:
            order.append(f"{self.name} ends")

    ScriptedAgent(DONE, observers=[Named("a"), Named("b")]).run_agent_sync("Hi")
    assert order == ["a starts", "b starts", "b ends", "a ends"]


# --- runs inside runs

ODD = sse(turn({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hi", "futureProp": 1}))


def relay(inner: HttpAgent) -> FunctionAgent:
    """Return an agent that has another one do the work."""

    async def relayed(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        async for event in inner.run(input):
            yield event

    return FunctionAgent(relayed, thread_id="thread-1")


@every_result_verb
def test_what_an_agent_does_inside_a_run_is_reported_with_that_run(verb: Verb) -> None:
    inside, outside = Noting(), Noting()
    with serve_bytes(faults.redirect("/there"), ODD) as server:
        inner = HttpAgent(server.url, observers=[inside])
        outer = relay(inner).add_observer(outside)
        result = verb(outer, "Hi", run_id="run-1").result
    assert result is not None
    assert [(each.status_code, each.address) for each in result.attempts] == [
        (307, server.url),
        (200, f"{server.url}there"),
    ]
    assert result.response is not None
    assert result.response.status_code == 200
    assert [warning.rule for warning in result.warnings] == ["PROC-8"]
    assert result.timings.connect is not None
    assert (inner.messages, inside.lines) == ([], []), "it is no run of the inner agent's"
    attempts = [line for line in outside.lines if line[0] in ("attempt", "answered")]
    assert attempts == [
        *[("attempt", 1, server.url), ("answered", 307, "NoneType")],
        *[("attempt", 2, f"{server.url}there"), ("answered", 200, "NoneType")],
    ]


@pytest.mark.anyio
async def test_what_a_caller_does_between_two_events_is_no_part_of_the_run() -> None:
    noting = Noting()
    with serve_bytes(ODD) as other, serve_bytes(FRAMES) as server:
        async with HttpAgent(server.url, thread_id="thread-1", observers=[noting]).stream("Hi", run_id="run-1") as run:
            async for event in run:
                if event.type == "RUN_STARTED":
                    assert [each async for each in HttpAgent(other.url).run(INPUT)]
            result = await run.result()
    assert [each.address for each in result.attempts] == [server.url]
    assert result.warnings == []
    assert [line[2] for line in noting.lines if line[0] == "attempt"] == [server.url]


@by_verb("first_event", {"at once": LIMIT, "late": 0.4}, ["at once"], RESULT_VERBS, thorough=["stream-trio"])
def test_options_of_a_call_are_for_its_own_agent_alone(verb: Verb, first_event: float) -> None:
    seconds = 0 if first_event == LIMIT else first_event + 0.1
    with serve_bytes(Reply([pause(seconds), ODD])) as other, serve_bytes(FRAMES) as server:
        consulted = HttpAgent(other.url)

        async def consult(input: RunAgentInput, following: Next) -> AsyncIterator[Event]:
            async for _ in consulted.run(input):
                pass
            async for event in following(input):
                yield event

        agent = HttpAgent(server.url, middleware=[consult])
        result = verb(agent, "Hi", headers={"x-tenant": "acme"}, timeout=Timeouts(first_event=first_event)).result
    assert result is not None
    assert result.text == "Hello."
    assert [each.address for each in result.attempts] == [other.url, server.url]
    assert "x-tenant" not in other.requests[0].headers
    assert server.requests[0].headers["x-tenant"] == "acme"


class FailingAtTheCall(AbstractAgent):
    def run(self, input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        raise LookupError("nowhere")


class FailingInTheStream(AbstractAgent):
    async def run(self, input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        raise LookupError("nowhere")


@pytest.mark.parametrize("kind", [FailingAtTheCall, FailingInTheStream])
def test_a_request_whose_agent_fails_has_its_end(kind: type[AbstractAgent]) -> None:
    class Ends(RunObserver):
        def on_request_end(self, run: RunScope, number: int, error: Exception | None, *, is_whole: bool) -> None:
            ends.append((number, type(error), is_whole))

    ends: list[Any] = []
    with pytest.raises(RunFailedError):
        kind(observers=[Ends()]).run_agent_sync("Hi")
    assert ends == [(1, RunFailedError, False)]
