"""Redirects: followed within the origin as the POST they were, refused otherwise, and never shown (SSE-8, SEC-9)."""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import traceback

import pytest

from agui_client import (
    HttpAgent,
    HTTPStatusError,
    RetryPolicy,
    RunResult,
    TransportError,
)
from agui_client.testing import Reply, faults, serve_bytes, sse, text, turn
from support.verbs import Verb, every_result_verb

ANSWER = sse(turn(text("Hi.")))


@every_result_verb
@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("location", ["/agent/?page=1", "agent/?page=1"], ids=["of the root", "relative"])
def test_a_redirect_within_the_origin_is_followed_as_it_was_sent(verb: Verb, status: int, location: str) -> None:
    with serve_bytes(faults.redirect(location, status=status), ANSWER) as server:
        result = verb(HttpAgent(server.url, headers={"X-Tenant": "acme"}, auth=("ada", "pw")), "Hi").result
    assert result is not None
    before, after = server.requests
    assert (after.method, after.path, after.body) == ("POST", "/agent/?page=1", before.body)
    assert after.headers["x-tenant"] == "acme"
    assert after.headers["authorization"] == before.headers["authorization"]
    assert [each.reason for each in result.attempts] == ["first attempt", f"redirected with {status}"]
    assert "page=1" not in repr(result.attempts)


@every_result_verb
@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_make_it_a_get_is_refused(verb: Verb, status: int) -> None:
    with serve_bytes(faults.redirect("/agent/", status=status), ANSWER) as server:
        error = verb(HttpAgent(server.url), "Hi").error
    assert isinstance(error, HTTPStatusError)
    assert f"points to {server.url}agent/, but the POST would become a GET there: use that address" in str(error)
    assert (error.status_code, len(server.requests)) == (status, 1)


@every_result_verb
@pytest.mark.parametrize("location", ["http://elsewhere.test/", "http://127.0.0.1:1/", "https://127.0.0.1/"])
def test_a_redirect_to_another_origin_is_refused(verb: Verb, location: str) -> None:
    with serve_bytes(faults.redirect(f"{location}?token=s3cr3t"), ANSWER) as server:
        error = verb(HttpAgent(server.url), "Hi").error
    assert isinstance(error, HTTPStatusError)
    assert f"points to {location}, another origin; neither the conversation nor credentials" in str(error)
    assert isinstance(error.partial, RunResult)
    assert "s3cr3t" not in f"{error}{vars(error)}{error.partial.response}"


@pytest.mark.anyio
async def test_redirects_that_go_round_in_circles_end() -> None:
    with (
        # The last one answers, so that one redirect too many is a run that is finished, and not one without end.
        serve_bytes(*[faults.redirect("/")] * 6, ANSWER) as server,
        pytest.raises(HTTPStatusError, match="5 redirects were followed already"),
    ):
        await HttpAgent(server.url).run_agent("Hi")
    assert len(server.requests) == 6


@pytest.mark.anyio
@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_asks_for_headers_and_renews_credentials_where_it_leads(status: int) -> None:
    numbers, renewed = iter(range(10)), list[str]()

    def headers() -> dict[str, str]:
        return {"X-Number": str(next(numbers))}

    def renew() -> None:
        renewed.append("now")

    with serve_bytes(faults.redirect("/there", status=status), faults.status(401), ANSWER) as server:
        result = await HttpAgent(server.url, headers=headers, on_unauthorized=renew).run_agent("Hi")
    assert [(each.path, each.headers["x-number"]) for each in server.requests] == [
        ("/", "0"),
        ("/there", "1"),
        ("/there", "2"),
    ]
    assert [each.reason for each in result.attempts] == [
        "first attempt",
        f"redirected with {status}",
        "401, and the credentials were renewed",
    ]
    assert renewed == ["now"]


@pytest.mark.anyio
async def test_the_next_run_begins_at_the_agents_own_address_again() -> None:
    with serve_bytes(faults.redirect("/there"), ANSWER, ANSWER) as server:
        agent = HttpAgent(server.url)
        await agent.run_agent("Hi")
        await agent.run_agent("Again")
    assert [request.path for request in server.requests] == ["/", "/there", "/"]


@pytest.mark.anyio
@pytest.mark.requirement("SEC-9")
async def test_a_password_in_a_redirect_is_neither_sent_nor_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "httpx")
    caplog.set_level("DEBUG", "agui_client")
    with serve_bytes(
        lambda request: faults.redirect(f"http://ada:s3cr3t@{request.headers['host']}/there"), ANSWER
    ) as server:
        host = server.url.removeprefix("http://")
        result = await HttpAgent(server.url).run_agent("Hi")
    assert [("authorization" in each.headers, each.path) for each in server.requests] == [
        (False, "/"),
        (False, "/there"),
    ]
    assert result.attempts[1].address == f"http://{host}there"
    assert "s3cr3t" not in f"{result.attempts}{result.response}{caplog.text}"


@pytest.mark.anyio
@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("location", ["http://127.0.0.1:s3cr3t/", "//:s3cr3t@", "http://s3cr3t\x7f/"])
async def test_a_redirect_that_cannot_be_read_shows_nothing_of_itself(location: str) -> None:
    with serve_bytes(faults.redirect(location), ANSWER) as server, pytest.raises(TransportError) as caught:
        await HttpAgent(server.url, retry=RetryPolicy(connect=5, status=5)).run_agent("Hi")
    assert len(server.requests) == 1
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.anyio
@pytest.mark.parametrize("status", [300, 304, 305, 307])
async def test_a_redirect_to_nowhere_is_an_error_like_any_other(status: int) -> None:
    reply = Reply(status=status, content_type=None)
    with serve_bytes(reply, ANSWER) as server, pytest.raises(HTTPStatusError) as caught:
        await HttpAgent(server.url).run_agent("Hi")
    assert (caught.value.status_code, len(server.requests)) == (status, 1)
    assert "points to" not in str(caught.value)
