"""What goes out, over which client, and what comes back about the response (SSE-2, SSE-3, SSE-10, SSE-11, PB-2)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, MutableMapping
from itertools import count, islice
from typing import Any

import anyio
import httpx
import pytest
from ag_ui.core import Context, RunErrorEvent, Tool, UserMessage
from starlette.types import Receive, Send

from agui_client import (
    DecodeError,
    HttpAgent,
    HTTPStatusError,
    IncompleteRunError,
    RunFailedError,
    StreamTooLargeError,
    Timeouts,
    UnexpectedContentTypeError,
)
from agui_client.testing import Reply, ScriptedAgent, agui_app, serve, serve_bytes, sse, state, text, turn
from support.bodies import URL, Body, Memory, memory_agent, response

ANSWER = sse(turn(text("Hi.")))

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]


def agent_of(memory: Memory, **settings: Any) -> HttpAgent:
    return HttpAgent(URL, http_client=memory.client, thread_id="thread-1", **settings)


# --- the request


@pytest.mark.requirement("SSE-2", "PB-2", "INPUT-1", "INPUT-5", "INPUT-6")
async def test_a_run_is_one_post_of_json_that_asks_for_an_event_stream() -> None:
    with serve_bytes(ANSWER) as server:
        await HttpAgent(server.url + "agent", thread_id="thread-1").run_agent(
            UserMessage(id="user-1", content="Tromsø?"), run_id="run-1"
        )
        [request] = server.requests
    assert (request.method, request.path) == ("POST", "/agent")
    assert request.headers["accept"] == "text/event-stream"
    assert request.headers["content-type"] == "application/json"
    assert "last-event-id" not in request.headers
    assert json.loads(request.body.decode("utf-8")) == {
        "threadId": "thread-1",
        "runId": "run-1",
        "protocolVersion": "1.0",
        "messages": [{"id": "user-1", "role": "user", "content": "Tromsø?"}],
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }


@pytest.mark.requirement("INPUT-5", "INPUT-7")
async def test_tools_context_and_forwarded_props_are_sent_as_given() -> None:
    memory = Memory(ANSWER)
    tool = Tool(name="show_map", description="Shows a map.", parameters={"type": "object", "$defs": {"a": None}})
    props: dict[str, Any] = {"deep": [None, {"0": ""}], "snake_case": 1}
    agent = agent_of(memory, tools=[tool])
    await agent.run_agent("Hi", context=[Context(description="unit", value="°C")], forwarded_props=props)
    sent = json.loads(memory.requests[0].content)
    assert sent["tools"] == [
        {"name": "show_map", "description": "Shows a map.", "parameters": {"type": "object", "$defs": {"a": None}}}
    ]
    assert sent["context"] == [{"description": "unit", "value": "°C"}]
    assert sent["forwardedProps"] == props


@pytest.mark.requirement("PB-2")
async def test_headers_are_the_agents_then_the_runs_but_never_what_the_protocol_says() -> None:
    memory = Memory(ANSWER)
    agent = agent_of(memory, headers={"X-Tenant": "acme", "X-Who": "agent", "Accept": "*/*"})
    await agent.run_agent("Hi", headers={"x-who": "run", "Content-Type": "text/plain"})
    await agent.run_agent("Again")
    first, second = (request.headers for request in memory.requests)
    assert (first["x-tenant"], first["accept"], first["content-type"]) == (
        "acme",
        "text/event-stream",
        "application/json",
    )
    assert first.get_list("x-who") == ["run"]
    assert second.get_list("x-who") == ["agent"]


async def test_a_function_gives_the_headers_anew_for_each_run() -> None:
    memory, numbers = Memory(ANSWER), count(1)

    def headers() -> Mapping[str, str]:
        return {"Authorization": f"Bearer {next(numbers)}"}

    agent = agent_of(memory, headers=headers)
    await agent.run_agent("Hi")
    await agent.run_agent("Hi", headers={"X-Run": "2"})
    assert [request.headers["authorization"] for request in memory.requests] == ["Bearer 1", "Bearer 2"]
    assert memory.requests[1].headers["x-run"] == "2"


async def test_auth_is_httpx_auth_or_a_pair() -> None:
    memory = Memory(ANSWER)
    await agent_of(memory, auth=("ada", "secret")).run_agent("Hi")
    await agent_of(memory, auth=httpx.BasicAuth("bob", "secret")).run_agent("Hi")
    names = [request.headers["authorization"] for request in memory.requests]
    assert names == ["Basic YWRhOnNlY3JldA==", "Basic Ym9iOnNlY3JldA=="]


async def test_a_password_in_the_url_is_sent_as_basic_auth() -> None:
    memory = Memory(ANSWER)
    agent = HttpAgent("http://ada:secret@agent.example/runs?key=1", http_client=memory.client)
    await agent.run_agent("Hi")
    assert memory.requests[0].headers["authorization"] == "Basic YWRhOnNlY3JldA=="
    assert memory.requests[0].url.query == b"key=1"


# --- the client


async def test_a_given_client_is_used_and_left_open() -> None:
    memory = Memory(ANSWER)
    async with memory.client() as client:
        agent = HttpAgent(URL, http_client=client)
        await agent.run_agent("Hi")
        async with agent:
            await agent.run_agent("Hi")
        await agent.run_agent("Hi")
        assert not client.is_closed
    assert len(memory.requests) == 3


async def test_a_function_makes_a_client_for_each_run_which_is_closed_with_it() -> None:
    memory, made = Memory(ANSWER), list[httpx.AsyncClient]()

    def make() -> httpx.AsyncClient:
        made.append(memory.client())
        return made[-1]

    agent = HttpAgent(URL, http_client=make)
    await agent.run_agent("Hi")
    await agent.run_agent("Hi")
    assert [client.is_closed for client in made] == [True, True]


async def test_inside_its_block_an_agent_keeps_one_client() -> None:
    memory, made = Memory(ANSWER), list[httpx.AsyncClient]()

    def make() -> httpx.AsyncClient:
        made.append(memory.client())
        return made[-1]

    async with HttpAgent(URL, http_client=make) as agent:
        await agent.run_agent("Hi")
        await agent.clone().run_agent("Hi")
        await agent.run_agent("Hi")
        assert [client.is_closed for client in made] == [False]
    assert [client.is_closed for client in made] == [True]
    await agent.run_agent("Out of the block it still works.")
    assert [client.is_closed for client in made] == [True, True]


async def test_inside_its_block_an_agent_keeps_its_connection() -> None:
    app, ports = agui_app(ScriptedAgent(turn(text("Hi.")))), list[int]()

    async def noting(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        ports.append(scope["client"][1])
        await app(scope, receive, send)

    with serve(noting) as server:
        async with HttpAgent(server.url) as agent:
            await agent.run_agent("Hi")
            await agent.run_agent("Hi")
        await agent.run_agent("Hi")
    assert ports[0] == ports[1] != ports[2]


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("keeps_client", [False, True])
async def test_cookies_are_not_kept_between_runs(keeps_client: bool) -> None:
    with serve_bytes(Reply([ANSWER], headers={"Set-Cookie": "session=1; Path=/"})) as server:
        agent = HttpAgent(server.url)
        if keeps_client:
            await agent.__aenter__()
        await agent.run_agent("Hi")
        await agent.run_agent("Hi")
        await agent.aclose()
        assert [request.headers.get("cookie") for request in server.requests] == [None, None]


@pytest.mark.requirement("SEC-9", "SSE-8")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    with serve_bytes(ANSWER) as other, serve_bytes(Reply(status=status, headers={"Location": other.url})) as server:
        agent = HttpAgent(server.url, headers={"Authorization": "Bearer secret"})
        with pytest.raises(HTTPStatusError) as caught:
            await agent.run_agent("Hi")
        assert caught.value.status_code == status
        assert other.url in str(caught.value)
        assert other.requests == []


def test_an_agent_works_in_one_event_loop_after_the_other() -> None:
    async def ask(agent: HttpAgent) -> str:
        return (await agent.run_agent("Hi")).text

    with serve(ScriptedAgent(turn(text("Hi.")))) as server:
        agent = HttpAgent(server.url)
        said = [anyio.run(ask, agent, backend=backend) for backend in ("asyncio", "asyncio", "trio", "asyncio")]
        assert said == ["Hi."] * 4
        assert agent.run_agent_sync("Hi").text == "Hi."


# --- the response


@pytest.mark.requirement("SSE-3")
@pytest.mark.parametrize(
    "content_type",
    ["text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream;x=y", " text/event-stream "],
)
async def test_an_event_stream_may_have_parameters(content_type: str) -> None:
    agent = memory_agent(make=lambda: response(Body([ANSWER]), content_type=content_type))
    assert (await agent.run_agent("Hi")).text == "Hi."


@pytest.mark.requirement("SSE-3", "SET-13")
@pytest.mark.parametrize(
    "content_type", ["application/json", "text/event-stream2", "text/html, text/event-stream", None]
)
async def test_any_other_content_type_is_refused(content_type: str | None) -> None:
    agent = memory_agent(make=lambda: response(Body([ANSWER]), content_type=content_type))
    with pytest.raises(UnexpectedContentTypeError) as caught:
        await agent.run_agent("Hi")
    assert caught.value.content_type == (content_type or "")
    assert caught.value.body == ANSWER.decode()[:512]


@pytest.mark.requirement("SSE-8")
@pytest.mark.parametrize(
    ("page", "said"),
    [(b"no", "no"), (b"\xc3\xa9", "\N{LATIN SMALL LETTER E WITH ACUTE}"), (b"no\xff", "no\N{REPLACEMENT CHARACTER}")],
)
@pytest.mark.parametrize("charset", ["utf-8", "latin-1", "base64", "idna", "undefined", "unicode_escape", "no\0ne"])
async def test_a_page_is_read_as_utf_8_whatever_charset_it_claims(charset: str, page: bytes, said: str) -> None:
    claimed = f"text/html; charset={charset}"
    with pytest.raises(HTTPStatusError) as refused:
        await memory_agent(make=lambda: response(Body([page]), status=500, content_type=claimed)).run_agent("Hi")
    with pytest.raises(UnexpectedContentTypeError) as mistaken:
        await memory_agent(make=lambda: response(Body([page]), content_type=claimed)).run_agent("Hi")
    assert (refused.value.body, mistaken.value.body) == (said, said)


@pytest.mark.requirement("SSE-11", "LIFE-4", "SET-8")
async def test_the_body_is_read_to_its_end() -> None:
    frames = sse(turn(text("Hi.")), RunErrorEvent(message="after all"))
    with pytest.raises(RunFailedError, match="after all"):
        await memory_agent(frames).run_agent("Hi")


@pytest.mark.requirement("SSE-11", "LIFE-13", "TRUNC-3")
async def test_of_several_runs_in_one_body_the_last_is_the_result() -> None:
    replayed = turn(text("Earlier.", message_id="m1"), state({"n": 1}), result=1, run_id="run-0")
    asked = turn(text("Now.", message_id="m2"), result=2)
    agent = memory_agent(sse(replayed, asked))
    result = await agent.run_agent("Hi", run_id="run-1")
    assert (result.text, result.result, result.state) == ("Now.", 2, {"n": 1})
    assert [message.content for message in agent.messages] == ["Hi", "Earlier.", "Now."]


@pytest.mark.requirement("SSE-10", "TRUNC-2")
async def test_a_broken_stream_is_not_picked_up_again() -> None:
    with serve_bytes(Reply([b"id: 7\nretry: 1\n" + ANSWER[:200]], end="reset")) as server:
        agent = HttpAgent(server.url)
        with pytest.raises(IncompleteRunError):
            await agent.run_agent("Hi")
        assert len(server.requests) == 1
        with pytest.raises(IncompleteRunError):
            await agent.run_agent(None)
        first, second = (request.json() for request in server.requests)
    assert "last-event-id" not in server.requests[1].headers
    assert first["threadId"] == second["threadId"]
    assert first["runId"] != second["runId"]


async def test_a_compressed_body_is_unpacked() -> None:
    packed = gzip.compress(ANSWER)
    pieces = [packed[at : at + 1] for at in range(len(packed))]
    agent = memory_agent(make=lambda: response(Body(pieces), content_encoding="gzip"))
    assert (await agent.run_agent("Hi")).text == "Hi."


async def test_a_body_that_cannot_be_unpacked_is_a_decode_error() -> None:
    agent = memory_agent(make=lambda: response(Body([b"not gzip at all"]), content_encoding="gzip"))
    with pytest.raises(DecodeError, match="cannot be unpacked") as caught:
        await agent.run_agent("Hi")
    assert caught.value.partial is not None


async def test_a_result_tells_about_the_response() -> None:
    with serve_bytes(Reply([ANSWER], headers={"X-Request-Id": "42"})) as server:
        result = await HttpAgent(server.url).run_agent("Hi")
    assert result.response is not None
    assert (result.response.status_code, result.response.http_version) == (200, "HTTP/1.1")
    assert result.response.headers["x-request-id"] == "42"


async def test_a_result_tells_when_things_happened() -> None:
    with serve_bytes(ANSWER) as server:
        timings = (await HttpAgent(server.url).run_agent("Hi")).timings
    assert timings.connect is not None
    assert timings.first_event is not None
    assert timings.first_text is not None
    assert timings.total is not None
    assert 0 < timings.connect <= timings.first_event <= timings.first_text <= timings.total


# --- limits


@pytest.mark.requirement("SET-15", "SSE-12")
@pytest.mark.parametrize("size", [1, 100, 10_000], ids=lambda size: f"pieces of {size}")
async def test_a_frame_may_be_as_large_as_the_limit_and_no_larger(size: int) -> None:
    frames = sse(turn(text("x" * 1000, chunk=1000)))
    largest = max(len(line) for line in frames.split(b"\n"))
    pieces = [frames[at : at + size] for at in range(0, len(frames), size)]
    assert len((await memory_agent(*pieces, max_event_bytes=largest).run_agent("Hi")).text) == 1000
    with pytest.raises(StreamTooLargeError, match="max_event_bytes=900"):
        await memory_agent(*pieces, max_event_bytes=900).run_agent("Hi")


endless_lines = pytest.mark.parametrize(
    "line", [b"x" * 1000, b"data: " + b"x" * 1000, b"\ndata: x" * 200], ids=["no field", "one", "many"]
)


async def pieces_taken(line: bytes, *, is_hasty: bool) -> int:
    """How much of an endless frame is read before it is given up."""
    taken = count()
    lines = (line for _ in islice(taken, 1_000_000))
    agent = memory_agent(make=lambda: response(Body(lines, is_hasty=is_hasty)), max_event_bytes=100_000)
    with anyio.fail_after(10), pytest.raises(StreamTooLargeError):
        await agent.run_agent("Hi")
    return next(taken)


@endless_lines
@pytest.mark.requirement("SET-15")
async def test_an_endless_frame_is_given_up_while_it_grows(line: bytes) -> None:
    assert await pieces_taken(line, is_hasty=False) < 200


@endless_lines
@pytest.mark.requirement("SET-15")
async def test_an_endless_body_that_never_waits_is_given_up_too(line: bytes) -> None:
    assert await pieces_taken(line, is_hasty=True) < 100_000


@pytest.mark.requirement("SSE-6", "SET-15")
async def test_comments_do_not_count_as_a_frame() -> None:
    comments = [b": ping\n" * 10] * 100
    data = ANSWER.replace(b'"threadId"', b'\ndata: "threadId"')
    inside = data.index(b"\n") + 1
    agent = memory_agent(*comments, data[:inside], *comments, data[inside:], *comments, max_event_bytes=400)
    assert (await agent.run_agent("Hi")).text == "Hi."


@pytest.mark.requirement("SSE-8")
async def test_a_refusals_endless_body_is_cut() -> None:
    taken = count()
    lines = (b"x" * 10_000 for _ in islice(taken, 1_000_000))
    with anyio.fail_after(10), pytest.raises(HTTPStatusError) as caught:
        await memory_agent(make=lambda: response(Body(lines), status=500)).run_agent("Hi")
    assert len(caught.value.body) == 65536
    assert len(str(caught.value)) < 1000
    assert next(taken) < 20


def test_a_number_of_seconds_is_every_time_out_but_the_total() -> None:
    assert Timeouts.of(None) == Timeouts()
    assert Timeouts.of(3) == Timeouts(connect=3, first_event=3, idle=3, after_end=3, total=None, write=3, pool=3)
    assert Timeouts.of(30).after_end == Timeouts().after_end
    own = Timeouts(idle=None, total=60)
    assert Timeouts.of(own) is own
