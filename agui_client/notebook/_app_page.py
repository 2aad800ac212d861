"""A page of an MCP server below a cell: `prompt = await opened(app, agent)`.

To change

- a page of a tool in a notebook: this module answers what it asks, `notebook/app_page.js` passes it on
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from agui_client._core.agent.agent import AbstractAgent
from agui_client._rendering.app_text import app_text
from agui_client.errors import AGUIError, ToolError, UsageError
from agui_client.mcp_apps import App
from agui_client.mcp_apps._frame import frame_document
from agui_client.notebook._cell_widget import CellWidget, has_widgets
from agui_client.notebook._elements import ROOT_CLASSES, Line, bundle
from agui_client.notebook._presses import Presses

_RULES = ".agui-app-frame{border:1px solid var(--agui-line);box-sizing:border-box;height:240px;width:100%}"


async def opened(app: App, agent: AbstractAgent) -> str | None:
    """Show the page of a call below the cell, until a person closes it or sends a message that it suggests.

    The page lives in frames that load, send and read nothing. What it asks of its server goes to the agent, as
    `App.request` does; its links and messages wait for a click. Afterwards, and in a saved notebook, there is its
    address with the text of the result.

    Args:
        app: One of `apps_in(result.messages)`.
        agent: The agent whose conversation it is in.

    Returns:
        The message to send, such as by `await agent.run_agent(prompt)`; None if the page was closed.

    Raises:
        UsageError: The package anywidget is missing.
        ToolError: There is no page, or its server does not give it.
    """
    if not has_widgets():
        raise UsageError("a page is shown with the package anywidget: pip install 'agui-client[notebook]'")
    page = await app.page(agent)
    given = {
        "html": page.html,
        "arguments": {**app.arguments},
        "result": {**app.result},
        "wanted": [*page.wanted_domains],
    }
    shown = {"classes": ROOT_CLASSES, "rules": _RULES, "page": given, "frame": frame_document()}
    static, messages = bundle([Line(app_text(app))]), Presses()
    widget = CellWidget("app_page", shown, static, messages.receive)
    message: Mapping[str, Any] = {}
    try:
        async with anyio.create_task_group() as requests:
            while "method" in (message := await messages.next(widget)):
                requests.start_soon(_answer, app, agent, widget, message)
            requests.cancel_scope.cancel()
    finally:
        messages.close()
        widget.replace(static)
    return str(message["say"]) if "say" in message else None


async def _answer(app: App, agent: AbstractAgent, widget: CellWidget, message: Mapping[str, Any]) -> None:
    """Have the server of a page answer a request of it."""
    answer: dict[str, Any]
    try:
        answer = {"result": await app.request(agent, str(message["method"]), message.get("params") or {})}
    except ToolError as error:
        answer = {"error": error.message}
    except AGUIError as error:
        answer = {"error": f"the request failed: {type(error).__name__}"}
    widget.send({"id": message.get("id"), **answer})
