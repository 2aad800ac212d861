"""Iterate the events of a run: each is an object of a class of `ag_ui.core`, to be used with `match`.

`run.messages` and `run.state` already include the event that was just given.
"""

import asyncio
import sys

from ag_ui.core import (
    ReasoningMessageContentEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from agui_client import HttpAgent
from agui_client.demo import demo_agent
from agui_client.testing import serve


async def main(url: str) -> None:
    agent = HttpAgent(url)
    async with agent.stream("Plan my Saturday in Oslo, and book the ferry.") as run:
        async for event in run:
            match event:
                case RunStartedEvent(protocol_version=version):
                    print(f"[the agent speaks AG-UI {version}]")
                case ReasoningMessageContentEvent(delta=delta) | TextMessageContentEvent(delta=delta):
                    print(delta, end="", flush=True)
                case TextMessageEndEvent():
                    print()
                case ToolCallStartEvent(tool_call_name=name):
                    print(f"\n[{name} ", end="")
                case ToolCallArgsEvent(delta=arguments):
                    print(arguments, end="")
                case ToolCallResultEvent(content=content):
                    print(f" -> {content}]")
                case StateSnapshotEvent() | StateDeltaEvent():
                    print(f"[state: {run.state}]")
                case RunFinishedEvent(outcome=outcome):
                    print(f"[finished: {outcome.type if outcome else 'success'}]")
                case _:
                    pass


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
