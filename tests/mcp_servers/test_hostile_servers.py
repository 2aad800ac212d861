"""A tool server whose list has no end, or whose schemas take for ever to check, holds up nothing."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Sequence
from itertools import count
from time import thread_time
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'agui-client[mcp]'")

import mcp_types
from mcp.server.lowlevel import Server

from agui_client import HttpAgent, RunTimeoutError, Timeouts, ToolsetError, UsageError
from agui_client.mcp import mcp_server
from agui_client.testing import ScriptedAgent, serve, text, tool_call, turn
from support.tool_rounds import results_in, tools_sent

pytestmark = pytest.mark.anyio

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
SECONDS = 10.0
"""More than a call may take on a slow machine, and less than a pattern that backtracks."""
CANNOT_BE_USED = "The tool server lister sent a result that cannot be used; the effect of the call is unknown."
BACKTRACKING = "^(a+)+$"
ALMOST = "a" * 27 + "b"


def named(*names: str) -> list[mcp_types.Tool]:
    return [mcp_types.Tool(name=name, input_schema={"type": "object"}) for name in names]


class Lister:
    """A server whose pages and result a test chooses.

    Args:
        pages: The pages, each with the cursor that it ends with; the last one comes again and again.
        result: The structured content that every tool returns; None for a result without any.
    """

    def __init__(self, *pages: tuple[list[mcp_types.Tool], str | None], result: Any = None) -> None:
        self.server = Server("lister", on_list_tools=self._list, on_call_tool=self._call)
        self.cursors: list[str | None] = []
        self.is_silent = False
        self._pages, self._result = pages, result

    async def _list(self, ctx: Any, params: mcp_types.PaginatedRequestParams | None) -> mcp_types.ListToolsResult:
        if self.is_silent:
            await anyio.sleep_forever()
        tools, cursor = self._pages[min(len(self.cursors), len(self._pages) - 1)]
        self.cursors.append(params.cursor if params else None)
        return mcp_types.ListToolsResult(tools=tools, next_cursor=cursor)

    async def _call(self, ctx: Any, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        if self._result is None:
            return mcp_types.CallToolResult(content=[])
        return mcp_types.CallToolResult(content=[], structured_content=self._result)


def endless() -> Server[Any]:
    """A server that always has another page."""
    pages = count()

    async def list_tools(ctx: Any, params: object) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=named("add"), next_cursor=f"page-{next(pages)}")

    return Server("endless", on_list_tools=list_tools)


async def test_pages_end_at_a_cursor_that_comes_again_or_after_too_many_tools_and_offer_each_tool_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lister = Lister((named("add"), "second"), (named("draw", "add"), "third"), (named("draw", "wait"), "second"))
    agent = ScriptedAgent(turn(text("Done.")), tools=mcp_server(lister.server))
    with caplog.at_level(logging.WARNING, "agui_client.mcp"), anyio.fail_after(SECONDS):
        await agent.run_agent("Hi")
    assert tools_sent(agent.inputs[0]) == ["add", "draw", "wait"]
    assert lister.cursors == [None, "second", "third"]
    [warning] = [record.getMessage() for record in caplog.records if record.name == "agui_client.mcp"]
    assert "lister sent the cursor of a page twice" in warning

    names = [f"tool-{number}" for number in range(5001)]
    lister = Lister((named(*names), "second"), (named("another"), None))
    agent = ScriptedAgent(turn(text("Done.")), tools=mcp_server(lister.server))
    with caplog.at_level(logging.WARNING, "agui_client.mcp"), anyio.fail_after(5 * SECONDS):
        await agent.run_agent("Hi")
    assert tools_sent(agent.inputs[0]) == names
    assert "lister lists more than 5000, so its list has no end" in caplog.text


@pytest.mark.parametrize("is_endless", [True, False], ids=["always another page", "silent"])
async def test_a_list_that_does_not_end_is_ended_by_the_time_limit_of_the_server_and_by_the_total(
    is_endless: bool,
) -> None:
    lister = Lister((named("add"), None))
    lister.is_silent = True
    server = endless() if is_endless else lister.server
    nowhere = "http://127.0.0.1:9/"
    with anyio.fail_after(2 * SECONDS):
        with pytest.raises(ToolsetError, match=r"longer than 0\.1 s; raise timeout= of mcp_server"):
            await HttpAgent(nowhere, tools=mcp_server(server, timeout=0.1)).run_agent("Hi")
        with pytest.raises(RunTimeoutError, match=r"raise Timeouts\.total"):
            await HttpAgent(nowhere, tools=mcp_server(server), timeout=Timeouts(total=0.1)).run_agent("Hi")


@on_asyncio
async def test_a_server_that_is_silent_in_the_middle_of_a_call_keeps_the_tools_that_it_listed() -> None:
    lister = Lister((named("add"), None))
    agent = ScriptedAgent(turn(tool_call("add", {})), turn(text("Done.")), tools=mcp_server(lister.server, timeout=1.0))
    with anyio.fail_after(SECONDS):
        async with agent.stream("Hi") as run:
            async for _ in run:
                lister.is_silent = True
    assert [tools_sent(each) for each in agent.inputs] == [["add"], ["add"]]


@on_asyncio
@pytest.mark.parametrize("timeout", [0, -1, True, "1"])
async def test_a_time_limit_is_a_number_above_zero(timeout: Any) -> None:
    with pytest.raises(UsageError, match="timeout= of a tool server is a number of seconds above zero"):
        mcp_server(endless(), timeout=timeout)


async def called(schema: dict[str, Any], result: Any) -> Sequence[tuple[Any, str | None]]:
    """Return the results of a call whose tool has an output schema."""
    tool = mcp_types.Tool(name="add", input_schema={"type": "object"}, output_schema=schema)
    lister = Lister(([tool], None), result=result)
    agent = ScriptedAgent(turn(tool_call("add", {})), turn(text("Done.")), tools=mcp_server(lister.server))
    run = await agent.run_agent("Hi")
    return [(content, error) for _, content, error in results_in(run.new_messages)]


@on_asyncio
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"text": {"pattern": BACKTRACKING}}},
        {"properties": {"text": {"$ref": "#/$defs/text"}}, "$defs": {"text": {"pattern": BACKTRACKING}}},
        {"properties": {"names": {"patternProperties": {BACKTRACKING: {}}, "additionalProperties": False}}},
    ],
    ids=["pattern", "a reference to one", "patternProperties"],
)
async def test_patterns_of_a_server_take_linear_time_on_the_results_of_its_tools(schema: dict[str, Any]) -> None:
    schema = {"type": "object", **schema}
    begun = thread_time()
    [(content, error)] = await called(schema, {"text": ALMOST, "names": {ALMOST: 1}})
    [fitting] = await called(schema, {"text": ALMOST[:-1], "names": {ALMOST[:-1]: 1}})
    assert thread_time() - begun < SECONDS
    assert (content, "cannot be used" in (error or "")) == (error, True)
    assert fitting == (f'{{"text":"{ALMOST[:-1]}","names":{{"{ALMOST[:-1]}":1}}}}', None)


@on_asyncio
@pytest.mark.parametrize("result", [{"celsius": "warm"}, None], ids=["misfit", "no structured content"])
async def test_a_result_that_does_not_fit_the_schema_of_its_tool_is_a_failed_call(result: Any) -> None:
    [(_, error)] = await called({"type": "object", "properties": {"celsius": {"type": "integer"}}}, result)
    assert error == CANNOT_BE_USED


def refusing(answer: Callable[[str, str], Sequence[bytes]]) -> Any:
    """A server over HTTP that answers each message with the chunks that a function makes of its credentials.

    Args:
        answer: A function of the header Authorization and of the query.
    """

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        message = await receive()
        headers = dict(scope["headers"])
        chunks = answer(headers.get(b"authorization", b"").decode(), scope["query_string"].decode())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        for each in chunks:
            body = each.replace(b"ID", str(json.loads(message["body"]).get("id")).encode())
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


@on_asyncio
async def test_a_server_that_tells_its_credentials_again_shows_them_in_no_error_and_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    told = list[tuple[str, str]]()

    def answer(authorization: str, query: str) -> Sequence[bytes]:
        told.append((authorization, query))
        error = {"code": -32000, "message": f"refused {authorization}\nERROR and {query}"}
        return [json.dumps({"jsonrpc": "2.0", "id": "ID", "error": error}).replace('"ID"', "ID").encode()]

    with serve(refusing(answer)) as server:
        tools = mcp_server(f"{server.url}mcp?api_key=s3cret-a&to=b", headers={"Authorization": "Bearer s3cret-c"})
        with (
            anyio.fail_after(SECONDS * 5),
            pytest.raises(ToolsetError, match=r"refused Bearer \[redacted\] ERROR") as caught,
        ):
            await ScriptedAgent(turn(text("Hi")), tools=tools).run_agent("Hi")
    assert set(told) == {("Bearer s3cret-c", "api_key=s3cret-a&to=b")}
    logged = [each.getMessage() for each in caplog.records if not each.name.startswith("uvicorn")]  # the server's own
    assert "s3cret" not in "".join((*traceback.format_exception(caught.value), *logged))


@on_asyncio
async def test_an_answer_without_an_end_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    def answer(*about: str) -> Sequence[bytes]:
        return [b" " * 34_000_000] * 2

    with serve(refusing(answer)) as server, anyio.fail_after(SECONDS * 5), pytest.raises(ToolsetError):
        await ScriptedAgent(turn(text("Hi")), tools=mcp_server(f"{server.url}mcp")).run_agent("Hi")
    assert "an MCP server sent more than 67108864 bytes in one response, which is dropped" in caplog.text
