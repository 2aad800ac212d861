"""Tools that need approval: approve a call with edited arguments, deny it with a reason, or decide it later.

Only `True` and `Approve` approve. Without `approve=`, the call is in the result: the conversation can be saved, and
another process decides. An approved tool is then called there, before the agent continues.
"""

import asyncio
import sys

from agui_client import ApprovalRequest, Approve, ConversationSnapshot, Deny, HttpAgent, People, tool
from agui_client.demo import demo_agent
from agui_client.testing import serve

QUESTION = "Plan my Saturday in Oslo, and book the ferry."


def is_expensive(request: ApprovalRequest) -> bool:
    return bool(request.arguments["count"] > 1)


@tool(approval=is_expensive)  # or "always", or "never"
async def buy_tickets(route: str, count: int) -> str:
    """Buy ferry tickets. They cannot be returned."""
    print(f"--- bought {count} for {route}")
    return f"{count} tickets for {route}"


async def approve(request: ApprovalRequest) -> Approve:
    print(f"may the agent call {request.name} with {dict(request.arguments)}? with one ticket, yes")
    return Approve({**request.arguments, "count": 1})  # an application asks its user here


def deny(request: ApprovalRequest) -> Deny:  # a plain function gets a thread of its own: it may block
    print(f"may the agent call {request.name} with {dict(request.arguments)}? no")
    return Deny("The user would rather walk.")


async def main(url: str) -> None:
    people = People(wait=300)  # seconds; after that the call is denied
    for approver in (approve, deny):
        agent = HttpAgent(url, tools=[buy_tickets], approve=approver, people=people)
        print((await agent.run_agent(QUESTION)).text)

    # Without an approver, the call waits in the conversation, as is meant here ...
    agent = HttpAgent(url, tools=[buy_tickets], people=People(fallback="leave"))
    await agent.run_agent(QUESTION)
    saved = agent.snapshot().model_dump_json()
    # ... and is decided another day, in another process.
    agent = HttpAgent(url, tools=[buy_tickets])
    agent.restore(ConversationSnapshot.model_validate_json(saved))
    print(f"waiting: {[call.function.arguments for call in agent.pending_tool_calls]}")
    result = await agent.run_agent(tool_results={call.id: Approve() for call in agent.pending_tool_calls})
    print(result.text)


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
