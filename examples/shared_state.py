"""State that both sides write: the agent with snapshots and patches, the application in blocks, as its own type."""

import asyncio

from ag_ui.core import StateDeltaEvent
from pydantic import BaseModel

from agui_client import Cancel, HttpAgent
from agui_client.demo import demo_agent
from agui_client.testing import serve


class Trip(BaseModel):
    """A day in a city."""

    plan: list[str] = []
    tickets: str = "none"


class Shared(BaseModel):
    """What both sides write."""

    language: str = "English"
    trip: Trip = Trip()


async def main(url: str) -> None:
    agent = HttpAgent(url, state_model=Shared)
    agent.on_state("/language")(print)
    async with agent.stream("Plan my Saturday in Oslo, and book the ferry.") as run:
        async for event in run:
            if isinstance(event, StateDeltaEvent) and len(agent.typed_state.trip.plan) == 1:
                with agent.edit_state() as shared:  # the user picks another language while the agent is planning
                    shared.language = "Norwegian"
    await agent.run_agent(resume={interrupt.id: Cancel() for interrupt in agent.pending_interrupts})  # has the edit
    print(f"{agent.typed_state.language}, {len(agent.typed_state.trip.plan)} stops, {agent.typed_state.trip.tickets}")


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(server.url))
