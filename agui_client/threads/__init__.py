"""Threads: conversations that are kept in a database, so that they outlive the process (extra `threads`).

    threads = Threads("sqlite:///chats.db")
    async with threads.open("thread-1", agent, owner="ann") as agent:
        await agent.run_agent("...")

The conversation is saved before a run is sent, before a function is called, before its result is shown, and when a run
ended.
The modules, from low to high: `store` (the seam to databases), `memory` and `sql/` (the stores), `entries` (one save),
`worker` (the event loop of the store), `opened` (the block), `documents` (export), `threads`.
"""

from typing import TYPE_CHECKING, Any

from agui_client.threads.memory import MemoryStore
from agui_client.threads.opened import CutOffRun, OpenThread
from agui_client.threads.store import LeasedThread, ThreadInfo, ThreadStore
from agui_client.threads.threads import SavedThread, Threads
from agui_client.threads.worker import StoreCall

if TYPE_CHECKING:
    from agui_client.threads.sql import SQLStore

__all__ = [
    "CutOffRun",
    "LeasedThread",
    "MemoryStore",
    "OpenThread",
    "SQLStore",
    "SavedThread",
    "StoreCall",
    "ThreadInfo",
    "ThreadStore",
    "Threads",
]


def __getattr__(name: str) -> Any:
    if name != "SQLStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agui_client.threads.sql import SQLStore

    return SQLStore
