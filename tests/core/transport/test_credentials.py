"""Credentials: asked for at each attempt, renewed once, and never shown (SEC-9)."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Generator, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agui_client import (
    AGUIError,
    HttpAgent,
    HTTPStatusError,
    RetryPolicy,
    RunResult,
    RunTimeoutError,
    Timeouts,
    UsageError,
)
from agui_client.testing import Gate, Reply, Request, faults, serve_bytes, sse, text, turn
from agui_client.types import UnauthorizedContext
from support.bodies import URL, Body, response
from support.verbs import Verb, every_result_verb
from support.waiting import LIMIT, start_thread, until

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

ANSWER = sse(turn(text("Hi.")))
BUSY = faults.status(503, retry_after=0)


def only_for(token: str) -> Any:
    """Answers who brings the token, and refuses everybody else with 401."""

    def answer(request: Request) -> Reply:
        return Reply([ANSWER]) if request.headers.get("authorization") == f"Bearer {token}" else faults.status(401)

    return answer


class Token:
    def __init__(self) -> None:
        self.value = "old"
        self.renewals = 0
        self.threads: set[int] = set()

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.value}"}

    async def headers_later(self) -> dict[str, str]:
        await anyio.lowlevel.checkpoint()
        return self.headers()

    def renew(self) -> None:
        self.threads.add(threading.get_ident())
        self.renewals += 1
        self.value = "new"

    async def renew_later(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.renew()

    async def give_new(self) -> dict[str, str]:
        self.renewals += 1
        return {"Authorization": "Bearer new"}


@every_result_verb
@pytest.mark.parametrize("headers", ["headers", "headers_later"])
@pytest.mark.parametrize("renew", ["renew", "renew_later", "give_new"])
def test_a_token_is_renewed_once_and_kept(verb: Verb, headers: str, renew: str) -> None:
    token = Token()
    with serve_bytes(only_for("new")) as server:
        agent = HttpAgent(server.url, headers=getattr(token, headers), on_unauthorized=getattr(token, renew))
        first, second = verb(agent, "Hi").result, verb(agent.clone(), "Again").result
    assert first is not None
    assert second is not None
    assert [each.reason for each in first.attempts] == ["first attempt", "401, and the credentials were renewed"]
    assert ([each.status_code for each in second.attempts], token.renewals) == ([200], 1)
    assert [message.content for message in first.messages] == ["Hi", "Hi."]


@every_result_verb
def test_a_second_401_is_an_error(verb: Verb) -> None:
    token = Token()
    with serve_bytes(faults.status(401)) as server:
        error = verb(HttpAgent(server.url, headers=token.headers, on_unauthorized=token.renew), "Hi").error
    assert isinstance(error, HTTPStatusError)
    assert (error.status_code, token.renewals, len(server.requests)) == (401, 1, 2)
    assert "on_unauthorized= has renewed the credentials, and the server refuses the new ones, too" in str(error)


async def test_a_plain_function_renews_in_a_thread_of_its_own() -> None:
    token = Token()
    with serve_bytes(only_for("new")) as server:
        await HttpAgent(server.url, headers=token.headers, on_unauthorized=token.renew).run_agent("Hi")
    assert token.threads
    assert threading.get_ident() not in token.threads


async def test_runs_that_are_refused_at_once_renew_once() -> None:
    token, refused = Token(), Gate()
    requests = iter(range(100))

    def answer(request: Request) -> Reply:
        if next(requests) == 3:
            refused.open()
        reply = only_for("new")(request)
        return Reply([refused, *reply.pieces], status=reply.status, content_type=reply.content_type)

    async def ask(agent: HttpAgent) -> None:
        assert (await agent.run_agent("Hi")).text == "Hi."

    with serve_bytes(answer) as server:
        agent = HttpAgent(server.url, headers=token.headers_later, on_unauthorized=token.renew_later)
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(ask, agent.clone())
    assert token.renewals == 1


async def test_headers_are_asked_for_at_each_attempt() -> None:
    numbers = iter(range(10))
    with serve_bytes(BUSY, ANSWER) as server:
        agent = HttpAgent(server.url, headers=lambda: {"X-Number": str(next(numbers))}, retry=RetryPolicy(status=1))
        await agent.run_agent("Hi")
    assert [request.headers["x-number"] for request in server.requests] == ["0", "1"]


async def test_credentials_that_a_run_brings_always_win_and_are_not_renewed() -> None:
    token = Token()
    with serve_bytes(only_for("new")) as server:
        agent = HttpAgent(server.url, headers={"Authorization": "Bearer x"}, on_unauthorized=token.give_new)
        with pytest.raises(HTTPStatusError):
            await agent.run_agent("Hi", headers={"authorization": "Bearer mine"})
        assert token.renewals == 0
        await agent.run_agent("Hi", headers={"X-Run": "7"})
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer mine",
        "Bearer x",
        "Bearer new",
    ]
    assert [request.headers.get("x-run") for request in server.requests] == [None, "7", "7"]


async def test_an_authorization_that_a_run_brings_stands_over_every_auth() -> None:
    with serve_bytes(ANSWER) as server:
        async with httpx.AsyncClient(auth=("ada", "client"), verify=False) as client:
            url = server.url.replace("http://", "http://ada:address@")
            for agent in (HttpAgent(url, auth=("ada", "auth")), HttpAgent(url), HttpAgent(url, http_client=client)):
                await agent.run_agent("Hi", headers={"Authorization": "mine"})
    assert [request.headers["authorization"] for request in server.requests] == ["mine"] * 3


async def test_a_401_to_credentials_that_a_run_brings_says_that_they_are_not_renewed() -> None:
    token = Token()
    with serve_bytes(faults.status(401)) as server:
        agent = HttpAgent(server.url, headers=token.headers, on_unauthorized=token.renew)
        with pytest.raises(HTTPStatusError, match="of the run's own headers="):
            await agent.run_agent("Hi", headers={"Authorization": "mine"})
    assert token.renewals == 0


# --- two users


async def test_a_clone_for_another_user_uses_nothing_of_the_first() -> None:
    ada, bob = Token(), Token()
    with serve_bytes(faults.status(401)) as server:
        url = server.url.replace("http://", "http://ada:address@")
        async with httpx.AsyncClient(auth=("ada", "client"), verify=False) as client:
            first = HttpAgent(url, headers=ada.headers, on_unauthorized=ada.renew, http_client=client)
            for other in (first.clone(headers=bob.headers), first.clone(auth=("bob", "secret"))):
                with pytest.raises(HTTPStatusError):
                    await other.run_agent("Hi")
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer old", "Basic Ym9iOnNlY3JldA=="]
    assert (ada.renewals, bob.renewals) == (0, 0)


async def test_a_function_that_renews_is_told_what_was_refused() -> None:
    told: list[UnauthorizedContext] = []

    def renew(context: UnauthorizedContext) -> dict[str, str]:
        told.append(context)
        return {"Authorization": "Bearer new"}

    with serve_bytes(BUSY, only_for("new")) as server:
        agent = HttpAgent(server.url, headers={"Authorization": "Bearer old"}, on_unauthorized=renew, retry=1)
        await agent.run_agent("Hi", headers={"X-Run": "7"})
    [context] = told
    assert (context.error.status_code, context.attempt) == (401, 2)
    assert context.headers == {"authorization": "Bearer old", "x-run": "7"}
    assert "old" not in repr(context)


def renew_by_force(force: bool = True) -> None:
    assert force is True


def renew_with_or_without(context: UnauthorizedContext | None = None) -> None:
    assert context is not None


@pytest.mark.parametrize("renew", [renew_by_force, renew_with_or_without])
async def test_a_function_that_needs_no_context_may_have_other_parameters(renew: Any) -> None:
    with serve_bytes(faults.status(401), ANSWER) as server:
        await HttpAgent(server.url, on_unauthorized=renew).run_agent("Hi")
    assert len(server.requests) == 2


WITHOUT_SIGNATURE: list[Any] = [dict[str, str], partial(dict[str, str], Authorization="Bearer new")]


@pytest.mark.parametrize("renew", WITHOUT_SIGNATURE)
async def test_a_function_without_a_signature_renews_without_being_given_anything(renew: Any) -> None:
    with serve_bytes(faults.status(401), ANSWER) as server:
        await HttpAgent(server.url, on_unauthorized=renew).run_agent("Hi")
    assert len(server.requests) == 2


class Issuer:
    """Gives each user tokens that are good for a few requests, and for renewing once."""

    def __init__(self, uses: int, waits: Iterator[int]) -> None:
        self.mistakes: list[str] = []
        self._uses, self._waits = uses, waits
        self._left: dict[str, int] = {}
        self.renewed: Counter[str] = Counter()

    async def _wait(self) -> None:
        for _ in range(next(self._waits)):
            await anyio.lowlevel.checkpoint()

    def renew(self, user: str) -> Any:
        async def renew(context: UnauthorizedContext) -> dict[str, str]:
            if not context.headers.get("authorization", f"{user}-").startswith(f"{user}-"):
                self.mistakes.append(f"{user} renews {context.headers['authorization']}")
            self.renewed[user] += 1
            token = f"{user}-{self.renewed[user]}"
            await self._wait()
            self._left[token] = self._uses
            return {"Authorization": token}

        return renew

    async def answer(self, request: httpx.Request) -> httpx.Response:
        user, token = request.headers["x-user"], request.headers.get("authorization", "")
        if token and not token.startswith(f"{user}-"):
            self.mistakes.append(f"{user} brings {token}")
        await self._wait()
        if token.endswith("-own"):
            return response(Body([ANSWER]))
        self._left[token] = self._left.get(token, 0) - 1
        return response(Body([ANSWER])) if self._left[token] >= 0 else httpx.Response(401)


@given(st.integers(1, 9), st.lists(st.sampled_from("abc"), min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_one_users_token_never_serves_another_however_they_interleave(
    uses: int, users: list[str], dice: Random
) -> None:
    issuer = Issuer(uses, iter(lambda: dice.randrange(4), None))

    async def ask(agent: HttpAgent, user: str) -> None:
        with suppress(HTTPStatusError):  # a token may expire again before it is used
            own = {"Authorization": "c-own"} if user == "c" else {}
            await agent.clone().run_agent("Hi", headers={"X-User": user, **own})

    async def main() -> None:
        client = httpx.AsyncClient(transport=httpx.MockTransport(issuer.answer))
        first = HttpAgent(URL, http_client=client, on_unauthorized=issuer.renew("a"))
        agents = {"a": first, "b": first.clone(on_unauthorized=issuer.renew("b")), "c": first}
        async with anyio.create_task_group() as tasks:
            for user in users:
                tasks.start_soon(ask, agents[user], user)

    anyio.run(main)
    assert issuer.mistakes == []
    if uses >= len(users):
        assert set(issuer.renewed.values()) <= {1}


def test_threads_that_are_refused_at_once_renew_once() -> None:
    token, gate = Token(), threading.Barrier(4)

    def renew() -> dict[str, str]:
        token.renew()
        return token.headers()

    def ask(agent: HttpAgent) -> str:
        gate.wait(LIMIT)
        return agent.run_agent_sync("Hi").text

    with serve_bytes(only_for("new")) as server:
        agent = HttpAgent(server.url, headers={"Authorization": "Bearer old"}, on_unauthorized=renew)
        joins = [start_thread(partial(ask, agent.clone())) for _ in range(4)]
        assert [join(LIMIT) for join in joins] == ["Hi."] * 4
    assert token.renewals == 1


@pytest.mark.parametrize("option", ["headers", "on_unauthorized"])
async def test_what_a_function_of_the_application_raises_comes_out_as_it_is(option: str) -> None:
    def fail() -> dict[str, str]:
        raise LookupError("no token for you")

    with serve_bytes(faults.status(401)) as server:
        agent = HttpAgent(server.url, **{option: fail})  # type: ignore[arg-type]  # one of two options
        with pytest.raises(LookupError, match="no token for you"):
            await agent.run_agent("Hi")
    assert len(server.requests) == (0 if option == "headers" else 1)


async def test_on_unauthorized_must_be_a_function() -> None:
    with pytest.raises(UsageError, match="on_unauthorized is a function, not a dict"):
        HttpAgent("http://agent.example/", on_unauthorized={})  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("is_aborted", [False, True])
async def test_a_header_function_that_hangs_is_given_up(is_aborted: bool) -> None:
    async def hang() -> dict[str, str]:
        if is_aborted:
            agent.abort_run()
        await anyio.sleep_forever()
        raise AssertionError

    agent = HttpAgent("http://agent.example/", headers=hang, timeout=Timeouts(total=None if is_aborted else 0.05))
    with anyio.fail_after(5):
        if is_aborted:
            assert (await agent.run_agent("Hi")).aborted
        else:
            with pytest.raises(RunTimeoutError):
                await agent.run_agent("Hi")


class Signed(httpx.Auth):
    """Fetches a token with a request of its own, as OAuth flows do."""

    requires_response_body = True

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        token = yield httpx.Request("POST", request.url.copy_with(path="/token"))
        request.headers["Authorization"] = f"Bearer {token.json()}"
        yield request


async def test_an_auth_flow_may_make_requests_of_its_own() -> None:
    with serve_bytes(Reply([b'"new"'], content_type="application/json"), only_for("new")) as server:
        result = await HttpAgent(server.url, auth=Signed()).run_agent("Hi")
    assert [request.path for request in server.requests] == ["/token", "/"]
    assert (result.text, len(result.attempts)) == ("Hi.", 1)


async def test_no_cookie_is_carried_from_run_to_run() -> None:
    with serve_bytes(Reply([ANSWER], headers={"Set-Cookie": "session=1"})) as server:
        async with HttpAgent(server.url) as agent:
            await agent.run_agent("Hi")
            await agent.run_agent("Again")
    assert ["cookie" in request.headers for request in server.requests] == [False, False]


@pytest.mark.requirement("SEC-9")
async def test_renewed_credentials_are_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def renew() -> dict[str, str]:
        return {"Authorization": "Bearer s3cr3t", "X-Api-Key": "s3cr3t"}

    with serve_bytes(faults.status(401), faults.status(403)) as server:
        agent = HttpAgent(server.url, headers=lambda: {"Authorization": "Bearer s3cr3t"}, on_unauthorized=renew)
        with pytest.raises(HTTPStatusError) as caught:
            await agent.run_agent("Hi")
    partial = caught.value.partial
    assert isinstance(partial, RunResult)
    shown = f"{agent!r}{caught.value!r}{vars(caught.value)}{partial.attempts}{partial.response}{caplog.text}"
    assert "s3cr3t" not in shown


# --- functions that fail, hang or return nonsense

SECRET = "s3cr3t"


def everything_said(error: BaseException) -> str:
    """An error as a log would show it, its notes and causes included."""
    return "\n".join([str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)])


@pytest.mark.requirement("SEC-9")
async def test_what_a_header_function_raises_is_noted_without_secrets_and_nothing_is_sent() -> None:
    def fail() -> dict[str, str]:
        raise LookupError("no token for you")

    with serve_bytes(ANSWER) as server:
        agent = HttpAgent(server.url, headers=fail, auth=("ada", SECRET))
        with pytest.raises(LookupError) as caught:
            await agent.run_agent("Hi", run_id="run-1", headers={"X-Key": SECRET})
    assert caught.value.__notes__ == [f"in run 'run-1' of thread {agent.thread_id!r}"]
    assert SECRET not in everything_said(caught.value)
    assert server.requests == []
    assert agent.messages == []


async def test_what_a_function_raises_is_only_named_in_the_attempt() -> None:
    async def fail() -> dict[str, str]:
        raise LookupError(SECRET)

    agent = HttpAgent("http://agent.example/", headers=fail)
    async with agent.stream("Hi") as run:
        with pytest.raises(LookupError):
            await anext(run)
        (attempt,) = run.partial.attempts
    assert (attempt.status_code, attempt.error) == (None, "LookupError")


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("renewed", [{"Authorization": 7}, {"Authorization": f"{SECRET}\N{SNOWMAN}"}, SECRET, 7])
async def test_what_on_unauthorized_returns_must_be_headers(renewed: Any) -> None:
    with serve_bytes(faults.status(401)) as server:
        agent = HttpAgent(server.url, on_unauthorized=lambda: renewed)
        with pytest.raises(UsageError, match="headers are a mapping from names to ASCII text") as caught:
            await agent.run_agent("Hi")
    assert SECRET not in everything_said(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("is_aborted", [True, False], ids=["aborted", "too late"])
async def test_an_on_unauthorized_that_hangs_is_given_up(is_async: bool, is_aborted: bool) -> None:
    may_end = threading.Event()

    def begin() -> None:
        if is_aborted:
            agent.abort_run()

    async def hang_here() -> None:
        begin()
        await anyio.sleep_forever()

    def hang_there() -> None:
        begin()
        may_end.wait(LIMIT)

    hang: Any = hang_here if is_async else hang_there
    with serve_bytes(faults.status(401)) as server, anyio.fail_after(5):
        agent = HttpAgent(server.url, on_unauthorized=hang, timeout=Timeouts(total=None if is_aborted else 1.0))
        if is_aborted:
            result = await agent.run_agent("Hi")
            assert (result.aborted, [each.status_code for each in result.attempts]) == (True, [401])
        else:
            with pytest.raises(RunTimeoutError):
                await agent.run_agent("Hi")
        assert len(server.requests) == 1
    may_end.set()
    await until(lambda: not [each for each in threading.enumerate() if each.name == "agui_client: on_unauthorized"])


@pytest.mark.parametrize("kind", ["object", "plain", "partial"])
async def test_anything_that_returns_an_awaitable_will_do(kind: str) -> None:
    token = Token()

    class Renewing:
        async def __call__(self) -> None:
            await token.renew_later()

    def renew_soon() -> Awaitable[None]:
        return token.renew_later()

    kinds: dict[str, Any] = {
        "object": Renewing(),
        "plain": renew_soon,
        "partial": partial(Renewing.__call__, Renewing()),
    }
    with serve_bytes(only_for("new")) as server:
        agent = HttpAgent(server.url, headers=token.headers, on_unauthorized=kinds[kind])
        assert (await agent.run_agent("Hi")).text == "Hi."
    assert token.renewals == 1


# --- who stands over whom


async def test_renewed_headers_stand_over_the_agents_and_below_a_later_runs_own() -> None:
    token = Token()
    with serve_bytes(faults.status(401), ANSWER) as server:
        agent = HttpAgent(server.url, headers={"Authorization": "Bearer x"}, on_unauthorized=token.give_new)
        await agent.run_agent("One")
        await agent.run_agent("Two")
        await agent.clone().run_agent("Three", headers={"authorization": "Bearer mine"})
        await HttpAgent(server.url, headers={"Authorization": "Bearer x"}).run_agent("Four")
    sent = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
    assert sent == ["x", "new", "new", "mine", "x"]


async def test_each_run_may_renew_once() -> None:
    token = Token()
    with serve_bytes(faults.status(401), ANSWER, faults.status(401), ANSWER) as server:
        agent = HttpAgent(server.url, headers=token.headers, on_unauthorized=token.renew)
        results = [await agent.run_agent(prompt) for prompt in ("One", "Two")]
    assert [[each.status_code for each in result.attempts] for result in results] == [[401, 200]] * 2
    assert token.renewals == 2


@pytest.mark.parametrize("status", [403, 407, 500])
async def test_only_a_401_renews(status: int) -> None:
    token = Token()
    with serve_bytes(faults.status(status)) as server:
        agent = HttpAgent(server.url, headers=token.headers, on_unauthorized=token.renew)
        with pytest.raises(HTTPStatusError):
            await agent.run_agent("Hi")
    assert (token.renewals, len(server.requests)) == (0, 1)


# --- httpx.Auth


async def test_an_auth_that_answers_a_challenge_does_so_within_one_attempt() -> None:
    challenge = {"WWW-Authenticate": 'Digest realm="agents", nonce="abc", qop="auth", algorithm=MD5'}
    with serve_bytes(faults.status(401, headers=challenge), ANSWER) as server:
        result = await HttpAgent(server.url, auth=httpx.DigestAuth("ada", SECRET)).run_agent("Hi")
    first, second = server.requests
    assert "authorization" not in first.headers
    assert second.headers["authorization"].startswith('Digest username="ada"')
    assert first.body == second.body
    assert [each.status_code for each in result.attempts] == [200]


class Failing(httpx.Auth):
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        missing: dict[str, str] = {}
        request.headers["Authorization"] = missing["key"]
        yield request


async def test_what_an_auth_raises_comes_out_as_it_is() -> None:
    with serve_bytes(ANSWER) as server, pytest.raises(KeyError, match="key"):
        await HttpAgent(server.url, auth=Failing()).run_agent("Hi")
    assert server.requests == []


class Fresh(httpx.Auth):
    """A token that is fetched with a client of its own, asynchronously."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        async with httpx.AsyncClient(verify=False) as client:
            token = (await client.get(self._url)).json()
        request.headers["Authorization"] = f"Bearer {token}"
        yield request


