"""Headers of the application: what HTTP does not take is refused unsent; a function that stops ends no run."""

from __future__ import annotations

import traceback
from typing import Any, NoReturn

import httpx
import pytest
from h2.connection import H2Connection

from agui_client import AGUIError, HttpAgent, UsageError
from agui_client.testing import faults, serve_bytes, sse, text, turn
from support.http2 import begin, http2_client, serve_raw_http2
from support.verbs import Verb, every_result_verb

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

SECRET = "s3cr3t"
ANSWER = sse(turn(text("Hi.")))


def everything_said(error: BaseException) -> str:
    """An error as a log would show it, its causes included."""
    return "\n".join([str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)])


@every_result_verb
def test_how_a_message_is_framed_is_not_the_applications_to_say(verb: Verb) -> None:
    with serve_bytes(ANSWER) as server:
        for name, value in (
            ("Content-Length", "3"),
            ("Content-Length", ""),
            ("Transfer-Encoding", "chunked"),
            ("te", SECRET),
        ):
            error = verb(HttpAgent(server.url), "Hi", headers={name: value}).error
            assert type(error) is UsageError
            assert str(error) == f"the header {name} is the HTTP client's to set; leave it out"
    assert server.requests == []


VALUE = r"^the value of the header X holds a control character, or blanks at an end$"
NAME = r"^a header's name holds more than letters, digits and hyphens, or is empty$"
BAD = [
    ({"X": f"{SECRET}\n"}, VALUE),
    ({"X": f"{SECRET}\r\nY: 1"}, VALUE),
    ({"X": f" {SECRET}"}, VALUE),
    ({"X": f"{SECRET}\t"}, VALUE),
    ({"X": f"\0{SECRET}"}, VALUE),
    ({"X": f"{SECRET}\x7f"}, VALUE),
    ({"": SECRET}, NAME),
    ({f"Bearer {SECRET}": "1"}, NAME),
    ({f"{SECRET}:": "1"}, NAME),
    ({":path": f"/{SECRET}"}, NAME),
]
every_bad_header = pytest.mark.parametrize(("headers", "message"), BAD, ids=[repr(headers) for headers, _ in BAD])


@every_bad_header
@pytest.mark.requirement("SEC-9")
async def test_a_header_that_http_does_not_take_is_refused_without_showing_it(
    headers: dict[str, str], message: str
) -> None:
    sources: list[tuple[Any, dict[str, str]]] = [(lambda: headers, {}), (None, headers)]
    with serve_bytes(ANSWER) as server:
        for given, of_run in sources:
            with pytest.raises(UsageError, match=message) as caught:
                await HttpAgent(server.url, headers=given).run_agent("Hi", headers=of_run)
            assert SECRET not in everything_said(caught.value)
    assert server.requests == []


@every_bad_header
def test_an_agent_is_not_made_with_such_a_header(headers: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        HttpAgent("http://localhost/", headers=headers)
    assert SECRET not in everything_said(caught.value)


@pytest.mark.parametrize("given", ["Authorization: Bearer x", [("Authorization", "Bearer x")]], ids=["text", "pairs"])
async def test_headers_that_are_no_mapping_are_refused_with_an_example(given: Any) -> None:
    what = r'such as \{"Authorization": "Bearer \.\.\."\}, not a (str|list)$'
    with pytest.raises(UsageError, match=what):
        HttpAgent("http://localhost/", headers=given)
    with pytest.raises(UsageError, match=what):
        await HttpAgent("http://localhost/").run_agent("Hi", headers=given)


@every_bad_header
async def test_renewed_headers_that_http_does_not_take_are_not_kept(headers: dict[str, str], message: str) -> None:
    answers = iter([headers, {"X": "7"}])
    with serve_bytes(faults.status(401), faults.status(401), ANSWER) as server:
        agent = HttpAgent(server.url, on_unauthorized=lambda: next(answers))
        with pytest.raises(UsageError, match=message):
            await agent.run_agent("Hi")
        assert (await agent.run_agent("Hi")).text == "Hi."
    assert [request.headers.get("x") for request in server.requests] == [None, None, "7"]


async def test_a_bad_header_does_not_cost_other_runs_their_http2_connection() -> None:
    def answer(connection: H2Connection, stream_id: int) -> None:
        begin(connection, stream_id, ANSWER)
        connection.end_stream(stream_id)

    with serve_raw_http2(answer) as server:
        async with http2_client() as client:
            for headers, message in BAD:
                assert (await HttpAgent(server.url, http_client=client).run_agent("Hi")).text == "Hi."
                with pytest.raises(UsageError, match=message):
                    await HttpAgent(server.url, http_client=client).run_agent("Hi", headers=headers)
            assert (await HttpAgent(server.url, http_client=client).run_agent("Hi")).text == "Hi."
    assert (server.requests, server.connections) == (len(BAD) + 1, 1)


async def test_any_other_header_is_sent_as_it_is() -> None:
    headers = {"X-Empty": "", "X-Blanks": "a \t b", "x_y!#$%&'*+-.^`|~": '"(),/:;<=>?@[\\]{}~', "Host": "agent.example"}
    with serve_bytes(ANSWER) as server:
        await HttpAgent(server.url, headers=httpx.Headers(headers)).run_agent("Hi")
    sent = server.requests[0].headers
    assert {name: sent[name.lower()] for name in headers} == headers


# --- functions that stop


def stop(error: type[Exception], *, is_async: bool) -> Any:
    """A function of the application that raises what iterators end with."""

    def now() -> NoReturn:
        raise error

    async def later() -> NoReturn:
        raise error

    return later if is_async else now


@every_result_verb
@pytest.mark.parametrize("option", ["headers", "on_unauthorized"])
def test_a_function_that_stops_is_an_error_and_no_end_of_the_run(verb: Verb, option: str) -> None:
    with serve_bytes(faults.status(401)) as server:
        for error in (StopIteration, StopAsyncIteration):
            for is_async in (False, True):
                raised = verb(HttpAgent(server.url, **{option: stop(error, is_async=is_async)}), "Hi").error
                assert type(raised) is RuntimeError
                assert not isinstance(raised, AGUIError)
                assert type(raised.__cause__) is error
    assert len(server.requests) == (0 if option == "headers" else 4)
