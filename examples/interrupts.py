"""Interrupts: the agent asks before it acts. The question is in the result, and `resume=` answers it.

The pause may last days, as the conversation can be saved as JSON and restored in another process. An answer is checked
by the schema of the question before it is sent. With `answer=`, a function of yours answers during the call.
"""

import asyncio
import sys

from ag_ui.core import Interrupt

from agui_client import Cancel, ConversationSnapshot, HttpAgent, Resolve, answer_model
from agui_client.demo import demo_agent
from agui_client.testing import serve

QUESTION = "Plan my Saturday in Oslo, and book the ferry."


def approves(interrupt: Interrupt) -> bool:
    print(f"the agent asks: {interrupt.message}")
    print(f"it wants: {interrupt.response_schema}")
    return True  # an application asks its user here


async def answer(interrupt: Interrupt) -> Resolve | None:
    model = answer_model(interrupt)  # a pydantic model: a form can be made from its fields
    if model is None:
        return None  # the question is then in the result
    print(f"{interrupt.message} {list(model.model_fields)}: no")
    return Resolve(model(approved=False))


async def main(url: str) -> None:
    agent = HttpAgent(url)
    result = await agent.run_agent(QUESTION)

    # The conversation is saved ...
    saved = agent.snapshot().model_dump_json()
    # ... and restored in another process.
    agent = HttpAgent(url)
    agent.restore(ConversationSnapshot.model_validate_json(saved))
    careful = agent.clone()

    while agent.pending_interrupts:
        answers = {asked.id: Resolve({"approved": approves(asked)}) for asked in agent.pending_interrupts}
        result = await agent.run_agent(resume=answers)
    print(f"{result.text}result: {result.result}")

    # The question can also be cancelled.
    result = await careful.run_agent(resume={asked.id: Cancel() for asked in careful.pending_interrupts})
    print(f"{result.text}result: {result.result}")

    # With answer=, the whole conversation is one call.
    result = await HttpAgent(url, answer=answer).run_agent(QUESTION)
    print(f"{result.text}result: {result.result}")


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
