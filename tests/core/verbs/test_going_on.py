"""Going on after a fault when something waits for an answer, after a run was left, and after nobody was there."""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import socket
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import Any

import anyio
import httpx
import pytest
from ag_ui.core import Message, RunErrorEvent, Tool, UserMessage

from agui_client import (
    AGUIError,
    Approve,
    ConnectError,
    ConversationSnapshot,
    DecodeError,
    HistoryError,
    HttpAgent,
    HTTPStatusError,
    IncompleteRunError,
    InterruptsNotCoveredError,
    Resolve,
    RetryPolicy,
    RunFailedError,
    RunResult,
    UsageError,
    tool,
)
from agui_client.testing import ByteServer, Reply, events_of, faults, interrupt, serve_bytes, sse, text, tool_call, turn
from support.faults_matrix import CHOSEN, FAULT_CASES, FaultCase
from support.given_up import without_given_up
from support.verbs import RESULT_VERBS, Verb, by_verb, every_verb, shown
from support.waiting import LIMIT

ANSWER = sse(turn(text("One two three.", message_id="answer-1"), run_id="run-2"))
LAST = sse(turn(text("Done.", message_id="answer-2"), run_id="run-3"))

SURFACES = {name: RESULT_VERBS[name] for name in ("run_agent-asyncio", "stream-trio", "stream_sync")}
FAILING = {case.name: case for case in FAULT_CASES if case.name in CHOSEN and case.error is not None}
every_failing = by_verb("case", FAILING, FAILING, SURFACES)
"""Run a test with one fault of each kind; tests/properties/test_continued.py has all of them."""


@contextmanager
def asked(case: FaultCase, first: bytes, **settings: Any) -> Generator[tuple[ByteServer, HttpAgent]]:
    """An agent whose second run meets a fault, and its third does not."""
    with serve_bytes(first, case.reply(ANSWER), LAST) as server:
        yield server, HttpAgent(server.url, thread_id="thread-1", **case.options, **settings)


def sent(server: ByteServer) -> list[Any]:
    """What the latest request held of messages."""
    messages: list[Any] = server.requests[-1].json()["messages"]
    return messages


# --- interrupts

ASKING = sse(turn(outcome=interrupt("Proceed?"), run_id="run-1"))
YES = {"interrupt-1": Resolve({"approved": True})}
ENTRIES = [{"interruptId": "interrupt-1", "status": "resolved", "payload": {"approved": True}}]


@every_failing
@pytest.mark.requirement("INT-1", "INT-3", "INT-4")
def test_an_answer_that_no_run_took_is_given_again_and_that_of_a_failed_run_may_be(case: FaultCase, verb: Verb) -> None:
    with asked(case, ASKING) as (server, agent):
        assert verb(agent, "Hi", run_id="run-1").error is None
        assert type(verb(agent, resume=YES, run_id="run-2").error) is case.error
        assert [each.id for each in agent.pending_interrupts] == ["interrupt-1"]
        if case.is_accepted:
            no = {"interrupt-2": Resolve(True)}
            assert isinstance(verb(agent, resume=no, run_id="run-3").error, InterruptsNotCoveredError)
            assert len(server.requests) == 2
            assert verb(agent, resume=YES, run_id="run-3").error is None
            assert server.requests[2].json()["resume"] == ENTRIES
        else:
            assert isinstance(verb(agent, "Hm?").error, InterruptsNotCoveredError)
            assert verb(agent, resume=YES, run_id="run-3").error is None
            assert [request.json().get("resume") for request in server.requests] == [None, ENTRIES, ENTRIES]
        assert agent.pending_interrupts == []
        assert [message.content for message in agent.messages if isinstance(message, UserMessage)] == ["Hi"]


# --- answers to tool calls

CALLING = sse(turn(tool_call("look", {"city": "Oslo"}), run_id="run-1"))
LOOK = Tool(name="look", description="Look.", parameters={})


def results(messages: list[Any]) -> list[Any]:
    return [each["content"] for each in messages if each["role"] == "tool"]


