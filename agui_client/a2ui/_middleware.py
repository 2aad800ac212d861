"""`A2UI`: what the official middleware does for agents that have none in front of them.

The agent reads which components there are, and what a person pressed, of its input; a call of `render_a2ui` that it
leaves without a result gets one. Surfaces need no translation: `Surfaces` reads them of calls and results.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ag_ui.core import (
    AssistantMessage,
    Context,
    EventType,
    FunctionCall,
    Message,
    RunFinishedEvent,
    Tool,
    ToolCall,
    ToolCallChunkEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from agui_client._core.protocol.schema import is_object
from agui_client.a2ui._actions import action_in
from agui_client.a2ui._catalog import component_schema
from agui_client.a2ui._words import EVENT_TOOL, GUIDE_CONTEXT, RENDER_TOOL, SCHEMA_CONTEXT

if TYPE_CHECKING:
    from ag_ui.core import Event, RunAgentInput

_GUIDE = (
    f"Call {RENDER_TOOL} to show the person a surface. Give surfaceId, an id of your choice; components, a flat array "
    'in which each component has an id and a component name of the schema, one of them has the id "root", and children '
    "are named by their ids; and data, the object that components are bound to with {path}. Bind every input, or what "
    "the person enters is lost. To be told of a press, give a Button an action {event: {name, context}}, with what you "
    "want to know in the context as {path}. A call with the surfaceId of a surface that is there replaces it; with "
    'intent "update" it changes it.'
)
_RENDERED = json.dumps({"status": "rendered"})


class A2UI:
    """Middleware for agents that send surfaces: `agent.use(A2UI())`.

    Args:
        render_tool: Whether the agent is offered the tool `render_a2ui`; False for agents with tools of their own.
        catalog: What is drawn, as the agent reads it: `{"catalogId": …, "components": {name: JSON Schema}}`; the
            components of the basic catalog if left out. With `{}` the agent reads of no components.
    """

    def __init__(self, *, render_tool: bool = False, catalog: Mapping[str, Any] | None = None) -> None:
        self.render_tool = render_tool
        """Whether the agent is offered the tool `render_a2ui`."""
        self.catalog: Mapping[str, Any] = component_schema() if catalog is None else catalog
        """The catalog of components, as the agent reads it."""

    async def __call__(
        self, input: RunAgentInput, next: Callable[[RunAgentInput], AsyncIterator[Event]]
    ) -> AsyncIterator[Event]:
        """Run the rest of the chain with an input that tells about surfaces.

        Args:
            input: The input of the run.
            next: The rest of the chain.
        """
        unanswered: dict[str, str | None] = {}
        async for event in next(self._told(input)):
            match event:
                case ToolCallStartEvent() | ToolCallChunkEvent() if event.tool_call_name == RENDER_TOOL:
                    if event.tool_call_id is not None:
                        unanswered[event.tool_call_id] = event.subagent_run_id
                case ToolCallResultEvent():
                    unanswered.pop(event.tool_call_id, None)
                case RunFinishedEvent():
                    for tool_call_id, owner in unanswered.items():
                        yield _rendered(tool_call_id, owner)
                case _:
                    pass
            yield event

    def _told(self, input: RunAgentInput) -> RunAgentInput:
        changes: dict[str, Any] = {"messages": [*input.messages, *_action_messages(input)]}
        added: list[Context] = []
        if self.catalog:
            added.append(Context(description=SCHEMA_CONTEXT, value=json.dumps(self.catalog, ensure_ascii=False)))
        if self.render_tool:
            added.append(Context(description=GUIDE_CONTEXT, value=_GUIDE))
            changes["tools"] = [*(each for each in input.tools or () if each.name != RENDER_TOOL), _render_tool()]
            if input.forwarded_props is None or is_object(input.forwarded_props):
                changes["forwarded_props"] = {**(input.forwarded_props or {}), "injectA2UITool": True}
        replaced = {each.description for each in added}
        changes["context"] = [*(each for each in input.context or () if each.description not in replaced), *added]
        return input.model_copy(update=changes)


def _action_messages(input: RunAgentInput) -> list[Message]:
    """Return the messages that tell of an action; they are part of this run alone."""
    if (action := action_in(input)) is None:
        return []
    call_id, arguments = str(uuid4()), json.dumps(action.user_action(), ensure_ascii=False)
    context = json.dumps(dict(action.context), ensure_ascii=False, separators=(",", ":"))
    component = f" (component: {action.component_id})" if action.component_id else ""
    sentence = f'User performed action "{action.name}" on surface "{action.surface_id}"{component}. Context: {context}'
    call = ToolCall(id=call_id, function=FunctionCall(name=EVENT_TOOL, arguments=arguments))
    return [
        AssistantMessage(id=str(uuid4()), content="", tool_calls=[call]),
        ToolMessage(id=str(uuid4()), tool_call_id=call_id, content=sentence),
    ]


def _rendered(tool_call_id: str, owner: str | None) -> ToolCallResultEvent:
    return ToolCallResultEvent(
        type=EventType.TOOL_CALL_RESULT,
        message_id=str(uuid4()),
        tool_call_id=tool_call_id,
        content=_RENDERED,
        subagent_run_id=owner,
    )


def _render_tool() -> Tool:
    return Tool(
        name=RENDER_TOOL,
        description="Show the person a user interface of components, as A2UI v0.9 has them. The context says how.",
        parameters={
            "type": "object",
            "properties": {
                "surfaceId": {"type": "string", "description": "The id of the surface."},
                "components": {
                    "type": "array",
                    "items": {"type": "object"},
                    "description": "The components, flat; one has the id root.",
                },
                "data": {"type": "object", "description": "The data that components are bound to."},
                "intent": {"enum": ["create", "update"], "description": "update changes a surface that is there."},
            },
            "required": ["surfaceId", "components"],
        },
    )
