"""The places where rows run: in this process, on the workers of a cluster, or as runs that outlive the process.

Only single attempts go to a place. Journal, pace, retries, budgets and `parse=` stay with the batch.

To change

- a place where rows of a batch run: this module; as runs that are kept: `batch/_kept_rows.py`; a kind of cluster:
  `batch/_clusters.py`, and `batch/_workers.py` for what its workers do
"""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import uuid4

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.protocol.prompts import prompt_messages
from agui_client.batch._workers import AgentSource, PickledAgent, made_agent
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client._core.run.options import RunOptions
    from agui_client._core.run.result import RunResult
    from agui_client.batch._clusters import DaskCluster
    from agui_client.batch._kept_rows import Ask
    from agui_client.batch._rows import Row
    from agui_client.store import Store

    Place: TypeAlias = Callable[[], AbstractAsyncContextManager[Ask]]
    """Opens a place."""

_logger = logging.getLogger("agui_client.batch")


def place_of(on: Any, name: str | None, agents: Mapping[str, AgentSource | str], options: RunOptions) -> Place:
    """Return the place that `on=` names.

    Raises:
        UsageError: There is no such place, or the agents cannot run there.
    """
    # A program that gives runs or a client has imported their module, so that none is imported here.
    modules: Mapping[str, Any] = sys.modules
    kept = modules.get("agui_client.store._store")
    if kept is not None and isinstance(on, kept.Store):
        return _kept(on, name, agents, options)
    if name is not None and isinstance(on, str):
        raise UsageError("on= takes Store(URL) of agui_client.store, not the URL itself")  # which may have a password
    if name is not None:
        raise UsageError("name= is for on=Store(...), which knows a batch by it; a journal= is known by its file")
    made = {each: source for each, source in agents.items() if not isinstance(source, str)}
    if len(made) < len(agents):
        raise UsageError("the name of an agent is for on=Store(...), to which it was added; give the agent itself")
    return _here_or_far(on, made, options)


def _kept(store: Store, name: str | None, agents: Mapping[str, AgentSource | str], options: RunOptions) -> Place:
    """Return the place where rows are runs that are kept.

    Raises:
        UsageError: The batch or an agent has no name, no agent of the name was added, or an option cannot be stored.
    """
    from agui_client.batch._kept_rows import STORED_OPTIONS, kept_rows
    from agui_client.store._runs.runs import kept_by

    if not name:
        raise UsageError("on=Store(...) needs name=, by which the next start of the batch finds its rows")
    named = {each: source for each, source in agents.items() if isinstance(source, str)}
    if len(named) < len(agents):
        raise UsageError(
            "with on=Store(...), give the agent by its name: store.runs.add('helper', agent), run_many('helper')"
        )
    kept = kept_by(store.runs)
    for each in named.values():
        kept.added(each)
    if not kept.keeper.is_durable:
        _logger.warning("the rows are runs in memory, which end with this program; Store(URL) keeps them in a database")
    if refused := sorted(options.keys() - STORED_OPTIONS):
        raise UsageError(f"{refused[0]}= cannot be stored with runs; give it to the agent that is added to them")
    return partial(kept_rows, store, name, named, options)


def _here_or_far(on: Any, agents: Mapping[str, AgentSource], options: RunOptions) -> Place:
    if on is None:
        return partial(_here, {name: made_agent(source) for name, source in agents.items()}, options)
    modules: Mapping[str, Any] = sys.modules
    dask = modules.get("distributed")
    if dask is None or not isinstance(on, dask.Client):
        raise UsageError(f"on= takes a distributed.Client, or Store(URL), not this {type(on).__name__}")
    from agui_client.batch._clusters import DaskCluster

    batch, pack = f"agui-batch-{uuid4()}", import_module("cloudpickle").dumps
    carried = {name: PickledAgent(batch, _content(source, options, pack)) for name, source in agents.items()}
    return partial(_far, partial(DaskCluster, on, batch), carried)


@asynccontextmanager
async def _here(agents: Mapping[str, AbstractAgent[Any]], options: RunOptions) -> AsyncGenerator[Ask]:
    """Run rows in this event loop."""

    async def ask(name: str, row: Row, attempt: int) -> RunResult:
        """Run a clone of the agent."""
        return await agents[name].clone(thread_id=str(uuid4())).run_agent(row.prompt, **options)

    async with AsyncExitStack() as blocks:
        for agent in {id(each): each for each in agents.values()}.values():
            if isinstance(agent, AbstractAsyncContextManager):
                await blocks.enter_async_context(agent)  # its clones share its connections
        yield ask


@asynccontextmanager
async def _far(open_cluster: Callable[[], DaskCluster], agents: Mapping[str, PickledAgent]) -> AsyncGenerator[Ask]:
    """Run rows on the workers of a cluster."""
    async with open_cluster() as cluster:

        async def ask(name: str, row: Row, attempt: int) -> RunResult:
            """Send a row to a worker; return the result, or raise the exception, that comes back."""
            prompt = row.prompt
            if isinstance(prompt, list | tuple):
                (prompt,) = prompt_messages(prompt)  # its files are here
            outcome: RunResult | Exception = pickle.loads(await cluster.send(agents[name], prompt))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        yield ask


def _content(source: AgentSource, options: RunOptions, pack: Callable[[object], bytes]) -> bytes:
    """Return an agent as bytes.

    Raises:
        UsageError: It has a part that cannot be carried.
    """
    is_agent = isinstance(source, AbstractAgent)
    made: Any = cast("AbstractAgent[Any]", source).clone() if is_agent else source
    try:
        return pack((made, options))
    except Exception as error:
        parts: dict[str, object] = {**(vars(made) if is_agent else {}), **options}
        where = next((f" (in {name.lstrip('_')})" for name, part in parts.items() if not _fits(part, pack)), "")
        raise UsageError(
            f"the agent cannot be carried to workers: {error}{where}; give a function that makes it, "
            "such as run_many(make_agent, rows, on=...), which each worker calls"
        ) from error


def _fits(part: object, pack: Callable[[object], bytes]) -> bool:
    try:
        pack(part)
    except Exception:
        return False
    return True
