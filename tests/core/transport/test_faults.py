"""Every fault over a real socket, on every surface: the error, its partial, the conversation, and nothing left open."""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import cast

import pytest
from ag_ui.core import RunFinishedSuccessOutcome, UserMessage

from agui_client import AGUIError, HttpAgent, RunResult
from agui_client.testing import ByteServer, events_of, serve_bytes, sse, text, turn
from support.faults_matrix import (
    BODY,
    CHOSEN,
    FAULT_CASES,
    MIDDLE,
    NOTHING,
    FaultCase,
    every_fault_by_turns,
)
from support.leaks import nothing_left_behind, nothing_left_behind_sync
from support.verbs import EVENT_VERBS, VERBS, Ending, Verb, shown
from support.waiting import LIMIT, SOON, until_sync

PROMPT = UserMessage(id="user-1", content="Hi")
AGAIN = UserMessage(id="user-2", content="Again")
BETTER = sse(turn(text("Better.", message_id="message-2"), run_id="run-2"))
TYPES = [re.findall(rb'"type":"(\w+)"', event)[0].decode() for event in events_of(BODY)]


@dataclass
class Meeting:
    """A run that met a fault, and the run after it."""

    agent: HttpAgent
    server: ByteServer
    url: str
    first: Ending
    held: list[dict[str, object]]
    """The agent's messages after the first run."""
    incomplete_ids: list[str]
    """The agent's, after the first run."""
    has_seen_it_go: bool
    """Whether the server saw the client close the connection."""
    second: Ending

    @property
    def error(self) -> AGUIError:
        """What the first run raised."""
        assert isinstance(self.first.error, AGUIError)
        return self.first.error

    @property
    def reached(self) -> RunResult | None:
        """How far the first run came: its partial or its result; observables have no result."""
        return self.first.result if self.first.error is None else cast("RunResult | None", self.error.partial)


_meetings: dict[tuple[int, str], Meeting] = {}


def met(verb: Verb, case: FaultCase) -> Meeting:
    """Two runs, the first of which meets the fault; carried out once for all the tests that look at it."""
    key = (id(verb), case.name)
    if key not in _meetings:
        with serve_bytes(case.reply(), BETTER) as server:
            agent = HttpAgent(server.url, thread_id="thread-1", **case.options)
            first = verb(agent, PROMPT, run_id="run-1")
            has_seen_it_go = server.disconnected.wait(SOON if case.is_silent else 0)
            held, incomplete_ids = shown(agent.messages), agent.incomplete_ids
            second = verb(agent, AGAIN, run_id="run-2", timeout=LIMIT)
            _meetings[key] = Meeting(agent, server, server.url, first, held, incomplete_ids, has_seen_it_go, second)
    return _meetings[key]


def said(case: FaultCase) -> list[dict[str, object]]:
    """The conversation after the fault: the prompt and what came before the fault; nothing if the run never started."""
    if not case.is_accepted:
        return []
    messages: list[dict[str, object]] = [{"id": "user-1", "role": "user", "content": "Hi"}]
    if case.text != NOTHING:
        messages.append({"id": "message-1", "role": "assistant", "content": case.text})
    return messages


def begun(case: FaultCase) -> list[str]:
    """What the run began and did not complete."""
    return ["message-1"] if case.has_place else []


@every_fault_by_turns()
@pytest.mark.requirement("TRUNC-1", "SSE-8", "SSE-9", "SSE-11", "LIFE-4", "LIFE-8")
def test_every_verb_names_the_fault(case: FaultCase, verb: Verb) -> None:
    meeting = met(verb, case)
    assert type(meeting.first.error) is (case.error or type(None))
    if case.error is not None:
        assert re.search(case.message, str(meeting.error), re.DOTALL)
        assert (meeting.error.thread_id, meeting.error.run_id) == ("thread-1", "run-1")


@every_fault_by_turns()
@pytest.mark.requirement("TRUNC-1", "LIFE-8")
def test_what_was_said_before_the_fault_is_kept(case: FaultCase, verb: Verb) -> None:
    meeting = met(verb, case)
    assert meeting.held == said(case)
    assert meeting.incomplete_ids == begun(case)
    if (reached := meeting.reached) is not None:
        assert (reached.text, shown(reached.messages)) == (case.text, said(case))
        assert shown(reached.new_messages) == said(case)[1:]
        assert (reached.incomplete_ids, reached.aborted) == (begun(case), False)
        assert (reached.thread_id, reached.run_id) == ("thread-1", "run-1")


