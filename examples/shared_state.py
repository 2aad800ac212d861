"""State that both sides write: the agent with snapshots and patches, the application with `set_state`.

Every run sends the state. During a run, patches of the agent and edits of the application change the same document: a
patch changes the places that it names, and nothing else.
"""

import asyncio
import sys

from ag_ui.core import StateDeltaEvent

from agui_client import Cancel, HttpAgent
from agui_client.testing import demo_agent, serve


async def main(url: str) -> None:
    agent = HttpAgent(url, initial_state={"preferred_language": "English"})

    async with agent.stream("Plan my Saturday in Oslo, and book the ferry.") as run:
        async for snapshot in run.snapshots:
            if not isinstance(snapshot.event, StateDeltaEvent):
                continue
            trip = snapshot.state["trip"]
            print(f"{snapshot.state['preferred_language']}, {trip['weather']}, {len(trip['plan'])} stops")
            if len(trip["plan"]) == 1:
                # The user picks another language while the agent is still planning.
                agent.set_state({**snapshot.state, "preferred_language": "Norwegian"})
        before = await run.result()

    # The next run sends the changes of both.
    after = await agent.run_agent(resume={interrupt.id: Cancel() for interrupt in before.interrupts})
    print(f"language: {after.state['preferred_language']}")
    print(f"stops: {len(after.state['trip']['plan'])}")
    print(f"tickets: {before.state['trip']['tickets']}, then {after.state['trip']['tickets']}")


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
