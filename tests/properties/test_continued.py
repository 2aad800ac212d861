"""Runs that faults interrupt anywhere, and what is asked next: the conversation goes on as its user would expect.

Each request is held against what a plain model of the conversation says. Nothing said is lost or doubled, what arrived
stays in front and is marked where it is incomplete, and no tool runs twice or for a run that did not finish.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, Literal

import anyio
import httpx
import pytest
import trio.testing
from ag_ui.core import ActivityMessage, ActivitySnapshotEvent, AssistantMessage, Message, RunAgentInput, UserMessage
from hypothesis import given
from hypothesis import strategies as st

from agui_client import AGUIError, HttpAgent, RetryPolicy, Timeouts, ToolContext, tool
from agui_client.testing import (
    ByteServer,
    Reply,
    Step,
    events_of,
    patch,
    reasoning,
    serve_bytes,
    sse,
    state,
    step,
    text,
    tool_call,
    tool_result,
    turn,
)
from support.faults_matrix import CHOSEN, FAULT_CASES, FaultCase
from support.given_up import MARK, NO_RESULT, is_given_up
from support.replies import Answer, Replies
from support.verbs import VERBS, Verb, by_verb
from weaves.naive import Json, Naive

Saying = Literal["nothing", "another", "same"]
"""What a call asks: to go on, something new, or what was asked last."""

REFUSED = "connection refused"
FAULTS: dict[str, FaultCase | None] = {
    **{case.name: case for case in FAULT_CASES if case.name != "burst of 3 MB"},
    REFUSED: None,
}
HISTORY: list[Message] = [
    UserMessage(id="user-0", content="Before"),
    ActivityMessage(id="map-0", activity_type="MAP", content={"zoom": 1}),
    AssistantMessage(id="talk-0", content="Yes."),
]
LIMITS = Timeouts(first_event=5, idle=5, total=8)

STEPS: dict[str, Callable[[int], Sequence[Step]]] = {
    "text": lambda number: [text("One two.")],
    "reasoning": lambda number: [reasoning("Let me see.", encrypted_value="opaque==")],
    "tool of the agent": lambda number: [tool_call("remember", {"n": number}), tool_result("done")],
    "tool of ours": lambda number: [tool_call("look", {"n": number})],
    "text with a tool of ours": lambda number: [
        text("I look.", message_id=f"talk-{number}"),
        tool_call("look", {"n": number}, parent_message_id=f"talk-{number}"),
    ],
    "state": lambda number: [state({"n": number})],
    "patch": lambda number: [patch({"op": "add", "path": f"/at {number}", "value": [number]})],
    "activity": lambda number: [
        ActivitySnapshotEvent(message_id=f"map-{number}", activity_type="MAP", content={"zoom": number})
    ],
    "step": lambda number: [step("think", text("Hm, hm."))],
}
"""What may happen in a run; ids that are not minted by the script hold the number of the request."""


@dataclass(frozen=True)
class Attempt:
    """What one request is answered with."""

    fault: str
    place: int
    """After how many events, modulo their number and one."""
    steps: Sequence[str]


@dataclass
class Expected:
    """The conversation as its user would expect it."""

    naive: Naive = field(default_factory=lambda: Naive(as_json(HISTORY), {"n": 0}))
    unheard: list[str] = field(default_factory=list[str])
    """The ids of what was said to runs that never started."""
    incomplete: list[str] = field(default_factory=list[str])
    executed: list[str] = field(default_factory=list[str])
    waiting: list[str] = field(default_factory=list[str])
    """The ids of calls of a run that finished before its stream broke."""
    said: list[str] = field(default_factory=list[str])
    """The texts of the user, in order, each as often as it was meant."""
    is_asked: bool = False
    """Whether the call that goes on began with a prompt."""

    def give_up(self, *, is_asked: bool) -> None:
        """Answer the calls that have no result; that stays only if the run that it is for starts (TOOL-10).

        A call without a prompt continues with those that wait instead, and what their functions did stays.
        """
        messages = self.naive.messages
        called = [call["id"] for each in messages for call in each.get("toolCalls", ())]
        for call_id in called:
            if any(each.get("toolCallId") == call_id for each in messages):
                continue
            if call_id in self.waiting and not is_asked:
                self._execute(call_id)
            else:
                result = {"messageId": f"result of {call_id}", "toolCallId": call_id, "content": NO_RESULT}
                self.naive.take({"type": "TOOL_CALL_RESULT", "role": "tool", **result})
                self.unheard.append(f"result of {call_id}")
        answer = {"error": NO_RESULT, "metadata": MARK}
        self.naive.hold([{**each, **answer} if is_given_up(each) else each for each in self.naive.messages])

    def say(self, message: UserMessage) -> None:
        """Add a prompt; it stays only if the run that it is for starts."""
        self.naive.hold([*self.naive.messages, *as_json([message])])
        self.said.append(str(message.content))
        self.unheard.append(message.id)
        self.is_asked = True

    def hear(self, events: Sequence[Json], *, is_fine: bool, has_failed: bool) -> None:
        """So many events arrive, and then the run is over, finely or not; or the agent says that it has failed."""
        for event in events:
            self.naive.take(event)
        if not events and self.unheard:
            self.naive.hold([each for each in self.naive.messages if each["id"] not in self.unheard])
            if self.is_asked:
                self.said.pop()
        self.unheard, self.is_asked = [], False
        self.incomplete += open_items(events)
        started = [each["toolCallId"] for each in events if each.get("toolCallName") == "look"]
        if is_fine:
            for call_id in started:
                self._execute(call_id)
        elif events and events[-1]["type"] == "RUN_FINISHED" and not has_failed:
            self.waiting += started

    def _execute(self, call_id: str) -> None:
        self.executed.append(call_id)
        result = {"messageId": f"result of {call_id}", "toolCallId": call_id, "content": f"looked for {call_id}"}
        self.naive.take({"type": "TOOL_CALL_RESULT", "role": "tool", **result})

    @property
    def sent(self) -> list[Json]:
        """What the agent hears of it: activities stay at home."""
        return [each for each in self.naive.messages if each["role"] != "activity"]


def as_json(messages: Sequence[Message]) -> list[Json]:
    return [message.model_dump(mode="json", by_alias=True, exclude_none=True) for message in messages]


def comparable(messages: Sequence[Json]) -> list[Json]:
    """Messages with the ids of our tools' results, which are minted here, replaced by ones that can be told."""
    return [
        {**each, "id": f"result of {each['toolCallId']}"}
        if str(each.get("content")).startswith("looked") or is_given_up(each)
        else each
        for each in messages
    ]


