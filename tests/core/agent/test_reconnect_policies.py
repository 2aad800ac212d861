"""The requests by which each policy takes up a stream that was cut."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    Message,
    MessagesSnapshotEvent,
    ResumeEntry,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    Tool,
    ToolMessage,
    UserMessage,
)

from agui_client import HttpAgent, UsageError
from agui_client._core.transport.client import ClientRequest
from agui_client.reconnect import Connect, DetachedRuns, LastEventId, ReconnectPolicy

URL = "http://localhost:1/"
GIVEN = RunAgentInput(
    thread_id="t",
    run_id="r",
    parent_run_id="before",
    messages=[UserMessage(id="u", content="Hi")],
    state={"n": 1},
    tools=[Tool(name="look", description="Looks.", parameters={})],
    context=[],
    forwarded_props={"x": 1},
    resume=[ResumeEntry(interrupt_id="i", status="resolved")],
)
FIRST, CONNECT = httpx.URL("http://localhost:1/first"), httpx.URL("http://localhost:1/connect")
SENT = ClientRequest(body=b"{}", url=FIRST, headers={"x-user": "ann"})
AGAIN: dict[str, Any] = {"headers": {"x-user": "ann"}, "is_reconnect": True}


@pytest.mark.parametrize(
    ("policy", "connect_url", "request_again"),
    [
        (LastEventId(), None, ClientRequest(body=b"", last_event_id="5", **AGAIN)),
        (LastEventId(), CONNECT, ClientRequest(body=b"{}", url=CONNECT, last_event_id="5", **AGAIN)),
        (LastEventId(method="GET"), CONNECT, ClientRequest(body=b"", last_event_id="5", **AGAIN)),
        (LastEventId(method="POST"), CONNECT, ClientRequest(body=b"{}", url=CONNECT, last_event_id="5", **AGAIN)),
        (Connect(), CONNECT, ClientRequest(body=b"{}", url=CONNECT, is_replay=True, **AGAIN)),
    ],
    ids=["at the agent's url", "at connect_url", "by GET", "by POST", "from the beginning"],
)
def test_a_policy_names_the_request_that_goes_on(
    policy: ReconnectPolicy, connect_url: Any, request_again: ClientRequest
) -> None:
    plan = policy.plan(SENT, GIVEN, connect_url, is_replay=False)
    assert plan is not None
    assert (plan.request("5"), plan.attempts, plan.patience) == (request_again, 12, float("inf"))
    assert (plan.request(None) is None) == isinstance(policy, LastEventId)


def test_a_server_that_keeps_threads_is_asked_for_the_thread_without_anything_that_could_start_a_run() -> None:
    policy = DetachedRuns(attempts=3, patience=7.5)
    plan = policy.plan(SENT, GIVEN, None, is_replay=False)
    assert plan is not None
    again = plan.request(None)
    assert again is not None
    assert json.loads(again.body) == {
        "threadId": "t",
        "runId": "r",
        "parentRunId": "before",
        "messages": [],
        "state": {"n": 1},
        "context": [],
    }
    assert (again, plan.attempts, plan.patience) == (ClientRequest(body=again.body, **AGAIN), 3, 7.5)
    connecting = policy.connecting(SENT, GIVEN)
    assert connecting == ClientRequest(body=again.body, headers={"x-user": "ann"})


def test_only_a_policy_that_asks_for_the_thread_itself_connects_without_a_connect_url() -> None:
    policies: list[ReconnectPolicy] = [LastEventId(), LastEventId(method="POST"), Connect(), DetachedRuns()]
    assert [(each.can_connect, each.needs_connect_url) for each in policies] == [
        (False, False),
        (False, True),
        (False, True),
        (True, False),
    ]
    assert Connect().plan(SENT, GIVEN, CONNECT, is_replay=True) is None
    with pytest.raises(NotImplementedError):
        Connect().connecting(SENT, GIVEN)


ASKED = UserMessage(id="u", content="Hi")
SAID = AssistantMessage(id="a", content="Hello.")
LOOKED = ToolMessage(id="x", tool_call_id="c", content="sun")
BEGUN, OVER = RunStartedEvent(thread_id="t", run_id="r"), RunFinishedEvent(thread_id="t", run_id="r")


@pytest.mark.parametrize(
    ("sent", "stored", "is_whole"),
    [
        ([ASKED], [[ASKED, SAID]], True),
        ([ASKED], [[ASKED]], False),
        ([ASKED], [[SAID]], False),
        ([ASKED], [[ASKED, SAID], [ASKED]], False),
        ([ASKED], [], False),
        ([ASKED, SAID, LOOKED], [[ASKED, SAID, LOOKED]], False),
        ([ASKED, SAID, LOOKED], [[ASKED, SAID, LOOKED, SAID]], True),
        ([ASKED, SAID], [], True),
        ([], [], True),
    ],
)
def test_a_stored_thread_has_the_end_of_a_run_if_it_goes_on_after_what_waits_for_an_answer(
    sent: list[Message], stored: list[list[Message]], is_whole: bool
) -> None:
    given = GIVEN.model_copy(update={"messages": sent})
    plan = DetachedRuns().plan(SENT, given, None, is_replay=True)
    assert plan is not None
    response: list[Event] = [BEGUN, *(MessagesSnapshotEvent(messages=each) for each in stored), OVER]
    assert list(plan.joining.new(response) or ()) == []
    assert list(plan.joining.new(None) or ()) == (response if is_whole else [])
    assert plan.joining.is_pending != is_whole


def test_policies_that_mean_nothing_are_refused() -> None:
    for attempts in (0, True, 1.5, "5"):
        with pytest.raises(UsageError, match=r"^Connect.attempts is a whole number from 1 up, not "):
            Connect(attempts=attempts)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r'^LastEventId.method is "GET", "POST" or None, not \'PUT\'$'):
        LastEventId(method="PUT")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^LastEventId.attempts is"):
        LastEventId(attempts=0)
    with pytest.raises(UsageError, match=r"^reconnect= takes a policy, such as LastEventId\(\), not 5$"):
        HttpAgent(URL, reconnect=5)  # type: ignore[arg-type]
    for policy in (Connect(), LastEventId(method="POST")):
        with pytest.raises(UsageError, match=r"needs connect_url=: a POST to the agent's own url would start the run"):
            HttpAgent(URL, reconnect=policy)
        HttpAgent(URL, reconnect=policy, connect_url="connect")
    HttpAgent(URL, reconnect=LastEventId(attempts=1))