@every_failing
@pytest.mark.requirement("TOOL-10")
def test_a_result_that_no_run_took_can_be_given_again_and_is_there_once(case: FaultCase, verb: Verb) -> None:
    with asked(case, CALLING, tools=[LOOK]) as (server, agent):
        assert verb(agent, "Hi", run_id="run-1").error is None
        assert type(verb(agent, tool_results={"call-1": "-3"}, run_id="run-2").error) is case.error
        again = verb(agent, tool_results={"call-1": "-4"}, run_id="run-3").error
        if case.is_accepted:
            assert isinstance(again, UsageError)
            assert len(server.requests) == 2
            assert verb(agent, run_id="run-3").error is None
        assert results(sent(server)) == results(shown(agent.messages)) == ["-3" if case.is_accepted else "-4"]


@every_failing
@pytest.mark.requirement("TOOL-10", "SEC-3")
def test_a_tool_that_was_approved_runs_once_whatever_becomes_of_its_result(case: FaultCase, verb: Verb) -> None:
    executed: list[str] = []

    @tool(approval="always")
    def look(city: str) -> str:
        """Look."""
        executed.append(city)
        return "-3"

    with asked(case, CALLING, tools=[look]) as (server, agent):
        assert verb(agent, "Hi", run_id="run-1").error is None
        assert type(verb(agent, tool_results={"call-1": Approve()}, run_id="run-2").error) is case.error
        again = verb(agent, tool_results={"call-1": Approve()}, run_id="run-3").error
        if case.is_accepted:
            assert isinstance(again, UsageError)
            assert len(server.requests) == 2
            assert verb(agent, run_id="run-3").error is None
        assert results(sent(server)) == results(shown(agent.messages)) == ["-3"]
    assert executed == ["Oslo"]


@pytest.mark.parametrize("copied", ["restored", "cloned"])
@pytest.mark.parametrize("verb", [pytest.param(verb, id=name) for name, verb in SURFACES.items()])
@pytest.mark.requirement("TOOL-10", "SEC-3")
def test_a_copy_of_the_conversation_knows_what_no_run_heard(copied: str, verb: Verb) -> None:
    executed: list[str] = []

    @tool(approval="always")
    def look(city: str) -> str:
        """Look."""
        executed.append(city)
        return "-3"

    with serve_bytes(CALLING, faults.status(503), LAST) as server:
        first = HttpAgent(server.url, thread_id="thread-1", tools=[look])
        assert verb(first, "Hi", run_id="run-1").error is None
        assert verb(first, "Well?", tool_results={"call-1": Approve()}).error is not None
        agent = first.clone()
        if copied == "restored":
            agent = HttpAgent(server.url, tools=[look])
            agent.restore(ConversationSnapshot.model_validate_json(first.snapshot().model_dump_json()))
        assert verb(agent, "Well?", tool_results={"call-1": Approve()}, run_id="run-3").error is None
        assert [message["role"] for message in sent(server)] == ["user", "assistant", "tool", "user"]
    assert executed == ["Oslo"]


APART = {
    "calls in messages of their own": turn(
        tool_call("look", {"city": "Oslo"}, tool_call_id="c1"),
        tool_call("look", {"city": "Bergen"}, tool_call_id="c2"),
        run_id="run-1",
    ),
    "a call before a text": turn(
        tool_call("look", {"city": "Oslo"}, tool_call_id="c1"), text("I wait."), run_id="run-1"
    ),
}


@pytest.mark.parametrize("first", APART.values(), ids=list(APART))
@pytest.mark.parametrize("verb", [pytest.param(verb, id=name) for name, verb in SURFACES.items()])
@pytest.mark.requirement("TOOL-10", "SEC-3")
def test_results_that_are_not_at_the_end_are_reported_by_the_same_call_again(first: Any, verb: Verb) -> None:
    executed: list[str] = []

    @tool(approval="always")
    def look(city: str) -> str:
        """Look."""
        executed.append(city)
        return "-3"

    with serve_bytes(sse(first), faults.status(503), LAST) as server:
        agent = HttpAgent(server.url, tools=[look])
        assert verb(agent, "Hi", run_id="run-1").error is None
        approvals = {call.id: Approve() for call in agent.pending_tool_calls}
        assert verb(agent, tool_results=approvals).error is not None
        assert verb(agent, tool_results=approvals, run_id="run-3").error is None
        assert results(sent(server)) == ["-3"] * len(approvals)
    assert sorted(executed) == ["Bergen", "Oslo"][-len(approvals) :]


