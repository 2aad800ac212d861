"""PgBouncer, in front of a server of PostgreSQL: on a free port of this machine."""

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

_SECONDS = 30
_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server} user={role}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
"""


@contextmanager
def pgbouncer(address: str, size: int = 3, *, role: str = "agui", mode: str = "transaction") -> Generator[str]:
    """Run a pooler while the block lasts, which gives each transaction any of its connections.

    Skips the test where PgBouncer is not installed.

    Args:
        address: The address of a database, as it stands in URLs.
        size: The number of connections to the server.
        role: The role that has these connections.
        mode: The mode of the pool.

    Yields:
        The address of the database behind the pooler.
    """
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    server = address.partition("@")[2].partition("/")[0].rpartition(":")[2]
    with tempfile.TemporaryDirectory(prefix="agui-pgbouncer-") as folder:
        settings = Path(folder) / "pgbouncer.ini"
        settings.write_text(_SETTINGS.format(server=server, port=port, size=size, role=role, mode=mode))
        # It refuses to be run by root.
        user = "postgres" if os.geteuid() == 0 else None
        if user is not None:
            shutil.chown(folder, user)
        quiet = subprocess.DEVNULL
        process = subprocess.Popen([program, str(settings)], user=user, cwd=folder, stdout=quiet, stderr=quiet)
        try:
            _wait_for(port, process)
            yield address.replace(f":{server}/", f":{port}/")
        finally:
            process.terminate()
            process.wait(_SECONDS)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + _SECONDS
    while True:
        assert process.poll() is None, "PgBouncer did not start"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        else:
            return
