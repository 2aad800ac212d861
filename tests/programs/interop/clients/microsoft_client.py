"""Microsoft's `AGUIChatClient` in an `Agent`, as its documentation has it."""

import asyncio
import json
import sys

import httpx
from agent_framework import Agent
from agent_framework.ag_ui import AGUIChatClient


def double(number: int) -> str:
    """Double a number."""
    return str(2 * number)


async def ask(url: str, prompts: list[str], headers: dict[str, str]) -> str:
    """Ask, and return the text that a person sees at the end."""
    async with httpx.AsyncClient(headers=headers, timeout=20) as http:
        client = AGUIChatClient(endpoint=url, http_client=http)
        agent = Agent(name="caller", client=client, tools=[double])
        session, shown = agent.create_session(), ""
        for prompt in prompts:
            shown = ""
            async for update in agent.run(prompt, session=session, stream=True):
                shown += update.text
                for each in update.contents:
                    if each.type == "error":
                        raise RuntimeError(each.message)
        return shown


def main() -> None:
    """Answer each line of JSON, which has the address, the prompts and the headers."""
    for line in sys.stdin:
        try:
            shown = {"shown": asyncio.run(ask(**json.loads(line)))}
        except Exception as error:
            shown = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(shown), flush=True)


main()
