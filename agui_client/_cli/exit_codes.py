"""The end of a command: an exit code for scripts and one sentence on stderr for people, never a traceback."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from _thread import interrupt_main
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, NoReturn

import click

from agui_client._cli.error_report import report
from agui_client.errors import AGUIError, RunFailedError, UsageError
from agui_client.terminal._complaints import complain

if TYPE_CHECKING:
    from agui_client._core.run.result import RunResult


class ExitCode(IntEnum):
    """The exit codes of `agui`."""

    SUCCESS = 0
    RUN_FAILED = 1
    """The agent reported RUN_ERROR."""
    USAGE = 2
    """The command line, or the input made of it, is wrong; nothing was sent."""
    BROKEN = 3
    """No usable response, a stream that breaks the protocol or stops too early, or a failure of this program."""
    UNFINISHED = 4
    """The agent waits for an answer or a tool's result, or the run was cancelled."""
    INTERRUPTED = 130
    """Ctrl-C: 128 + SIGINT."""
    HUNG_UP = 129
    """The terminal was closed: 128 + SIGHUP."""
    BROKEN_PIPE = 141
    """The reader of the output went away: 128 + SIGPIPE."""
    TERMINATED = 143
    """`kill`: 128 + SIGTERM."""


def run_command(command: click.Command) -> int:
    """Run a click command; return the exit code, also for exceptions."""
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
    """Do the work of a command; report exceptions on stderr.

    Args:
        work: Returns the exit code, or raises.

    Returns:
        The exit code.

    Raises:
        click.ClickException: The command line is wrong; click reports it.
    """
    try:
        code = work()
        sys.stdout.flush()
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except KeyboardInterrupt:
        return _stopped()
    except Exception as error:
        if not isinstance(error, BrokenPipeError):
            complain(*report(error) if isinstance(error, AGUIError) else [reason_of(error)])
        code = _code_of_error(error)
        _drop_unwritten()
    return code


def code_of(result: RunResult) -> int:
    """Return the exit code of a run that ended without an error."""
    cancelled = result.outcome is not None and result.outcome.type == "cancelled"
    is_waiting = bool(result.interrupts or result.pending_tool_calls)
    return ExitCode.UNFINISHED if cancelled or is_waiting else ExitCode.SUCCESS


def reason_of(error: BaseException) -> str:
    """Describe an exception in a sentence; an unexpected one with its type, and the line that raised it."""
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
    """Let signals unwind the program, so that the terminal gets its echo and cursor back, and a thread is left.

    An exception in what Python does in passing, such as taking what is gone out of a set, unwinds nothing: the program
    continues behind a line on stderr. Where that is the exception of a signal, the signal comes again.
    """
    write_ignored = sys.unraisablehook

    def send_again(ignored: sys.UnraisableHookArgs) -> None:
        """Send a signal again whose exception was ignored, a moment later: here it would be ignored, too."""
        match ignored.exc_value:
            case KeyboardInterrupt():
                number = int(signal.SIGINT)
            case SystemExit(code=int(code)) if code - 128 in ours:
                number = code - 128
            case _:
                write_ignored(ignored)
                return
        Timer(0.05, interrupt_main, [number]).start()

    def leave(number: int, frame: object) -> NoReturn:
        """Unwind the program."""
        raise SystemExit(ExitCode(128 + number))

    # Windows has no SIGHUP; `nohup` has it ignored, which stays.
    found = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in found if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, leave)
    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = write_ignored
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


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
    """Drop output that cannot be written; the interpreter would complain about it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
