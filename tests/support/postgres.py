"""A PostgreSQL server of the tests' own: made in a temporary directory, on a free port of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin")
_SECONDS = 30


def _programs() -> Path | None:
    found = sorted((path for place in _PLACES for path in Path("/").glob(place[1:])), key=str)
    beside = shutil.which("initdb")
    places = [*([Path(beside).resolve().parent] if beside else []), *reversed(found)]
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


class PostgresServer:
    """A server that runs, and can be stopped and started again.

    Args:
        programs: The directory of PostgreSQL's programs.
        folder: An empty directory.
        port: A free port.
        primary: The server of which this one is a standby; None if it is a primary itself.
    """

    def __init__(self, programs: Path, folder: str, port: int, primary: PostgresServer | None = None) -> None:
        # The server refuses to be run by root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._folder, self._port = folder, port
        self._databases = 0
        self._data = str(Path(folder) / "data")
        self.address = f"agui@127.0.0.1:{port}/postgres"
        """The user, the host, the port and the database, as they stand in URLs."""
        self.programs: Path = programs
        """The directory of its programs."""
        make = [str(programs / "initdb"), "-D", self._data, "-U", "agui", "-A", "trust", "-E", "UTF8", "--locale=C"]
        if primary is not None:
            make = [str(programs / "pg_basebackup"), "-D", self._data, "-R", "--checkpoint=fast"]
            make += ["-d", f"host=127.0.0.1 port={primary._port} user=agui"]
        make += ["--no-sync"]
        made = subprocess.run(make, user=self._user, cwd=folder, capture_output=True, timeout=_SECONDS, check=False)
        assert made.returncode == 0, made.stderr
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it serves."""
        begin = [str(self.programs / "postgres"), "-D", self._data, "-p", str(self._port), "-k", self._folder, "-F"]
        begin += ["-c", "listen_addresses=127.0.0.1"]
        self._process = subprocess.Popen(
            begin, user=self._user, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _wait_for(self._port, self._process)

    def new_database(self) -> str:
        """Make an empty database; return its address."""
        self._databases += 1
        name = f"made{self._databases}"
        make = [str(self.programs / "psql"), "-h", "127.0.0.1", "-p", str(self._port), "-U", "agui", "postgres"]
        make += ["-q", "-c", f"create database {name}"]
        subprocess.run(make, timeout=_SECONDS, check=True)
        return self.address.replace("/postgres", f"/{name}")

    def promote(self) -> None:
        """Make a standby a primary."""
        make = [str(self.programs / "pg_ctl"), "promote", "-D", self._data, "-w"]
        subprocess.run(make, user=self._user, cwd=self._folder, timeout=_SECONDS, check=True, capture_output=True)

    def stop(self) -> None:
        """Stop the server at once, connections that are open included."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_SECONDS)


@contextmanager
def postgres_server(primary: PostgresServer | None = None) -> Generator[PostgresServer]:
    """Run a server while the block lasts.

    Skips the test where PostgreSQL is not installed.

    Args:
        primary: The server of which it is a standby; None if it is a primary itself.
    """
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="agui-postgres-") as folder:
        server = PostgresServer(programs, folder, port, primary)
        try:
            yield server
        finally:
            server.stop()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + _SECONDS
    names = b"user\0agui\0database\0postgres\0\0"
    startup = (len(names) + 8).to_bytes(4) + (3 << 16).to_bytes(4) + names
    while True:
        assert server.poll() is None, "PostgreSQL did not start"
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as line:
                line.sendall(startup)
                if line.recv(1) == b"R":  # not the error that it is starting up
                    return
        except OSError:
            pass
        assert time.monotonic() < give_up
        time.sleep(0.02)
