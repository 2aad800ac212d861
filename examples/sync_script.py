"""A script without `await`, for a cron job or a thread of an older program.

`run_agent_sync` is `run_agent` without `await`, and `stream_sync` is `stream`. The agent remembers its thread, so the
second question continues with the conversation of the first.
"""

import sys

from agui_client import AGUIError, HttpAgent, RunFailedError, Timeouts
from agui_client.demo import demo_agent
from agui_client.testing import serve


def main(url: str) -> int:
    agent = HttpAgent(url, timeout=Timeouts(connect=5, idle=30, total=120))
    try:
        with agent.stream_sync("Plan my Saturday in Oslo, and book the ferry.") as run:
            for text in run.text_stream:
                print(text, end="", flush=True)

        # The agent may have asked a question. This script cannot answer, and continues without.
        agent.abandon_interrupts()
        result = agent.run_agent_sync("And what if it rains?")
    except RunFailedError as error:
        print(f"the agent failed: {error}", file=sys.stderr)
        return 1
    except AGUIError as error:
        print(f"no usable answer: {error}", file=sys.stderr)
        return 3
    print(f"\nsecond answer: {result.text}")
    print(f"{sum(message.role == 'user' for message in agent.messages)} questions in one thread")
    return 0


if __name__ == "__main__":
    with serve(demo_agent()) as server:
        sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else server.url))
