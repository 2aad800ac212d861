"""How the command ends: an exit code for scripts, one sentence on stderr for people, never a traceback."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

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
    """No usable response, a stream that breaks the protocol or stops too early, or a failure of this program's."""
    UNFINISHED = 4
    """The agent waits for an answer or a tool's result, or the run was cancelled."""
    INTERRUPTED = 130
    """Ctrl-C: 128 + SIGINT."""
    BROKEN_PIPE = 141
    """Whoever read our output went away: 128 + SIGPIPE."""
    TERMINATED = 143
    """`kill`: 128 + SIGTERM."""


def carry_out(command: click.Command) -> int:
    """Run a click command and turn whatever ends it into an exit code."""
    try:
        with _leaving_when_terminated():
            return drive(lambda: int(command.main(prog_name="agui", standalone_mode=False) or 0))
    except click.ClickException as wrong:
        path = wrong.ctx.command_path if isinstance(wrong, click.UsageError) and wrong.ctx else "agui"
        complain(f"{wrong.format_message().rstrip('.')}; see {path} --help")
        return ExitCode.USAGE
    except click.Abort:
        return _stopped()


def drive(work: Callable[[], int]) -> int:
    """Do the work of a command.

    Args:
        work: Returns the exit code, or raises.

    Returns:
        The exit code.

    Raises:
        click.ClickException: The command line is wrong, which click tells best.
    """
    try:
        code = work()
        sys.stdout.flush()
    except (click.ClickException, click.Abort):
        raise
    except KeyboardInterrupt:
        return _stopped()
    except Exception as error:
        if not isinstance(error, BrokenPipeError):
            complain(_OWN_OPTION.sub("--timeout", reason_of(error)))
        code = _code_of_error(error)
        _drop_unwritten()
    return code


def code_of(result: RunResult) -> int:
    """The exit code of a run that ended without an error."""
    cancelled = isinstance(result.outcome, RunFinishedCancelledOutcome)
    is_waiting = bool(result.interrupts or result.pending_tool_calls)
    return ExitCode.UNFINISHED if cancelled or is_waiting else ExitCode.SUCCESS


def complain(sentence: str) -> None:
    """Say on stderr, in one line, what is wrong."""
    with suppress(OSError):  # then nobody reads it
        click.echo(f"agui: {one_line(sentence)}", err=True)


def reason_of(error: BaseException) -> str:
    """What went wrong, for a sentence; of an error that nobody foresaw with its kind, and the line that raised it."""
    match error:
        case AGUIError() | UnicodeError():
            return str(error)
        case OSError(strerror=str(reason), filename=None):
            return reason
        case OSError(strerror=str(reason), filename=name):
            return f"{name}: {reason}"
        case _:
            return f"{type(error).__name__}: {error}{_place_of(error)}"


def _place_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or "importlib" in frames[-1].filename:
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


def _stopped() -> int:
    if sys.stderr.isatty():
        # The terminal has just echoed ^C in the middle of a line.
        click.echo(err=True)
    complain("stopped")
    return ExitCode.INTERRUPTED


@contextmanager
def _leaving_when_terminated() -> Generator[None]:
    """Make SIGTERM unwind the program, which otherwise ends there and leaves a terminal without echo or cursor."""

    def leave(*told: object) -> NoReturn:
        """Unwind the program, so that the terminal is put right."""
        raise SystemExit(ExitCode.TERMINATED)

    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _code_of_error(error: Exception) -> int:
    match error:
        case BrokenPipeError():
            return ExitCode.BROKEN_PIPE
        case RunFailedError():
            return ExitCode.RUN_FAILED
        case UsageError():
            return ExitCode.USAGE
        case _:
            return ExitCode.BROKEN


def _drop_unwritten() -> None:
    """Let what cannot be written go nowhere, or the interpreter complains about it when it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