def open_items(events: Sequence[Json]) -> list[str]:
    """The messages and calls that were started and not ended."""
    still_open: list[str] = []
    for event in events:
        kind, _, part = event["type"].rpartition("_")
        if kind in ("TEXT_MESSAGE", "REASONING_MESSAGE", "TOOL_CALL"):
            item = event["toolCallId"] if kind == "TOOL_CALL" else event["messageId"]
            if part == "START":
                still_open.append(item)
            elif part == "END":
                still_open.remove(item)
    return still_open


@dataclass
class Session:
    """A conversation whose requests are answered with attempts, and then with a healthy run for each further one."""

    attempts: Sequence[Attempt]
    expected: Expected = field(default_factory=Expected)
    requests: int = 0
    executions: Counter[str] = field(default_factory=Counter[str])
    healthy: int = 0
    """How many requests were answered without a fault at the end."""
    findings: list[str] = field(default_factory=list[str])
    """What a request had in it that was not expected."""

    @property
    def settings(self) -> dict[str, Any]:
        """The agent's."""

        @tool
        async def look(ctx: ToolContext, n: int) -> str:
            """Look for something."""
            self.executions[ctx.tool_call_id] += 1
            return f"looked for {ctx.tool_call_id}"

        return {"tools": [look], "initial_messages": HISTORY, "initial_state": {"n": 0}}

    def answer(self, request: Any) -> Reply | None:
        """Answer the next request; None refuses the connection."""
        self._check(request)
        number, self.requests = self.requests, self.requests + 1
        is_last = number >= len(self.attempts)
        attempt = Attempt("healthy", 0, ["text"]) if is_last else self.attempts[number]
        self.healthy += is_last
        steps = [each for name in attempt.steps for each in STEPS[name](number + 1)]
        body = sse(turn(*steps), input=RunAgentInput.model_validate(request))
        events = [json.loads(event.removeprefix(b"data: ")) for event in events_of(body)]
        case, place = FAULTS[attempt.fault], attempt.place % (len(events) + 1)
        arrived, is_fine = fate(case, place, len(events))
        self.expected.hear(events[:arrived], is_fine=is_fine, has_failed=attempt.fault == "late error")
        return None if case is None else case.reply(body, place)

    def _check(self, request: Any) -> None:
        expected = self.expected.sent
        if comparable(request["messages"]) != expected:
            self.findings.append(f"sent {request['messages']}, expected {expected}")
        if request["state"] != self.expected.naive.state:
            self.findings.append(f"sent {request['state']}, expected {self.expected.naive.state}")

    def prompt(self, saying: Saying) -> UserMessage | None:
        """What the next call asks."""
        self.expected.give_up(is_asked=saying != "nothing")
        if saying == "nothing":
            return None
        said = self.expected.said[-1:] if saying == "same" else []
        content = said[0] if said else f"Question {self.requests}"
        prompt = UserMessage(id=f"user-{self.requests + 1}", content=content)
        self.expected.say(prompt)
        return prompt

    def check_held(self, agent: HttpAgent) -> None:
        """What the agent holds is what the model says, and its user finds everything said once."""
        expected = self.expected
        assert self.findings == []
        assert comparable(as_json(agent.messages)) == expected.naive.messages
        assert agent.state == expected.naive.state
        assert sorted(agent.incomplete_ids) == sorted(expected.incomplete)
        assert self.executions == Counter(expected.executed)
        ids = [message.id for message in agent.messages]
        assert len(ids) == len(set(ids))
        heard = [message.content for message in agent.messages if isinstance(message, UserMessage)]
        assert heard == ["Before", *expected.said]


