"""Results of tool calls that the application gives itself: `tool_results={tool_call_id: ...}` (TOOL-10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from ag_ui.core import ToolMessage

from agui_client._tools.approval import Deny
from agui_client.errors import ToolError, UsageError
from agui_client.messages import content_of


def tool_messages(results: Mapping[str, Any]) -> list[ToolMessage]:
    """Make the tool messages that carry results of tool calls.

    Args:
        results: The results by tool call id: a `ToolError`, a `Deny`, or anything that `content_of` takes.

    Raises:
        UsageError: A result has no JSON form.
    """
    messages: list[ToolMessage] = []
    for tool_call_id, value in results.items():
        failure = value.message if isinstance(value, ToolError) else value.reason if isinstance(value, Deny) else None
        try:
            content = content_of(value) if failure is None else failure
        except ValueError as error:
            raise UsageError(f"the result of tool call {tool_call_id!r} is not JSON: {error}") from error
        messages.append(ToolMessage(id=str(uuid4()), tool_call_id=tool_call_id, content=content, error=failure))
    return messages
