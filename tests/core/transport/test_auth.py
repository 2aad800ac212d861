"""Auth flows: what an `httpx.Auth` may do around the POST of a run, and what its failing comes to."""

from __future__ import annotations

import gzip
import logging
import tracemalloc
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from typing import Any

import anyio
import httpx
import pytest
from ag_ui.core import TextMessageContentEvent

from agui_client import (
    AgentRun,
    ConnectError,
    EventOrderError,
    HttpAgent,
    HTTPStatusError,
    RetryPolicy,
    Timeouts,
    UsageError,
)
from agui_client.reconnect import LastEventId
from agui_client.testing import Gate, Reply, events_of, faults, serve_bytes, sse, text, turn
from support.leaks import nothing_left_behind
from support.verbs import Verb, every_result_verb
from support.waiting import LIMIT, until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

SECRET = "s3cr3t"
ANSWER = sse(turn(text("One two")))
TOKEN = Reply([b"new"], status=401, content_type="text/plain")
DIGEST = {"WWW-Authenticate": 'Digest realm="agents", nonce="abc", qop="auth", algorithm=SHA-256'}

Flow = Generator[httpx.Request, httpx.Response, None]


class Reading(httpx.Auth):
    """Wants to read what a refusal says, as the example in httpx's documentation does."""

    requires_response_body = True

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def auth_flow(self, request: httpx.Request) -> Flow:
        response = yield request
        if response.status_code == 401:
            self.bodies.append(response.text)
            request.headers["Authorization"] = f"Bearer {response.text[:20]}"
            yield request


class ReadingLater(httpx.Auth):
    """The same, in an asynchronous flow of its own."""

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        response = yield request
        if response.status_code == 401:
            await response.aread()
            request.headers["Authorization"] = "Bearer new"
            yield request


async def first_word(run: AgentRun) -> str:
    async for event in run:
        if isinstance(event, TextMessageContentEvent):
            return event.delta
    raise AssertionError


@pytest.mark.parametrize("given_to", ["agent", "client"])
async def test_an_auth_that_reads_responses_leaves_the_event_stream_to_the_run(given_to: str) -> None:
    gate, events = Gate(), events_of(ANSWER)
    with serve_bytes(TOKEN, Reply([*events[:3], gate, *events[3:]])) as server, anyio.fail_after(LIMIT):
        async with httpx.AsyncClient(auth=Reading() if given_to == "client" else None) as client:
            agent = HttpAgent(server.url, http_client=client, auth=Reading() if given_to == "agent" else None)
            async with agent.stream("Hi") as run:
                assert await first_word(run) == "One "
                gate.open()
                assert (await run.result()).text == "One two"
    assert [request.headers.get("authorization") for request in server.requests] == [None, "Bearer new"]


@every_result_verb
def test_an_auth_that_reads_responses_reads_refusals(verb: Verb) -> None:
    auth = Reading()
    with serve_bytes(TOKEN, ANSWER) as server:
        result = verb(HttpAgent(server.url, auth=auth), "Hi").result
    assert result is not None
    assert (result.text, auth.bodies, len(result.attempts)) == ("One two", ["new"], 1)


async def test_an_auth_that_reads_responses_may_read_the_request_too() -> None:
    class Signing(Reading):
        requires_request_body = True

        def auth_flow(self, request: httpx.Request) -> Flow:
            request.headers["X-Length"] = str(len(request.content))
            yield request

    with serve_bytes(ANSWER) as server:
        await HttpAgent(server.url, auth=Signing()).run_agent("Hi")
    (request,) = server.requests
    assert request.headers["x-length"] == str(len(request.body))


async def test_a_run_can_be_aborted_while_its_auth_reads_a_response() -> None:
    async with nothing_left_behind():
        gate = Gate()
        with serve_bytes(Reply([b"ne", gate], status=401)) as server, anyio.fail_after(LIMIT):
            agent = HttpAgent(server.url, auth=Reading())
            async with anyio.create_task_group() as tasks, agent.stream("Hi") as run:
                tasks.start_soon(_abort_when_sent, agent, server.requests)
                assert (await run.result()).aborted
        gate.open()


async def _abort_when_sent(agent: HttpAgent, requests: list[Any]) -> None:
    await until(lambda: requests)
    agent.abort_run()


async def test_a_digest_challenge_is_answered_and_kept() -> None:
    auth = httpx.DigestAuth("ada", SECRET)
    with serve_bytes(faults.status(401, headers=DIGEST), ANSWER) as server:
        agent = HttpAgent(server.url, auth=auth)
        for _ in range(2):
            assert (await agent.clone().run_agent("Hi")).text == "One two"
    said = [request.headers.get("authorization", "")[:21] for request in server.requests]
    assert said == ["", 'Digest username="ada"', 'Digest username="ada"']


