"""The client that the conformance suite of MCP starts for a scenario: `python -m tests.external.mcp_client URL`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from agui_client import Resolve  # noqa: E402 - found by the line above
from agui_client.mcp import mcp_server  # noqa: E402
from agui_client.testing import ScriptedAgent, text, tool_call, turn  # noqa: E402

_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "elicitation-sep1034-client-defaults": ("test_client_elicitation_defaults", {}),
    "sse-retry": ("test_reconnection", {}),
}
"""The tool that an agent calls in a scenario; in others, its tools are listed only."""


async def _main(url: str) -> None:
    call = _CALLS.get(os.environ["MCP_CONFORMANCE_SCENARIO"])
    first = text("No tools are needed.") if call is None else tool_call(*call)
    agent = ScriptedAgent(
        turn(first), turn(text("Done.")), tools=[mcp_server(url)], answer=lambda question: Resolve({})
    )
    await agent.run_agent("Go.")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[-1]))
