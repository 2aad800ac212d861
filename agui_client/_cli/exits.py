"""How the command ends: an exit code for scripts, one sentence on stderr for people, never a traceback."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

import click
from ag_ui.core import RunFinishedCancelledOutcome

from agui_client._cli.output import one_line
from agui_client.errors import AGUIError, RunFailedError, UsageError

if TYPE_CHECKING:
    from agui_client.result import RunResult


_OWN_OPTION = re.compile(r"Timeouts\.\w+")
"""How the package's messages name what is `--timeout` here."""


class ExitCode(IntEnum):
    """What the shell gets."""

    SUCCESS = 0
    RUN_FAILED = 1
    """The agent said RUN_ERROR."""
    USAGE = 2
    """The command line, or the input it makes, is wrong; nothing was sent."""
    BROKEN = 3
    """No usable response, or a stream that breaks the protocol or stops too early."""
    UNFINISHED = 4
    """The agent waits for an answer or a tool's result, or the run was cancelled."""
    INTERRUPTED = 130
    """Ctrl-C: 128 + SIGINT."""
    BROKEN_PIPE = 141
    """Whoever read our output went away: 128 + SIGPIPE."""


def carry_out(command: click.Command) -> int:
    """Run a click command and turn whatever ends it into an exit code."""
    try:
        return int(command.main(prog_name="agui", standalone_mode=False) or 0)
    except click.ClickException as wrong:
        path = wrong.ctx.command_path if isinstance(wrong, click.UsageError) and wrong.ctx else "agui"
        complain(f"{wrong.format_message().rstrip('.')}; see {path} --help")
        return ExitCode.USAGE
    except click.Abort:
        return _stopped()


def drive(work: Callable[[], int]) -> int:
    """Do the work of a command.

    Args:
        work: Returns the exit code, or raises one of the package's errors.

    Returns:
        The exit code.
    """
    try:
        try:
            code = work()
        except AGUIError as error:
            complain(_OWN_OPTION.sub("--timeout", str(error)))
            code = _code_of_error(error)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        return ExitCode.BROKEN_PIPE
    except KeyboardInterrupt:
        return _stopped()
    return code


def code_of(result: RunResult) -> int:
    """The exit code of a run that ended without an error."""
    cancelled = isinstance(result.outcome, RunFinishedCancelledOutcome)
    is_waiting = bool(result.interrupts or result.pending_tool_calls)
    return ExitCode.UNFINISHED if cancelled or is_waiting else ExitCode.SUCCESS


def complain(sentence: str) -> None:
    """Say on stderr, in one line, what is wrong."""
    click.echo(f"agui: {one_line(sentence)}", err=True)


def _stopped() -> int:
    if sys.stderr.isatty():
        # The terminal has just echoed ^C in the middle of a line.
        click.echo(err=True)
    complain("stopped")
    return ExitCode.INTERRUPTED


def _code_of_error(error: AGUIError) -> int:
    match error:
        case RunFailedError():
            return ExitCode.RUN_FAILED
        case UsageError():
            return ExitCode.USAGE
        case _:
            return ExitCode.BROKEN


def _silence() -> None:
    """Let what is still buffered go nowhere, or the interpreter complains about the closed pipe when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
