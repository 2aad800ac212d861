"""A run that belongs to the server: a page is closed in the middle, and opened again before the run has ended."""

from __future__ import annotations

import asyncio

from agui_client import HttpAgent
from agui_client.asgi import agent_app
from agui_client.demo import demo_agent
from agui_client.store import Store

URL = "http://app/"


async def main() -> None:
    store = Store()
    app = agent_app(demo_agent(pace=0.1), store=store, owner_of=lambda caller: "")  # all callers are one owner

    page = HttpAgent(URL, app=app, thread_id="trip")
    async with page.stream("Plan my Saturday in Oslo.") as run:
        async for text in run.text_stream:
            print(f"the page is closed after {text!r}")
            break
    [going_on] = await store.runs.list()
    print(f"the run is {going_on.status}")

    again = HttpAgent(URL, app=app, thread_id="trip", connect_url=f"{URL}connect")
    await again.connect_agent()
    [ended] = await store.runs.list()
    print(f"the page has {len(again.messages)} messages, and the run is {ended.status}")


if __name__ == "__main__":
    asyncio.run(main())
