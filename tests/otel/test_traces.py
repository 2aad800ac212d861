"""Spans of real runs: each ends once however its run ends, nests where it belongs, and holds no content."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, TypeAlias

import anyio
import httpx
import pytest
import trio.testing
from ag_ui.core import RunFinishedCancelledOutcome, TextMessageContentEvent, TokenUsage
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

from agui_client import AgentRun, HttpAgent, IncompleteRunError, RetryPolicy, Timeouts, tool
from agui_client.testing import (
    Reply,
    ScriptedAgent,
    events_of,
    faults,
    interrupt,
    serve_bytes,
    sse,
    text,
    tool_call,
    turn,
)
from support.bodies import URL, refused
from support.telemetry import use_tracer_provider
from support.verbs import RESULT_VERBS, Verb, by_verb, every_verb
from support.waiting import LIMIT, in_thread, start_thread, until, until_sync
from support.watching import Watcher, observed_here

FRAMES = sse(turn(text("One two")))
STALLING = Reply([b"".join(events_of(FRAMES)[:4])], end="stall")
"""RUN_STARTED, TEXT_MESSAGE_START and two words; then silence."""
SECRET = "s3cr3t"


class Ledger(SpanProcessor):
    """Every span that began, and every one that ended, in order."""

    def __init__(self) -> None:
        self.begun: list[Span] = []
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: otel_context.Context | None = None) -> None:
        self.begun.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    @property
    def names(self) -> list[str]:
        """The names of the spans, as they ended."""
        return [span.name for span in self.ended]

    def one(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (span,) = [span for span in self.ended if span.name == name]
        return span

    def assert_balanced(self) -> None:
        """Each span that began ended once, after those inside it and not after the one around it."""
        begun = Counter(map(span_id, self.begun))
        assert Counter(map(span_id, self.ended)) == begun
        assert set(begun.values()) == {1}
        order = {span_id(span): place for place, span in enumerate(self.ended)}
        for span in self.ended:
            if span.parent is not None and span.parent.span_id in order:
                assert order[span_id(span)] < order[span.parent.span_id]


def span_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Ledger]:
    """A tracer provider for one test; ending a span twice, or in another context, is logged by OpenTelemetry."""
    ledger, provider = Ledger(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(ledger)
    use_tracer_provider(monkeypatch, provider)
    yield ledger
    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def ending(span: ReadableSpan) -> tuple[Any, Any]:
    """The outcome and the kind of error."""
    return attributes(span).get("agui.outcome"), attributes(span).get("error.type")


def is_below(span: ReadableSpan, other: ReadableSpan | Span) -> bool:
    return span.parent is not None and span.parent == other.get_span_context()


# --- however a run ends

Leave: TypeAlias = Callable[[HttpAgent], Awaitable[None]]


async def read_two_words(run: AgentRun) -> None:
    for _ in range(4):
        await anext(run)


async def left_early(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        await read_two_words(run)


async def aborted(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        await read_two_words(run)
        agent.abort_run()
        agent.abort_run()
        assert (await run.result()).aborted


async def timed_out_by_its_scope(agent: HttpAgent) -> None:
    with anyio.CancelScope() as scope:

        @agent.on(TextMessageContentEvent)
        def pass_the_deadline(event: TextMessageContentEvent) -> None:
            scope.deadline = anyio.current_time()

        await agent.run_agent("Hi")
    assert scope.cancelled_caught


async def cancelled_while_waited_for(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        with anyio.CancelScope() as scope:

            @agent.on(TextMessageContentEvent)
            def pass_the_deadline(event: TextMessageContentEvent) -> None:
                scope.deadline = anyio.current_time()

            await run.result()
        assert scope.cancelled_caught


async def closed_with_the_generator_around_it(agent: HttpAgent) -> None:
    async def words() -> AsyncGenerator[str]:
        async with agent.stream("Hi") as run:
            async for piece in run.text_stream:
                yield piece

    async with aclosing(words()) as pieces:
        assert await anext(pieces) == "One "


async def left_by_an_exception(agent: HttpAgent) -> None:
    async def fail() -> None:
        async with agent.stream("Hi") as run:
            await read_two_words(run)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def disposed(agent: HttpAgent) -> None:
    def observe() -> None:
        watcher = Watcher()
        subscription = watcher.watch(agent.observe("Hi"))
        until_sync(lambda: len(watcher.values) == 4)
        subscription.dispose()
        until_sync(lambda: "agui_client.observe" not in {each.name for each in threading.enumerate()})

    await anyio.to_thread.run_sync(observe)


async def left_without_await(agent: HttpAgent) -> None:
    def leave() -> None:
        with agent.stream_sync("Hi") as run:
            next(run)

    await anyio.to_thread.run_sync(leave)


LEAVES: list[Leave] = [
    left_early,
    aborted,
    timed_out_by_its_scope,
    cancelled_while_waited_for,
    closed_with_the_generator_around_it,
    left_by_an_exception,
    disposed,
    left_without_await,
]


@pytest.mark.anyio
@pytest.mark.parametrize("leave", LEAVES, ids=lambda leave: leave.__name__)
async def test_the_spans_of_a_run_that_is_left_end_once_and_say_so(leave: Leave, ledger: Ledger) -> None:
    with serve_bytes(STALLING) as server:
        await leave(HttpAgent(server.url))
    ledger.assert_balanced()
    assert ledger.names == ["POST", "run", "invoke_agent"]
    attempt, run, call = ledger.ended
    assert [(ending(each), each.status.status_code) for each in (run, call)] == [
        (("aborted", None), StatusCode.UNSET)
    ] * 2
    assert (attributes(attempt)["http.response.status_code"], ending(attempt)) == (200, (None, None))
    assert is_below(attempt, run)
    assert is_below(run, call)


@pytest.mark.anyio
async def test_a_run_whose_wait_was_cancelled_and_is_taken_up_again_has_failed(ledger: Ledger) -> None:
    with serve_bytes(STALLING) as server:
        async with HttpAgent(server.url).stream("Hi") as run:
            with anyio.move_on_after(0.05):
                await run.result()
            with pytest.raises(IncompleteRunError):
                await run.result()
    ledger.assert_balanced()
    assert [ending(ledger.one(name)) for name in ("run", "invoke_agent")] == [(None, "IncompleteRunError")] * 2


@pytest.mark.anyio
async def test_a_run_that_is_left_before_anything_was_asked_for_has_no_span(ledger: Ledger) -> None:
    with serve_bytes(FRAMES) as server:
        async with HttpAgent(server.url).stream("Hi"):
            pass
        async with HttpAgent(server.url).stream("Hi") as run:
            run.cancel()
            assert (await run.result()).aborted
    assert ledger.begun == []


@pytest.mark.anyio
@pytest.mark.parametrize("by_abort", [True, False], ids=["abort", "scope"])
async def test_an_attempt_that_nobody_waits_for_any_more_was_cancelled(by_abort: bool, ledger: Ledger) -> None:
    with serve_bytes(faults.unanswered(end="stall")) as server:
        agent = HttpAgent(server.url)

        async def stop() -> None:
            await until(lambda: server.requests)
            if by_abort:
                agent.abort_run()
            else:
                scope.cancel()

        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop)
                await agent.run_agent("Hi")
    ledger.assert_balanced()
    attempt, run, call = ledger.ended
    assert (ending(attempt), ending(run)) == ((None, "cancelled"), ("aborted", None))
    assert ending(call) == ending(run)


FAILURES: dict[str, tuple[Reply, str, str | None]] = {
    "cut": (faults.cut(FRAMES, events=3), "IncompleteRunError", None),
    "reset": (faults.reset(FRAMES, events=3), "IncompleteRunError", None),
    "silent": (STALLING, "IdleTimeoutError", None),
    "unanswered": (faults.unanswered(), "ConnectError", "ConnectError"),
    "late": (faults.unanswered(end="stall"), "FirstEventTimeoutError", "FirstEventTimeoutError"),
    "500": (faults.status(500), "HTTPStatusError", "500"),
    "page": (faults.html_page(), "UnexpectedContentTypeError", "UnexpectedContentTypeError"),
    "redirect": (faults.redirect("http://elsewhere.test/"), "HTTPStatusError", "HTTPStatusError"),
    "late error": (faults.late_error(FRAMES, message=SECRET), "RunFailedError", None),
    "two ends": (faults.double_terminal(FRAMES), "EventOrderError", None),
}


@by_verb("failure", FAILURES, ["cut", "500", "late error"])
def test_the_spans_of_a_run_that_fails_say_what_kind_of_error_it_was(
    verb: Verb, failure: tuple[Reply, str, str | None], ledger: Ledger
) -> None:
    reply, of_run, of_attempt = failure
    # Short only where the time is the failure: a slow machine may take long for any other answer.
    waits = {"FirstEventTimeoutError": Timeouts(first_event=0.1), "IdleTimeoutError": Timeouts(idle=0.1)}
    with serve_bytes(reply) as server:
        agent = HttpAgent(server.url, timeout=waits.get(of_run, Timeouts()))
        assert type(verb(agent, SECRET).error).__name__ == of_run
    ledger.assert_balanced()
    attempt, run, call = ledger.ended
    assert (ending(attempt), ending(run), ending(call)) == ((None, of_attempt), (None, of_run), (None, of_run))
    assert {each.status.status_code for each in (run, call)} == {StatusCode.ERROR}
    assert run.status.description is None
    assert SECRET not in "".join(span.to_json() for span in ledger.ended)


@pytest.mark.anyio
async def test_what_an_application_raises_is_the_kind_of_error_of_attempt_and_run(ledger: Ledger) -> None:
    def fail() -> dict[str, str]:
        raise LookupError(SECRET)

    with pytest.raises(LookupError):
        await HttpAgent(URL, headers=fail).run_agent("Hi")
    ledger.assert_balanced()
    assert [ending(span) for span in ledger.ended] == [(None, "LookupError")] * 3
    assert SECRET not in "".join(span.to_json() for span in ledger.ended)


@every_verb
@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (None, "success"),
        (interrupt("Sure?"), "interrupt"),
        (RunFinishedCancelledOutcome(type="cancelled"), "cancelled"),
    ],
    ids=["success", "interrupt", "cancelled"],
)
def test_a_run_that_finished_says_how_and_what_it_cost(verb: Verb, outcome: Any, word: str, ledger: Ledger) -> None:
    usage = [TokenUsage(model="m", input_tokens=7, output_tokens=2), TokenUsage(model="n", input_tokens=1)]
    with serve_bytes(sse(turn(text("One two"), outcome=outcome, usage=usage))) as server:
        assert verb(HttpAgent(server.url, agent_id="guide"), "Hi", run_id="run-1").error is None
    ledger.assert_balanced()
    run, call = ledger.one("run guide"), ledger.one("invoke_agent guide")
    assert (run.kind, call.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
    numbers = {
        "agui.event.count": 6,
        "agui.outcome": word,
        "gen_ai.usage.input_tokens": 8,
        "gen_ai.usage.output_tokens": 2,
    }
    of_run, of_call = [
        {name: value for name, value in attributes(span).items() if name.startswith(("agui", "gen_ai.usage"))}
        for span in (run, call)
    ]
    assert of_run == {"agui.run.id": "run-1", **numbers}
    assert of_call == {"agui.run.count": 1, "agui.tool_execution.count": 0, **numbers}


# --- attempts


def refusing(request: httpx.Request) -> httpx.Response:
    raise refused()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})])
async def test_each_attempt_is_counted_and_none_is_left_open_by_a_wait_that_is_cancelled(ledger: Ledger) -> None:
    client = httpx.AsyncClient(transport=httpx.MockTransport(refusing))
    agent = HttpAgent(URL, http_client=client, retry=RetryPolicy(connect=9, first_wait=1, max_wait=60))
    with anyio.move_on_after(5) as scope:
        await agent.run_agent("Hi")
    assert scope.cancelled_caught
    ledger.assert_balanced()
    *attempts, run, _ = ledger.ended
    assert [attributes(each).get("http.request.resend_count") for each in attempts] == [None, *range(1, len(attempts))]
    assert {ending(each) for each in attempts} == {(None, "ConnectError")}
    assert all(is_below(each, run) for each in attempts)
    assert ending(run) == ("aborted", None)


@every_verb
def test_the_server_is_told_the_attempt_that_reached_it(verb: Verb, ledger: Ledger) -> None:
    with serve_bytes(faults.redirect("/there"), faults.status(401), FRAMES) as server:
        agent = HttpAgent(server.url, headers={"traceparent": "mine"}, on_unauthorized=lambda: {"X-New": "1"})
        assert verb(agent, "Hi").error is None
    ledger.assert_balanced()
    *attempts, run, _ = ledger.ended
    contexts = [span.get_span_context() for span in attempts]
    assert [request.headers["traceparent"].rpartition("-")[0] for request in server.requests] == [
        f"00-{context.trace_id:032x}-{context.span_id:016x}" for context in contexts if context
    ]
    assert [attributes(span)["url.full"] for span in attempts] == [
        server.url,
        f"{server.url}there",
        f"{server.url}there",
    ]
    assert [ending(span)[1] for span in attempts] == [None, "401", None]
    assert all(is_below(span, run) for span in attempts)


def observed_in_a_loop(agent: HttpAgent) -> None:
    async def main() -> None:
        await observed_here(agent.observe("Hi"))

    anyio.run(main)


CALLS: dict[str, Callable[[HttpAgent], object]] = {
    "run_agent-asyncio": lambda agent: anyio.run(agent.run_agent, "Hi"),
    "run_agent-trio": lambda agent: anyio.run(agent.run_agent, "Hi", backend="trio"),
    "run_agent_sync": lambda agent: agent.run_agent_sync("Hi"),
    "observe-loop": observed_in_a_loop,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_run_is_below_the_span_it_was_asked_for_in(call: Callable[[HttpAgent], object], ledger: Ledger) -> None:
    def ask() -> None:
        with trace.get_tracer("application").start_as_current_span("request"):
            call(HttpAgent(server.url))

    with serve_bytes(FRAMES) as server:
        in_thread(ask)
    ledger.assert_balanced()
    assert is_below(ledger.one("invoke_agent"), ledger.one("request"))


@pytest.mark.anyio
async def test_between_two_events_the_callers_span_is_the_current_one(ledger: Ledger) -> None:
    seen: list[trace.Span] = []
    with serve_bytes(FRAMES) as server, trace.get_tracer("application").start_as_current_span("request") as request:
        async with HttpAgent(server.url).stream("Hi") as run:
            seen.extend([trace.get_current_span() async for _ in run])
    assert (len(seen), set(seen)) == (6, {request})


@pytest.mark.anyio
async def test_a_thread_that_is_told_again_is_named_so_and_no_run_of_the_agent(ledger: Ledger) -> None:
    with serve_bytes(FRAMES) as server:
        await HttpAgent(server.url, connect_url="again").connect_agent()
    ledger.assert_balanced()
    assert attributes(ledger.one("POST"))["url.full"] == f"{server.url}again"
    assert attributes(ledger.one("connect"))["gen_ai.operation.name"] == "connect"
    assert ending(ledger.one("connect")) == ("success", None)


# --- tools


@every_verb
def test_tools_and_runs_are_below_their_call_and_what_a_tool_does_below_the_tool(verb: Verb, ledger: Ledger) -> None:
    @tool
    async def look(at: str) -> str:
        """Looks."""
        trace.get_tracer("application").start_span("query").end()
        return SECRET

    @tool
    def listen() -> str:
        trace.get_tracer("application").start_span("record").end()
        raise ValueError(SECRET)

    calls = turn(tool_call("look", {"at": SECRET}), tool_call("listen"), tool_call("nobody"))
    with serve_bytes(sse(calls), sse(turn(text("Done."), run_id="run-2"))) as server:
        assert verb(HttpAgent(server.url, agent_id="guide", tools=[look, listen]), SECRET).error is None
    ledger.assert_balanced()
    call = ledger.one("invoke_agent guide")
    looked, listened = ledger.one("execute_tool look"), ledger.one("execute_tool listen")
    runs = [span for span in ledger.ended if span.name == "run guide"]
    assert len(runs) == 2
    assert all(is_below(span, call) for span in (*runs, looked, listened))
    assert is_below(ledger.one("query"), looked)
    assert is_below(ledger.one("record"), listened)
    assert (ending(looked), ending(listened)) == ((None, None), (None, "ValueError"))
    assert attributes(looked)["gen_ai.tool.call.id"] == "call-1"
    assert SECRET not in "".join(span.to_json() for span in ledger.ended)


@pytest.mark.parametrize("verb", [pytest.param(verb, id=name) for name, verb in RESULT_VERBS.items()])
def test_a_tool_that_is_given_up_ends_its_span_and_its_run_stays_what_it_was(verb: Verb, ledger: Ledger) -> None:
    begun = threading.Event()

    @tool
    async def hold() -> None:
        begun.set()
        await anyio.sleep_forever()

    @tool(timeout=0.05)
    async def late() -> None:
        await anyio.sleep_forever()

    agent = ScriptedAgent(turn(tool_call("hold"), tool_call("late")), tools=[hold, late])

    def abort() -> None:
        assert begun.wait(LIMIT)
        until_sync(lambda: "execute_tool late" in ledger.names)
        agent.abort_run()

    join = start_thread(abort)
    result = verb(agent, "Hi").result
    join(LIMIT)
    assert result is not None
    assert result.aborted
    ledger.assert_balanced()
    assert ending(ledger.one("run scripted")) == ("success", None)
    assert ending(ledger.one("invoke_agent scripted")) == ("aborted", None)
    assert ending(ledger.one("execute_tool late")) == (None, "timeout")
    assert ending(ledger.one("execute_tool hold"))[1] == "cancelled"


# --- without


@every_verb
def test_where_opentelemetry_is_not_imported_nothing_is_recorded_and_nothing_sent(
    verb: Verb, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    with serve_bytes(FRAMES) as server:
        assert verb(HttpAgent(server.url), "Hi").error is None
    assert ledger.begun == []
    assert "traceparent" not in server.requests[0].headers
    assert "opentelemetry.trace" not in sys.modules