@every_result_verb
def test_an_auth_may_have_a_client_of_its_own(verb: Verb) -> None:
    with (
        serve_bytes(Reply([b'"new"'], content_type="application/json")) as tokens,
        serve_bytes(only_for("new")) as server,
    ):
        assert verb(HttpAgent(server.url, auth=Fresh(tokens.url)), "Hi").error is None
    assert (len(tokens.requests), len(server.requests)) == (1, 1)


# --- nothing is shown


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "reply",
    [
        faults.healthy(ANSWER),
        faults.status(401),
        faults.status(503, retry_after=0),
        faults.html_page(),
        faults.reset(ANSWER, events=2),
        faults.unanswered(),
        faults.redirect("/there"),
        faults.redirect("http://elsewhere.test/"),
    ],
    ids=["healthy", "401", "503", "page", "reset", "cut", "redirect", "other origin"],
)
async def test_no_credential_is_in_what_a_run_leaves(reply: Reply, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET, "Cookie": f"session={SECRET}"}

    async def headers() -> dict[str, str]:
        return secret

    # At most five redirects are followed; one that is followed for ever would come to an answer.
    with serve_bytes(*[reply] * 6, ANSWER) as server:
        agent = HttpAgent(
            server.url.replace("http://", f"http://ada:{SECRET}@"),
            headers=headers,
            on_unauthorized=headers,
            retry=RetryPolicy(status=1),
        )
        async with agent.stream("Hi", headers={"X-Tenant-Key": SECRET}) as run:
            said = repr(run)
            try:
                await run.result()
            except AGUIError as error:
                said += everything_said(error)
            partial = run.partial
    assert SECRET in server.requests[0].headers["x-tenant-key"]
    assert SECRET not in f"{said}{partial!r}{partial.attempts}{partial.response}{partial.warnings}{agent!r}"
    assert SECRET not in caplog.text


@every_result_verb
def test_a_header_of_the_agent_is_sent_in_place_of_the_password_in_its_address(verb: Verb) -> None:
    with serve_bytes(only_for("ours")) as server:
        address = server.url.replace("://", "://user:password@")
        assert verb(HttpAgent(address, headers={"authorization": "Bearer ours"}), "Hi").error is None
        assert isinstance(verb(HttpAgent(address), "Hi").error, HTTPStatusError)
        sent = [request.headers["authorization"].partition(" ")[0] for request in server.requests]
    assert sent == ["Bearer", "Basic"]
