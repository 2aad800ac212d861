"""An MCP server with a page: a board on which the agent shows a place, and the page moves a stone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, TextContent

PAGE_URI, OTHER_URI = "ui://board/page", "ui://board/other"
PAGE = "<!doctype html><title>board</title><p id=board>A board.</p>"


def make_board(page: str = PAGE) -> tuple[MCPServer, list[str]]:
    """Make the server, and a list that gets each move, and what each client says of pages when it lists the board.

    Args:
        page: The page.
    """
    server, seen = MCPServer("board"), list[str]()
    about = {"resourceUri": PAGE_URI}

    @server.tool(meta={"ui": about})
    def show_board(place: str, ctx: Context[Any, Any]) -> CallToolResult:
        """Show the board."""
        stones = {"place": place, "stones": 3}
        return CallToolResult(content=[TextContent(text=f"A board at {place}.")], structured_content=stones)

    @server.tool(meta={"ui": {**about, "visibility": ["app"]}})
    def move(stone: int) -> str:
        """Move a stone."""
        seen.append(f"moved {stone}")
        return f"moved {stone}"

    @server.tool(meta={"ui": {**about, "visibility": ["model"]}})
    def wipe() -> str:
        """Wipe the board."""
        seen.append("wiped")
        return "wiped"

    @server.tool(meta={"ui/resourceUri": OTHER_URI})
    def older() -> str:
        """Name the page as servers did before the standard."""
        return "older"

    @server.tool()
    def plain() -> str:
        """Do something without a page."""
        return "plain"

    csp = {"ui": {"csp": {"connectDomains": ["https://stones.example"], "resourceDomains": ["https://cdn.example"]}}}
    pages = {PAGE_URI: page, OTHER_URI: "<p>older", "ui://board/secret": "secret", "file:///etc/passwd": "root"}
    for uri, text in pages.items():
        kind: Any = {"name": uri, "mime_type": "text/html;profile=mcp-app", "meta": csp if uri == PAGE_URI else None}
        server.resource(uri, **kind)(_returning(text))
    return server, seen


def _returning(text: str) -> Callable[[], str]:
    def read() -> str:
        return text

    return read
