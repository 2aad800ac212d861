"""Rows as runs that are kept: each has an id that is made of the batch and the row, so that no start runs it twice.

A program that runs the batch begins the run of a row, or follows the one that it or another program has begun. The runs
of a program that is killed continue in another one (`agui_client.store`), or in the next start.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from agui_client._core.agent.function_agent import FunctionAgent
from agui_client._core.agent.run_records import RunKey
from agui_client._core.protocol.prompts import prompt_messages
from agui_client._core.transport.timeouts import Timeouts
from agui_client.errors import RunInProgressError, UsageError
from agui_client.store._runs.runs import kept_by

if TYPE_CHECKING:
    from ag_ui.core import Event, RunAgentInput

    from agui_client._core.run.options import RunOptions
    from agui_client._core.run.result import RunResult
    from agui_client.batch._rows import Row
    from agui_client.store import Runs, Store

    Ask: TypeAlias = Callable[[str, Row, int], Awaitable[RunResult]]
    """Runs the agent of a name on a row once, for the attempt of a number."""

STORED_OPTIONS = frozenset({"context", "forwarded_props"})
"""The keywords of the runs that can be stored with them."""
_MOST_LOST, _BEFORE_NEXT_LOOK = 5, 1.0
"""The number of times that a run may be lost while it is followed, and the seconds before it is followed again."""
_NO_LIMITS = Timeouts(first_event=None, idle=None)
"""The agent's own limits are those of its runs; here, they are followed, wherever they continue."""
_LONGEST_KEY = 100
"""The characters of a row's key that stand in the id of its run."""


@asynccontextmanager
async def kept_rows(store: Store, batch: str, agents: Mapping[str, str], options: RunOptions) -> AsyncGenerator[Ask]:
    """Run rows as runs that are kept.

    Args:
        store: The store of the runs; if it is opened here, it is closed at the end.
        batch: The name of the batch.
        agents: The names by which the agents were added to the runs, by those that the batch has for them.
        options: The keywords of all runs.

    Raises:
        UsageError: The store was closed, such as at the end of an earlier batch.
    """
    async with AsyncExitStack() as blocks:
        if not kept_by(store.runs).is_open:
            await blocks.enter_async_context(store)
        yield _KeptRows(store.runs, batch, agents, options).ask


class _KeptRows:
    """The rows of one start of a batch; see `kept_rows` for its arguments."""

    def __init__(self, runs: Runs, batch: str, agents: Mapping[str, str], options: RunOptions) -> None:
        self._runs, self._kept, self._batch = runs, kept_by(runs), batch
        self._agents, self._options = agents, options
        self._numbers: dict[tuple[str, str], int] = {}

    async def ask(self, name: str, row: Row, attempt: int) -> RunResult:
        """Begin the run of an attempt, or follow it if it is kept; a first attempt follows the latest one."""
        number = self._numbers.get((name, row.key), 0) + 1
        if attempt == 1:
            while await self._kept.keeper.get(self._key(name, row, number + 1)) is not None:
                number += 1
        self._numbers[name, row.key] = number
        key = self._key(name, row, number)
        # Snapshots of a run that another process continues know the message by its id.
        [prompt] = prompt_messages(row.prompt)
        prompt = prompt.model_copy(update={"id": key.run_id})
        if await self._kept.keeper.get(key) is None:
            own: RunOptions = {**self._options, "run_id": key.run_id}
            about: Any = {"owner": key.owner, "thread_id": key.thread_id, "expose_errors": True}
            with suppress(RunInProgressError):  # another program has begun it meanwhile
                await self._runs.start(self._agents[name], prompt, **about, **own)
        elif (latest := await self._kept.keeper.latest(key.owner, key.thread_id)) is not None:
            # An attempt has a thread of its own, whose latest run continues with the answers that a person gave.
            key = latest.log.key
        lost = 0
        while True:
            agent = FunctionAgent(partial(self._events, key), thread_id=key.thread_id)
            try:
                return await agent.run_agent(prompt, run_id=key.run_id, timeout=_NO_LIMITS)
            except UsageError:
                # This process has lost the run, or looked at it before the one that takes it over has.
                lost += 1
                if lost == _MOST_LOST or await self._kept.keeper.get(key) is None:
                    raise
                await anyio.sleep(_BEFORE_NEXT_LOOK)

    async def _events(self, key: RunKey, asked: RunAgentInput) -> AsyncGenerator[Event]:
        """Follow a run from its beginning."""
        followed = self._runs.follow(key.run_id, thread_id=key.thread_id, owner=key.owner)
        async with aclosing(followed) as events:
            async for _, event in events:
                yield event

    def _key(self, name: str, row: Row, number: int) -> RunKey:
        """Return the identity of an attempt at a row, the same in each program."""
        named = json.dumps([self._agents[name], row.key, row.asked, number])
        run_id = f"{row.key[:_LONGEST_KEY]} {hashlib.sha256(named.encode()).hexdigest()[:16]}"
        return RunKey(f"batch {self._batch}", run_id, run_id)
