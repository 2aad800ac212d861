"""Python programs as processes of their own, which begin with everything imported: most of their cost is imports.

One process imports the package and what it needs, and then forks for each program.
Apart from the imports, a program finds what a new interpreter has: arguments, flags, environment, folder, streams.
A program other than `-c SOURCE` ends without its modules being taken apart, which would be most of its time.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
STRICT = ("-W", "error")
"""Flags for a program that takes every warning for an error."""
DEV = ("-X", "dev", "-W", "error::ResourceWarning")
"""Flags for a program that takes every forgotten resource for an error, on loops that look for mistakes."""

_PACKAGES = (
    "agui_client._cli",
    "agui_client._core.protocol",
    "agui_client._core.run",
    "agui_client._core.tools",
    "agui_client._core.transport",
)
"""Packages whose modules are imported."""
_MODULES = (
    "agui_client._core.conversation.history",
    "agui_client._otel",
    "agui_client.evaluation",
    "agui_client.store._runs.database_keeper",
    "agui_client.teams",
    "agui_client.terminal",
    "agui_client.asgi._uvicorn",
    "agui_client.types",
    "anyio._backends._asyncio",
    "anyio._backends._trio",
    "encodings.idna",
    "fastapi",
    "httpcore._backends.anyio",
    "jsonschema",
    "prompt_toolkit.input.vt100",
    "prompt_toolkit.key_binding.bindings.search",
    "prompt_toolkit.patch_stdout",
    "pytest",
    "rich.markdown",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.ext.asyncio",
    "uvicorn.lifespan.off",
    "uvicorn.lifespan.on",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.h11_impl",
)
"""Modules that are imported; a program that needs one which is not there says so itself."""
_NUMBER = struct.Struct("i")


class Program:
    """A running Python program; its methods are those of `subprocess.Popen`, but leaving its block kills it.

    Args:
        *arguments: The interpreter's: `-m MODULE`, `-c SOURCE` or a path, and what the program gets.
        flags: The interpreter's flags: none, `STRICT` or `DEV`.
        stdin, stdout, stderr: `subprocess.PIPE`, `subprocess.DEVNULL`, or a descriptor.
        env: The whole environment.
        pace: The demo agent's, compared with its usual one.
        start_new_session: Whether the process leads a session of its own.
        errors: The name of the way in which the streams handle what is not text.
    """

    def __init__(
        self,
        *arguments: str,
        flags: tuple[str, ...] = (),
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        env: Mapping[str, str] | None = None,
        pace: float | None = None,
        start_new_session: bool = False,
        errors: str | None = None,
    ) -> None:
        request = {
            "arguments": arguments,
            "flags": flags,
            "env": dict(os.environ if env is None else env),
            "pace": pace,
            "start_new_session": start_new_session,
        }
        self.returncode: int | None = None
        theirs: list[int] = []
        self.stdin = _our_end(stdin, theirs, "w", errors)
        self.stdout = _our_end(stdout, theirs, "r", errors)
        self.stderr = _our_end(stderr, theirs, "r", errors)
        self._line, line = socket.socketpair()
        with line:
            socket.send_fds(_launcher(), [b"+"], [*theirs, line.fileno()])
        for descriptor in theirs:
            os.close(descriptor)
        self._line.sendall(json.dumps(request).encode())
        self._line.shutdown(socket.SHUT_WR)
        self.pid = self._next_number()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()
        self._line.close()

    def poll(self) -> int | None:
        """The exit code, or None while the program runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; returns the exit code, or the negative number of a signal."""
        if self.returncode is None:
            if not select.select([self._line], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = self._next_number()
        return self.returncode

    def communicate(self, input: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Write the input, read both streams to their ends, and wait for the program's."""
        with ThreadPoolExecutor(2) as threads:
            reads = [threads.submit(stream.read) if stream else None for stream in (self.stdout, self.stderr)]
            if self.stdin is not None:
                self.stdin.write(input)
                self.stdin.close()
            try:
                out, complaints = (read.result(timeout) if read else "" for read in reads)
                self.wait(timeout)
            except BaseException:
                self.kill()  # or the reads never end
                raise
        return out, complaints

    def until_asleep(self) -> None:
        """Wait until all threads of the program wait for something; Linux alone tells, elsewhere nothing waits."""
        from support.waiting import until_sync  # the process that forks runs this file, and does not find it

        until_sync(lambda: all(map(_is_asleep, Path(f"/proc/{self.pid}/task").glob("*/stat"))))

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended in between, and its exit code is on its way
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Stop the program at once."""
        self.send_signal(signal.SIGKILL)

    def _next_number(self) -> int:
        number: int = _NUMBER.unpack(self._line.recv(_NUMBER.size, socket.MSG_WAITALL))[0]
        return number


def run_program(*arguments: str, flags: tuple[str, ...] = (), given: str = "") -> tuple[str, str, int]:
    """Run a program to its end; returns what it wrote to stdout and to stderr, and the exit code."""
    with Program(*arguments, flags=flags, stdin=subprocess.PIPE) as program:
        out, complaints = program.communicate(given, 60)
        return out, complaints, program.wait()


def _is_asleep(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "S"
    except (FileNotFoundError, ProcessLookupError):
        return True  # the thread has ended


def _our_end(wanted: int, theirs: list[int], mode: str, errors: str | None) -> IO[str] | None:
    if wanted == subprocess.DEVNULL:
        theirs.append(os.open(os.devnull, os.O_RDWR))
        return None
    if wanted != subprocess.PIPE:
        theirs.append(os.dup(wanted))
        return None
    reader, writer = os.pipe()
    ours, other = (writer, reader) if mode == "w" else (reader, writer)
    theirs.append(other)
    return os.fdopen(ours, mode, encoding="utf-8", errors=errors)


@functools.cache
def _launcher() -> socket.socket:
    """A socket that takes the four descriptors of a program: its streams, and the line to its `Program`."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait(10)

    atexit.register(end)
    return ours