@pytest.mark.parametrize("verb", [pytest.param(verb, id=name) for name, verb in SURFACES.items()])
@pytest.mark.requirement("TOOL-10", "SEC-3")
def test_a_result_that_a_run_without_words_took_cannot_be_given_again(verb: Verb) -> None:
    @tool(approval="always")
    def look(city: str) -> str:
        """Look."""
        return "-3"

    with serve_bytes(CALLING, sse(turn(run_id="run-2")), LAST) as server:
        agent = HttpAgent(server.url, tools=[look])
        assert verb(agent, "Hi", run_id="run-1").error is None
        assert verb(agent, tool_results={"call-1": Approve()}, run_id="run-2").error is None
        again = verb(agent, tool_results={"call-1": Approve()}, run_id="run-3").error
        assert isinstance(again, UsageError)
        assert "a call that has a result already" in str(again)
        assert len(server.requests) == 2


# --- runs that were left

BODY = sse(turn(text("One two three."), tool_call("look", {"a": 1, "b": 2}), run_id="run-1"))
OPEN = [[], *[["message-1"]] * 4, [], *[["call-1"]] * 5, [], []]
"""What is open after each event."""
WRITES = {
    "in one write": Reply([BODY]),
    "event by event": Reply(events_of(BODY)),
    "and then silence": Reply([BODY], end="stall"),
}
Leave = Callable[[HttpAgent, int], None]


def leaving_the_block(backend: str) -> Leave:
    def leave(agent: HttpAgent, events: int) -> None:
        async def main() -> None:
            with anyio.fail_after(LIMIT):
                async with agent.stream("Hi", run_id="run-1") as run:
                    for _ in range(events):
                        await anext(run)

        anyio.run(main, backend=backend)

    return leave


def cancelling(agent: HttpAgent, events: int) -> None:
    async def main() -> None:
        with anyio.fail_after(LIMIT):
            async with agent.stream("Hi", run_id="run-1") as run:
                for _ in range(events):
                    await anext(run)
                run.cancel()
                assert (await run.result()).aborted == (events < len(OPEN))

    anyio.run(main)


def leaving_the_sync_block(agent: HttpAgent, events: int) -> None:
    with agent.stream_sync("Hi", run_id="run-1") as run:
        for _ in range(events):
            next(run)


LEAVING: dict[str, Leave] = {
    "leaving the block on asyncio": leaving_the_block("asyncio"),
    "leaving the block on trio": leaving_the_block("trio"),
    "cancelling": cancelling,
    "leaving the sync block": leaving_the_sync_block,
}


@pytest.mark.parametrize("reply", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
@pytest.mark.requirement("LIFE-11", "TRUNC-1", "SET-11")
def test_a_run_that_was_left_after_any_event_is_gone_on_with(reply: Reply, leave: Leave) -> None:
    for events in range(1, len(OPEN) + 1, 1 if reply is WRITES["event by event"] else 3):
        with serve_bytes(reply, LAST) as server:
            agent = HttpAgent(server.url, thread_id="thread-1", tools=[LOOK])
            leave(agent, events)
            assert agent.incomplete_ids == OPEN[events - 1]
            held = shown(agent.messages)
            assert not agent.is_running
            agent.run_agent_sync("Go on", run_id="run-3")
            assert without_given_up(sent(server)[:-1]) == held
            assert [message.content for message in agent.messages][-2:] == ["Go on", "Done."]
            assert agent.incomplete_ids == OPEN[events - 1]


@pytest.mark.requirement("STREAM-5", "STATE-5")
@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(turn(text(" three.", message_id="message-1"), run_id="run-3"), id="gone on with"),
        pytest.param(
            turn(
                {
                    "type": "MESSAGES_SNAPSHOT",
                    "messages": [{"id": "message-1", "role": "assistant", "content": "One two three."}],
                },
                run_id="run-3",
            ),
            id="told again",
        ),
    ],
)
def test_what_a_later_run_completes_is_incomplete_no_more(whole: Any) -> None:
    with serve_bytes(faults.ended(BODY, events=4), sse(whole)) as server:
        agent = HttpAgent(server.url, thread_id="thread-1")
        with pytest.raises(AGUIError):
            agent.run_agent_sync("Hi", run_id="run-1")
        assert agent.incomplete_ids == ["message-1"]
        agent.run_agent_sync(run_id="run-3")
    assert agent.messages[-1].content in ("One two  three.", "One two three.")
    assert agent.incomplete_ids == []


