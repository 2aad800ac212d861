"""Settings that cannot work are our errors and say what to change: proxies, certificates, names of hosts."""

from __future__ import annotations

import ssl
import sys
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute, SocketStream

from agui_client import AGUIError, ConnectError, HttpAgent, Timeouts, UsageError
from agui_client.fast import fast_client
from agui_client.testing import Reply, ScriptedAgent, serve, serve_bytes, sse, text, turn

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

SECRET = "s3cr3t"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def failure_at(url: str, **settings: Any) -> AGUIError:
    with pytest.raises(AGUIError) as caught:
        await HttpAgent(url, **settings).run_agent("Hi")
    assert SECRET not in repr(caught.value)
    return caught.value


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize(
    "proxy", [f"gopher://ada:{SECRET}@proxy:1", f"http://ada:{SECRET}@proxy:port", "http://[::", f"http://[{SECRET}]"]
)
async def test_a_proxy_that_cannot_be_one_names_the_variables(
    proxy: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, proxy)
    error = await failure_at("http://agent.test/")
    assert type(error) is UsageError
    assert variable in str(error)


async def test_a_port_that_no_proxy_has_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:99999")
    error = await failure_at("http://agent.test/")
    assert isinstance(error, UsageError | ConnectError)
    assert "proxy" in str(error)


async def test_a_socks_proxy_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://localhost:1")
    monkeypatch.setitem(sys.modules, "socksio", None)
    error = await failure_at("http://agent.test/")
    assert type(error) is UsageError
    assert "httpx[socks]" in str(error)
    assert "ALL_PROXY" in str(error)


async def test_a_proxy_that_does_not_listen_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    error = await failure_at("http://agent.test/", retry=0)
    assert type(error) is ConnectError
    assert "nothing listens there, or at the proxy of HTTP_PROXY" in str(error)


@pytest.mark.parametrize("no_proxy", ["::1", "::1/128", "[::1]", "fe80::/10, [::1] ,b.example:80", "[::1]:{port}"])
@pytest.mark.parametrize("make", [None, fast_client], ids=["httpx", "aiohttp"])
async def test_addresses_of_ipv6_are_exempt_from_proxies(
    no_proxy: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n" + sse(turn(text("Hi")))

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(answer)

    try:
        listener = await anyio.create_tcp_listener(local_host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = listener.extra(SocketAttribute.local_port)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", no_proxy.format(port=port))
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        with anyio.fail_after(10):
            result = await HttpAgent(f"http://[::1]:{port}/", http_client=make).run_agent("Hi")
        assert result.text == "Hi"
        tasks.cancel_scope.cancel()


async def test_other_hosts_are_reached_by_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "::1/128,agent.example,localhost")
    error = await failure_at("http://agent.test/", retry=0)
    assert "or at the proxy of HTTP_PROXY" in str(error)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSLKEYLOGFILE"])
async def test_a_certificate_file_that_is_missing_is_named(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from agui_client._core.transport import clients

    clients._ssl_context.cache_clear()
    monkeypatch.setenv(variable, "/no/such/file")
    error = await failure_at("https://agent.test/")
    assert type(error) is UsageError
    assert f"{variable}=/no/such/file" in str(error)


async def test_a_client_that_cannot_be_made_is_a_usage_error() -> None:
    def make() -> httpx.AsyncClient:
        return httpx.AsyncClient(verify=ssl.create_default_context(cafile="/no/such/file"))

    error = await failure_at("http://agent.test/", http_client=make)
    assert type(error) is UsageError
    assert "certificates cannot be loaded" in str(error)


NO_HOSTS = ["http://a..b/", "http://.b/", "http://a b/", f"http://{'a' * 64}.b/", f"http://{'a' * 300}/", "http://%/"]


@pytest.mark.parametrize("url", NO_HOSTS)
async def test_a_host_that_cannot_be_one_is_refused_at_once(url: str) -> None:
    with pytest.raises(UsageError, match="the agent's url"):
        HttpAgent(url)
    with pytest.raises(UsageError, match="the agent's url"):
        HttpAgent("http://agent.test/", connect_url=url)


@pytest.mark.parametrize("url", [*NO_HOSTS, "http://[::", "//host:99999/", "foo:bar", "http:///x", "/a\x01"])
async def test_a_redirect_to_no_address_is_our_error(url: str) -> None:
    with serve_bytes(Reply(status=307, headers={"Location": url})) as server:
        await failure_at(server.url)
        assert len(server.requests) == 1


async def test_an_address_behind_a_block_works_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_bytes(sse(turn(text("Hi.")))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert (await HttpAgent("http://nowhere.invalid/").run_agent("Hi")).text == "Hi."


async def test_a_server_without_tls_is_known_by_its_answer() -> None:
    with serve(ScriptedAgent(turn())) as server:
        error = await failure_at(server.url.replace("http:", "https:"), retry=0)
    assert isinstance(error, ConnectError)
    assert "the server there does not speak TLS; is its address http://...?" in str(error)
    assert error.may_have_started is False


@pytest.mark.parametrize("name", ["connect", "first_event", "idle", "total", "write", "pool"])
@pytest.mark.parametrize("seconds", [0, -1, True, "1"])
def test_a_time_out_is_a_number_of_seconds_above_zero(name: str, seconds: Any) -> None:
    with pytest.raises(UsageError, match=f"Timeouts.{name} is a number of seconds above zero, or None"):
        Timeouts(**{name: seconds})