# --- in the process that forks


def _launched(control: socket.socket) -> dict[str, Any]:
    """Fork for each program; returns in the fork, with what to run."""
    paths = [(name, importlib.import_module(name).__path__) for name in _PACKAGES]
    parts = [part.name for name, path in paths for part in pkgutil.iter_modules(path, f"{name}.")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # programs that take warnings for errors import all of it here, too
        for name in (*parts, *_MODULES):
            with suppress(ImportError):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 4)
        if not message:
            sys.exit()
        if os.fork() == 0:
            control.close()
            return _watched(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        while _has_reaped():
            pass


def _has_reaped() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _watched(stdin: int, stdout: int, stderr: int, line: int) -> dict[str, Any]:
    """Fork again, and wait for that process as its parent; returns in it."""
    with socket.socket(fileno=line) as report:
        with report.makefile("rb") as file:
            request: dict[str, Any] = json.load(file)
        process_id = os.fork()
        if process_id == 0:
            for number, descriptor in enumerate((stdin, stdout, stderr)):
                os.dup2(descriptor, number)
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        if process_id == 0:
            return request
        report.sendall(_NUMBER.pack(process_id))
        _, status = os.waitpid(process_id, 0)
        report.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _apply(flags: list[str]) -> None:
    """Filter warnings as the interpreter does; of `-X dev` there is what a program of ours can notice."""
    filters = [value for flag, value in zip(flags[::2], flags[1::2], strict=True) if flag == "-W"]
    if "dev" in flags:
        filters.insert(0, "default")
        os.environ["PYTHONASYNCIODEBUG"] = "1"
    for each in filters:
        action, _, category = each.partition("::")
        warnings.simplefilter(action, getattr(builtins, category or "Warning"))  # type: ignore[arg-type]


def _prepare(request: dict[str, Any]) -> None:
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(request["env"])
    _apply(request["flags"])
    if request["start_new_session"]:
        os.setsid()
    if request["pace"] is not None:
        from agui_client.demo import demo_agent

        assert demo_agent.__kwdefaults__ is not None
        demo_agent.__kwdefaults__["pace"] = request["pace"]
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def _run() -> None:
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif sys.argv[0] == "-c":
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(sys.argv.pop(1), "<string>", "exec"), main.__dict__)
    else:
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
        runpy.run_path(sys.argv[0], run_name="__main__")


def _exit_code() -> int:
    """Run a program; whatever else it raises is for the interpreter."""
    try:
        _run()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        return end.code
    return 0


def _leave(code: int) -> None:
    """Do what an interpreter does at its end, apart from taking the modules apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # warns of what was left open
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as control:
        request = _launched(control)
    _prepare(request)
    sys.argv = list(request["arguments"])
    if sys.argv[0] != "-c":
        _leave(_exit_code())
    _run()  # what the program leaves in its variables goes with its last line, as nothing here refers to them