async def test_credentials_are_renewed_when_the_answer_to_a_challenge_is_refused() -> None:
    renewed: list[str] = []
    refused = faults.status(401, headers=DIGEST)
    with serve_bytes(refused, refused, ANSWER) as server:
        agent = HttpAgent(
            server.url, auth=httpx.DigestAuth("ada", SECRET), on_unauthorized=lambda: renewed.append("now")
        )
        result = await agent.run_agent("Hi")
    assert [each.status_code for each in result.attempts] == [401, 200]
    assert (renewed, len(server.requests)) == (["now"], 3)


class Elsewhere(httpx.Auth):
    """Asks at another address first, or instead."""

    def __init__(self, url: str, *, instead: bool = False) -> None:
        self._url = url
        self._instead = instead

    def auth_flow(self, request: httpx.Request) -> Flow:
        if self._instead:
            yield httpx.Request("POST", self._url, content=request.content, headers={"X-Signed": "yes"})
        else:
            yield httpx.Request("POST", self._url)
            yield request


async def test_an_auth_may_send_the_run_to_another_origin() -> None:
    with serve_bytes(ANSWER) as other, serve_bytes(ANSWER) as server:
        agent = HttpAgent(server.url, auth=Elsewhere(other.url, instead=True), headers={"X-Key": SECRET})
        assert (await agent.run_agent("Hi")).text == "One two"
    (request,) = other.requests
    assert (request.headers["x-signed"], "x-key" in request.headers, server.requests) == ("yes", False, [])


async def test_a_failed_request_of_an_auth_is_named_by_its_own_address() -> None:
    with serve_bytes(b"") as nobody:
        url = nobody.url
    auth = Elsewhere(f"{url}token?key={SECRET}")
    with serve_bytes(ANSWER) as server, pytest.raises(ConnectError) as caught:
        await HttpAgent(server.url, auth=auth, retry=RetryPolicy(connect=0)).run_agent("Hi")
    assert str(caught.value).startswith(f"no connection to {url}token: ")
    assert (caught.value.may_have_started, server.requests) == (False, [])


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("url", [f"http://ada:{SECRET}/", f"ftp://ada:{SECRET}@host/", f"/{SECRET}"])
async def test_an_auth_that_asks_for_an_impossible_address_is_an_error_without_secrets(url: str) -> None:
    with serve_bytes(ANSWER) as server, pytest.raises(UsageError, match="made its url one that is not http") as caught:
        await HttpAgent(server.url, auth=Elsewhere(url)).run_agent("Hi")
    assert SECRET not in f"{caught.value!r}{caught.value.__cause__!r}{caught.value.partial}"
    assert server.requests == []


async def test_a_redirect_of_where_an_auth_sent_the_run_is_not_followed() -> None:
    with (
        serve_bytes(faults.redirect("/there")) as other,
        serve_bytes(ANSWER) as server,
        pytest.raises(HTTPStatusError, match="another origin"),
    ):
        await HttpAgent(server.url, auth=Elsewhere(other.url, instead=True)).run_agent("Hi")
    assert (len(other.requests), server.requests) == (1, [])


class Raising(httpx.Auth):
    """Raises before or after the request, or asks for nothing at all."""

    def __init__(self, error: Exception | None, *, sends: bool = False) -> None:
        self._error = error
        self._sends = sends

    def auth_flow(self, request: httpx.Request) -> Flow:
        if self._sends:
            yield request
        if self._error is not None:
            raise self._error


class RaisingLater(Raising):
    """The same, asynchronously."""

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        for each in super().auth_flow(request):
            yield each


class NoFlow(httpx.Auth):
    """Fails before there is a flow."""

    def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        raise StopAsyncIteration


@pytest.mark.parametrize(
    "auth",
    [
        *(
            kind(error, sends=sends)
            for kind in (Raising, RaisingLater)
            for error in (StopIteration(), StopAsyncIteration())
            for sends in (False, True)
        ),
        Raising(None),
        RaisingLater(None),
        NoFlow(),
    ],
    ids=lambda auth: type(auth).__name__,
)
async def test_an_auth_whose_flow_stops_or_sends_nothing_is_an_error(auth: httpx.Auth) -> None:
    with serve_bytes(ANSWER) as server, pytest.raises(RuntimeError, match=r"Stop(Async)?Iteration"):
        await HttpAgent(server.url, auth=auth).run_agent("Hi")
    assert len(server.requests) <= 1


@pytest.mark.requirement("SSE-12")
@pytest.mark.parametrize("make", [Reading, ReadingLater, lambda: httpx.DigestAuth("ada", "lovelace")])
async def test_a_refusal_that_unpacks_to_a_lot_is_read_to_a_bound_whoever_reads_it(make: Any) -> None:
    bomb = gzip.compress(b"a" * 30_000_000, 9)
    headers = {"content-encoding": "gzip", **DIGEST}
    refusal = Reply([bomb], status=401, content_type="text/plain", headers=headers)
    with serve_bytes(refusal, ANSWER) as server:
        tracemalloc.start()
        try:
            result = await HttpAgent(server.url, auth=make(), max_event_bytes=1_000_000).run_agent("Hi")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (result.text, len(server.requests)) == ("One two", 2)
    assert peak < 15_000_000


