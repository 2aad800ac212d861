"""`fast_client`: runs over aiohttp end as they do over httpx's own transport, and nothing is posted twice.

`AGUI_CLIENT_FAST=1` runs any other test on it; see `support.on_fast_client`.
"""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import base64
import re
import socket
import ssl
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from ag_ui.core import UserMessage

from agui_client import AGUIError, ConnectError, ConnectTimeoutError, HttpAgent, RunResult, Timeouts, UsageError
from agui_client.fast import fast_client
from agui_client.testing import ByteServer, Reply, faults, serve_bytes, sse, text, turn
from support.faults_matrix import BODY, FAULT_CASES, FaultCase
from support.leaks import nothing_left_behind, nothing_left_behind_sync
from support.tls_server import served_with_tls, tunnelling_proxy
from support.verbs import VERBS, Ending, shown
from support.waiting import LIMIT, start_thread, until, until_sync

pytestmark = pytest.mark.anyio

ANSWER = sse(turn(text("Hello")))
SILENT = faults.stall(BODY, events=3)
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


# --- the same ends


CASES = [case for case in FAULT_CASES if "broken" not in case.name and case.name != "burst of 3 MB"]
"""Those that are broken as HTTP or as gzip lose what came in the same read; the burst takes long."""


def story(case: FaultCase, http_client: Callable[[], httpx.AsyncClient] | None) -> list[object]:
    """All that a caller and a server see of a run that meets a fault."""
    with serve_bytes(case.reply()) as server:
        agent = HttpAgent(server.url, thread_id="thread-1", http_client=http_client, **case.options)
        ending: Ending = VERBS["stream-asyncio"](agent, UserMessage(id="user-1", content="Hi"), run_id="run-1")
        reached: RunResult | None = getattr(ending.error, "partial", ending.result)
        assert reached is not None
        posted = [(request.method, request.path, request.headers, request.body) for request in server.requests]
    return [
        type(ending.error),
        _plain(ending.error),
        ending.types,
        shown(agent.messages),
        agent.incomplete_ids,
        [(each.reason, each.status_code, _plain(each.error)) for each in reached.attempts],
        reached.response,
        [(*head, {name: _plain(value) for name, value in headers.items()}, body) for *head, headers, body in posted],
    ]


def _plain(said: object) -> str:
    """A text without ports, times and what came in them, and without what libraries say of a broken connection."""
    return re.sub(r"(broke: ).*|127\.0\.0\.1:\d+|\d+\.\d+ s|(?:no|one|\d+) keep-alive comments? had", r"\1…", str(said))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_ends_as_it_does_over_httpx(case: FaultCase) -> None:
    assert story(case, fast_client) == story(case, None)


# --- leaving


async def aborted_unawaited(agent: HttpAgent, server: ByteServer) -> None:
    async with agent.stream("Hi") as run:
        await anext(run)
        agent.abort_run()
        assert server.disconnected.wait(LIMIT), "the loop had no turn, and the connection is open"
        assert (await run.result()).aborted


async def aborted_while_waiting(agent: HttpAgent, server: ByteServer) -> None:
    async with agent.stream("Hi") as run, anyio.create_task_group() as tasks:
        for _ in range(3):
            await anext(run)

        async def abort() -> None:
            agent.abort_run()

        tasks.start_soon(abort)
        assert [event async for event in run] == []


async def left(agent: HttpAgent, server: ByteServer) -> None:
    async with agent.stream("Hi") as run:
        await anext(run)


async def cancelled(agent: HttpAgent, server: ByteServer) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.run_agent, "Hi")
        await until(lambda: server.requests)
        tasks.cancel_scope.cancel()


async def cancelled_in_a_kept_client(agent: HttpAgent, server: ByteServer) -> None:
    async with agent:
        await cancelled(agent, server)
        await until(server.disconnected.is_set)


