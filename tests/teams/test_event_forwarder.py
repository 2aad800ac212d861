"""The events of a member as the caller of its team gets them: each type, with its ids, owners and other fields."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput, RunErrorEvent, ToolCallResultEvent
from pydantic import TypeAdapter

from agui_client import FunctionAgent, HttpAgent
from agui_client._core.protocol.placeholders import marked
from agui_client.asgi import agent_app
from agui_client.teams import Member, SequentialAgent
from agui_client.testing import text, tool_call, turn
from support.team_members import agent, events_of, says

pytestmark = pytest.mark.anyio

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_BESIDE = {"timestamp": 7, "metadata": {"note": "kept"}}
_INNER = {"subagentRunId": "helper"}
SENT: list[dict[str, Any]] = [
    {"type": "STEP_STARTED", "stepName": "look"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant", "name": "ann", **_BESIDE},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hm.", **_BESIDE},
    {"type": "TEXT_MESSAGE_END", "messageId": "m", **_BESIDE},
    {"type": "REASONING_START", "messageId": "r"},
    {"type": "REASONING_MESSAGE_START", "messageId": "r", "role": "reasoning"},
    {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r", "delta": "So."},
    {"type": "REASONING_MESSAGE_END", "messageId": "r"},
    {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "r", "encryptedValue": "x"},
    {"type": "REASONING_END", "messageId": "r"},
    {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "look", "parentMessageId": "m", **_BESIDE},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"},
    {"type": "TOOL_CALL_END", "toolCallId": "c"},
    {"type": "SUBAGENT_STARTED", "name": "h", "parentToolCallId": "c", "parentMessageId": "m", **_INNER},
    {"type": "TEXT_MESSAGE_START", "messageId": "n", "role": "assistant", **_INNER},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "n", "delta": "Yes.", **_INNER},
    {"type": "TEXT_MESSAGE_END", "messageId": "n", **_INNER},
    {"type": "REASONING_START", "messageId": "s", **_INNER},
    {"type": "REASONING_END", "messageId": "s", **_INNER},
    {"type": "CUSTOM", "name": "note", "value": 1, **_INNER},
    {
        "type": "SUBAGENT_FINISHED",
        "metadata": {"more": 1, "agui-client": {"messageId": "n", "usage": []}},
        "result": {"ok": True},
        **_INNER,
    },
    {"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": "sun", **_BESIDE},
    {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "plan", "content": {"n": 1}, "replace": True},
    {
        "type": "ACTIVITY_DELTA",
        "messageId": "a",
        "activityType": "plan",
        "patch": [{"op": "add", "path": "/n", "value": 2}],
    },
    {"type": "STATE_SNAPSHOT", "snapshot": {"x": 1}, **_BESIDE},
    {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/y", "value": 2}], **_BESIDE},
    {"type": "CUSTOM", "name": "note", "value": 2, **_BESIDE},
    {"type": "RAW", "event": {"a": 1}, "source": "s"},
    {"type": "STEP_FINISHED", "stepName": "look"},
]
"""The events of a run, apart from its beginning and its end."""
_IDS = ("messageId", "toolCallId", "parentMessageId", "parentToolCallId", "entityId")
_OF_THE_SPEAKER = (
    *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
    *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"),
)


def passed(sent: dict[str, Any], invocation: str, *, speaks: bool) -> dict[str, Any]:
    """Return an event of the member "one" as the caller gets it."""
    found = {name: f"one/{value}" if name in _IDS else value for name, value in sent.items()}
    if "subagentRunId" in found:
        found["subagentRunId"] = f"one/{found['subagentRunId']}"
    elif not (speaks and sent["type"] in _OF_THE_SPEAKER):
        found["subagentRunId"] = invocation
    match sent["type"]:
        case "SUBAGENT_STARTED":
            found["parentSubagentRunId"] = invocation
        case "SUBAGENT_FINISHED":
            found["metadata"] = {"more": 1, "agui-client": {"messageId": "one/n", "usage": []}}
        case "STATE_SNAPSHOT":
            del found["snapshot"]
            found |= {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/one", "value": {"x": 1}}]}
        case "STATE_DELTA":
            found["delta"] = [{"op": "add", "path": "/one/y", "value": 2}]
        case _:
            pass
    return found


def of_members(events: list[Event]) -> list[dict[str, Any]]:
    """Return events without those of the run, and without the team's journal."""
    found = [event.model_dump(mode="json", by_alias=True, exclude_none=True) for event in events]
    return [each for each in found if not each["type"].startswith("RUN_") and not _is_of_the_journal(each)]


def _is_of_the_journal(event: dict[str, Any]) -> bool:
    return event["type"] == "STATE_DELTA" and all(each["path"].startswith("/_team") for each in event["delta"])