def fate(case: FaultCase | None, place: int, count: int) -> tuple[int, bool]:
    """How many of a run's events arrive, and whether it is a success, when it meets a fault at a place."""
    if case is None or not case.is_accepted:
        return 0, False
    if case.has_place:
        return place, place == count and "broken" not in case.name.removeprefix("broken chunk")
    return count, case.error is None


async def converse(session: Session, sayings: Iterator[Saying]) -> None:
    """Ask until a run was healthy."""

    def answer(request: Any) -> Answer:
        return session.answer(request) or httpx.ConnectError("refused")

    agent = Replies(answer).agent(timeout=LIMITS, retry=RetryPolicy(connect=0), **session.settings)
    while not session.healthy:
        try:
            await agent.run_agent(session.prompt(next(sayings)))
        except AGUIError as error:
            assert error.partial is not None  # noqa: PT017
            assert error.partial.messages == agent.messages  # noqa: PT017
        session.check_held(agent)
    assert agent.messages[-1].content == "One two."


def carry_out(attempts: Sequence[Attempt], sayings: Sequence[Saying]) -> None:
    """A conversation on a clock that jumps whenever everybody waits."""
    asked = chain[Saying](["another"], sayings, repeat("nothing"))
    clock = trio.testing.MockClock(autojump_threshold=0)
    anyio.run(converse, Session(attempts), asked, backend="trio", backend_options={"clock": clock})


attempts = st.builds(
    Attempt, st.sampled_from(list(FAULTS)), st.integers(0, 60), st.lists(st.sampled_from(list(STEPS)), max_size=5)
)
sayings: st.SearchStrategy[Saying] = st.sampled_from(["nothing", "another", "same"])


@pytest.mark.requirement("TRUNC-1", "TRUNC-2", "LIFE-8", "SSE-8", "SSE-10", "INPUT-1", "INPUT-4", "LIFE-15")
@given(attempt=attempts, saying=sayings)
def test_a_run_that_a_fault_interrupts_anywhere_is_gone_on_with(attempt: Attempt, saying: Saying) -> None:
    carry_out([attempt], [saying])


@pytest.mark.requirement("TRUNC-2", "TOOL-1", "TOOL-10", "SET-11")
@given(attempts=st.lists(attempts, min_size=2, max_size=5), sayings=st.lists(sayings, max_size=5))
def test_a_conversation_survives_one_fault_after_the_other(
    attempts: Sequence[Attempt], sayings: Sequence[Saying]
) -> None:
    carry_out(attempts, sayings)


# --- every place of every fault

SCRIPT = ["reasoning", "text with a tool of ours", "tool of the agent", "state", "patch", "activity", "step"]
SAYINGS: list[Saying] = ["nothing", "another", "same"]
AFTER_A_RUN = [Attempt("healthy", 0, ["tool of ours"])]


def places(fault: str, events: int) -> Sequence[int]:
    """Where it may happen."""
    case = FAULTS[fault]
    return range(events + 1) if case is not None and case.has_place else [0]


def events_in(script: Sequence[str]) -> int:
    return len(events_of(sse(turn(*(each for name in script for each in STEPS[name](1))))))


@pytest.mark.requirement("TRUNC-1", "TRUNC-2", "TOOL-1", "SET-11", "INPUT-4")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_is_gone_on_with_from_every_place_of_a_fault(fault: str) -> None:
    for place in places(fault, events_in(SCRIPT))[:: 5 if fault in CHOSEN else 11]:
        carry_out([*AFTER_A_RUN[place % 2 :], Attempt(fault, place, SCRIPT)], [SAYINGS[place % 3]])


@contextmanager
def answering(sessions: Sequence[Session]) -> Generator[ByteServer]:
    """A server for the last of these sessions: one is enough for all places of a fault."""
    with serve_bytes(lambda request: sessions[-1].answer(request.json()) or Reply()) as server:
        yield server


SHORT = ["text with a tool of ours", "patch"]
SURFACES = {name: VERBS[name] for name in ("stream-trio", "run_agent_sync", "observe-thread")}


@pytest.mark.requirement("TRUNC-1", "TRUNC-2", "TOOL-1", "SET-11")
@by_verb("fault", {name: name for name in FAULTS if name != REFUSED}, CHOSEN, SURFACES)
def test_on_a_real_socket_and_every_surface_too(fault: str, verb: Verb) -> None:
    case = FAULTS[fault]
    assert case is not None
    every = places(fault, events_in(SHORT))
    sessions: list[Session] = []
    with answering(sessions) as server:
        for place in every[3:4] or every if case.is_silent else every[:: 5 if fault in CHOSEN else 11]:
            session = Session([*AFTER_A_RUN, Attempt(fault, place, SHORT)])
            sessions.append(session)
            sayings = chain[Saying](["another", SAYINGS[place % 3]], repeat("nothing"))
            agent = HttpAgent(server.url, thread_id="thread-1", **case.options, **session.settings)
            while not session.healthy:
                error = verb(agent, session.prompt(next(sayings))).error
                assert error is None or isinstance(error, AGUIError)
                session.check_held(agent)
