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

_HOMES = {
    "Branch": "store._threads.branches",
    "UnfinishedRun": "store._threads.opened",
    "FollowedEvent": "_core.agent.run_records",
    "Keeping": "store._keeping",
    "LatestEntries": "store._threads.thread_store",
    "LeasedThread": "store._threads.thread_store",
    "MemoryStore": "store._threads.memory",
    "MessagePage": "store._threads.message_pages",
    "OpenThread": "store._threads.opened",
    "RunInfo": "_core.agent.run_records",
    "RunStatus": "_core.agent.run_records",
    "Runs": "store._runs.runs",
    "RunsUnavailableError": "_core.agent.run_records",
    "SavedThread": "store._threads.threads",
    "Store": "store._store",
    "StoreCall": "store._threads.worker",
    "ThreadInfo": "store._threads.thread_store",
    "ThreadStore": "store._threads.thread_store",
    "Threads": "store._threads.threads",
    "WaitingRun": "_core.agent.run_records",
}
"""The module of each public name."""

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
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"agui_client.{home}"), name)
    globals()[name] = value
    return value
