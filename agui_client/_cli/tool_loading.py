"""Load the tools that `--tools MODULE:NAME` and `--tools FILE.py:NAME` name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import anyio
import click
from ag_ui.core import RunAgentInput, Tool

from agui_client._cli.exit_codes import reason_of
from agui_client._cli.loading import load_object, required_parameters
from agui_client._core.tools.function import FunctionTool
from agui_client._core.tools.toolset import CallTools, Toolset
from agui_client.errors import UsageError

if TYPE_CHECKING:
    from agui_client._core.tools.toolset import ToolLike, ToolSource


def load_tools(places: Sequence[str]) -> ToolSource:
    """Load tools.

    Args:
        places: The values of `--tools`: each names a tool, a list of tools, or a function of the `RunAgentInput` that
            chooses tools.

    Returns:
        All tools together.

    Raises:
        click.UsageError: A name does not exist, cannot be loaded, or is not a tool.
    """
    sources = [_source(load_object(place, "--tools"), place) for place in places]

    def choose(run_input: RunAgentInput) -> Sequence[Any]:
        """List the tools of one run."""
        return [tool for source in sources for tool in (source(run_input) if callable(source) else cast("Any", source))]

    if any(callable(source) for source in sources):
        return choose
    try:
        run_input = RunAgentInput(thread_id="", run_id="", messages=[])
        tools = choose(run_input)
        anyio.run(CallTools([tool for tool in tools if not isinstance(tool, Toolset)]).offer, run_input)
        return tools
    except UsageError as error:
        raise click.UsageError(f"--tools: {error}") from error


def _source(found: object, place: str) -> ToolSource:
    # The entries of a list are checked when they are offered.
    if isinstance(found, FunctionTool | Tool | Toolset):
        return [cast("ToolLike", found)]
    if isinstance(found, list | tuple):
        return cast("Sequence[ToolLike]", found)
    if callable(found):
        return _chooser(found, place)
    raise click.UsageError(
        f"--tools {place}: this is a {type(found).__name__}; name a @tool, a list of them, or a function that chooses"
    )


def _chooser(function: Callable[..., object], place: str) -> ToolSource:
    """Return a function that chooses tools; only one annotated for that may be called with every run (SEC-2)."""
    if not _takes_run_input(function):
        raise click.UsageError(
            f"--tools {place}: did you forget @tool? A function that chooses tools takes one RunAgentInput, "
            "annotated so, and is not async"
        )

    def choose(run_input: RunAgentInput) -> Sequence[ToolLike]:
        """Choose the tools of one run."""
        try:
            chosen = function(run_input)
        except (Exception, SystemExit) as error:
            raise UsageError(f"--tools {place}: choosing tools failed: {reason_of(error)}") from error
        if not isinstance(chosen, list | tuple):
            raise UsageError(f"--tools {place}: the function returned no list of tools, but a {type(chosen).__name__}")
        return cast("Sequence[ToolLike]", chosen)

    return choose


def _takes_run_input(function: Callable[..., object]) -> bool:
    required = required_parameters(function) or ()
    is_taken = len(required) == 1 and _is_run_input(required[0].annotation)
    return is_taken and not inspect.iscoroutinefunction(function)


def _is_run_input(annotation: object) -> bool:
    """Return whether an annotation means RunAgentInput: the class, or its name where annotations are not evaluated."""
    named = annotation.rpartition(".")[2] if isinstance(annotation, str) else ""
    return annotation is RunAgentInput or named == RunAgentInput.__name__
