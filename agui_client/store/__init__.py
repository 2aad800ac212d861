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
    from agui_client._core.agent.run_records import FollowedEvent, RunInfo, RunStatus, RunsUnavailableError, WaitingRun
    from agui_client.store._runs.runs import Runs
    from agui_client.store._store import Store
    from agui_client.store._threads.branches import Branch
    from agui_client.store._threads.memory import MemoryStore
    from agui_client.store._threads.opened import CutOffRun, OpenThread
    from agui_client.store._threads.thread_store import LeasedThread, ThreadInfo, ThreadStore
    from agui_client.store._threads.threads import SavedThread, Threads
    from agui_client.store._threads.worker import StoreCall

_HOMES = {
    "Branch": "_threads.branches",
    "CutOffRun": "_threads.opened",
    "FollowedEvent": "runs.records",
    "LeasedThread": "_threads.thread_store",
    "MemoryStore": "_threads.memory",
    "OpenThread": "_threads.opened",
    "RunInfo": "runs.records",
    "RunStatus": "runs.records",
    "Runs": "_runs.runs",
    "RunsUnavailableError": "runs.records",
    "SavedThread": "_threads.threads",
    "Store": "_store",
    "StoreCall": "_threads.worker",
    "ThreadInfo": "_threads.thread_store",
    "ThreadStore": "_threads.thread_store",
    "Threads": "_threads.threads",
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
