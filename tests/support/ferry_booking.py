"""A ferry is booked on a surface that an agent of pydantic-ai sends with a tool, served by its own adapter."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

NEEDED = {"call": "required", "args": {"value": {"path": "/name"}}, "message": "Who is going?"}
BOOK = {"event": {"name": "book", "context": {"name": {"path": "/name"}, "ferry": {"path": "/ferry/0"}}}}
FERRIES = [{"label": "At dawn", "value": "dawn"}, {"label": "At dusk", "value": "dusk"}]
FORM: list[dict[str, Any]] = [
    {"id": "root", "component": "Column", "children": ["name", "ferry", "book", "said"]},
    {"id": "name", "component": "TextField", "label": "Name", "value": {"path": "/name"}, "checks": [NEEDED]},
    {"id": "ferry", "component": "ChoicePicker", "label": "Ferry", "options": FERRIES, "value": {"path": "/ferry"}},
    {"id": "book", "component": "Button", "child": "label", "action": BOOK, "checks": [NEEDED]},
    {"id": "label", "component": "Text", "text": "Book"},
    {"id": "said", "component": "Text", "text": "Nothing is booked yet."},
]


class Bookings:
    """An app with the agent, and what was booked there.

    Args:
        has_tool: Whether the agent has the tool `render_a2ui` itself; otherwise it is offered one.
    """

    def __init__(self, *, has_tool: bool = True) -> None:
        self._has_tool = has_tool
        self.made: list[tuple[str, str]] = []
        """The names and ferries."""
        self.app = Starlette(routes=[Route("/", self._answer, methods=["POST"])])

    async def _answer(self, request: Request) -> Response:
        tools = (self.book_ferry, render_a2ui) if self._has_tool else (self.book_ferry,)
        outputs = [str, DeferredToolRequests]
        agent = Agent(FunctionModel(stream_function=_speak), tools=tools, output_type=outputs)
        answer: Response = await AGUIAdapter.dispatch_request(request, agent=agent)
        return answer

    def book_ferry(self, name: str, ferry: str) -> str:
        """Book a ferry."""
        self.made.append((name, ferry))
        return f"Booked {ferry} for {name}."


def render_a2ui(
    surfaceId: str,  # noqa: N803 - as the field names it
    components: list[dict[str, Any]],
    data: dict[str, Any] | None = None,
    intent: str = "create",
) -> dict[str, str]:
    """Show a surface."""
    return {"status": "rendered"}


async def _speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    """Show a form to whoever asks, book what was entered and pressed, and say on the form what was booked."""
    last = messages[-1].parts[-1]
    match last:
        case ToolReturnPart(tool_name="log_a2ui_event"):
            yield _call("book_ferry", _pressed(messages, last.tool_call_id)["context"])
        case ToolReturnPart(tool_name="book_ferry"):
            said = {"id": "said", "component": "Text", "text": last.content}
            yield _call("render_a2ui", {"surfaceId": "ferry", "components": [said], "intent": "update"})
        case ToolReturnPart():
            yield "Here you are."
        case _:
            shown = {"surfaceId": "ferry", "components": FORM, "data": {"name": "", "ferry": ["dawn"]}}
            yield _call("render_a2ui", shown)


def _call(name: str, arguments: Any) -> dict[int, DeltaToolCall]:
    return {0: DeltaToolCall(name=name, json_args=json.dumps(arguments))}


def _pressed(messages: list[ModelMessage], call_id: str) -> dict[str, Any]:
    calls = [part for each in messages if isinstance(each, ModelResponse) for part in each.parts]
    (call,) = [each for each in calls if isinstance(each, ToolCallPart) and each.tool_call_id == call_id]
    return call.args_as_dict()
