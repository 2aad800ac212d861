"""What a single run may be given besides its prompt: one definition, taken by all five verbs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

from ag_ui.core import Context, Tool

from agui_client._pipeline.limits import Timeouts
from agui_client.interrupts import Resume


class RunOptions(TypedDict, total=False):
    """The keywords that every verb takes."""

    run_id: str
    """The run's id, never used before on this thread; minted if left out."""
    tools: Sequence[Tool]
    """The tools offered in this run instead of the agent's `tools`."""
    context: Sequence[Context]
    """What the model should know besides the conversation."""
    forwarded_props: Any
    """Passed to the server untouched, any JSON value."""
    resume: Resume
    """Answers to the pending interrupts: `{interrupt_id: Resolve(...) or Cancel()}`."""
    tool_results: Mapping[str, Any]
    """Answers to pending tool calls by id: text, content parts, any JSON value, or a `ToolFailure`."""
    headers: Mapping[str, str]
    """Request headers for this run, over the agent's own (HttpAgent)."""
    timeout: float | Timeouts
    """Time-outs for this run instead of the agent's own, in seconds (HttpAgent)."""


def given(options: RunOptions) -> RunOptions:
    """The keywords that were given a value; refuses those that no run takes.

    Args:
        options: As the caller wrote them; None counts as left out.

    Returns:
        Those that mean something.

    Raises:
        TypeError: As Python does for a keyword that a function does not have.
    """
    unknown = sorted(options.keys() - RunOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(RunOptions.__annotations__)
        raise TypeError(f"unknown keyword {unknown[0]!r}; a run takes {known}")
    return cast("RunOptions", {name: value for name, value in options.items() if value is not None})
