"""The places where rows run: in this process, or on the workers of a cluster.

Only single attempts go to a place. Journal, pace, retries, budgets and `parse=` stay with the batch.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import uuid4

from agui_client.agent import AbstractAgent
from agui_client.batch.workers import AgentSource, Carried, made_agent
from agui_client.errors import UsageError
from agui_client.http_agent import HttpAgent
from agui_client.messages import Prompt, prompt_messages

if TYPE_CHECKING:
    from agui_client._run.result import RunResult
    from agui_client.batch.clusters import Cluster
    from agui_client.options import RunOptions

    Ask: TypeAlias = Callable[[str, Prompt], Awaitable[RunResult]]
    """Runs the agent of a name once."""
    Place: TypeAlias = Callable[[], AbstractAsyncContextManager[Ask]]
    """Opens a place."""


def place_of(on: Any, agents: Mapping[str, AgentSource], options: RunOptions, at_once: int) -> Place:
    """Return the place that `on=` names.

    Raises:
        UsageError: There is no such place, or an agent cannot be carried there.
    """
    if on is None:
        return partial(_here, {name: made_agent(source) for name, source in agents.items()}, options)
    # Whoever has a client or Ray has imported it.
    modules: Mapping[str, Any] = sys.modules
    dask, ray = modules.get("distributed"), modules.get("ray")
    batch = f"agui-batch-{uuid4()}"
    open_cluster: Callable[[], Cluster]
    if dask is not None and isinstance(on, dask.Client):
        from agui_client.batch.clusters import DaskCluster

        open_cluster, pack = partial(DaskCluster, on, batch), import_module("cloudpickle").dumps
    elif ray is not None and on is ray:
        if not ray.is_initialized():
            raise UsageError("on=ray needs Ray to be initialised: call ray.init() first")
        from agui_client.batch.clusters import RayCluster

        open_cluster, pack = partial(RayCluster, ray, at_once), ray.cloudpickle.dumps
    else:
        kind = type(on).__name__
        raise UsageError(f"on= takes a distributed.Client, or the module ray after ray.init(), not this {kind}")
    carried = {name: Carried(batch, _content(source, options, pack)) for name, source in agents.items()}
    return partial(_far, open_cluster, carried)


@asynccontextmanager
async def _here(agents: Mapping[str, AbstractAgent[Any]], options: RunOptions) -> AsyncGenerator[Ask]:
    """Run rows in this event loop."""

    async def ask(name: str, prompt: Prompt) -> RunResult:
        """Run a clone of the agent."""
        return await agents[name].clone(thread_id=str(uuid4())).run_agent(prompt, **options)

    async with AsyncExitStack() as blocks:
        for agent in {id(each): each for each in agents.values()}.values():
            if isinstance(agent, HttpAgent):
                await blocks.enter_async_context(agent)  # its clones share its connections
        yield ask


@asynccontextmanager
async def _far(open_cluster: Callable[[], Cluster], agents: Mapping[str, Carried]) -> AsyncGenerator[Ask]:
    """Run rows on the workers of a cluster."""
    async with open_cluster() as cluster:

        async def ask(name: str, prompt: Prompt) -> RunResult:
            """Send a row to a worker; return the result, or raise the exception, that comes back."""
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
