"""What a tool may know of its call: the ids, the conversation, whether anybody still waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from agui_client._pipeline.ownership import quoted
from agui_client._pipeline.threads import LoopThread

if TYPE_CHECKING:
    from ag_ui.core import Message

_logger = logging.getLogger("agui_client.tools")


def _loop_here() -> LoopThread | None:
    """The event loop that is running; None where there is none, as in a test that calls a tool by itself."""
    try:
        return LoopThread()
    except RuntimeError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolContext:
    """The call a tool is executed for; a function asks for it with a first parameter `ctx: ToolContext`.

    Made in the event loop that executes the tool, since `report` comes back to where it was made.
    """

    tool_call_id: str
    """The call."""
    name: str
    """The tool, as the agent knows it."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the tool is called with, as JSON; the function's parameters hold the same, validated."""
    thread_id: str
    """The conversation."""
    run_id: str
    """The run that made the call."""
    messages: Sequence[Message] = field(default=(), repr=False)
    """The conversation when the call was made."""
    state: Any = field(default=None, repr=False)
    """The state when the call was made; to be read only, and not to be trusted (SEC-6)."""
    on_report: Callable[[Any], None] | None = field(default=None, repr=False)
    """Takes what `report` is given, in the event loop's thread; None drops it."""
    ended: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set when nobody waits for the tool any more; a function in a thread can wait on it instead of sleeping."""
    _loop: LoopThread | None = field(default_factory=_loop_here, init=False, repr=False)

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the tool any more: it was cancelled or took too long, and can stop."""
        return self.ended.is_set()

    def report(self, progress: Any) -> None:
        """Tell those who watch the run how far the tool is; not sent to the agent.

        Never waits and never fails: what comes after the call's end is dropped, what goes wrong is logged.

        Args:
            progress: Anything; a plain function's thread may go on meanwhile, so it should not change any more.
        """
        if self._loop is None:
            self._deliver(progress)
        else:
            self._loop.call(partial(self._deliver, progress))

    def _deliver(self, progress: Any) -> None:
        if self.on_report is None or self.is_cancelled:
            return
        try:
            self.on_report(progress)
        except Exception:
            _logger.exception(
                "progress of tool %s could not be reported (call %s)", self.name, quoted(self.tool_call_id)
            )
