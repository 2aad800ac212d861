"""Surfaces: the agent sends a form as data, a person fills it in and presses, and the next run tells the agent.

The program fills the form in itself, where an application would draw it. Nothing of a surface is run or fetched.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ag_ui.core import Event, RunAgentInput, RunFinishedEvent, RunFinishedSuccessOutcome, RunStartedEvent

from agui_client import FunctionAgent, UsageError
from agui_client.a2ui import A2UI, action_in, change_surface, show_surface

CONTEXT = {"name": {"path": "/name"}, "ferry": {"path": "/ferry/0"}}
NEEDED = {"condition": {"call": "required", "args": {"value": {"path": "/name"}}}, "message": "Who is going?"}
FERRIES = [{"label": "At dawn", "value": "dawn"}, {"label": "At dusk", "value": "dusk"}]
ACTION = {"event": {"name": "book", "context": CONTEXT}}
FORM: list[dict[str, Any]] = [
    {"id": "root", "component": "Column", "children": ["name", "ferry", "book", "said"]},
    {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}},
    {"id": "ferry", "component": "ChoicePicker", "label": "Ferry", "options": FERRIES, "value": {"path": "/ferry"}},
    {"id": "book", "component": "Button", "child": "label", "action": ACTION, "checks": [NEEDED]},
    {"id": "label", "component": "Text", "text": "Book"},
    {"id": "said", "component": "Text", "text": {"path": "/said"}},
]


async def ferries(input: RunAgentInput) -> AsyncIterator[Event]:
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    action = action_in(input)
    if action is None:
        yield show_surface("ferry", FORM, {"name": "", "ferry": ["dusk"]})
    else:
        # The caller wrote the context: an agent checks it like any other input.
        said = f"Booked {action.context.get('ferry')} for {action.context.get('name')}."
        yield change_surface("ferry", path="/said", data=said)
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id, outcome=RunFinishedSuccessOutcome())


async def main() -> None:
    agent = FunctionAgent(ferries).use(A2UI())
    result = await agent.run_agent("Book a ferry, please.")

    surface = result.surfaces["ferry"]
    try:
        surface.press("book")
    except UsageError as error:
        print(f"not yet: {error}")
    surface.set("name", "Ann")
    surface.set("ferry", "dawn")
    action = surface.press("book")
    print(f"{action.name}: {dict(action.context)}")

    await agent.run_agent(**action.run_options())
    print(surface["said"].values["text"])


if __name__ == "__main__":
    asyncio.run(main())
