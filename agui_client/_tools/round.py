"""A round as the tool loop sees it: a run that is over, and whom to tell what is done about it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ag_ui.core import ResumeEntry

    from agui_client._pipeline.tracing import RunTrace
    from agui_client._pipeline.warnings import WarningLog
    from agui_client._tools.offer import ToolLike
    from agui_client.result import RunResult, ToolExecution


@dataclass(frozen=True, slots=True)
class Round:
    """What the loop sees of a run that is over."""

    result: RunResult
    """What it came to."""
    are_named: bool
    """Whether the agent named its pending calls itself (TOOL-9)."""
    offered: Mapping[str, ToolLike]
    """The tools that were offered in it, by name."""
    withheld: Mapping[str, str]
    """Why no function is called for these of its calls, by id: they "were carried out before", for instance."""
    warnings: WarningLog
    """Where oddities are reported."""
    record: Callable[[ToolExecution], None]
    """Keeps how far an execution has come."""
    keep: Callable[[Sequence[ResumeEntry]], None]
    """Keeps what people answered, should the tools not come to their end."""
    tell: Callable[[ToolExecution], Coroutine[Any, Any, None]]
    """Tells subscribers about it."""
    trace: RunTrace
    """The run's span, in which those of its tools nest."""