@pytest.mark.parametrize("speaks", [True, False], ids=["it speaks for the team", "another one speaks"])
async def test_each_event_of_a_member_is_passed_on_with_everything_that_it_has(*, speaks: bool) -> None:
    one = agent("one", turn(*map(_EVENT.validate_python, SENT), result={"done": True}))
    team = SequentialAgent(one, *([] if speaks else [says("last", "L")]), strict=True)
    begun, *events = of_members(await events_of(team))
    invocation = begun["subagentRunId"]
    assert begun == {
        "type": "SUBAGENT_STARTED",
        "subagentRunId": invocation,
        "name": "one",
        "description": "Follows a script.",
    }
    assert events[: len(SENT)] == [passed(each, invocation, speaks=speaks) for each in SENT]
    ended = {"metadata": {"agui-client": {"messageId": "one/m"}}, "result": {"done": True}}
    assert events[len(SENT)] == {"type": "SUBAGENT_FINISHED", "subagentRunId": invocation, **ended}


async def test_a_member_that_fails_has_everything_closed_that_it_left_open_the_last_first() -> None:
    kinds = ("STEP_STARTED", "TEXT_MESSAGE_START", "REASONING_START", "REASONING_MESSAGE_START")
    begun = [each for each in SENT if each["type"] in kinds and "subagentRunId" not in each]
    begun += [each for each in SENT if each["type"] in ("TOOL_CALL_START", "SUBAGENT_STARTED")]
    begun.append({"type": "STEP_STARTED", "stepName": "inner", **_INNER})

    async def fails(input: RunAgentInput) -> AsyncIterator[Event]:
        for each in ({"type": "RUN_STARTED", "threadId": input.thread_id, "runId": input.run_id}, *begun):
            yield _EVENT.validate_python(each)
        yield RunErrorEvent(message="overloaded", code="busy")

    one = Member(FunctionAgent(fails, agent_id="one"), on_error="continue")
    events = of_members(await events_of(SequentialAgent(one, says("last", "L"), strict=True)))
    invocation = events[0]["subagentRunId"]
    assert events[1 : len(begun) + 1] == [passed(each, invocation, speaks=False) for each in begun]
    own = {"subagentRunId": invocation}
    assert events[len(begun) + 1 :][:9] == [
        {"type": "STEP_FINISHED", "stepName": "inner", "subagentRunId": "one/helper"},
        {"type": "SUBAGENT_ERROR", "subagentRunId": "one/helper", "message": "its caller ended", "code": "cancelled"},
        {"type": "TOOL_CALL_END", "toolCallId": "one/c", **own},
        {"type": "REASONING_MESSAGE_END", "messageId": "one/r", **own},
        {"type": "REASONING_END", "messageId": "one/r", **own},
        {"type": "TEXT_MESSAGE_END", "messageId": "one/m", **own},
        {"type": "STEP_FINISHED", "stepName": "look", **own},
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": "one/c-result",
            "toolCallId": "one/c",
            "content": "one failed before this call was answered.",
            **own,
        },
        {"type": "SUBAGENT_ERROR", "message": "overloaded", "code": "busy", **own},
    ]


async def test_no_result_of_a_remote_member_is_a_placeholder_because_its_server_says_so() -> None:
    result = ToolCallResultEvent(message_id="r", tool_call_id="c", content="5", metadata=marked())
    remote = agent("remote", turn(tool_call("count", tool_call_id="c"), result, text("Done.")))
    team = SequentialAgent(Member(HttpAgent("http://app/", app=agent_app(remote)), "remote"))
    await team.run_agent("Go.")
    [(content, metadata, error)] = [(m.content, m.metadata, m.error) for m in team.messages if m.role == "tool"]
    assert (content, metadata, error) == ("5", None, None)


@pytest.mark.requirement("SUB-3", "SET-22")
async def test_a_span_of_reasoning_keeps_the_owner_of_its_message_in_each_call_of_a_member() -> None:
    thought = [each for each in SENT if each["type"].startswith("REASONING_") and each.get("messageId") == "r"]
    message, span = (
        turn(*(_EVENT.validate_python(each) for each in thought if ("_MESSAGE_" in each["type"]) is is_message))
        for is_message in (True, False)
    )
    team = SequentialAgent(agent("one", message, span), says("last", "L", "L"), strict=True)
    events = [*of_members(await events_of(team)), *of_members(await events_of(team))]
    of_thought = [each for each in events if each.get("messageId") == "one/r"]
    assert [each["type"] for each in of_thought] == [each["type"] for each in (*thought[1:4], thought[0], thought[4])]
    assert len({each["subagentRunId"] for each in of_thought}) == 1
