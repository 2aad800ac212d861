"""The agent asks before it acts, and a person decides: an interrupt comes back on the result, `resume=` answers it.

The pause may last days. The conversation is a document that survives JSON: another process goes on with it. An answer
is held against the schema that came with the question, before anything is sent.
"""

import asyncio
import sys

from ag_ui.core import Interrupt

from agui_client import Cancel, ConversationSnapshot, HttpAgent, Resolve
from agui_client.testing import demo_agent, serve


def approves(interrupt: Interrupt) -> bool:
    print(f"the agent asks: {interrupt.message}")
    print(f"it wants: {interrupt.response_schema}")
    return True  # an application asks its user here


async def main(url: str) -> None:
    agent = HttpAgent(url)
    result = await agent.run_agent("Plan my Saturday in Oslo, and book the ferry.")

    # Kept over night ...
    saved = agent.snapshot().model_dump_json()
    # ... and taken up again, elsewhere.
    agent = HttpAgent(url)
    agent.restore(ConversationSnapshot.model_validate_json(saved))
    careful = agent.clone()

    while agent.pending_interrupts:
        answers = {asked.id: Resolve({"approved": approves(asked)}) for asked in agent.pending_interrupts}
        result = await agent.run_agent(resume=answers)
    print(result.text)
    print(f"result: {result.result}")

    # The other way: the question is abandoned, and the agent is told so.
    result = await careful.run_agent(resume={asked.id: Cancel() for asked in careful.pending_interrupts})
    print(result.text)
    print(f"result: {result.result}")


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
