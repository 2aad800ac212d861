"""Tools: functions of the application that the agent may call, and whose results it gets.

    python examples/tools.py                               # asks the demo agent, which it starts itself
    python examples/tools.py http://localhost:8000/agent   # asks yours

A tool is a function with type hints and a docstring. The program prints the arguments of a call while they arrive, and
the progress that a tool reports. The text of a `ToolError` is for the agent.
"""

import asyncio
import sys

from ag_ui.core import EventType

from agui_client import HttpAgent, RunObserver, ToolContext, ToolError, ToolExecution, tool
from agui_client.demo import demo_agent
from agui_client.testing import serve
from agui_client.types import RunScope

DEGREES = {"Oslo": 18, "Turin": 31}


@tool
async def get_weather(ctx: ToolContext, city: str) -> str:
    """Current weather for a city.

    Args:
        ctx: The call; the agent does not see this parameter.
        city: City name, e.g. "Oslo".
    """
    ctx.report(f"looking up {city}")
    if city not in DEGREES:
        raise ToolError(f"There is no weather for {city!r}; known are {', '.join(DEGREES)}.")
    return f"{DEGREES[city]} degrees"


class Progress(RunObserver):
    """Prints the progress of tools."""

    def on_tool_execution(self, run: RunScope, execution: ToolExecution) -> None:
        """Print the status of a call that has begun."""
        if execution.status != "waiting":
            print(f"[{execution.name}: {', '.join([execution.status, *map(str, execution.progress)])}]")


async def main(url: str) -> None:
    agent = HttpAgent(url, tools=[get_weather], observers=[Progress()])
    async with agent.stream("Plan my Saturday in Oslo.") as run:
        async for event in run:
            if event.type is EventType.TOOL_CALL_ARGS:
                call = run.tool_calls[event.tool_call_id]
                print(f"[{call.name} is called with {call.partial_arguments}]")
        result = await run.result()
    print(result.text)
    print(f"{len(result.attempts)} requests, {[each.status for each in result.tool_executions]}")


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
