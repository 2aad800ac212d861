"""A door before a server: an address that stays, behind which the server can be away."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit


class Door:
    """Passes connections on to a server while it is open; while it is shut, nothing listens.

    Args:
        url: The address of the server.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = str(parts.hostname), int(parts.port or 80)
        self._port, self._listener = 0, socket.socket()
        self._passing: set[socket.socket] = set()
        self.open()

    @property
    def url(self) -> str:
        """The address of the door."""
        return f"http://127.0.0.1:{self._port}"

    def open(self) -> None:
        """Listen, at the same port as before."""
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self._port))
        self._port = self._listener.getsockname()[1]
        self._listener.listen(100)
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        """Listen no more, and cut what is being passed on."""
        # Closing alone would leave the thread in its call, and the port open.
        for each in (self._listener, *self._passing):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                caller, _ = listener.accept()
                server = socket.create_connection(self._server)
                self._passing |= {caller, server}
                for source, target in ((caller, server), (server, caller)):
                    threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
