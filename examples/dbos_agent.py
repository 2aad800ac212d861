"""Asks a served agent from the steps of a DBOS workflow, so that each run happens once.

    python examples/dbos_agent.py sqlite:///dbos.db http://localhost:8000/ order-1 order-2

A step is carried out at least once: after a crash, DBOS calls the function again. The id of the run is made of the
workflow and the step, so a server with stored runs knows the request, and sends the run that has begun.
"""

from __future__ import annotations

import asyncio
import sys

from dbos import DBOS, SetWorkflowID

from agui_client import HttpAgent


@DBOS.step(retries_allowed=True, max_attempts=1000, interval_seconds=0.2, backoff_rate=1.0)
async def ask(url: str, prompt: str) -> str:
    """Ask the agent; called again after each failure, and after a crash."""
    run_id = f"{DBOS.workflow_id}-{DBOS.step_id}"
    async with HttpAgent(url, thread_id=run_id) as agent:
        return (await agent.run_agent(prompt, run_id=run_id)).text


@DBOS.workflow()
async def order(url: str) -> list[str]:
    """Have an order paid and shipped."""
    paid = await ask(url, "Pay for the order.")
    shipped = await ask(url, "Pay for the shipping.")
    return [paid, shipped]


async def main(database: str, url: str, *names: str) -> None:
    """Begin the workflows, or continue with them, and print what came of each."""
    DBOS(config={"name": "orders", "system_database_url": database, "application_version": "1"})
    DBOS.launch()
    handles = []
    for name in names:
        with SetWorkflowID(name):
            handles.append(await DBOS.start_workflow_async(order, url))
    for name, handle in zip(names, handles, strict=True):
        print(name, *await handle.get_result())
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
