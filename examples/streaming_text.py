"""Print the answer while it is being written.

`stream` returns the run as a block. Inside, `run.text_stream` gives the assistant's text, piece by piece. Leaving the
block, also before the end, ends the run and closes its connection.
"""

import asyncio
import sys

from agui_client import HttpAgent
from agui_client.demo import demo_agent
from agui_client.testing import serve


async def main(url: str) -> None:
    agent = HttpAgent(url)

    async with agent.stream("Plan my Saturday in Oslo, and book the ferry.") as run:
        async for text in run.text_stream:
            print(text, end="", flush=True)
        result = await run.result()

    print(f"\n{len(result.new_messages)} new messages")


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
