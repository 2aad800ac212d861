"""Conversations in a database: they continue in the next program, and can be listed, forked and exported.

Needs the extra `store`. Run it twice with a file name to see it continue: `python examples/threads.py URL chats.db`.
"""

import asyncio
import sys

from agui_client import HttpAgent
from agui_client.demo import demo_agent
from agui_client.store import Store
from agui_client.testing import serve


async def main(url: str, file: str | None = None) -> None:
    agent = HttpAgent(url)
    async with Store(f"sqlite:///{file}" if file else None) as store:
        threads = store.threads
        async with threads.open("saturday", agent, owner="ann") as ann:  # `with`, in a program without await
            print(f"{len(ann.messages)} messages so far")
            ann.abandon_interrupts()  # a question of last time that nobody answered
            await ann.run_agent("Plan my Saturday in Oslo.")
            first_answer = next(message.id for message in ann.messages if message.role == "assistant")

        fork = await threads.fork("saturday", at=first_answer, owner="ann")
        async with threads.open(fork, agent, owner="ann") as other:
            await other.run_agent("And if it rains?")

        for info in await threads.list(owner="ann"):
            print(f"{info.title}: {info.message_count} messages")
        print(await threads.list(owner="bob"))
        print((await threads.export(fork, "md", owner="ann")).splitlines()[0])


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(*sys.argv[1:] or [server.url]))
