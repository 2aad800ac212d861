"""Messages of LangChain as those of the protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ag_ui.core import AssistantMessage, FunctionCall, SystemMessage, ToolCall, ToolMessage, UserMessage
from langchain_core import messages as theirs
from langchain_core.prompt_values import PromptValue

from agui_client.errors import UsageError

if TYPE_CHECKING:
    from ag_ui.core import Message


def messages_of(parts: Sequence[Any]) -> list[Message]:
    """Return the conversation that a runnable gets.

    Args:
        parts: The input, which comes in parts behind a runnable that streams.

    Raises:
        UsageError: A message has content that is not text, or a role that agents do not know.
    """
    given = parts[0]
    for each in parts[1:]:
        given = given + each
    if isinstance(given, PromptValue):
        given = given.to_messages()
    several: Any = [given] if isinstance(given, str | Mapping | theirs.BaseMessage) else given
    return [_message(each, f"m{at}") for at, each in enumerate(theirs.convert_to_messages(several))]


def _message(message: theirs.BaseMessage, new_id: str) -> Message:
    if any(not isinstance(each, str) and each.get("type") != "text" for each in message.content):
        raise UsageError(
            f"a {message.type} message has content that is not text, which langchain_runnable() does not send"
        )
    text, its_id = str(message.text), message.id or new_id
    match message:
        case theirs.HumanMessage():
            return UserMessage(content=text, id=its_id)
        case theirs.SystemMessage():
            return SystemMessage(content=text, id=its_id)
        case theirs.ToolMessage():
            return ToolMessage(content=text, tool_call_id=message.tool_call_id, id=its_id)
        case theirs.AIMessage():
            calls = [
                ToolCall(
                    id=each["id"] or "", function=FunctionCall(name=each["name"], arguments=json.dumps(each["args"]))
                )
                for each in message.tool_calls
            ]
            return AssistantMessage(content=text, tool_calls=calls or None, id=its_id)
        case _:
            raise UsageError(f"langchain_runnable() sends no {message.type} message")
