"""The `agui` command: in this process, as a process with pipes, or as one on a terminal."""

from __future__ import annotations

import io
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from agui_client._cli import main
from support.programs import STRICT, Program

SECONDS = 30.0
"""Longest wait for anything."""

Agui = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Program]
OnTerminal = Callable[..., "Terminal"]


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in {"PYTHONUNBUFFERED", "NO_COLOR"}}
    return {**inherited, "TERM": "xterm-256color"}


class Terminal:
    """A command on a pseudo-terminal.

    Args:
        *arguments: The command's arguments.
        state: The folder in which the command keeps what it remembers.
        is_hurried: Whether the demo agent makes no pauses, and every warning is an error.
    """

    def __init__(self, *arguments: str, state: Path, is_hurried: bool = False) -> None:
        # No Windows has it, and there the fixture skips.
        import fcntl
        import struct
        import termios

        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = Program(
            "-m",
            "agui_client",
            *arguments,
            flags=STRICT if is_hurried else (),
            pace=0 if is_hurried else None,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            # This terminal does not answer when it is asked where its cursor is (CPR).
            env={**environment(), "XDG_STATE_HOME": str(state), "PROMPT_TOOLKIT_NO_CPR": "1"},
            start_new_session=True,
        )
        os.close(theirs)
        self._seen = 0
        self.output = ""
        """Everything that was written so far."""

    def read_until(self, text: str) -> None:
        """Wait until the command has written a text."""
        deadline = time.monotonic() + SECONDS
        while text not in self.output:
            assert self._read(deadline), f"{text!r} did not come; this did: {self.output[-2000:]!r}"

    def await_sight(self, *sights: str) -> None:
        """Wait until the command has written texts, each after the one before, apart from codes that place and colour.

        What is written afterwards is for the next call.
        """
        deadline = time.monotonic() + SECONDS
        for sight in sights:
            while sight not in (unseen := _plain(self.output)[self._seen :]):
                assert self._read(deadline), f"{sight!r} did not come; this did: {unseen[-2000:]!r}"
            self._seen += unseen.index(sight) + len(sight)

    def send(self, text: str) -> None:
        """Type something."""
        os.write(self._ours, text.encode())

    def press_ctrl_c(self) -> None:
        """Press Ctrl-C when the command waits, and again if that falls into the instant in which input() is deaf."""
        self.process.until_asleep()
        self.process.send_signal(signal.SIGINT)
        if not self._is_readable(time.monotonic() + 5):
            self.process.send_signal(signal.SIGINT)

    def finish(self) -> int:
        """Wait for the end; returns the exit code."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        return self.process.wait(SECONDS)

    def is_cooked(self) -> bool:
        """Whether the terminal is as a shell leaves it: typed keys are seen, and come line by line."""
        import termios

        flags: int = termios.tcgetattr(self._ours)[3]
        return flags & (termios.ECHO | termios.ICANON) == termios.ECHO | termios.ICANON

    def close(self) -> None:
        """Stop the command if it still runs."""
        with self.process:
            os.close(self._ours)

    def _is_readable(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))
        return bool(ready)

    def _read(self, deadline: float) -> bool:
        assert self._is_readable(deadline), f"nothing more came; this did: {self.output[-2000:]!r}"
        # Linux tells the end of the other side with an error.
        with suppress(OSError):
            data = os.read(self._ours, 65536)
            self.output += data.decode(errors="replace")
            return bool(data)
        return False


def _plain(output: str) -> str:
    """What was written, without codes, but for one that is not complete yet."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|[\r\b]|\x1b(\[[0-9;?]*)?$", "", output)


@pytest.fixture
def agui(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Agui:
    """Run the command to its end in this process, which is quicker than a process each."""

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["agui", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
        capsys.readouterr()
        code = main()
        written = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, written.out, written.err)

    return run


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the command and leave it running; it is killed after the test if need be."""
    started: list[Program] = []

    def run(
        *arguments: str,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[str] = subprocess.PIPE,
        errors: str | None = None,
    ) -> Program:
        process = Program(
            "-m",
            "agui_client",
            *arguments,
            stdin=stdin,
            stdout=stdout if isinstance(stdout, int) else stdout.fileno(),
            errors=errors,
            env=environment(),
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with process:
            pass


@pytest.fixture
def on_terminal(tmp_path: Path) -> Iterator[OnTerminal]:
    """Start the command on a pseudo-terminal of 100 columns and 40 lines; the demo agent may speak faster."""
    if sys.platform == "win32":
        pytest.skip("there are no pseudo-terminals here")
    started: list[Terminal] = []

    def run(*arguments: str, is_hurried: bool = False) -> Terminal:
        started.append(Terminal(*arguments, state=tmp_path, is_hurried=is_hurried))
        return started[-1]

    yield run
    for terminal in started:
        terminal.close()
