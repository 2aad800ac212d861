"""A bare socket as the client: what a server writes, byte for byte."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

from agui_client.testing import ByteServer

ASK = b"POST /x HTTP/1.1\r\nHost: h\r\nA: 1\r\na:  2\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def connected(server: ByteServer) -> Generator[socket.socket, None, None]:
    """A connection on which nothing has been said; no wait on it lasts longer than five seconds."""
    address = urlsplit(server.url)
    with closing(socket.create_connection((address.hostname, address.port), timeout=5)) as connection:
        yield connection


def everything(server: ByteServer, request: bytes = ASK) -> bytes:
    """All that a request is answered with, until the server closes the connection."""
    with connected(server) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def until_ends_with(connection: socket.socket, ending: bytes) -> bytes:
    """What comes until it ends with this, on a connection that the server leaves open."""
    received = b""
    while not received.endswith(ending):
        more = connection.recv(65536)
        assert more, f"closed after {received!r}"
        received += more
    return received
