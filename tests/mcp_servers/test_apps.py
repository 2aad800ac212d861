"""Pages of MCP servers: the activity of a call whose tool has one, and what a page may ask of its server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from ag_ui.core import ActivityMessage, ActivitySnapshotEvent, RunAgentInput, ToolCallResultEvent

pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'agui-client[mcp]'")

import mcp_types
from mcp.server.lowlevel import Server

from agui_client import ApprovalRequest, Approve, Deny, HttpAgent, ToolError, ToolLimits, UsageError
from agui_client.asgi import agent_app
from agui_client.errors import HTTPStatusError
from agui_client.mcp import MCPApps, MCPToolset, mcp_server
from agui_client.mcp_apps import App, apps_in
from agui_client.store import Store
from agui_client.testing import Request, ScriptedAgent, serve_bytes, text, tool_call, turn
from support.mcp_board import OTHER_URI, PAGE, PAGE_URI, make_board

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

RESULT = {
    "content": [{"type": "text", "text": "A board at Oslo."}],
    "structuredContent": {"place": "Oslo", "stones": 3},
    "isError": False,
}


def showing(*servers: MCPToolset, **options: Any) -> ScriptedAgent:
    """An agent that shows the board in Oslo, and then says so."""
    calling = turn(tool_call("show_board", {"place": "Oslo"}, tool_call_id="call-1"))
    return ScriptedAgent(calling, turn(text("There it is.")), tools=list(servers), **options)


async def served(server: MCPToolset, *apps: MCPApps, **options: Any) -> tuple[HttpAgent, App]:
    """A client of a served agent, after a run that showed the board, and the app that it got."""
    agent = showing(server, **options)
    for each in apps:
        agent.use(each)
    client = HttpAgent("http://app/", app=agent_app(agent))
    await client.run_agent("Show me Oslo.")
    [app] = apps_in(client.messages)
    return client, app


def is_move(request: ApprovalRequest) -> bool:
    return request.name == "move"


def denied(request: ApprovalRequest) -> Deny:
    return Deny("No.")


def approved(request: ApprovalRequest) -> bool:
    return True


def changed(request: ApprovalRequest) -> Approve:
    return Approve({"stone": 1})


async def refused(client: HttpAgent, app: App, method: str, params: Mapping[str, Any]) -> str:
    with pytest.raises(ToolError) as caught:
        await app.request(client, method, params)
    return caught.value.message


async def test_a_call_whose_tool_has_a_page_adds_an_activity_behind_its_result() -> None:
    board = mcp_server(make_board()[0], apps=True)
    agent = showing(board)
    async with agent.stream("Show me Oslo.") as run:
        events = [event async for event in run]
    [at] = [place for place, event in enumerate(events) if isinstance(event, ActivitySnapshotEvent)]
    assert isinstance(events[at - 1], ToolCallResultEvent)
    [activity] = [each for each in agent.messages if isinstance(each, ActivityMessage)]
    assert [each.role for each in agent.messages] == ["user", "assistant", "tool", "activity", "assistant"]
    assert activity.activity_type == "mcp-apps"
    content = dict(activity.content)
    assert RESULT.items() <= content.pop("result").items()
    assert content == {
        "resourceUri": PAGE_URI,
        "serverHash": board.app_hash,
        "toolInput": {"place": "Oslo"},
        "toolCallId": "call-1",
    }
    assert [each.role for each in agent.inputs[1].messages] == ["user", "assistant", "tool"]
    twin = showing(board)
    twin.restore(agent.snapshot())
    [app] = apps_in(twin.messages)
    assert (app.resource_uri, app.arguments, app.text) == (PAGE_URI, {"place": "Oslo"}, "A board at Oslo.")


async def test_without_apps_a_page_is_no_activity_and_pages_may_ask_nothing() -> None:
    board = mcp_server(make_board()[0])
    agent = showing(board)
    assert apps_in((await agent.run_agent("Show me Oslo.")).messages) == []
    with pytest.raises(UsageError, match=r"mcp_server\('board'\) shows no pages, .* apps=True"):
        MCPApps(board)
    # Without MCPApps the request is a run like any other, for the agent.
    client, app = await served(mcp_server(make_board()[0], apps=True))
    assert "has to know MCP Apps" in await refused(client, app, "tools/call", {"name": "move"})


async def test_a_page_named_in_the_older_way_counts_and_one_elsewhere_does_not() -> None:
    server, _ = make_board()

    @server.tool(meta={"ui": {"resourceUri": "file:///etc/passwd"}})
    def elsewhere() -> str:
        return "elsewhere"

    calls = [tool_call(name) for name in ("older", "elsewhere", "plain")]
    agent = ScriptedAgent(turn(*calls), turn(text("Done.")), tools=[mcp_server(server, apps=True)])
    assert [each.resource_uri for each in apps_in((await agent.run_agent("Hi")).messages)] == [OTHER_URI]


@pytest.mark.parametrize("apps", [True, False])
async def test_a_server_is_told_that_pages_are_shown_if_they_are(apps: bool) -> None:
    told: list[Any] = []

    async def listed(ctx: Any, params: object) -> mcp_types.ListToolsResult:
        told.append(ctx.session.client_params.capabilities.extensions)
        return mcp_types.ListToolsResult(tools=[])

    server = Server("curious", on_list_tools=listed)
    await ScriptedAgent(turn(text("Hi")), tools=[mcp_server(server, apps=apps)]).run_agent("Hi")
    shown = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
    assert [each or {} for each in told] == [shown if apps else {}]


async def test_a_caller_reads_the_page_and_calls_a_tool_for_it_and_its_conversation_stays() -> None:
    server, seen = make_board()
    board = mcp_server(server, apps=True)
    client, app = await served(board, MCPApps(board))
    before = client.snapshot()
    page = await app.page(client)
    assert (page.html, page.wanted_domains) == (PAGE, ("https://stones.example", "https://cdn.example"))
    moved = await app.request(client, "tools/call", {"name": "move", "arguments": {"stone": 2}})
    assert (moved["content"], seen) == ([{"type": "text", "text": "moved 2"}], ["moved 2"])
    assert await app.request(client, "ping", {}) == {}
    assert await app.request(client, "notifications/message", {"level": "info", "data": "hello"}) == {}
    assert client.snapshot() == before


async def test_a_page_may_ask_nothing_else() -> None:
    server, seen = make_board()
    board = mcp_server(server, apps=True, exclude=["plain"])
    client, app = await served(board, MCPApps(board))
    for name in ("wipe", "plain", "nothing", "", None, ["move"], {"move": 1}):
        assert "has no tool" in await refused(client, app, "tools/call", {"name": name})
    for uri in (
        "ui://board/secret",
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        f"{PAGE_URI}/../secret",
        f"{PAGE_URI}#",
        "http://127.0.0.1/",
        None,
        [PAGE_URI],
    ):
        assert "has its page at" in await refused(client, app, "resources/read", {"uri": uri})
    for method in ("tools/list", "resources/list", "prompts/list", "sampling/createMessage", "initialize", ""):
        assert "may not ask" in await refused(client, app, method, {})
    wrong = await refused(client, app, "tools/call", {"name": "move", "arguments": {"stone": "two"}})
    assert "stone" in wrong
    assert "object" in await refused(client, app, "tools/call", {"name": "move", "arguments": ["stone"]})
    assert seen == []


async def test_a_server_that_the_application_did_not_name_is_not_asked() -> None:
    server, seen = make_board()
    other = mcp_server(make_board()[0], name="other", apps=True)
    client, app = await served(mcp_server(server, apps=True), MCPApps(other))
    assert "no server here" in await refused(client, app, "tools/call", {"name": "move", "arguments": {"stone": 2}})
    assert seen == []


@pytest.mark.parametrize(("approve", "moves"), [(None, 0), (denied, 0), (approved, 1)])
async def test_a_call_of_a_page_waits_for_approval_as_one_of_the_agent_does(approve: Any, moves: int) -> None:
    server, seen = make_board()
    rule = mcp_server(server, apps=True, approval=is_move)
    client, app = await served(rule, MCPApps(rule), approve=approve)
    asked = {"name": "move", "arguments": {"stone": 2}}
    if moves:
        assert (await app.request(client, "tools/call", asked))["content"][0]["text"] == "moved 2"
    else:
        assert ("No." if approve else "nobody is asked") in await refused(client, app, "tools/call", asked)
    assert len(seen) == moves


async def test_an_approver_may_change_what_a_page_calls() -> None:
    server, seen = make_board()
    board = mcp_server(server, apps=True, approval=is_move)
    client, app = await served(board, MCPApps(board), approve=changed)
    await app.request(client, "tools/call", {"name": "move", "arguments": {"stone": 2}})
    assert seen == ["moved 1"]


async def test_a_call_of_a_page_has_its_time() -> None:
    server, _ = make_board()

    @server.tool(meta={"ui": {"visibility": ["app"]}})
    async def think() -> str:
        await anyio.sleep_forever()
        return "never"

    board = mcp_server(server, apps=True)
    client, app = await served(board, MCPApps(board, tool_limits=ToolLimits(timeout=0.05)))
    with anyio.fail_after(20):
        assert "longer than 0.05 seconds" in await refused(client, app, "tools/call", {"name": "think"})


async def test_who_is_not_let_in_reads_no_page() -> None:
    server, seen = make_board()
    board = mcp_server(server, apps=True)
    agent = showing(board).use(MCPApps(board))
    door = agent_app(agent, authorize=lambda method, path, headers: headers.get("authorization") == "key")
    client = HttpAgent("http://app/", app=door, headers={"Authorization": "key"})
    await client.run_agent("Show me Oslo.")
    [app] = apps_in(client.messages)
    assert (await app.page(client)).html == PAGE
    for method, params in (("tools/call", {"name": "move"}), ("resources/read", {"uri": PAGE_URI})):
        with pytest.raises(HTTPStatusError, match="401"):
            await app.request(HttpAgent("http://app/", app=door), method, params)
    assert seen == []


async def test_a_server_that_keeps_threads_stores_none_for_a_request_of_a_page() -> None:
    server, seen = make_board()
    board, store = mcp_server(server, apps=True), Store()
    app = agent_app(showing(board).use(MCPApps(board)), store=store, owner_of=lambda caller: "")
    client = HttpAgent("http://app/", app=app)
    await client.run_agent("Show me Oslo.")
    [shown] = apps_in(client.messages)
    assert (await shown.page(client)).html == PAGE
    await shown.request(client, "tools/call", {"name": "move", "arguments": {"stone": 2}})
    assert [each.thread_id for each in await store.threads.list(owner="")] == [client.thread_id]
    assert seen == ["moved 2"]
    again = HttpAgent("http://app/", app=app, connect_url="http://app/connect", thread_id=client.thread_id)
    await again.connect_agent()
    assert apps_in(again.messages) == [shown]


async def test_an_agent_with_servers_of_its_own_asks_them_and_the_others_of_the_remote_agent() -> None:
    far, far_seen = make_board()
    near, near_seen = make_board()
    theirs, ours = mcp_server(far, name="far", apps=True), mcp_server(near, name="near", apps=True)
    client = HttpAgent("http://app/", app=agent_app(showing(theirs).use(MCPApps(theirs))))
    client.use(MCPApps(ours))
    await client.run_agent("Show me Oslo.")
    [app] = apps_in(client.messages)
    asked = {"name": "move", "arguments": {"stone": 7}}
    await app.request(client, "tools/call", asked)
    own = App("a", PAGE_URI, {}, {}, ours.app_hash, "near")
    await own.request(client, "tools/call", asked)
    assert (far_seen, near_seen) == (["moved 7"], ["moved 7"])
    assert (await own.page(client)).html == PAGE


async def test_the_official_middleware_is_asked_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def answer(request: Request) -> bytes:
        input = RunAgentInput.model_validate_json(request.body)
        props: Any = input.forwarded_props
        asked = props["__proxiedMCPRequest"]
        assert asked == {"serverHash": "h", "serverId": "s", "method": "tools/call", "params": {"name": "move"}}
        # It gives the id of the run as that of the thread.
        ids = {"threadId": input.run_id, "runId": input.run_id}
        events: list[dict[str, Any]] = [
            {"type": "RUN_STARTED", **ids},
            {"type": "RUN_FINISHED", **ids, "result": {"content": []}},
        ]
        return b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in events)

    app = App("a", PAGE_URI, {}, {}, "h", "s")
    with serve_bytes(answer) as server:
        assert await app.request(HttpAgent(server.url), "tools/call", {"name": "move"}) == {"content": []}
    assert caplog.records == []


async def test_servers_that_cannot_be_told_apart_are_refused_and_credentials_are_not_in_a_hash() -> None:
    one = mcp_server("http://a:secret@host/mcp?key=secret", apps=True)
    assert one.app_hash == mcp_server("http://host/mcp").app_hash
    with pytest.raises(UsageError, match="name="):
        MCPApps(one, mcp_server("http://host/mcp", apps=True))
    MCPApps(one, mcp_server("http://host/mcp", name="other", apps=True))
    with pytest.raises(UsageError, match="takes the servers"):
        MCPApps()
