"""The programs of docs/deploy.md, written to a folder and run by the command of the page."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.programs import ROOT
from support.snippets import SNIPPETS
from support.waiting import until_sync

_PAGE = (ROOT / "docs" / "deploy.md").read_text("utf-8")
_COMMAND = re.compile(r"<!-- deploy:run -->\n```sh\n(.*)\n```")
_SECONDS = 60


def write_programs(folder: Path) -> None:
    """Write `service.py` and `client.py` as the page has them."""
    blocks = SNIPPETS.findall(_PAGE)
    clients = [block for block in blocks if block.startswith("# client.py\n")]
    (folder / "client.py").write_text("\n".join(clients), "utf-8")
    (folder / "service.py").write_text("\n\n".join(block for block in blocks if block not in clients), "utf-8")


class Deployed:
    """A service that runs.

    Args:
        process: The process of uvicorn, which leads a group of its own.
        log: The file of its output.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """All that the service has printed."""
        return self._log.read_text("utf-8")

    @property
    def workers(self) -> list[int]:
        """The processes that have come to serve."""
        return [int(each) for each in re.findall(r"Started server process \[(\d+)\]", self.log)]

    def wait_until_started(self) -> None:
        """Wait until both workers serve."""
        self._wait(lambda: self.log.count("Application startup complete.") == 2)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until the service has printed something."""
        self._wait(lambda: re.search(pattern, self.log))
        found = re.search(pattern, self.log)
        assert found is not None
        return found

    def stop(self) -> int:
        """Send SIGTERM, as a deploy does; return the exit code."""
        self.process.terminate()
        return self.process.wait(_SECONDS)

    def _wait(self, condition: Callable[[], object]) -> None:
        with suppress(TimeoutError):
            until_sync(lambda: condition() or "Traceback" in self.log, _SECONDS)
        assert condition(), self.log


@contextmanager
def deployed(folder: Path, listener: socket.socket, name: str = "service", **environment: str) -> Generator[Deployed]:
    """Run the service while the block lasts, on a socket that several may share.

    Args:
        folder: The folder with the programs.
        listener: The socket, in place of the port of the page.
        name: The name of the log.
        environment: Variables of the environment.
    """
    [command] = _COMMAND.findall(_PAGE)
    program, *arguments = shlex.split(re.sub(r"--port \d+", f"--fd {listener.fileno()}", command))
    paths = os.pathsep.join([str(folder), str(ROOT)])
    needed = {**os.environ, "PYTHONPATH": paths, "NO_PROXY": "*", **environment}
    log = folder / f"{name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", program, *arguments],
            env=needed,
            cwd=folder,
            stdout=output,
            stderr=output,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    try:
        yield Deployed(process, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_SECONDS)
