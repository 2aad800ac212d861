"""Runs rows on a worker of a cluster: the functions here are called in the worker's process.

An agent comes as bytes, and its result goes back as bytes, so that no log of a cluster shows what is in them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import uuid4

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.protocol.schema import is_a
from agui_client._core.run.result import RunResult
from agui_client.errors import AGUIError, UsageError

if TYPE_CHECKING:
    from agui_client._core.protocol.prompts import Prompt
    from agui_client._core.run.options import RunOptions

AgentSource: TypeAlias = AbstractAgent[Any] | Callable[[], AbstractAgent[Any]]
"""An agent, or a function that makes one."""

MOST_STARTS = 2
"""The number of times that a row begins, if it loses its workers."""
LOST = "two workers were lost while they ran this row"
_MOST_AGENTS = 16
"""The number of agents that a worker keeps for further rows."""
_running: set[tuple[str, AbstractAgent[Any]]] = set()
"""The agents that are running rows, each with its batch; rows run in threads, so each change is a single one."""


class ClusterError(AGUIError):
    """The cluster of `on=` cannot be reached, or its workers cannot make the agent; the batch ends with it."""


class WorkerLostError(AGUIError):
    """Two workers were lost while they ran a row, which is run again only once."""


@dataclass(frozen=True, slots=True)
class PickledAgent:
    """An agent on its way to workers; nothing of it is shown, as credentials may be in it."""

    batch: str
    """The id of the batch."""
    content: bytes = field(repr=False)
    """The agent, or the function that makes it, and the options of runs."""


def made_agent(source: AgentSource) -> AbstractAgent[Any]:
    """Return an agent, made by its function if it is one.

    Raises:
        UsageError: The function returned something else.
    """
    is_agent = isinstance(source, AbstractAgent)
    made = cast("AbstractAgent[Any]", source) if is_agent else cast("Any", source)()
    if not is_a(made, AbstractAgent):
        raise UsageError(f"a function that makes an agent returns one, not a {type(made).__name__}")
    return made


def run_row(carried: PickledAgent, prompt: Prompt) -> bytes:
    """Run a row.

    Returns:
        Its result, or its exception.
    """
    try:
        agent, options = _unpacked(carried.content)
    except Exception as error:
        return pickle.dumps(ClusterError(f"a worker cannot make the agent: {type(error).__name__}: {error}"))
    twin = agent.clone(thread_id=str(uuid4()))
    with _noted(carried.batch, twin):
        try:
            outcome = twin.run_agent_sync(prompt, **options)
        except Exception as error:
            return _packed(error)
        return _packed(outcome)


def run_dask_task(carried: PickledAgent, prompt: Prompt, key: str) -> bytes:
    """Run a row as a task of Dask, with room for other tasks beside it.

    Dask begins the tasks of a lost worker again, more often than once. Where two have begun, the scheduler knows.
    """
    distributed: Any = import_module("distributed")
    distributed.secede()
    for start in range(MOST_STARTS):
        begun = distributed.Event(f"{key}-{start}")
        if not begun.is_set():
            begun.set()
            outcome = run_row(carried, prompt)
            begun.clear()  # the scheduler forgets it
            return outcome
    return pickle.dumps(WorkerLostError(LOST))


def stop_rows(batch: str) -> None:
    """Stop the rows of a batch that are running in this process."""
    for running, agent in list(_running):
        if running == batch:
            agent.abort_run()


@lru_cache(_MOST_AGENTS)
def _unpacked(content: bytes) -> tuple[AbstractAgent[Any], RunOptions]:
    source, options = pickle.loads(content)
    return made_agent(source), options


@contextmanager
def _noted(batch: str, agent: AbstractAgent[Any]) -> Generator[None]:
    """Note that an agent is running, so that it can be stopped."""
    _running.add((batch, agent))
    try:
        yield
    finally:
        _running.discard((batch, agent))


def _packed(outcome: RunResult | Exception) -> bytes:
    """Return an outcome as bytes, without what cannot be carried."""
    try:
        content = pickle.dumps(outcome)
        if isinstance(outcome, Exception):
            pickle.loads(content)  # classes of exceptions often cannot be made of their `args`
    except Exception:
        return pickle.dumps(_plain(outcome))
    return content


def _plain(outcome: RunResult | Exception) -> RunResult | Exception:
    """Return an outcome without the objects of the application that may be in it."""
    if isinstance(outcome, RunResult):
        return replace(outcome, tool_executions=[replace(each, progress=()) for each in outcome.tool_executions])
    if isinstance(outcome, AGUIError) and outcome.partial is not None:
        outcome.partial = cast("RunResult", _plain(cast("RunResult", outcome.partial)))
        return outcome
    return RuntimeError(f"{type(outcome).__name__}: {outcome}")
