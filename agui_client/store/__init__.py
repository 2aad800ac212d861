"""What a server keeps: conversations, and runs that outlive their connection and their process.

    store = Store("sqlite:///chats.db")
    app = agent_app(planner, store=store, authorize=user_of)        # callers follow the log of the run
    async with store.threads.open("thread-1", agent, owner="ann") as agent:
        await agent.run_agent("...")

`threads/` has the conversations, `runs/` the runs, and `sql/` what is kept of both in a database. Each name is loaded
at its first use: a store in memory loads no library of databases.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agui_client.store.runs.records import FollowedEvent, RunInfo, RunStatus, RunsUnavailableError, WaitingRun
    from agui_client.store.runs.runs import Runs
    from agui_client.store.store import Store
    from agui_client.store.threads.branches import Branch
    from agui_client.store.threads.memory import MemoryStore
    from agui_client.store.threads.opened import CutOffRun, OpenThread
    from agui_client.store.threads.thread_store import LeasedThread, ThreadInfo, ThreadStore
    from agui_client.store.threads.threads import SavedThread, Threads
    from agui_client.store.threads.worker import StoreCall

_HOMES = {
    "Branch": "threads.branches",
    "CutOffRun": "threads.opened",
    "FollowedEvent": "runs.records",
    "LeasedThread": "threads.thread_store",
    "MemoryStore": "threads.memory",
    "OpenThread": "threads.opened",
    "RunInfo": "runs.records",
    "RunStatus": "runs.records",
    "Runs": "runs.runs",
    "RunsUnavailableError": "runs.records",
    "SavedThread": "threads.threads",
    "Store": "store",
    "StoreCall": "threads.worker",
    "ThreadInfo": "threads.thread_store",
    "ThreadStore": "threads.thread_store",
    "Threads": "threads.threads",
    "WaitingRun": "runs.records",
}
"""The module of each public name."""

__all__ = [
    "Branch",
    "CutOffRun",
    "FollowedEvent",
    "LeasedThread",
    "MemoryStore",
    "OpenThread",
    "RunInfo",
    "RunStatus",
    "Runs",
    "RunsUnavailableError",
    "SavedThread",
    "Store",
    "StoreCall",
    "ThreadInfo",
    "ThreadStore",
    "Threads",
    "WaitingRun",
]


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