@pytest.mark.parametrize("reads", [False, True])
async def test_what_an_auth_raises_after_the_response_comes_out_as_it_is_and_leaves_nothing(reads: bool) -> None:
    auth = Raising(LookupError("no"), sends=True)
    auth.requires_response_body = reads
    async with nothing_left_behind():
        with serve_bytes(faults.stall(ANSWER, events=2)) as server, pytest.raises(LookupError):
            await HttpAgent(server.url, auth=auth, timeout=Timeouts(total=LIMIT)).run_agent("Hi")


@pytest.mark.requirement("SEC-9")
async def test_credentials_in_the_connect_url_are_sent_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "httpx")
    with serve_bytes(faults.redirect("/there"), ANSWER) as server:
        secret_url = server.url.replace("http://", f"http://ada:{SECRET}@") + "connect"
        await HttpAgent(server.url, connect_url=secret_url).connect_agent()
    assert [request.headers.get("authorization", "")[:6] for request in server.requests] == ["Basic ", "Basic "]
    assert server.url in caplog.text
    assert SECRET not in caplog.text


async def test_credentials_of_one_address_are_not_sent_to_the_other() -> None:
    with serve_bytes(ANSWER) as server:
        agent = HttpAgent(server.url, connect_url=server.url.replace("http://", f"http://ada:{SECRET}@") + "connect")
        await agent.run_agent("Hi")
    assert "authorization" not in server.requests[0].headers


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("cause", ["connect", "capabilities", "reconnect"])
async def test_another_origin_gets_no_credentials_that_were_not_given_for_it(cause: str) -> None:
    credentials = {"authorization": f"Bearer {SECRET}", "cookie": f"a={SECRET}", "x-api-key": SECRET}
    client = httpx.AsyncClient(
        headers=credentials, auth=("ada", SECRET), cookies={"session": SECRET}, params={"key": SECRET}, trust_env=False
    )
    declared = Reply([b'{"identity": {"name": "x"}}'], content_type="application/json")
    with serve_bytes(declared if cause == "capabilities" else ANSWER) as other:
        first = events_of(ANSWER)[0]
        with serve_bytes(Reply([b"id: 1\n" + first], end="cut")) as server:
            agent = HttpAgent(
                server.url,
                headers=credentials,
                auth=("ada", SECRET),
                http_client=client,
                on_unauthorized=lambda: credentials,
                connect_url=other.url,
                capabilities_url=other.url,
                reconnect=LastEventId() if cause == "reconnect" else None,
            )
            if cause == "connect":
                await agent.connect_agent(headers={"x-tenant": "one"})
            elif cause == "capabilities":
                assert await agent.capabilities() is not None
            else:
                with suppress(EventOrderError):
                    await agent.run_agent("Hi", headers={**credentials, "x-tenant": "one"})
    assert len(other.requests) >= 1
    for request in other.requests:
        assert not {"authorization", "cookie", "x-api-key"} & request.headers.keys()
        assert SECRET not in request.path
        assert request.headers.get("x-tenant") == (None if cause == "capabilities" else "one")


async def test_another_origin_that_refuses_a_request_without_credentials_has_none_renewed() -> None:
    renewed: list[int] = []
    with serve_bytes(TOKEN) as other:
        agent = HttpAgent("http://agent.test/", connect_url=other.url, on_unauthorized=lambda: renewed.append(1))
        with pytest.raises(HTTPStatusError, match="another origin than the agent's") as caught:
            await agent.connect_agent()
    assert (caught.value.status_code, renewed, len(other.requests)) == (401, [], 1)


@pytest.mark.requirement("SEC-9")
async def test_a_header_of_an_auth_that_http_does_not_take_is_refused_without_showing_it() -> None:
    class Careless(httpx.Auth):
        def auth_flow(self, request: httpx.Request) -> Flow:
            request.headers["Authorization"] = f"Bearer {SECRET}\n"
            yield request

    with serve_bytes(ANSWER) as server, pytest.raises(UsageError, match="a header's name or value") as caught:
        await HttpAgent(server.url, auth=Careless()).run_agent("Hi")
    assert SECRET not in f"{caught.value!r}{caught.value.__cause__!r}{caught.value.partial}"
    assert server.requests == []


async def test_what_an_auth_raises_in_httpx_s_words_is_said_in_ours() -> None:
    with serve_bytes(ANSWER) as server, pytest.raises(ConnectError) as caught:
        await HttpAgent(server.url, auth=Raising(httpx.ReadError("no token"))).run_agent("Hi")
    assert str(caught.value) == f"the connection to {server.url} broke: no token"
