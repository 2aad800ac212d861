"""A server with durable runs of the team of payers, to be killed: `durable_payers.py DATABASE-URL FOLDER PORT`.

Each function writes `begins KEY` and `ends KEY`, behind the thread, to the file `payments` of the folder. In between it
waits a little, and as long as the key is in the file `hold`. Runs of members are in the file `thoughts`.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn

from agui_client.asgi import agent_app
from agui_client.store import Keeping, Store

sys.path.append(str(Path(__file__).parents[1]))  # a program finds what is beside it
from support.payers import payers

folder = Path(sys.argv[2])
_PACE = float(os.environ.get("AGUI_PACE", "0.01"))


def team_of(thread_id: str) -> Any:
    """Return the team of a thread."""

    async def at(what: str, key: str) -> None:
        with (folder / "payments").open("a") as payments:
            payments.write(f"{thread_id}:{key} {what}\n")
        if what == "begins":
            await anyio.sleep(random.uniform(0.0, 0.05))
            hold = folder / "hold"
            while hold.exists() and key in hold.read_text():  # noqa: ASYNC110 - another process removes it
                await anyio.sleep(0.01)

    def thinks(about: str) -> None:
        with (folder / "thoughts").open("a") as thoughts:
            thoughts.write(f"{thread_id}:{about}\n")

    at_once = 1 if (folder / "one").exists() else 32
    return payers(at, pace=_PACE, at_once=at_once, thinks=thinks)


def chosen(_request: Any, input: Any) -> Any:
    """Return the team of the caller's thread."""
    return team_of(input.thread_id)


app = agent_app(
    chosen,
    store=Store(sys.argv[1], lease=1.5),
    owner_of=lambda _: "",
    keeping=Keeping(threads="transcripts"),
    secret="a secret of these tests",
    name="payers",
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[3]), log_level="warning")
