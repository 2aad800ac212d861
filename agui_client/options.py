"""What a single run may be given besides its prompt: one definition, taken by all five verbs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

if TYPE_CHECKING:
    from ag_ui.core import Context

    from agui_client._pipeline.limits import Timeouts
    from agui_client._tools.offer import ToolSource
    from agui_client.interrupts import Resume


class RunOptions(TypedDict, total=False):
    """The keywords that every verb takes."""

    run_id: str
    """The run's id, never used before on this thread; minted if left out."""
    tools: ToolSource
    """The tools offered in this run instead of the agent's `tools`."""
    context: Sequence[Context]
    """What the model should know besides the conversation."""
    forwarded_props: Any
    """Passed to the server untouched, any JSON value."""
    resume: Resume
    """Answers to the pending interrupts: `{interrupt_id: Resolve(...) or Cancel()}`."""
    tool_results: Mapping[str, Any]
    """Answers to pending tool calls by id: text, content parts, any JSON value, a `ToolFailure`, a `Deny`, or an
    `Approve`, which has the call carried out by its function here before anything is sent."""
    headers: Mapping[str, str]
    """Request headers for this run, over the agent's own (HttpAgent)."""
    timeout: float | Timeouts
    """Time-outs for this run instead of the agent's own, in seconds (HttpAgent)."""


class ConnectOptions(TypedDict, total=False):
    """The keywords of `connect_agent`, which asks nothing."""

    context: Sequence[Context]
    """What the model should know besides the conversation."""
    forwarded_props: Any
    """Passed to the server untouched, any JSON value; where a server takes a cursor, often here."""
    headers: Mapping[str, str]
    """Request headers, over the agent's own (HttpAgent)."""
    timeout: float | Timeouts
    """Time-outs instead of the agent's own, in seconds (HttpAgent)."""


def given(options: RunOptions, kind: type[RunOptions | ConnectOptions] = RunOptions) -> RunOptions:
    """The keywords that were given a value; refuses those that no run takes.

    Args:
        options: As the caller wrote them; None counts as left out.
        kind: Which of them there are.

    Returns:
        Those that mean something.

    Raises:
        TypeError: As Python does for a keyword that a function does not have.
    """
    unknown = sorted(options.keys() - kind.__annotations__.keys())
    if unknown:
        known = ", ".join(kind.__annotations__)
        what = "a run" if kind is RunOptions else "connecting"
        raise TypeError(f"unknown keyword {unknown[0]!r}; {what} takes {known}")
    return cast("RunOptions", {name: value for name, value in options.items() if value is not None})