@pytest.mark.parametrize(
    "leave",
    [aborted_unawaited, aborted_while_waiting, left, cancelled, cancelled_in_a_kept_client],
    ids=lambda leave: leave.__name__,
)
async def test_every_way_out_closes_the_connection_and_leaves_nothing(leave: Callable[..., Any]) -> None:
    with serve_bytes(SILENT) as server:
        async with nothing_left_behind():
            await leave(HttpAgent(server.url, http_client=fast_client), server)
        await until(server.disconnected.is_set)


async def test_a_run_that_is_given_up_before_an_answer_closes_the_connection() -> None:
    with serve_bytes(faults.unanswered(end="stall")) as server:
        async with nothing_left_behind():
            await cancelled(HttpAgent(server.url, http_client=fast_client), server)
        await until(server.disconnected.is_set)


def test_a_sync_run_is_aborted_from_another_thread_while_nobody_reads() -> None:
    with serve_bytes(SILENT) as server, nothing_left_behind_sync():
        agent = HttpAgent(server.url, http_client=fast_client)
        with agent.stream_sync("Hi") as run:
            next(run)
            start_thread(agent.abort_run)(LIMIT)
            until_sync(server.disconnected.is_set)
            assert run.result().aborted


@pytest.fixture
def deaf() -> Generator[socket.socket]:
    """A server that accepts connections and reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        yield listener


def is_closed_by_the_client(listener: socket.socket) -> bool:
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(LIMIT)
        try:
            while connection.recv(1 << 20):
                pass
        except ConnectionResetError:
            pass
        return True


@pytest.mark.parametrize("limits", [Timeouts(write=0.2), Timeouts(first_event=0.2)], ids=["write", "first event"])
async def test_a_server_that_does_not_read_the_request_is_given_up(deaf: socket.socket, limits: Timeouts) -> None:
    agent = HttpAgent(f"http://127.0.0.1:{deaf.getsockname()[1]}/", http_client=fast_client, timeout=limits)
    with pytest.raises((ConnectError, TimeoutError)) as caught:
        await agent.run_agent("x" * 30_000_000)
    assert ("did not take the request in time" in str(caught.value)) == (limits.write == 0.2)
    assert isinstance(caught.value, AGUIError)
    assert isinstance(caught.value.partial, RunResult)
    assert len(caught.value.partial.attempts) == 1
    assert start_thread(lambda: is_closed_by_the_client(deaf))(LIMIT)


# --- a run is never posted twice


async def test_a_connection_that_is_refused_is_tried_again() -> None:
    with pytest.raises(ConnectError, match="nothing listens there") as caught:
        await HttpAgent("http://127.0.0.1:1/", http_client=fast_client, retry=1).run_agent("Hi")
    assert not caught.value.may_have_started
    assert isinstance(caught.value.partial, RunResult)
    assert len(caught.value.partial.attempts) == 2


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_connection_that_breaks_before_the_answer_is_not(end: Any) -> None:
    with serve_bytes(faults.unanswered(end=end)) as server, pytest.raises(ConnectError) as caught:
        await HttpAgent(server.url, http_client=fast_client, retry=5).run_agent("Hi")
    assert caught.value.may_have_started
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        pytest.param(faults.unanswered(), "the server closed the connection without a response", id="no response"),
        pytest.param(faults.cut(BODY, size=20), "the response ended before its end", id="half a response"),
        pytest.param(Reply([b"what"], status=None, chunked=False), "what came is not HTTP", id="no HTTP"),
    ],
)
async def test_the_error_says_how_a_connection_broke(reply: Reply, what: str) -> None:
    with serve_bytes(reply) as server, pytest.raises(AGUIError, match=f"broke: {what}"):
        await HttpAgent(server.url, http_client=fast_client).run_agent("Hi")


async def test_a_hook_of_the_client_may_watch_the_body() -> None:
    class Counted(httpx.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self.stream, self.seen = stream, 0

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            async for chunk in self.stream:
                self.seen += len(chunk)
                yield chunk

        async def aclose(self) -> None:
            await self.stream.aclose()

    async def watch(response: httpx.Response) -> None:
        response.stream = Counted(response.stream)
        watched.append(response.stream)

    watched: list[Counted] = []
    client = fast_client()
    client.event_hooks["response"] = [watch]
    with serve_bytes(ANSWER) as server:
        async with client:
            await HttpAgent(server.url, http_client=client).run_agent("Hi")
    assert [each.seen for each in watched] == [len(ANSWER)]


async def test_a_connection_that_is_not_made_in_time_is_a_connect_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting = [socket.socket() for _ in range(4)]
        try:
            for each in waiting:  # the queue of connections is full
                each.setblocking(False)
                each.connect_ex(listener.getsockname())
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            limits = Timeouts(connect=0.2)
            with pytest.raises((ConnectTimeoutError, ConnectError)) as caught:
                await HttpAgent(url, http_client=fast_client, timeout=limits, retry=0).run_agent("Hi")
            assert not caught.value.may_have_started
        finally:
            for each in waiting:
                each.close()


async def test_a_name_that_nobody_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(ConnectError, match=r"the name agent\.test is not known") as caught:
        await HttpAgent("http://agent.test/", http_client=fast_client, retry=0).run_agent("Hi")
    assert not caught.value.may_have_started


async def test_a_look_up_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def look_up(*_: Any, **__: Any) -> bool:
        return over.wait(30)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    began, limits = time.monotonic(), Timeouts(connect=0.1)
    with pytest.raises(ConnectTimeoutError, match=r"within 0\.1 s"):
        await HttpAgent("http://agent.test/", http_client=fast_client, timeout=limits, retry=0).run_agent("Hi")
    assert time.monotonic() - began < 5
    over.set()


# --- requests


async def test_a_large_request_arrives_whole() -> None:
    with serve_bytes(ANSWER) as server:
        assert (await HttpAgent(server.url, http_client=fast_client).run_agent("ü" * 3_000_000)).text == "Hello"
    assert server.requests[0].json()["messages"][0]["content"] == "ü" * 3_000_000


async def test_no_cookie_is_carried_to_another_attempt_or_run() -> None:
    there = Reply(status=307, headers={"Location": "/there", "Set-Cookie": "a=1"})
    with serve_bytes(there, ANSWER) as server:
        async with HttpAgent(server.url, http_client=fast_client) as agent:
            await agent.run_agent("Hi")
            await agent.clone().run_agent("Hi")
    assert [request.headers.get("cookie") for request in server.requests] == [None] * 3


async def test_an_address_and_headers_are_sent_as_they_are_written() -> None:
    headers = {"X-Text": "a \t b", "X-Signs": '"(),/:;<=>?@[]{}~', "Host": "agent.example"}
    with serve_bytes(ANSWER) as server:
        url = f"{server.url}a%2Fb/%7Ec/;d?q=%20+&r=é"
        for each in (fast_client, None):
            await HttpAgent(url, http_client=each, headers=headers).run_agent(run_id="r")
    fast, usual = server.requests
    assert (fast.path, fast.headers) == (usual.path, usual.headers)


async def test_one_client_serves_many_runs_at_once() -> None:
    with serve_bytes(ANSWER) as server:
        async with fast_client() as client:
            agent = HttpAgent(server.url, http_client=client)
            results = list[RunResult]()

            async def run() -> None:
                results.append(await agent.clone().run_agent("Hi"))

            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(run)
            assert {result.text for result in results} == {"Hello"}


# --- what it cannot do


def test_on_trio_the_error_says_what_to_use_instead() -> None:
    agent = HttpAgent("http://127.0.0.1:1/", http_client=fast_client)
    with pytest.raises(UsageError, match=r"works with asyncio only; on trio, leave http_client= out"):
        anyio.run(agent.run_agent, "Hi", backend="trio")
    assert agent.messages == []


def test_for_http2_the_error_says_what_to_use_instead() -> None:
    with pytest.raises(UsageError, match=r"HTTP/1.1 only; for HTTP/2, leave http_client= out"):
        HttpAgent("http://127.0.0.1:1/", http_client=partial(fast_client, http2=True)).run_agent_sync("Hi")


async def test_for_a_socks_proxy_the_error_says_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://localhost:1")
    with pytest.raises(UsageError, match=r"no SOCKS proxies: leave http_client= out.*httpx\[socks\].*ALL_PROXY"):
        await HttpAgent("http://127.0.0.1:1/", http_client=fast_client).run_agent("Hi")


# --- proxies


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
async def test_a_proxy_of_the_environment_is_used(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_bytes(ANSWER) as proxy:
        monkeypatch.setenv(variable, proxy.url.replace("http://", "http://ada:s3cr3t@"))
        agent = HttpAgent("http://agent.test/path", http_client=fast_client)
        assert (await agent.run_agent("Hi")).text == "Hello"
    (request,) = proxy.requests
    assert request.path == "http://agent.test/path"
    assert request.headers["proxy-authorization"] == f"Basic {base64.b64encode(b'ada:s3cr3t').decode()}"
    assert request.headers["host"] == "agent.test"


@pytest.mark.parametrize("no_proxy", ["127.0.0.1", "*", "localhost,127.0.0.1"])
async def test_hosts_that_the_environment_exempts_are_reached_without(
    no_proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    with serve_bytes(ANSWER) as server:
        assert (await HttpAgent(server.url, http_client=fast_client).run_agent("Hi")).text == "Hello"


async def test_a_given_proxy_is_used_and_the_environment_is_not_where_it_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "*")
    with serve_bytes(ANSWER) as server:
        client = partial(fast_client, proxy=server.url)
        await HttpAgent("http://agent.test/", http_client=client).run_agent("Hi")
        monkeypatch.delenv("NO_PROXY")
        await HttpAgent(server.url, http_client=partial(fast_client, trust_env=False)).run_agent("Hi")
    assert [request.path for request in server.requests] == ["http://agent.test/", "/"]


@pytest.mark.parametrize("proxy", ["gopher://proxy:1", "http://ada:s3cr3t@proxy:port"])
async def test_a_proxy_that_cannot_be_one_names_the_variables(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(UsageError, match="HTTP_PROXY") as caught:
        await HttpAgent("http://agent.test/", http_client=fast_client).run_agent("Hi")
    assert "s3cr3t" not in repr(caught.value)


async def test_a_proxy_that_does_not_listen_was_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with pytest.raises(ConnectError, match="nothing listens there, or at the proxy of HTTP_PROXY") as caught:
        await HttpAgent("http://agent.test/", http_client=fast_client, retry=0).run_agent("Hi")
    assert not caught.value.may_have_started


async def test_tls_goes_through_a_tunnel_that_a_proxy_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []
    with served_with_tls(ANSWER, tmp_path) as url, tunnelling_proxy(seen) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.replace("http://", "http://ada:s3cr3t@"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        assert (await HttpAgent(url, http_client=fast_client).run_agent("Hi")).text == "Hello"
    (tunnel,) = seen
    assert f"https://{tunnel['target']}/" == url
    assert tunnel["proxy-authorization"].startswith("Basic ")


# --- certificates


async def test_a_certificate_is_checked_and_may_be_trusted_in_every_usual_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served_with_tls(ANSWER, tmp_path) as url:
        with pytest.raises(ConnectError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            await HttpAgent(url, http_client=fast_client, retry=0).run_agent("Hi")
        assert not caught.value.may_have_started
        context = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
        for verify in (context, False):
            client = partial(fast_client, verify=verify)
            assert (await HttpAgent(url, http_client=client).run_agent("Hi")).text == "Hello"
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        assert (await HttpAgent(url, http_client=fast_client).run_agent("Hi")).text == "Hello"


async def test_a_certificate_file_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    with pytest.raises(UsageError, match="SSL_CERT_FILE=/no/such/file"):
        await HttpAgent("https://agent.test/", http_client=fast_client).run_agent("Hi")
