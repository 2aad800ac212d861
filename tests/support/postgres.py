"""A PostgreSQL server of the tests' own: made in a temporary directory, on a free port of this machine."""

from __future__ import annotations

import os
import shutil
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


@contextmanager
def postgres_server() -> Generator[str]:
    """Run a server while the block lasts; gives `host:port/database`, with the user in front.

    Skips the test where PostgreSQL is not installed.
    """
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    # The server refuses to be run by root.
    user = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="agui-postgres-") as folder:
        if user is not None:
            shutil.chown(folder, user)
        data = Path(folder) / "data"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        make: list[str | Path] = [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "agui",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
            "--locale=C",
        ]
        made = subprocess.run(make, user=user, cwd=folder, capture_output=True, timeout=_SECONDS, check=False)
        assert made.returncode == 0, made.stderr
        options: list[str | Path] = [
            "-D",
            data,
            "-p",
            str(port),
            "-c",
            "listen_addresses=127.0.0.1",
            "-k",
            folder,
            "-F",
        ]
        with subprocess.Popen(
            [programs / "postgres", *options],
            user=user,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as server:
            try:
                _wait_for(port, server)
                yield f"agui@127.0.0.1:{port}/postgres"
            finally:
                server.send_signal(3)  # SIGQUIT: at once, nothing in there is needed any more
                server.wait(_SECONDS)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + _SECONDS
    ask_for_startup = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"  # whether it would encrypt; answered as soon as it serves
    while True:
        assert server.poll() is None, "PostgreSQL did not start"
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as line:
                line.sendall(ask_for_startup)
                if line.recv(1):
                    return
        except OSError:
            pass
        assert time.monotonic() < give_up
        time.sleep(0.02)
