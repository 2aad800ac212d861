"""The functions of `on_waiting`, which are called with each run that waits for a person.

To change

- who is notified of runs that wait for a person: `notify` here; with a database, `DatabaseBackend` calls it again for
  runs that `pop_unnotified` in `store/_sql/runs.py` finds
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from agui_client._core.agent.run_records import WaitingRun
from agui_client._core.ground.concurrency import call_aside
from agui_client._core.protocol.open_items import quoted

WaitingFunction: TypeAlias = Callable[[WaitingRun], object]
"""A function of `on_waiting`, sync or async."""
_logger = logging.getLogger("agui_client.runs")


async def notify(functions: Iterable[WaitingFunction], waiting: WaitingRun) -> None:
    """Call functions with a run, one after the other; an exception is logged, and the function not called again."""
    for function in functions:
        try:
            await call_aside(partial(function, waiting), "on_waiting")
        except Exception:
            _logger.exception("a function of on_waiting failed for run %s", quoted(waiting.run_id))
