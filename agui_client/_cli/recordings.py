"""`agui replay` and `agui diff`: a recording shown as it happened, and two recordings side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from agui_client._cli.exit_codes import ExitCode, code_of
from agui_client._cli.lines import WarningLines, one_line
from agui_client._cli.output import Transcript, seconds_text
from agui_client._widgets.views import viewed
from agui_client.errors import AGUIError
from agui_client.recording import Recording, ReplayAgent
from agui_client.recording.comparison import ASPECTS, compare

if TYPE_CHECKING:
    from agui_client.recording.comparison import Pace
    from agui_client.recording.reading import Exchange

_DIFFERENT = 1
"""The exit code for recordings that differ, as that of `diff`."""


async def replay(path: str, *, speed: float, verbose: bool) -> int:
    """Show all answers of a recording, one after the other; return the exit code of the last.

    Args:
        path: The file.
        speed: The pace, as for `ReplayAgent`.
        verbose: Whether to show reasoning, state, usage and timings, too.
    """
    agent = ReplayAgent(path, speed=speed)
    transcript = Transcript(answers=sys.stdout, notes=sys.stderr, verbose=verbose)
    WarningLines(transcript.note).install()
    code = ExitCode.SUCCESS
    for exchange in agent.recording.exchanges:
        try:
            code = ExitCode(await _show(agent, exchange, transcript))
        finally:
            transcript.end()
    if agent.recording.is_cut:
        transcript.note("the recording is cut off in the middle of a line")
    return code


async def _show(agent: ReplayAgent, exchange: Exchange, transcript: Transcript) -> int:
    if exchange.request.verb == "connect":
        transcript.note(f"left out: the thread was sent again, {len(exchange.events)} events")
        return ExitCode.SUCCESS
    try:
        asked = exchange.input
        prompt = asked.messages[-1].content if asked.messages else None
        if asked.messages and asked.messages[-1].role == "user" and isinstance(prompt, str):
            transcript.note(f"> {prompt}")
        async with agent.clone().stream(asked) as run:
            async for event in run:
                transcript.show(event, run.state, viewed(event, run))
            result = await run.result()
    except AGUIError as error:
        if exchange is agent.recording.exchanges[-1]:
            raise
        transcript.note(str(error))
        return ExitCode.BROKEN
    for step in exchange.tools:
        if step.result is not None:
            transcript.note(f"tool {step.name} here -> {step.result}")
    if not exchange.tools:
        transcript.close(result)
    return code_of(result)


def diff(one: str, other: str) -> int:
    """Print where two recordings part first, and their times beside each other; return 1 if they differ."""
    comparison = compare(Recording.read(one), Recording.read(other))
    found = {each.aspect: each for each in comparison.differences}
    for aspect in ASPECTS:
        if (difference := found.get(aspect)) is None:
            click.echo(f"{aspect}: the same")
        else:
            click.echo(one_line(f"{aspect}: request {difference.request}: {difference.what}"))
    for number, paces in enumerate(comparison.paces, 1):
        first, second = map(_times, paces)
        click.echo(f"times of request {number}: {first} | {second}")
    return _DIFFERENT if comparison.differences else ExitCode.SUCCESS


def _times(pace: Pace) -> str:
    named = {"first event": pace.first_event, "first text": pace.first_text, "end": pace.end}
    return ", ".join(f"{name} {seconds_text(value)}" for name, value in named.items() if value is not None) or "none"
