"""The demo agent: a script that shows the abilities of agents. It plans a day in Oslo and asks before it books."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import (
    RunAgentInput,
    RunFinishedInterruptOutcome,
    TokenUsage,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from pydantic import TypeAdapter

from agui_client._core.protocol.message_text import content_text, tool_calls_in
from agui_client._core.protocol.placeholders import UNKNOWN_RESULT
from agui_client.testing._parts import interrupt, patch, pause, reasoning, state, text, tool_call, tool_result, turn
from agui_client.testing._scripted_agent import ScriptedAgent
from agui_client.testing._steps import Step

__all__ = ["demo_agent"]


_ANSWER_SCHEMA = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
_WEATHER = {"celsius": 18, "sky": "clear", "wind": "light"}
_PLAN = ("the roof of the Opera House", "the ferry to Hovedøya", "the Munch museum, open late")
_OBJECT = TypeAdapter(dict[str, Any])
_WORD_SECONDS = 0.018


def demo_agent(*, pace: float = 1.0) -> ScriptedAgent:
    """Make the agent of `agui demo`: it replies to every prompt with the same day in Oslo, and asks before it books.

    Only a prompt with "book" in it leads to the question. An application that offers tools named `get_weather` or
    `buy_tickets` has its own called instead of the agent's.

    Args:
        pace: The factor of all pauses: 1 is lively, 0 leaves them out.

    Returns:
        The agent, to run in process or to `serve`.
    """

    async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
        """Yield the events of one run."""
        answered = _answered_call(input)
        if input.resume:
            yield _booking(input, pace, approved=_object(input.resume[0].payload).get("approved") is True)
        elif answered is None:
            yield _greeting(input, pace)
        elif answered.function.name == "buy_tickets":
            yield _bought(input, pace)
        else:
            yield turn(*_plan(input, pace, input.messages[-1].content), **_ending(input))

    return ScriptedAgent(answer, agent_id="demo")


def _greeting(input: RunAgentInput, pace: float) -> Step:
    asked = json.dumps(_prompt(input), ensure_ascii=False)
    trip: dict[str, Any] = {"city": "Oslo", "weather": None, "plan": [], "tickets": "none"}
    opening = (
        reasoning(
            "I am a script, so every question gets a day in Oslo. The weather decides what to plan; ask for it first.",
            delay=pace * _WORD_SECONDS,
        ),
        state({**_object(input.state), "trip": trip}),
        text(
            f"## A day in Oslo\n\nYou asked {asked}. I am a **scripted** agent: whatever the question, "
            "I look at the weather, make a plan, and ask before I book.\n",
            delay=pace * _WORD_SECONDS,
        ),
    )
    if (offered := _offered(input, "get_weather")) is not None:
        return turn(*opening, _call(offered, {"city": "Oslo"}, pace))
    own = tool_call("get_weather", {"city": "Oslo", "day": "Saturday", "units": "celsius"}, delay=pace * 0.08)
    return turn(
        *opening,
        own,
        pause(pace * 0.3),
        tool_result(_WEATHER),
        *_plan(input, pace, _WEATHER),
        **_ending(input),
    )


def _plan(input: RunAgentInput, pace: float, weather: Any) -> list[Step]:
    """Return the steps after the weather is known."""
    return [
        patch({"op": "replace", "path": "/trip/weather", "value": weather}),
        *(
            step
            for stop in _PLAN
            for step in (patch({"op": "add", "path": "/trip/plan/-", "value": stop}), pause(pace * 0.15))
        ),
        text(
            ("18 degrees and clear" if weather is _WEATHER else f"The weather: {weather}")
            + ": a day for the *outdoors*.\n\n"
            f"1. **Morning**: {_PLAN[0]}, before the crowd\n"
            f"2. **Noon**: {_PLAN[1]}, twelve minutes from `Aker Brygge`\n"
            f"3. **Evening**: {_PLAN[2]}\n\n"
            + ("The ferry fills up on a day like this. I can buy two tickets now.\n" if _is_booking(input) else ""),
            delay=pace * _WORD_SECONDS,
        ),
        *([] if (offered := _ticket_tool(input)) is None else [_call(offered, {"route": "B1", "count": 2}, pace)]),
    ]


def _ending(input: RunAgentInput) -> dict[str, Any]:
    asks = _is_booking(input) and _ticket_tool(input) is None
    return {"outcome": _question() if asks else None, "usage": [_usage(input_tokens=412, output_tokens=168)]}


def _bought(input: RunAgentInput, pace: float) -> Step:
    """Return the run after the application's own tool has bought tickets, or has failed."""
    result: Any = input.messages[-1]
    closing = "Done: the tickets are yours.\n" if result.error is None else "Nothing was bought. The plan stands.\n"
    if result.content == UNKNOWN_RESULT:
        closing = "I cannot tell whether the tickets were bought.\n"
    return turn(text(closing, delay=pace * _WORD_SECONDS), usage=[_usage(input_tokens=590, output_tokens=41)])


def _answered_call(input: RunAgentInput) -> ToolCall | None:
    """Return the call that the application has just given the result of; None if the run is not for that."""
    last = input.messages[-1] if input.messages else None
    if not isinstance(last, ToolMessage):
        return None
    calls = [call for _, call in tool_calls_in(input.messages)]
    return next((call for call in calls if call.id == last.tool_call_id), None)


def _ticket_tool(input: RunAgentInput) -> Tool | None:
    return _offered(input, "buy_tickets") if _is_booking(input) else None


def _offered(input: RunAgentInput, name: str) -> Tool | None:
    return next((tool for tool in input.tools or () if tool.name == name), None)


def _call(tool: Tool, arguments: dict[str, Any], pace: float) -> Step:
    """Return a call of the application's tool, with those arguments that it takes."""
    known = _object(_object(tool.parameters).get("properties"))
    fitting = {name: value for name, value in arguments.items() if name in known}
    return tool_call(tool.name, fitting, delay=pace * 0.08)


def _is_booking(input: RunAgentInput) -> bool:
    return "book" in _prompt(input).casefold()


def _question() -> RunFinishedInterruptOutcome:
    return interrupt("Buy two ferry tickets for 94 NOK?", interrupt_id="tickets", response_schema=_ANSWER_SCHEMA)


def _booking(input: RunAgentInput, pace: float, *, approved: bool) -> Step:
    state_before = _object(input.state)
    settled = {**_object(state_before.get("trip")), "tickets": "bought" if approved else "declined"}
    buying = [
        tool_call("buy_tickets", {"route": "B1", "count": 2}, delay=pace * 0.08),
        pause(pace * 0.3),
        tool_result("94 NOK paid"),
    ]
    closing = (
        "Done: **two tickets** for the 12:10 ferry. Have a good day in Oslo!\n"
        if approved
        else "Nothing was bought. The plan stands; the ferry takes cards on board.\n"
    )
    return turn(
        *(buying if approved else ()),
        state({**state_before, "trip": settled}),
        text(closing, delay=pace * _WORD_SECONDS),
        result={"tickets": settled["tickets"]},
        usage=[_usage(input_tokens=590, output_tokens=41)],
    )


def _usage(*, input_tokens: int, output_tokens: int) -> TokenUsage:
    return TokenUsage(
        provider="agui",
        model="demo-script",
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
    )


def _object(value: Any) -> dict[str, Any]:
    return _OBJECT.validate_python(value) if isinstance(value, dict) else {}


def _prompt(input: RunAgentInput) -> str:
    asked = next((message for message in reversed(input.messages) if isinstance(message, UserMessage)), None)
    return "nothing" if asked is None else content_text(asked.content, " ", names_media=False)
