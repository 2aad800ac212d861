"""`agui replay`: a recording shown as it happened."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from agui_client._cli.exit_codes import ExitCode, code_of
from agui_client.errors import AGUIError
from agui_client.recording import ReplayAgent
from agui_client.terminal._lines import WarningLines
from agui_client.terminal._plain_view import PlainView
from agui_client.terminal._watching import show_surfaces, watch

if TYPE_CHECKING:
    from agui_client.recording._reading import Exchange


async def replay(path: str, *, speed: float, verbose: bool) -> int:
    """Show all replies of a recording, one after the other; return the exit code of the last.

    Args:
        path: The file.
        speed: The pace, as for `ReplayAgent`.
        verbose: Whether to show reasoning, state, usage and timings, too.
    """
    agent = ReplayAgent(path, speed=speed)
    view = PlainView(answers=sys.stdout, notes=sys.stderr, verbose=verbose)
    WarningLines(view.note).install()
    code = int(ExitCode.SUCCESS)
    for exchange in agent.recording.exchanges:
        code = await _show(agent, exchange, view)
    if agent.recording.is_cut:
        view.note("the recording is cut off in the middle of a line")
    return code


async def _show(agent: ReplayAgent, exchange: Exchange, view: PlainView) -> int:
    if exchange.request.verb == "connect":
        view.note(f"left out: the thread was sent again, {len(exchange.events)} events")
        return ExitCode.SUCCESS
    try:
        asked = exchange.input
        prompt = asked.messages[-1].content if asked.messages else None
        if asked.messages and asked.messages[-1].role == "user" and isinstance(prompt, str):
            view.note(f"> {prompt}")
        result = await watch(agent.clone().stream(asked), view)
    except AGUIError as error:
        if exchange is agent.recording.exchanges[-1]:
            raise
        view.note(str(error))
        return ExitCode.BROKEN
    for step in exchange.tools:
        if step.result is not None:
            view.execution(step.execution)
    show_surfaces(result, view)
    if not exchange.tools:
        view.close(result)
    return code_of(result)
