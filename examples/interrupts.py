"""The agent asks before it acts, and a person decides: an interrupt comes back on the result, `resume=` answers it.

The pause may last days. The conversation is a document that survives JSON: another process goes on with it. An answer
is held against the schema that came with the question, before anything is sent. Or `answer=` is asked in between.
"""

import asyncio
import sys

from ag_ui.core import Interrupt

from agui_client import Cancel, ConversationSnapshot, HttpAgent, Resolve, answer_model
from agui_client.testing import demo_agent, serve

QUESTION = "Plan my Saturday in Oslo, and book the ferry."


def approves(interrupt: Interrupt) -> bool:
    print(f"the agent asks: {interrupt.message}")
    print(f"it wants: {interrupt.response_schema}")
    return True  # an application asks its user here


async def answer(interrupt: Interrupt) -> Resolve | None:
    model = answer_model(interrupt)  # a pydantic model: a form can be made from its fields
    if model is None:
        return None  # whoever called the agent finds the question on the result
    print(f"{interrupt.message} {list(model.model_fields)}: no")
    return Resolve(model(approved=False))


async def main(url: str) -> None:
    agent = HttpAgent(url)
    result = await agent.run_agent(QUESTION)

    # Kept over night ...
    saved = agent.snapshot().model_dump_json()
    # ... and taken up again, elsewhere.
    agent = HttpAgent(url)
    agent.restore(ConversationSnapshot.model_validate_json(saved))
    careful = agent.clone()

    while agent.pending_interrupts:
        answers = {asked.id: Resolve({"approved": approves(asked)}) for asked in agent.pending_interrupts}
        result = await agent.run_agent(resume=answers)
    print(f"{result.text}result: {result.result}")

    # The other way: the question is abandoned, and the agent is told so.
    result = await careful.run_agent(resume={asked.id: Cancel() for asked in careful.pending_interrupts})
    print(f"{result.text}result: {result.result}")

    # Or somebody is at hand, and the whole conversation is one call.
    result = await HttpAgent(url, answer=answer).run_agent(QUESTION)
    print(f"{result.text}result: {result.result}")


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
