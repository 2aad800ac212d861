"""Posting a run: what is tried again and what never is, where a redirect leads, and what is said about it (SSE-8)."""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
import trio.testing

from agui_client import (
    AGUIError,
    ConnectError,
    ConnectTimeoutError,
    FirstEventTimeoutError,
    HttpAgent,
    HTTPStatusError,
    RetryPolicy,
    RunResult,
    RunTimeoutError,
    Timeouts,
    TransportError,
    UnexpectedContentTypeError,
    UsageError,
)
from agui_client.testing import Gate, Reply, faults, serve_bytes, sse, text, turn
from agui_client.types import Attempt
from support.bodies import URL, refused
from support.verbs import Verb, every_result_verb
from support.waiting import LIMIT, until

ANSWER = sse(turn(text("Hi.")))
BUSY = faults.status(503, retry_after=0)


class Nobody:
    """Where nobody listens, so many times; then somebody answers."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.tried_at: list[float] = []

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.tried_at.append(anyio.current_time())
        if len(self.tried_at) <= self.times:
            raise refused()
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=ANSWER)

    def agent(self, **options: Any) -> HttpAgent:
        return HttpAgent(
            URL, http_client=lambda: httpx.AsyncClient(transport=httpx.MockTransport(self.answer)), **options
        )


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A clock that jumps whenever everybody waits; tests with a socket choose their own."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


on_both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def reasons(attempts: list[Attempt]) -> list[str]:
    return [attempt.reason.partition(";")[0] for attempt in attempts]


# --- no connection


@pytest.mark.anyio
async def test_a_connection_that_cannot_be_made_is_tried_three_times_in_all() -> None:
    nobody = Nobody(times=2)
    result = await nobody.agent().run_agent("Hi")
    first, second, third = nobody.tried_at
    assert 0.1 <= second - first <= 0.2
    assert 0.1 <= third - second <= 0.4
    assert reasons(result.attempts) == ["first attempt", "no connection", "no connection"]
    assert [attempt.error is None for attempt in result.attempts] == [False, False, True]
    assert (result.text, [message.content for message in result.messages]) == ("Hi.", ["Hi", "Hi."])


@pytest.mark.anyio
async def test_when_every_attempt_fails_the_last_one_is_raised_with_all_of_them() -> None:
    nobody = Nobody(times=9)
    with pytest.raises(ConnectError) as caught:
        await nobody.agent(retry=RetryPolicy(connect=1)).run_agent("Hi")
    assert isinstance(caught.value.partial, RunResult)
    assert reasons(caught.value.partial.attempts) == ["first attempt", "no connection"]
    assert (len(nobody.tried_at), caught.value.may_have_started) == (2, False)


@pytest.mark.anyio
async def test_nothing_is_tried_again_if_the_policy_says_so() -> None:
    nobody = Nobody(times=9)
    with pytest.raises(ConnectError):
        await nobody.agent(retry=RetryPolicy(connect=0)).run_agent("Hi")
    assert len(nobody.tried_at) == 1


@pytest.mark.anyio
async def test_no_wait_goes_beyond_the_time_the_run_has() -> None:
    nobody = Nobody(times=9)
    policy = RetryPolicy(connect=9, first_wait=10)
    with pytest.raises(ConnectError):
        await nobody.agent(retry=policy, timeout=Timeouts(total=1)).run_agent("Hi")
    assert len(nobody.tried_at) == 1
    assert anyio.current_time() - nobody.tried_at[0] == pytest.approx(0)


@pytest.mark.anyio
async def test_a_run_can_be_aborted_while_it_waits_to_try_again() -> None:
    nobody = Nobody(times=9)
    agent = nobody.agent(retry=RetryPolicy(connect=9, first_wait=60, max_wait=60))
    async with anyio.create_task_group() as tasks, agent.stream("Hi") as run:
        tasks.start_soon(_abort_soon, agent)
        assert (await run.result()).aborted
    assert anyio.current_time() - nobody.tried_at[0] == pytest.approx(1)


async def _abort_soon(agent: HttpAgent) -> None:
    await anyio.sleep(1)
    agent.abort_run()


# --- refusals


@every_result_verb
def test_a_server_that_is_busy_is_asked_again_if_the_policy_says_so(verb: Verb) -> None:
    with serve_bytes(BUSY, faults.status(429, retry_after=0), ANSWER) as server:
        result = verb(HttpAgent(server.url, retry=RetryPolicy(status=2)), "Hi").result
    assert result is not None
    assert [(each.status_code, each.reason) for each in result.attempts] == [
        (503, "first attempt"),
        (429, "503, Retry-After; waited 0.00 s"),
        (200, "429, Retry-After; waited 0.00 s"),
    ]
    assert [message.content for message in result.messages] == ["Hi", "Hi."]
    assert len(server.requests) == 3
    assert len({request.body for request in server.requests}) == 1


@every_result_verb
def test_by_itself_a_refusal_is_raised_at_once(verb: Verb) -> None:
    with serve_bytes(BUSY, ANSWER) as server:
        error = verb(HttpAgent(server.url), "Hi").error
    assert isinstance(error, HTTPStatusError)
    assert (error.status_code, error.headers["retry-after"], len(server.requests)) == (503, "0", 1)


@pytest.mark.anyio
@pytest.mark.parametrize("as_date", [False, True], ids=["seconds", "date"])
async def test_retry_after_is_waited_for(as_date: bool) -> None:
    asked = (datetime.now(UTC) + timedelta(seconds=30)).strftime("%a, %d %b %Y %H:%M:%S GMT") if as_date else "30"
    tried_at: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        tried_at.append(anyio.current_time())
        if len(tried_at) == 1:
            return httpx.Response(503, headers={"Retry-After": asked})
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=ANSWER)

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    await HttpAgent(URL, http_client=client, retry=RetryPolicy(status=1)).run_agent("Hi")
    assert tried_at[1] - tried_at[0] == pytest.approx(30, abs=2)


@every_result_verb
@pytest.mark.parametrize(
    "refusal",
    [
        faults.status(503),
        faults.status(503, retry_after=61),
        faults.status(503, headers={"Retry-After": "soon"}),
        faults.status(500, retry_after=0),
        faults.status(502, retry_after=0),
        faults.status(400, retry_after=0),
        faults.html_page(),
        faults.unanswered(),
        faults.unanswered(end="reset"),
        faults.ended(ANSWER, events=0),
        faults.reset(ANSWER, events=1),
    ],
    ids=["no time", "too late", "no time at all", "500", "502", "400", "page", "cut", "reset", "empty", "an event"],
)
def test_what_may_have_started_or_would_fail_again_is_never_posted_twice(verb: Verb, refusal: Reply) -> None:
    with serve_bytes(refusal, ANSWER) as server:
        error = verb(HttpAgent(server.url, retry=RetryPolicy(connect=5, status=5)), "Hi").error
    assert isinstance(error, AGUIError)
    assert len(server.requests) == 1


@on_both_loops
@pytest.mark.anyio
async def test_a_first_event_that_does_not_come_is_not_asked_for_again() -> None:
    with serve_bytes(faults.unanswered(end="stall"), ANSWER) as server:
        agent = HttpAgent(server.url, timeout=Timeouts(first_event=0.2), retry=RetryPolicy(connect=5, status=5))
        with pytest.raises(FirstEventTimeoutError):
            await agent.run_agent("Hi")
    assert len(server.requests) == 1


# --- the policy


@pytest.mark.parametrize(
    ("error", "times"),
    [
        (ConnectTimeoutError("late"), 2),
        (ConnectError("it broke"), 0),
        (HTTPStatusError("busy", status_code=503, body="", headers={"retry-after": "7"}), 1),
        (HTTPStatusError("busy", status_code=429, body="", headers={"retry-after": "90"}), 0),
        (HTTPStatusError("busy", status_code=429, body="", headers={}), 0),
        (HTTPStatusError("who?", status_code=401, body="", headers={}), 0),
        (HTTPStatusError("oops", status_code=500, body="", headers={"retry-after": "7"}), 0),
        (UnexpectedContentTypeError("page", content_type="text/html", body=""), 0),
    ],
)
def test_only_what_cannot_have_started_is_posted_again(error: TransportError, times: int) -> None:
    assert RetryPolicy(status=1).allowance(error) == times


@pytest.mark.parametrize(
    "options",
    [{"connect": -1}, {"connect": True}, {"status": 1.5}, {"first_wait": -1}, {"max_wait": "60"}, {"max_wait": None}],
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=rf"^RetryPolicy\.{next(iter(options))} is "):
        RetryPolicy(**options)


# --- the clock over all attempts


@on_both_loops
@pytest.mark.anyio
async def test_the_total_counts_over_all_attempts() -> None:
    gate = Gate()
    with serve_bytes(faults.redirect("/again"), Reply([gate])) as server:
        with pytest.raises(RunTimeoutError) as caught:
            await HttpAgent(server.url, timeout=Timeouts(total=0.3)).run_agent("Hi")
        assert isinstance(caught.value, TransportError)
        assert isinstance(caught.value.partial, RunResult)
        assert [each.status_code for each in caught.value.partial.attempts] == [307, 200]
        with anyio.fail_after(LIMIT):
            await until(server.disconnected.is_set)
        gate.open()


# --- how long, and until when


def waits_of(policy: RetryPolicy, error: TransportError, repetition: int) -> list[float]:
    return [policy.wait_before(repetition, error) for _ in range(200)]


@pytest.mark.parametrize("repetition", [1, 2, 3, 4, 20, 5000])
def test_waits_are_drawn_from_a_window_that_doubles_up_to_the_longest_wait(repetition: int) -> None:
    waits = waits_of(RetryPolicy(first_wait=0.2, max_wait=60), ConnectError("refused"), repetition)
    window = min(0.2 * 2 ** min(repetition - 1, 10), 60)
    assert all(0.1 <= wait <= window for wait in waits)
    assert len(set(waits)) > 100
    assert max(waits) > (0.1 + window) / 2


def test_no_wait_is_longer_than_the_longest_even_if_the_first_would_be() -> None:
    assert max(waits_of(RetryPolicy(first_wait=10, max_wait=1), ConnectError("refused"), 1)) <= 1
    assert set(waits_of(RetryPolicy(first_wait=0, max_wait=0), ConnectError("refused"), 1)) == {0}


def refusal(retry_after: str, status: int = 503) -> HTTPStatusError:
    return HTTPStatusError("busy", status_code=status, body="", headers={"retry-after": retry_after})


@pytest.mark.parametrize(
    "retry_after",
    ["Sat, 01 Jan 2000 00:00:00 GMT", "Saturday, 01-Jan-00 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:00 -0000", "0"],
)
def test_a_time_that_is_over_is_no_wait(retry_after: str) -> None:
    assert RetryPolicy(status=1).allowance(refusal(retry_after)) == 1
    assert RetryPolicy(status=1).wait_before(1, refusal(retry_after)) == 0


@pytest.mark.parametrize(
    "retry_after",
    [
        *("", "-1", "1.5", "1e3", "²", "soon", "nan", "9" * 400, "Sat, 99 Jan 2000 00:00:00 GMT"),
        *(f"Sat, 01 Jan {'9' * 20} 00:00:00 GMT", f"Sat, 01 Jan 2000 00:00:00 +{'9' * 20}"),
    ],
)
def test_a_time_that_cannot_be_read_or_reached_is_not_waited_for(retry_after: str) -> None:
    assert RetryPolicy(status=1).allowance(refusal(retry_after)) == 0


class Servant:
    """Answers each request with the next of its responses, and notes when."""

    def __init__(self, *responses: httpx.Response | httpx.TransportError) -> None:
        self._responses = iter(responses)
        self.requests: list[httpx.Request] = []
        self.asked_at: list[float] = []

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.asked_at.append(anyio.current_time())
        await anyio.lowlevel.checkpoint()
        response = next(self._responses, None)
        if isinstance(response, Exception):
            raise response
        return response or httpx.Response(200, headers={"content-type": "text/event-stream"}, content=ANSWER)

    def agent(self, **options: Any) -> HttpAgent:
        return HttpAgent(
            URL, http_client=lambda: httpx.AsyncClient(transport=httpx.MockTransport(self.answer)), **options
        )


@pytest.mark.anyio
async def test_a_server_that_asks_for_more_time_than_the_run_has_is_not_waited_for() -> None:
    servant = Servant(httpx.Response(503, headers={"Retry-After": "30"}))
    started = anyio.current_time()
    with pytest.raises(HTTPStatusError):
        await servant.agent(retry=RetryPolicy(status=5), timeout=Timeouts(total=20)).run_agent("Hi")
    assert len(servant.requests) == 1
    assert anyio.current_time() - started == pytest.approx(0)


@pytest.mark.anyio
async def test_connections_and_refusals_are_counted_apart() -> None:
    late, busy = refused(httpx.ConnectTimeout("late")), httpx.Response(429, headers={"Retry-After": "7"})
    servant = Servant(late, busy, refused(), busy)
    result = await servant.agent(retry=RetryPolicy(connect=2, status=2)).run_agent("Hi")
    assert [(each.status_code, each.reason.partition(";")[0]) for each in result.attempts] == [
        (None, "first attempt"),
        (429, "no connection"),
        (None, "429, Retry-After"),
        (429, "no connection"),
        (200, "429, Retry-After"),
    ]
    first, second, third, fourth, fifth = servant.asked_at
    assert [third - second, fifth - fourth] == pytest.approx([7, 7])
    assert second - first <= 0.2 < 0.4 >= fourth - third
    assert len({request.content for request in servant.requests}) == 1


@pytest.mark.anyio
async def test_each_attempt_says_where_it_went_how_long_it_took_and_what_became_of_it() -> None:
    async def headers() -> dict[str, str]:
        await anyio.sleep(3)
        return {}

    servant = Servant(httpx.Response(503, headers={"Retry-After": "7"}, content=b"too busy"))
    result = await servant.agent(headers=headers, retry=RetryPolicy(status=1)).run_agent("Hi")
    first, second = result.attempts
    busy = f"{URL} responded with 503 Service Unavailable: too busy"
    assert first == Attempt("first attempt", URL, first.seconds, 503, busy)
    assert second == Attempt("503, Retry-After; waited 7.00 s", URL, second.seconds, 200, None)
    assert [first.seconds, second.seconds] == pytest.approx([3, 3])


@pytest.mark.anyio
async def test_the_time_that_credentials_take_is_not_the_agents() -> None:
    async def headers() -> dict[str, str]:
        await anyio.sleep(600)
        return {}

    result = await Servant().agent(headers=headers, timeout=Timeouts(first_event=5)).run_agent("Hi")
    assert result.text == "Hi."


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "policy", "advice"),
    [
        (401, None, "; give credentials in headers= or auth=, or renew them in on_unauthorized="),
        (403, None, "; the credentials in headers= or auth= do not allow this"),
        (409, None, "; if a run is in progress in the thread, clone(thread_id=...) is for parallel work"),
        (429, None, "; retry=RetryPolicy(status=3) posts the run again when a Retry-After allows it"),
        (503, None, "; retry=RetryPolicy(status=3) posts the run again when a Retry-After allows it"),
        (503, RetryPolicy(status=1), "503 Service Unavailable: no"),
        (500, None, "500 Internal Server Error: no"),
    ],
)
async def test_the_message_of_a_refusal_names_the_option_to_change(
    status: int, policy: RetryPolicy | None, advice: str
) -> None:
    with pytest.raises(HTTPStatusError) as caught:
        await Servant(httpx.Response(status, text="no")).agent(retry=policy).run_agent("Hi")
    assert str(caught.value).endswith(advice)
