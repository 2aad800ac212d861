"""The storage of a server: conversations, and runs that outlive their connection and their process.

    store = Store("sqlite:///chats.db")
    app = agent_app(planner, store=store, authorize=user_of)        # callers follow the log of the run
    async with store.threads.open("thread-1", agent, owner="ann") as agent:
        await agent.run_agent("...")

`_threads/` has the conversations, `_runs/` the runs, and `_sql/` what is kept of both in a database. Each name is
loaded at its first use: a store in memory loads no library of databases.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agui_client._core.agent.run_records import FollowedEvent, RunInfo, RunStatus, RunsUnavailableError, WaitingRun
    from agui_client.store._keeping import Keeping
    from agui_client.store._runs.runs import Runs
    from agui_client.store._store import Store
    from agui_client.store._threads.branches import Branch
    from agui_client.store._threads.memory import MemoryStore
    from agui_client.store._threads.message_pages import MessagePage
    from agui_client.store._threads.opened import OpenThread, UnfinishedRun
    from agui_client.store._threads.thread_store import LatestEntries, LeasedThread, ThreadInfo, ThreadStore
    from agui_client.store._threads.threads import SavedThread, Threads
    from agui_client.store._threads.worker import StoreCall

_MODULES = {
    "_core.agent.run_records": ("FollowedEvent", "RunInfo", "RunStatus", "RunsUnavailableError", "WaitingRun"),
    "store._keeping": ("Keeping",),
    "store._runs.runs": ("Runs",),
    "store._store": ("Store",),
    "store._threads.branches": ("Branch",),
    "store._threads.memory": ("MemoryStore",),
    "store._threads.message_pages": ("MessagePage",),
    "store._threads.opened": ("OpenThread", "UnfinishedRun"),
    "store._threads.thread_store": ("LatestEntries", "LeasedThread", "ThreadInfo", "ThreadStore"),
    "store._threads.threads": ("SavedThread", "Threads"),
    "store._threads.worker": ("StoreCall",),
}
"""The public names, by their modules."""

__all__ = [
    "Branch",
    "FollowedEvent",
    "Keeping",
    "LatestEntries",
    "LeasedThread",
    "MemoryStore",
    "MessagePage",
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
    "UnfinishedRun",
    "WaitingRun",
]


def __getattr__(name: str) -> Any:
    if (module := next((module for module, names in _MODULES.items() if name in names), None)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"agui_client.{module}"), name)
    return value
