"""Runs that are kept, for the official TypeScript client and for CopilotKit's runtime in front of them.

`python tests/programs/runs_against_typescript.py` serves the demo agent with a `Store()`. A page of each begins a run
and leaves it in the middle, another one connects and answers the question of the run. What each has must be what our
client has, and no run may be begun twice. It needs npm, which installs the packages once; CopilotKit's take 330 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]

from agui_client import Approve, HttpAgent  # noqa: E402 - found by the lines above
from agui_client.asgi import agent_app  # noqa: E402
from agui_client.demo import demo_agent  # noqa: E402
from agui_client.store import Store  # noqa: E402
from agui_client.testing import serve  # noqa: E402
from support.stores import FOR_ALL  # noqa: E402
from support.typescript import COPILOTKIT, run_typescript  # noqa: E402

_CLIENT = Path(__file__).with_name("typescript_connect.mjs")
_RUNTIME = Path(__file__).with_name("copilotkit_runtime.mjs")


def seen(agent: HttpAgent) -> dict[str, Any]:
    """Return what a conversation has, as the other programs print it."""
    return {
        "roles": [each.role for each in agent.messages],
        "text": "".join(str(each.content or "") for each in agent.messages if each.role == "assistant"),
        "asked": [each.message for each in agent.pending_interrupts],
    }


async def ours(url: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what our client has when the run waits for its answer, and after that."""
    agent = HttpAgent(url)
    [asked] = (await agent.run_agent("Plan my Saturday, and book the ferry.")).interrupts
    waiting = seen(agent)
    await agent.run_agent(resume={asked.id: Approve()})
    return waiting, seen(agent)


def main() -> int:
    """Compare what each of them has with what our client has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-copilotkit", action="store_true", help="only the client")
    given = parser.parse_args()
    os.environ["COPILOTKIT_TELEMETRY_DISABLED"] = "true"
    agent = demo_agent(pace=0.5)
    with serve(agent_app(agent, store=Store(), **FOR_ALL, secret="a secret of this program")) as server:
        waiting, answered = asyncio.run(ours(server.url))
        agent.inputs.clear()
        told = {"client": run_typescript(_CLIENT, server.url)}
        if not given.without_copilotkit:
            own, begun, connected = (
                run_typescript(_RUNTIME, server.url, story, package=COPILOTKIT) for story in ("own", "begin", "connect")
            )
            told |= {"runtime": own, "restarted runtime": begun + connected}
    failed = len(agent.inputs) != 2 * len(told)
    for name, (left, *rest) in told.items():
        is_whole = rest == [waiting, answered, answered][: len(rest)] and len(left["text"]) < len(waiting["text"])
        failed |= not is_whole
        sys.stdout.write(f"{name}: {'pass' if is_whole else f'FAIL {left} {rest}'}\n")
    sys.stdout.write(f"{len(agent.inputs)} runs for {len(told)} conversations\n")
    return failed


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as nothing:
        sys.exit(str(nothing))