@every_fault_by_turns()
@pytest.mark.requirement("TRUNC-1", "LIFE-4", "LIFE-9")
def test_only_a_terminal_event_gives_a_run_an_outcome(case: FaultCase, verb: Verb) -> None:
    meeting = met(verb, case)
    if case.error is None:
        assert meeting.first.outcome == RunFinishedSuccessOutcome()
    elif case.has_place or not case.is_accepted:
        assert meeting.error.partial is not None
        assert meeting.error.partial.outcome is None


@every_fault_by_turns()
@pytest.mark.requirement("SSE-10")
def test_what_was_tried_is_told_and_nothing_is_posted_twice(case: FaultCase, verb: Verb) -> None:
    meeting = met(verb, case)
    assert [request.json()["runId"] for request in meeting.server.requests] == ["run-1", "run-2"]
    if (reached := meeting.reached) is not None:
        (attempt,) = reached.attempts
        error = None if case.is_accepted else str(meeting.error)
        told = (attempt.reason, attempt.address, attempt.status_code, attempt.error)
        assert told == ("first attempt", meeting.url, case.status, error)
        assert (reached.response and reached.response.status_code) == case.status


@every_fault_by_turns(ways=EVENT_VERBS)
def test_what_came_before_the_fault_is_given_out(case: FaultCase, verb: Verb) -> None:
    types = met(verb, case).first.types
    if not case.is_accepted:
        assert types == []
    elif case.has_place:
        assert types == TYPES[:MIDDLE]
    else:
        late = ["RUN_ERROR"] if case.name == "late error" else []
        assert [each for each in types if each != "RAW"] == TYPES + late


@every_fault_by_turns()
def test_the_next_run_sends_what_is_held_and_goes_on_from_there(case: FaultCase, verb: Verb) -> None:
    meeting = met(verb, case)
    asked = [*said(case), {"id": "user-2", "role": "user", "content": "Again"}]
    assert meeting.server.requests[1].json()["messages"] == asked
    assert meeting.second.error is None
    assert shown(meeting.agent.messages) == [*asked, {"id": "message-2", "role": "assistant", "content": "Better."}]
    assert not meeting.agent.is_running


@every_fault_by_turns(cases=[case for case in FAULT_CASES if case.is_silent])
def test_a_server_that_says_no_more_sees_the_client_go(case: FaultCase, verb: Verb) -> None:
    assert met(verb, case).has_seen_it_go


# --- what is left


@every_fault_by_turns(ways={name: VERBS[name] for name in ("stream_sync", "observe-thread")})
def test_a_fault_leaves_no_thread_and_no_socket_behind(case: FaultCase, verb: Verb) -> None:
    with serve_bytes(case.reply()) as server:
        agent = HttpAgent(server.url, **case.options)
        with nothing_left_behind_sync():
            verb(agent, "Hi")
            # An observable's own thread is the one that says it is over.
            until_sync(lambda: "agui_client.observe" not in {each.name for each in threading.enumerate()}, SOON)


async def iterated(agent: HttpAgent) -> None:
    async with agent.stream("Hi") as run:
        async for _ in run:
            pass


async def iterated_in_a_kept_client(agent: HttpAgent) -> None:
    async with agent:
        await iterated(agent)


async def leave_nothing_behind(case: FaultCase, way: Callable[[HttpAgent], Awaitable[None]]) -> None:
    with serve_bytes(case.reply()) as server:
        agent = HttpAgent(server.url, **case.options)
        async with nothing_left_behind():
            with nullcontext() if case.error is None else pytest.raises(case.error):
                await way(agent)


@every_fault_by_turns("anyio_backend", {"asyncio": "asyncio", "trio": "trio"})
@pytest.mark.anyio
async def test_a_fault_leaves_no_task_no_generator_and_no_socket_behind(case: FaultCase) -> None:
    await leave_nothing_behind(case, iterated)


@pytest.mark.parametrize("case", [case for case in FAULT_CASES if case.name in CHOSEN], ids=lambda case: case.name)
@pytest.mark.anyio
async def test_nor_does_it_where_the_client_is_kept(case: FaultCase) -> None:
    await leave_nothing_behind(case, iterated_in_a_kept_client)
