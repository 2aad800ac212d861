"""Ask an agent one question and print its answer.

    python examples/one_shot.py                               # asks the demo agent, which it starts itself
    python examples/one_shot.py http://localhost:8000/agent   # asks yours

`run_agent` waits for the whole answer. Its result has the text, the messages, the state, the tokens, the timings, and
the questions of the agent.
"""

import asyncio
import sys

from agui_client import HttpAgent
from agui_client.demo import demo_agent
from agui_client.testing import serve


async def main(url: str) -> None:
    agent = HttpAgent(url)
    result = await agent.run_agent("Plan my Saturday in Oslo, and book the ferry.")

    print(result.text)
    print(f"{len(agent.messages)} messages, the last one from the {agent.messages[-1].role}")
    print(f"state: {result.state}")
    for used in result.usage:
        print(f"{used.model}: {used.input_tokens} tokens in, {used.output_tokens} out")
    print(f"it took {result.timings.total or 0:.1f} seconds")
    for interrupt in result.interrupts:
        print(f"the agent asks: {interrupt.message}")


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