# --- what may have started

MAY_HAVE_STARTED: dict[str, tuple[Reply | bytes, type[AGUIError], bool]] = {
    "refused": (Reply([b"no"], status=400), HTTPStatusError, False),
    "busy": (Reply([b"later"], status=503), HTTPStatusError, False),
    "broken": (Reply([b"oh"], status=500), HTTPStatusError, True),
    "no answer": (Reply(status=None), ConnectError, True),
    "no event": (b"", IncompleteRunError, True),
    "no frame": (b"data: {\n\n", DecodeError, True),
    "failed": (sse(turn(RunErrorEvent(message="oh"))), RunFailedError, True),
}


@pytest.mark.parametrize("case", MAY_HAVE_STARTED)
def test_an_error_says_whether_the_agent_may_have_begun(case: str) -> None:
    reply, expected, may_have_started = MAY_HAVE_STARTED[case]
    with serve_bytes(reply) as server, pytest.raises(expected) as caught:
        HttpAgent(server.url).run_agent_sync("Hi", run_id="run-1")
    assert (caught.value.run_id, caught.value.may_have_started) == ("run-1", may_have_started)


def test_what_was_refused_before_it_was_sent_has_not_started() -> None:
    def choose(messages: list[Message]) -> list[Message]:
        raise LookupError

    with serve_bytes(LAST) as server:
        with pytest.raises(HistoryError) as unchosen:
            HttpAgent(server.url, history=choose).run_agent_sync("Hi")
        agent = HttpAgent(server.url)
        with pytest.raises(UsageError) as unusable:
            agent.run_agent_sync("Hi", tool_results={"nobody": 1})
        with agent.stream_sync("Hi") as run:
            next(iter(run))
        with pytest.raises(UsageError) as left:
            run.result()
    assert [each.value.may_have_started for each in (unchosen, unusable, left)] == [False, False, True]


# --- nobody there


class Moving(httpx.AsyncHTTPTransport):
    """Sends every request to where the agent lives by now."""

    port = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it there."""
        request.url = request.url.copy_with(port=type(self).port)
        return await super().handle_async_request(request)


@every_verb
@pytest.mark.requirement("SSE-8")
def test_an_agent_that_was_not_there_is_asked_again_and_nothing_is_doubled(verb: Verb) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        Moving.port = listener.getsockname()[1]
    history: list[Message] = [UserMessage(id="user-0", content="Before")]
    agent = HttpAgent(
        "http://127.0.0.1/",
        http_client=lambda: httpx.AsyncClient(transport=Moving(verify=False)),
        retry=RetryPolicy(connect=1, first_wait=0.01),
        thread_id="thread-1",
        initial_messages=history,
    )
    for prompt in ("Hi", None, "Hi"):
        error = verb(agent, prompt).error
        assert isinstance(error, ConnectError)
        assert not error.may_have_started
        assert isinstance(error.partial, RunResult)
        assert [attempt.status_code for attempt in error.partial.attempts] == [None, None]
        assert agent.messages == history
    with serve_bytes(LAST) as server:
        Moving.port = httpx.URL(server.url).port or 0
        assert verb(agent, "Hi", run_id="run-3").error is None
        assert [each["content"] for each in sent(server)] == ["Before", "Hi"]
    assert [message.content for message in agent.messages] == ["Before", "Hi", "Done."]
