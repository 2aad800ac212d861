"""Tools of the caller in runs that are kept: a run leaves the call, and the caller's next request has the result."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from ag_ui.core import RunAgentInput, TextMessageContentEvent, Tool

from agui_client import HttpAgent
from agui_client.asgi import AgentApp, ASGITransport, ServedRequest, agent_app
from agui_client.reconnect import LastEventId
from agui_client.store import RunStatus, Store
from agui_client.testing import Gate, ScriptedAgent, text, tool_call, turn
from support.stores import FOR_ALL
from support.waiting import LIMIT

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

_ASK = Tool(name="ask", description="Asks the person in front of the screen.", parameters={"type": "object"})
_WHOLE = ["Hi", "One. ", "Two.", None, "blue", "Three. ", "Four."]


@asynccontextmanager
async def _served(
    agent: ScriptedAgent, runs_url: str | None, stored_in: Path | None
) -> AsyncGenerator[tuple[AgentApp, Store]]:
    """Serve an agent whose runs are kept, and its threads in a file, if one is given."""
    async with AsyncExitStack() as stack:
        store, other = Store(runs_url), Store(f"sqlite:///{stored_in}" if stored_in else None)
        await stack.enter_async_context(other)

        def choose(request: ServedRequest, input: RunAgentInput) -> Any:
            return agent if stored_in is None else other.threads.open(input.thread_id, agent, wait=0)

        app = agent_app(choose, store=store, **FOR_ALL)
        await stack.enter_async_context(store)
        yield app, store


def _page(app: AgentApp, **options: Any) -> HttpAgent:
    return HttpAgent("http://app/", app=app, connect_url="connect", thread_id="t", **options)


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "in the caller's input"])
async def test_a_call_for_the_caller_waits_in_the_thread_and_each_page_that_connects_can_answer_it(
    runs_url: str | None, tmp_path: Path, *, is_stored: bool
) -> None:
    before, behind = Gate(), Gate()
    agent = ScriptedAgent(
        turn(text("One. "), before, text("Two."), tool_call("ask", {})), turn(text("Three. "), behind, text("Four."))
    )
    stored_in = tmp_path / "threads.db" if is_stored else None
    with anyio.fail_after(LIMIT):
        async with _served(agent, runs_url, stored_in) as (app, store):
            # A page begins the run, and is closed in the middle of it.
            async with _page(app, tools=[_ASK]).stream("Hi", run_id="r") as run:
                async for _ in run.text_stream:
                    run.detach()
            # Another one comes before the call, and answers it; it is closed in the middle of the next run.
            page = _page(app, tools=[_ASK])
            async with page.stream_connect() as run:
                async for event in run:
                    if isinstance(event, TextMessageContentEvent):
                        before.open()
                [call] = (await run.result()).pending_tool_calls
            assert [(each.run_id, each.status) for each in await store.runs.list()] == [("r", RunStatus.FINISHED)]
            async with page.stream(tool_results={call.id: "blue"}, run_id="s") as run:
                async for _ in run.text_stream:
                    run.detach()
            # A third one follows that run, and has the whole thread.
            last = _page(app, tools=[_ASK])
            async with last.stream_connect() as run:
                async for event in run:
                    if isinstance(event, TextMessageContentEvent):
                        behind.open()
                result = await run.result()
            statuses = [(each.run_id, each.status) for each in await store.runs.list()]
    assert [each.content for each in last.messages] == _WHOLE
    assert (result.pending_tool_calls, result.warnings) == ([], [])
    assert (len(agent.inputs), statuses) == (2, [("s", RunStatus.FINISHED), ("r", RunStatus.FINISHED)])


async def test_the_request_with_the_result_may_be_sent_again_and_its_run_followed_at_a_cursor(
    runs_url: str | None,
) -> None:
    agent = ScriptedAgent(turn(text("One. "), tool_call("ask", {})), turn(text("Two.")))
    with anyio.fail_after(LIMIT):
        async with _served(agent, runs_url, None) as (app, _):
            page = _page(app, tools=[_ASK], reconnect=LastEventId())
            [call] = (await page.run_agent("Hi", run_id="r")).pending_tool_calls
            messages = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in page.messages]
            messages.append({"id": "result", "role": "tool", "toolCallId": call.id, "content": "blue"})
            body = {"threadId": "t", "runId": "s", "messages": messages, "tools": [_ASK.model_dump()]}
            async with httpx.AsyncClient(transport=ASGITransport(app)) as client:
                first, again = [(await client.post("http://app/", json=body)).text for _ in range(2)]
                cursor = first.partition("\n")[0].removeprefix("id: ")
                rest = (await client.post("http://app/", json=body, headers={"last-event-id": cursor})).text
    assert first == again == first[: first.index("\n\n") + 2] + rest
    assert '"RUN_FINISHED"' in rest
    assert len(agent.inputs) == 2
