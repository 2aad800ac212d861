"""What the tests of the tool loop share: tools that note what they are called with, and looks at what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_ui.core import ToolMessage

from agui_client import FunctionTool, tool
from support.verbs import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import Message, RunAgentInput

    from agui_client.testing import ScriptedAgent


class Ran:
    """Two tools, one sync and one async, and what they were called with, in the order in which they ran."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @property
    def tools(self) -> list[FunctionTool[..., Any]]:
        """`look(at)` and `listen()`."""

        @tool
        def look(at: str = "map") -> str:
            """Looks at something."""
            self.calls.append(f"look {at}")
            return f"seen {at}"

        @tool
        async def listen() -> dict[str, bool]:
            """Listens."""
            self.calls.append("listen")
            return {"heard": True}

        return [look, listen]


def told(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as JSON, without the ids that were minted here."""
    minted = ("user", "tool")
    return [
        {name: value for name, value in each.items() if name != "id" or each["role"] not in minted}
        for each in shown(list(messages))
    ]


def results_in(messages: Sequence[Message]) -> list[tuple[str, Any, str | None]]:
    """The results of tool calls: the call, the content, the error."""
    return [
        (message.tool_call_id, message.content, message.error)
        for message in messages
        if isinstance(message, ToolMessage)
    ]


def results_sent(agent: ScriptedAgent) -> list[list[tuple[str, Any, str | None]]]:
    """The results of tool calls that each run was given."""
    return [results_in(asked.messages) for asked in agent.inputs]


def tools_sent(asked: RunAgentInput) -> list[str]:
    """The names of the tools a run was offered."""
    return [each.name for each in asked.tools or ()]
