"""`serve_bytes`: exactly the bytes a test asks for, in the writes and with the end it asks for."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from agui_client.testing import Gate, Raw, Reply, Request, pause, serve_bytes
from support.wire import ASK, connected, everything


def test_bytes_are_the_body_of_an_event_stream() -> None:
    with serve_bytes(b": hi\n\n") as server:
        assert everything(server) == (
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n6\r\n: hi\n\n\r\n0\r\n\r\n"
        )


def test_status_headers_and_framing_are_the_replys() -> None:
    reply = Reply([b"no", b"pe"], status=499, content_type=None, headers={"X-Why": "fun"}, chunked=False)
    with serve_bytes(reply) as server:
        assert everything(server) == b"HTTP/1.1 499 \r\nConnection: close\r\nX-Why: fun\r\n\r\nnope"


def test_an_empty_piece_writes_nothing_and_ends_nothing() -> None:
    with serve_bytes(Reply([b"", b"one", b""], end="cut")) as server:
        assert everything(server).partition(b"\r\n\r\n")[2] == b"3\r\none\r\n"


def test_raw_pieces_are_written_outside_of_the_chunks() -> None:
    with serve_bytes(Reply([b"one", Raw(b"zz\r\n"), b"two"])) as server:
        assert everything(server).partition(b"\r\n\r\n")[2] == b"3\r\none\r\nzz\r\n3\r\ntwo\r\n0\r\n\r\n"


def test_without_a_status_the_pieces_are_all_there_is() -> None:
    with serve_bytes(Reply([Raw(b"SSH-2.0\r\n")], status=None, headers={"X-Why": "fun"}, end="cut")) as server:
        assert everything(server) == b"SSH-2.0\r\n"


def test_requests_are_recorded_as_they_arrived() -> None:
    with serve_bytes(b"") as server:
        everything(server)
        assert server.requests == [
            Request("POST", "/x", {"host": "h", "a": "1, 2", "content-length": "2"}, b"{}"),
        ]
        assert server.requests[0].json() == {}


def test_each_request_gets_the_next_answer_and_the_last_repeats() -> None:
    def mirrored(request: Request) -> Reply:
        return Reply([request.body], chunked=False)

    with serve_bytes(Reply(status=503), mirrored) as server:
        statuses = [httpx.post(server.url, verify=False, content=b"x").status_code for _ in range(3)]
        assert statuses == [503, 200, 200]
        assert httpx.post(server.url, verify=False, content=b"echo").content == b"echo"


def test_each_piece_is_a_write_of_its_own_and_waits_at_gates() -> None:
    gate = Gate()
    with serve_bytes(Reply([b"one", pause(0), gate, b"two"])) as server:
        with httpx.stream("POST", server.url, verify=False) as response:
            pieces = response.iter_raw()
            assert next(pieces) == b"one"
            gate.open()
            assert list(pieces) == [b"two"]
        assert not server.disconnected.is_set()


def test_a_cut_reply_ends_without_its_final_chunk() -> None:
    with serve_bytes(Reply([b"half"], end="cut")) as server:
        assert everything(server).endswith(b"4\r\nhalf\r\n")
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            httpx.post(server.url, verify=False)


def test_a_reset_reply_breaks_the_connection() -> None:
    with serve_bytes(Reply([b"half"], end="reset")) as server, pytest.raises(ConnectionResetError):
        everything(server)


def test_a_stalled_reply_lasts_until_the_client_goes_away_which_is_noticed() -> None:
    with serve_bytes(Reply([b"half"], end="stall")) as server:
        with connected(server) as connection:
            connection.sendall(ASK)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            assert not server.disconnected.is_set()
            left_at = time.monotonic()
        assert server.disconnected.wait(5)
        assert server.disconnected_at is not None
        assert server.disconnected_at >= left_at


def test_leaving_the_block_drops_a_stalled_reply_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with serve_bytes(Reply(end="stall")) as server:
        address = urlsplit(server.url)
        connection = socket.create_connection((address.hostname, address.port), timeout=5)
        connection.sendall(ASK)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    with closing(connection):
        assert connection.recv(65536) == b""
    assert not server.disconnected.is_set()
    assert set(threading.enumerate()) - before == set()


def test_a_connection_without_a_whole_request_is_ignored() -> None:
    with serve_bytes(b"") as server:
        with connected(server) as connection:
            connection.sendall(ASK[:-1])
        everything(server)
        assert len(server.requests) == 1


def test_a_server_without_answers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one response"), serve_bytes():
        pass


def _bytes(request: Request) -> bytes:
    return b"ab"


def _pieces(request: Request) -> Any:
    return [b"a", b"b"]


@pytest.mark.parametrize("answer", [[b"a", b"b"], b"ab", _bytes, _pieces])
def test_an_answer_may_be_pieces_or_a_function_that_returns_any_answer(answer: Any) -> None:
    with serve_bytes(answer) as server:
        response = httpx.post(server.url)
    assert (response.status_code, response.content) == (200, b"ab")


@pytest.mark.parametrize("answer", ["text", None, 7])
def test_an_answer_of_another_type_is_refused(answer: Any) -> None:
    with pytest.raises(TypeError, match="is a Reply, bytes, a list of pieces"), serve_bytes(answer):
        pass
