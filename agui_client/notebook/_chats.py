"""Agents in the chat elements of marimo and Panel."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ag_ui.core import (
    Event,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from agui_client._core.protocol.message_text import content_text
from agui_client._rendering.drawing import Drawings
from agui_client._rendering.story import Speakers, calls_in, read_json
from agui_client.errors import UsageError
from agui_client.notebook._content import conversation, waiting_lines
from agui_client.notebook._elements import page
from agui_client.notebook._inert_markdown import InertMarkdown

if TYPE_CHECKING:
    from agui_client._core.agent.agent import AbstractAgent
    from agui_client._core.verbs.async_run import AgentRun

_SECONDS_APART = 0.1


def marimo_chat(agent: AbstractAgent) -> Callable[[Sequence[Any], Any], AsyncIterator[dict[str, Any]]]:
    """Make the model of a chat of marimo: `mo.ui.chat(marimo_chat(agent))`.

    marimo shows the text, the reasoning and the tool calls while they arrive, and its button stops the run. A message
    that is sent while a run is in progress steers that run, whose reply has what the agent says to it.

    Args:
        agent: The agent, whose conversation continues with each message of the chat.
    """

    async def model(messages: Sequence[Any], config: Any) -> AsyncIterator[dict[str, Any]]:
        """Answer the last message, in parts as marimo reads them."""
        if _has_steered(agent, prompt := _prompt(messages[-1])):
            return
        texts = defaultdict[str, InertMarkdown](InertMarkdown)
        async with agent.stream(prompt) as run:
            async for event in run:
                for chunk in _chunks(event, run, texts):
                    yield chunk
            result = await run.result()
        for number, line in enumerate(waiting_lines(result.interrupts, result.pending_tool_calls)):
            yield {"type": "text-start", "id": f"waiting-{number}"}
            yield {"type": "text-delta", "id": f"waiting-{number}", "delta": line.markdown()}
            yield {"type": "text-end", "id": f"waiting-{number}"}

    return model


def panel_chat(agent: AbstractAgent) -> Callable[[object, str, Any], AsyncIterator[ChatReply]]:
    """Make the callback of a chat of Panel: `pn.chat.ChatInterface(callback=panel_chat(agent))`.

    The reply is shown as in a notebook, with reasoning, tool calls and their views, at most ten times a second. A
    message that is sent while a run is in progress steers that run, whose reply has what the agent says to it.

    Args:
        agent: The agent, whose conversation continues with each message of the chat.
    """

    async def reply(contents: object, user: str, instance: Any) -> AsyncIterator[ChatReply]:
        """Reply to a message; each reply takes the place of the one before."""
        drawings, drawn_at = Drawings(), time.monotonic()
        if _has_steered(agent, str(contents)):
            return
        async with agent.stream(str(contents)) as run:
            async for event in run:
                is_end = isinstance(event, TextMessageEndEvent | ReasoningMessageEndEvent | ToolCallEndEvent)
                if is_end or time.monotonic() - drawn_at > _SECONDS_APART:
                    yield ChatReply(run, drawings)
                    drawn_at = time.monotonic()
            await run.result()
            yield ChatReply(run, drawings)

    return reply


class ChatReply:
    """A reply so far, as HTML.

    Args:
        run: The run, in its block.
        drawings: What views drew of it before.
    """

    def __init__(self, run: AgentRun, drawings: Drawings) -> None:
        result = run.partial
        messages = [each for each in result.new_messages if each.role != "user"]
        speakers = Speakers(result.subagents)
        calls = calls_in(messages, result.tool_executions, result.answered, speakers)
        elements = conversation(messages, calls, drawings, speakers)
        self._html = page([*elements, *waiting_lines(result.interrupts, result.pending_tool_calls, speakers)])

    def _repr_html_(self) -> str:
        return self._html


def _has_steered(agent: AbstractAgent, prompt: str) -> bool:
    """Give a message to the run that is in progress, if there is one that still takes it."""
    try:
        agent.steer(prompt)
    except UsageError:
        return False
    return True


def _prompt(message: Any) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(part.text for part in message.parts if part.type == "text")


def _chunks(event: Event, run: AgentRun, texts: Mapping[str, InertMarkdown]) -> Iterator[dict[str, Any]]:
    """Write an event as parts of the stream protocol of the AI SDK, which marimo's chat reads.

    Args:
        texts: The texts that arrive, by the ids of their messages; it makes those that are not there.
    """
    match event:
        case TextMessageStartEvent() | ReasoningMessageStartEvent():
            yield {"type": f"{_kind(event)}-start", "id": event.message_id}
        case TextMessageContentEvent() | ReasoningMessageContentEvent():
            if delta := texts[event.message_id].feed(event.delta):
                yield {"type": f"{_kind(event)}-delta", "id": event.message_id, "delta": delta}
        case TextMessageEndEvent() | ReasoningMessageEndEvent():
            if delta := texts[event.message_id].end():
                yield {"type": f"{_kind(event)}-delta", "id": event.message_id, "delta": delta}
            yield {"type": f"{_kind(event)}-end", "id": event.message_id}
        case ToolCallStartEvent():
            yield {"type": "tool-input-start", "toolCallId": event.tool_call_id, "toolName": event.tool_call_name}
        case ToolCallArgsEvent():
            yield {"type": "tool-input-delta", "toolCallId": event.tool_call_id, "inputTextDelta": event.delta}
        case ToolCallEndEvent():
            call = run.tool_calls[event.tool_call_id]
            about = {"toolCallId": call.tool_call_id, "toolName": call.name}
            yield {"type": "tool-input-available", **about, "input": read_json(call.arguments_text)}
        case ToolCallResultEvent():
            output = read_json(content_text(event.content, "\n"))
            yield {"type": "tool-output-available", "toolCallId": event.tool_call_id, "output": output}
        case _:
            pass


def _kind(event: Event) -> str:
    return "text" if event.type.value.startswith("TEXT") else "reasoning"
