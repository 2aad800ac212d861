"""An MCP server of the official SDK for tests; as a program it speaks stdio or HTTP."""

from __future__ import annotations

import os
import socket
import sys
from typing import Annotated, Any

import anyio
from mcp import MCPError
from mcp.server.mcpserver import Context, Elicit, Image, MCPServer, Resolve
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    METHOD_NOT_FOUND,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    DiscoverResult,
    ElicitResult,
    EmbeddedResource,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    RequestParams,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

PIXEL = b"\x89PNG\r\n"
"""The bytes of the image."""


class Table(BaseModel):
    """An answer to the server's question."""

    seats: int


def ask_for_table(day: str) -> Elicit[Table]:
    """Ask how many seats the table is to have."""
    return Elicit(f"How many seats on {day}?", Table)


class Drink(BaseModel):
    """An answer to the server's second question."""

    name: str


def ask_for_seats(dish: str) -> Elicit[Table]:
    """Ask for how many people a dish is."""
    return Elicit(f"How many seats for {dish}?", Table)


def ask_for_drink(table: Annotated[Table, Resolve(ask_for_seats)]) -> Elicit[Drink]:
    """Ask for the drink, after the number of people."""
    return Elicit(f"A drink for {table.seats}?", Drink)


def make_server(name: str = "house") -> MCPServer:  # noqa: C901 - a list of functions
    """Make a server with a tool for each kind of result, question and failure."""
    server = MCPServer(name, log_level="ERROR")

    @server.tool()
    def add(a: int, b: int = 1) -> CallToolResult:
        """Add two numbers."""
        return CallToolResult(content=[TextContent(text=str(a + b))])

    @server.tool()
    def measure(city: str) -> dict[str, int | str]:
        """Measure the temperature."""
        return {"city": city, "celsius": 18}

    @server.tool()
    def draw() -> list[Image | str]:
        """Draw a picture."""
        return ["A pixel:", Image(data=PIXEL, format="png")]

    @server.tool()
    def show_everything() -> CallToolResult:
        """Return the other kinds of content."""
        text = TextResourceContents(uri="file:///note.txt", text="A note.")
        blob = BlobResourceContents(uri="file:///paper.pdf", blob="JVBERg==", mime_type="application/pdf")
        return CallToolResult(
            content=[
                AudioContent(data="UklGRg==", mime_type="audio/wav"),
                ResourceLink(name="report", uri="file:///report.txt"),
                EmbeddedResource(resource=text),
                EmbeddedResource(resource=blob),
            ]
        )

    @server.tool()
    def fail() -> CallToolResult:
        """Fail, and say why."""
        return CallToolResult(content=[TextContent(text="The oven is off.")], is_error=True)

    @server.tool()
    async def count(to: int, ctx: Context) -> str:
        """Count, and report progress."""
        for number in range(1, to + 1):
            await ctx.report_progress(number, to, f"{number}")
        return "done"

    @server.tool()
    def reserve(day: str, table: Annotated[Table, Resolve(ask_for_table)]) -> CallToolResult:
        """Reserve a table, and ask for its size: as the version of the protocol has it."""
        return CallToolResult(content=[TextContent(text=f"{table.seats} seats on {day}")])

    @server.tool()
    def order(
        dish: str, table: Annotated[Table, Resolve(ask_for_seats)], drink: Annotated[Drink, Resolve(ask_for_drink)]
    ) -> CallToolResult:
        """Order, and ask two questions."""
        return CallToolResult(content=[TextContent(text=f"{dish} and {drink.name} for {table.seats}")])

    @server.tool()
    async def confirm(ctx: Context) -> str:
        """Ask for a yes or no, by a form without fields; older versions of the protocol only."""
        answer: ElicitResult = await ctx.session.elicit_form("Really?", {"type": "object", "properties": {}})
        return answer.action

    @server.tool()
    async def rent(ctx: Context) -> str:
        """Ask by a form that says what is usual; older versions of the protocol only."""
        fields = {"days": {"type": "integer", "default": 3}, "car": {"type": "string"}}
        answer = await ctx.session.elicit_form("Which car?", {"type": "object", "properties": fields})
        return str(answer.content)

    @server.tool()
    async def open_page(ctx: Context) -> str:
        """Have the person open a page; older versions of the protocol only."""
        answer = await ctx.elicit_url("Please sign in.", "https://house.example/login", "login-1")
        return answer.action

    @server.tool()
    async def dream(ctx: Context) -> str:
        """Have the client's model write; older versions of the protocol only."""
        message = SamplingMessage(role="user", content=TextContent(text="Dream."))
        await ctx.session.create_message([message], max_tokens=10)  # pyright: ignore[reportDeprecated] - it is refused
        return "dreamt"

    @server.tool()
    async def wait() -> str:
        """Never come to an end."""
        await anyio.sleep_forever()
        return "never"

    @server.tool("a tool with an odd name that is far too long for the providers of language models")
    def odd() -> CallToolResult:
        """Have an odd name."""
        return CallToolResult(content=[TextContent(text="odd")])

    @server.tool()
    def die() -> str:
        """End the server's process in the middle of the call."""
        os._exit(1)

    @server.tool()
    def get_pid() -> CallToolResult:
        """Return the number of the server's process."""
        return CallToolResult(content=[TextContent(text=str(os.getpid()))])

    @server.tool()
    def get_authorization(ctx: Context) -> CallToolResult:
        """Return the credentials of the request."""
        headers = ctx.headers or {}
        return CallToolResult(content=[TextContent(text=headers.get("authorization", "none"))])

    return server


def make_older_server() -> MCPServer:
    """Make a server that knows the protocol as it was before `server/discover`: it asks in the middle of a call."""
    server = make_server()

    async def refuse(context: Any, params: RequestParams) -> DiscoverResult:
        raise MCPError(METHOD_NOT_FOUND, "Method not found")

    server._lowlevel_server.add_request_handler("server/discover", RequestParams, refuse)
    return server


async def speak_older_stdio() -> None:
    """Speak stdio as before `server/discover`: the SDK's server takes the very question for the present version."""
    server = make_server()._lowlevel_server
    async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as tasks:
        forward, forwarded = anyio.create_memory_object_stream[SessionMessage | Exception]()
        tasks.start_soon(server.run, forwarded, outgoing, server.create_initialization_options())
        async with forward:
            async for item in incoming:
                asked = item.message if isinstance(item, SessionMessage) else None
                if isinstance(asked, JSONRPCRequest) and asked.method == "server/discover":
                    refusal = ErrorData(code=METHOD_NOT_FOUND, message="Method not found")
                    await outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=asked.id, error=refusal)))
                else:
                    await forward.send(item)


def main() -> None:
    """Serve until the process is killed: over stdio, or over HTTP on a port of its own, which it prints."""
    if sys.argv[1] == "stdio":
        anyio.run(speak_older_stdio if "--older" in sys.argv else make_server().run_stdio_async)
        return
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(listener.getsockname()[1], flush=True)  # noqa: T201
    app = make_server().streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_config=None)).run(sockets=[listener])


if __name__ == "__main__":
    main()
