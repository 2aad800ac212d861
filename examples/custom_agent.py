"""Your own agents in this process: they yield the events of a run, and have every feature of remote agents.

A class overrides `run`; a function is given to `FunctionAgent`. Their events are checked like a remote agent's
stream: an event out of order is an `EventOrderError`, a value of the wrong type an `InvalidEventError`.
"""

import asyncio
from collections.abc import AsyncIterator

from ag_ui.core import (
    Event,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from agui_client import AbstractAgent, FunctionAgent


class EchoAgent(AbstractAgent):
    """Repeats the last message."""

    async def run(self, input: RunAgentInput) -> AsyncIterator[Event]:
        """Answer one run; `input.messages` is the whole conversation."""
        answer_id = f"answer-{len(input.messages)}"
        yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
        yield TextMessageStartEvent(message_id=answer_id, role="assistant")
        yield TextMessageContentEvent(message_id=answer_id, delta=f"You said: {input.messages[-1].content}")
        yield TextMessageEndEvent(message_id=answer_id)
        yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id)


async def count(input: RunAgentInput) -> AsyncIterator[Event]:
    """Counts to three in the state."""
    yield RunStartedEvent(thread_id=input.thread_id, run_id=input.run_id)
    for number in (1, 2, 3):
        yield StateSnapshotEvent(snapshot={"count": number})
    yield RunFinishedEvent(thread_id=input.thread_id, run_id=input.run_id, result={"counted": 3})


async def main() -> None:
    echo = EchoAgent(agent_id="echo")
    print((await echo.run_agent("hello")).text)
    print((await echo.run_agent("hello again")).text)
    print([message.role for message in echo.messages])

    async with FunctionAgent(count).stream() as run:
        async for snapshot in run.snapshots:
            print(f"{snapshot.event.type.value}: {snapshot.state}")
    print(run.partial.result)


if __name__ == "__main__":
    asyncio.run(main())
