"""The demo agent: a script that shows what an agent can do. It plans a day in Oslo and asks before it books."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import RunAgentInput, RunFinishedInterruptOutcome, TokenUsage, UserMessage
from pydantic import TypeAdapter

from agui_client.testing.parts import (
    interrupt,
    patch,
    pause,
    reasoning,
    state,
    text,
    tool_call,
    tool_result,
    turn,
)
from agui_client.testing.scripted_agent import ScriptedAgent
from agui_client.testing.steps import Step

_ANSWER_SCHEMA = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
_WEATHER = {"celsius": 18, "sky": "clear", "wind": "light"}
_PLAN = ("the roof of the Opera House", "the ferry to Hovedøya", "the Munch museum, open late")
_OBJECT = TypeAdapter(dict[str, Any])
_WORD_SECONDS = 0.018


def demo_agent(*, pace: float = 1.0) -> ScriptedAgent:
    """The agent of `agui demo`: it answers every prompt with the same day in Oslo, and asks before it books.

    Only a prompt with "book" in it leads to the question.

    Args:
        pace: How slowly it speaks; 1 is lively, 0 is at once.

    Returns:
        The agent, to run in process or to `serve`.
    """

    async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
        if input.resume:
            yield _booking(input, pace, approved=_object(input.resume[0].payload).get("approved") is True)
        else:
            yield _plan(input, pace)

    return ScriptedAgent(answer, agent_id="demo")


def _plan(input: RunAgentInput, pace: float) -> Step:
    is_booking = "book" in _prompt(input).casefold()
    trip: dict[str, Any] = {"city": "Oslo", "weather": None, "plan": [], "tickets": "none"}
    asked = json.dumps(_prompt(input), ensure_ascii=False)
    return turn(
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
        tool_call("get_weather", {"city": "Oslo", "day": "Saturday", "units": "celsius"}, delay=pace * 0.08),
        pause(pace * 0.3),
        tool_result(_WEATHER),
        patch({"op": "replace", "path": "/trip/weather", "value": _WEATHER}),
        *(
            step
            for stop in _PLAN
            for step in (patch({"op": "add", "path": "/trip/plan/-", "value": stop}), pause(pace * 0.15))
        ),
        text(
            "18 degrees and clear: a day for the *outdoors*.\n\n"
            f"1. **Morning**: {_PLAN[0]}, before the crowd\n"
            f"2. **Noon**: {_PLAN[1]}, twelve minutes from `Aker Brygge`\n"
            f"3. **Evening**: {_PLAN[2]}\n\n"
            + ("The ferry fills up on a day like this. I can buy two tickets now.\n" if is_booking else ""),
            delay=pace * _WORD_SECONDS,
        ),
        outcome=_question() if is_booking else None,
        usage=[_usage(input_tokens=412, output_tokens=168)],
    )


def _question() -> RunFinishedInterruptOutcome:
    return interrupt("Buy two ferry tickets for 94 NOK?", interrupt_id="tickets", response_schema=_ANSWER_SCHEMA)


def _booking(input: RunAgentInput, pace: float, *, approved: bool) -> Step:
    held = _object(input.state)
    settled = {**_object(held.get("trip")), "tickets": "bought" if approved else "declined"}
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
        state({**held, "trip": settled}),
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
    if asked is None:
        return "nothing"
    if isinstance(asked.content, str):
        return asked.content
    return " ".join(part.text for part in asked.content if part.type == "text")
