"""The agent over WebSockets of docs/aws.md, with a server of its kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import RunAgentInput

from agui_client import AbstractAgent, IncompleteRunError
from agui_client.testing import sse, text, turn
from support.snippets import SNIPPETS

_SERVER: Any = pytest.importorskip("websockets.asyncio.server", reason="needs websockets: pip install websockets")
_PAGE = Path(__file__).parents[2] / "docs" / "aws.md"

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


async def test_the_agent_of_the_page_runs_and_notices_a_connection_that_ends_too_early() -> None:
    inputs: list[Any] = []

    async def answer(socket: Any) -> None:
        inputs.append(json.loads(await socket.recv()))
        lines = sse(turn(text("Hello.")), input=RunAgentInput.model_validate(inputs[-1])).decode().split("\n\n")
        events = [line.removeprefix("data: ") for line in lines if line]
        for event in events if len(inputs) == 1 else events[:-1]:
            await socket.send(event)

    async with _SERVER.serve(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        program = SNIPPETS.findall(_PAGE.read_text("utf-8"))[-1].replace("localhost:8080", f"127.0.0.1:{port}")
        namespace: dict[str, Any] = {"__name__": "page"}
        exec(compile(program, str(_PAGE), "exec", dont_inherit=True), namespace)
        agent: AbstractAgent = namespace["WebSocketAgent"]()
        result = await agent.run_agent("Hi")
        assert (result.text, result.warnings) == ("Hello.", [])
        with pytest.raises(IncompleteRunError):
            await agent.run_agent("And?")
    assert [each["content"] for each in inputs[1]["messages"]] == ["Hi", "Hello.", "And?"]
