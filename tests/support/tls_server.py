"""Servers of the standard library for what the byte server has not: TLS, and a proxy that makes tunnels."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# Of an authority that signed itself, for localhost and 127.0.0.1; it protects nothing.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBqTCCAVCgAwIBAgITVt0EA8PngL+nD1m7Il7UDhusuDAKBggqhkjOPQQDAjAc
MRowGAYDVQQDDBFhZ3VpX2NsaWVudCB0ZXN0czAgFw0yNjExMjIwOTE2MjhaGA8y
MTI2MTAyOTA5MTYyOFowHDEaMBgGA1UEAwwRYWd1aV9jbGllbnQgdGVzdHMwWTAT
BgcqhkjOPQIBBggqhkjOPQMBBwNCAASVwJJNlw/Wf2aA12oHJGsZqLzrKrRep0V+
O5GG+gLABr2aVayTz7oXHCGm56fTSYY1l3p5/fMAZe/n8cGgeAGTo28wbTAdBgNV
HQ4EFgQUByMpgFofFVolFA71xZIDQvCpWhUwHwYDVR0jBBgwFoAUByMpgFofFVol
FA71xZIDQvCpWhUwGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMA8GA1UdEwEB
/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgGaIV9+U4tdjezO6KfQeI2r3ZviFM
nwdFLKWmXJiHStICIGPuYfvXC0PDDzy33yFiHIi3Mevg9/iomtCTtMDIjI5G
-----END CERTIFICATE-----
"""
_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgR0n/F48RFLtqZBwQ
+afUfCZ6EKXt6d+VdofmRTMg9QahRANCAASVwJJNlw/Wf2aA12oHJGsZqLzrKrRe
p0V+O5GG+gLABr2aVayTz7oXHCGm56fTSYY1l3p5/fMAZe/n8cGgeAGT
-----END PRIVATE KEY-----
"""


@contextmanager
def served_with_tls(body: bytes, folder: Path) -> Generator[str]:
    """Answer every POST with an event stream over TLS; the address of the server.

    Args:
        body: The event stream.
        folder: Where the certificate may be written to; its file is `certificate.pem`.
    """

    class Handler(_Quiet):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(body)

    (folder / "certificate.pem").write_text(CERTIFICATE)
    (folder / "key.pem").write_text(_KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    with _serving(Handler, context) as port:
        yield f"https://localhost:{port}/"


@contextmanager
def tunnelling_proxy(seen: list[dict[str, str]]) -> Generator[str]:
    """Connect clients to whom they name; the address of the proxy.

    Args:
        seen: Gets the headers of each CONNECT, and its target as "target".
    """

    class Handler(_Quiet):
        def do_CONNECT(self) -> None:
            seen.append({"target": self.path, **{name.lower(): value for name, value in self.headers.items()}})
            host, _, port = self.path.rpartition(":")
            with socket.create_connection((host, int(port)), timeout=10) as there:
                self.send_response(200)
                self.end_headers()
                _relay(self.connection, there)
            self.close_connection = True

    with _serving(Handler) as port:
        yield f"http://127.0.0.1:{port}"


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named there
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing about clients that do not trust the certificate, or leave."""


@contextmanager
def _serving(handler: type[_Quiet], context: ssl.SSLContext | None = None) -> Generator[int]:
    with _Server(("127.0.0.1", 0), handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def _relay(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes on in both directions until one side ends."""
    while True:
        for each in select.select([one, other], [], [], 10)[0]:
            content = each.recv(65536)
            if not content:
                return
            (other if each is one else one).sendall(content)
