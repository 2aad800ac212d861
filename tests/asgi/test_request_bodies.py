"""Requests to served agents before their run: who is let in, how much of a body is read, and how it is parsed."""

from __future__ import annotations

import gc
import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import RunAgentInput

from agui_client.asgi import AppLimits, RequestRefusedError, agent_app
from agui_client.testing import ScriptedAgent, serve, turn

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from agui_client import AbstractAgent
    from agui_client.asgi import AgentApp, ServedRequest

pytestmark = pytest.mark.anyio
_SECONDS = 10.0
_INPUT: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": []}
_USER = {"id": "1", "role": "user", "content": "hello"}
_EMPTY: dict[str, Any] = {}
_MIB = 1024 * 1024


class _Exchange:
    """One request of a fake server; it knows how often the app asked for more of the body."""

    def __init__(self, chunks: Sequence[bytes] = (), *, then: Mapping[str, Any] | None = None) -> None:
        self.received = 0
        self.status, self.headers = 0, dict[bytes, bytes]()
        self.detail: Any = None
        self._chunks, self._then = list(chunks), then

    async def ask(self, app: AgentApp, headers: Mapping[str, str] | None = None, **scope: Any) -> None:
        fields = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        with anyio.fail_after(_SECONDS):
            await app(
                {"type": "http", "method": "POST", "path": "/", "headers": fields, **scope}, self._receive, self._send
            )

    async def _receive(self) -> MutableMapping[str, Any]:
        self.received += 1
        if self._chunks:
            body = self._chunks.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self._chunks) or self._then is not None}
        if self._then is None:
            await anyio.sleep_forever()
        return dict(self._then or {})

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        elif self.status != 200:
            self.detail = json.loads(message["body"])["detail"]


def _app(**options: Any) -> AgentApp:
    return agent_app(ScriptedAgent(turn()), **options)


async def _no_user(method: str, path: str, headers: Mapping[str, str]) -> None:
    return None


def _is_ann(method: str, path: str, headers: Mapping[str, str]) -> bool:
    return headers.get("authorization") == "Bearer ann"


def _user(method: str, path: str, headers: Mapping[str, str]) -> str:
    return headers.get("x-user", "")


def _forbid(method: str, path: str, headers: Mapping[str, str]) -> bool:
    raise RequestRefusedError(403, "not yours", {"x-why": "quota"})


@pytest.mark.parametrize("scope", [{}, {"method": "GET"}, {"path": "/connect"}, {"path": "/agents/capabilities"}])
@pytest.mark.parametrize("authorize", [_no_user, _is_ann, _user])
async def test_a_caller_that_is_not_authorized_is_refused_before_its_body(
    authorize: Any, scope: dict[str, Any]
) -> None:
    exchange = _Exchange([json.dumps(_INPUT).encode()])
    await exchange.ask(_app(authorize=authorize), {"authorization": "Bearer eve"}, **scope)
    assert (exchange.received, exchange.status, exchange.detail) == (0, 401, "the request is not authorized")
    assert (exchange.headers[b"connection"], exchange.headers[b"www-authenticate"]) == (b"close", b"Bearer")


async def test_the_function_that_authorizes_may_refuse_with_a_status_of_its_own() -> None:
    exchange = _Exchange([json.dumps(_INPUT).encode()])
    await exchange.ask(_app(authorize=_forbid))
    assert (exchange.received, exchange.status, exchange.detail) == (0, 403, "not yours")
    assert (exchange.headers[b"x-why"], b"www-authenticate" in exchange.headers) == (b"quota", False)


async def test_the_function_that_chooses_agents_gets_what_authorize_returned() -> None:
    asked: list[tuple[Any, ...]] = []

    async def authorize(method: str, path: str, headers: Mapping[str, str]) -> dict[str, str]:
        asked.append((method, path, dict(headers)))
        return {"user": headers["x-user"]}

    def choose(request: ServedRequest, input: RunAgentInput) -> AbstractAgent:
        asked.append((request.path, request.caller, "ann" in repr(request)))
        return ScriptedAgent(turn())

    exchange = _Exchange([json.dumps(_INPUT).encode()])
    scope = {"path": "/app/oslo/connect", "root_path": "/app"}
    await exchange.ask(agent_app(choose, authorize=authorize), {"X-User": "ann"}, **scope)
    assert asked == [("POST", "/oslo/connect", {"x-user": "ann"}), ("/oslo", {"user": "ann"}, False)]


@pytest.mark.parametrize(
    ("limits", "announced"),
    [
        (AppLimits(), str(4 * _MIB + 1)),
        (AppLimits(max_body_bytes=10), "11"),
        (AppLimits(max_body_bytes=64 * _MIB), "1" + "0" * 5000),
    ],
    ids=["default", "chosen", "endless"],
)
async def test_a_body_that_is_announced_as_too_long_is_not_read(limits: AppLimits, announced: str) -> None:
    exchange = _Exchange([b"{}"])
    await exchange.ask(_app(limits=limits), {"content-length": announced})
    assert (exchange.status, exchange.received, exchange.headers[b"connection"]) == (413, 0, b"close")
    assert exchange.detail == f"the body has more than {limits.max_body_bytes} bytes"


async def test_the_bytes_of_a_body_are_counted_while_they_arrive() -> None:
    exchange = _Exchange([b" " * 4] * 100)
    await exchange.ask(_app(limits=AppLimits(max_body_bytes=10)), {"transfer-encoding": "chunked"}, http_version="1.1")
    assert (exchange.status, exchange.received, exchange.headers[b"connection"]) == (413, 3, b"close")
    # HTTP/2 ends the stream of one request, and knows no such header.
    exchange = _Exchange([b" " * 4] * 100)
    await exchange.ask(_app(limits=AppLimits(max_body_bytes=10)), http_version="2")
    assert (exchange.status, exchange.received, exchange.headers.get(b"connection")) == (413, 3, None)


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0


def test_a_body_that_trickles_is_given_up_and_its_connection_closed() -> None:
    with (
        serve(_app(limits=AppLimits(body_timeout=0.05))) as server,
        socket.create_connection(_place(server.url)) as caller,
    ):
        caller.settimeout(_SECONDS)
        caller.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{")
        answer = b""
        while part := caller.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'{"detail": "the body took more than 0.05 seconds"}' in answer


async def test_a_caller_that_leaves_before_the_end_of_its_request_begins_no_run() -> None:
    agent = ScriptedAgent(turn())
    exchange = _Exchange([json.dumps(_INPUT).encode()], then={"type": "http.disconnect"})
    await exchange.ask(agent_app(agent))
    assert (exchange.status, exchange.received, agent.inputs) == (400, 2, [])


@pytest.mark.parametrize(
    ("members", "places"),
    [
        ({"messages": [_EMPTY] * 5000}, [["messages", 0]]),
        ({"messages": [_USER] * 2500 + [_EMPTY] * 2500}, [["messages", 2500]]),
        (
            {"messages": [{**_USER, "content": [_EMPTY] * 5000}]},
            [["messages", 0, "user", "content"]] * 2,  # neither a text nor a list of parts
        ),
        (
            {"messages": [{"id": "2", "role": "assistant", "toolCalls": [_EMPTY] * 5000}]},
            [["messages", 0, "assistant", "toolCalls", 0, name] for name in ("id", "function")],
        ),
        ({"tools": [1] * 5000}, [["tools", 0]]),
        ({"threadId": 7, "context": [1] * 5000}, [["threadId"], ["context", 0]]),
        ({"resume": [{"interruptId": "i", "status": "resolved"}] * 1500 + [1] * 10}, [["resume", 1500]]),
    ],
)
async def test_parsing_stops_at_the_first_fault_of_each_list(members: dict[str, Any], places: list[Any]) -> None:
    exchange = _Exchange([json.dumps({**_INPUT, **members}).encode()])
    await exchange.ask(_app())
    found = [fault["loc"][: len(place)] for fault, place in zip(exchange.detail or (), places, strict=True)]
    assert (exchange.status, found) == (422, places)


async def test_a_large_input_is_the_same_as_in_one_piece_and_the_event_loop_goes_on_meanwhile() -> None:
    turns, seen = [0], list[tuple[RunAgentInput, int]]()

    def choose(request: ServedRequest, input: RunAgentInput) -> AbstractAgent:
        seen.append((input, turns[0]))
        raise RequestRefusedError(418, "seen")

    async def count() -> None:
        while True:
            turns[0] += 1
            await anyio.lowlevel.checkpoint()

    tools = [{"name": f"t{number}", "description": "", "parameters": _EMPTY} for number in range(1001)]
    messages = [{**_USER, "id": str(number)} for number in range(2500)]
    body = json.dumps({**_INPUT, "messages": messages, "tools": tools, "state": [1.5] * 1500, "extra": 1}).encode()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        await _Exchange([body]).ask(agent_app(choose))
        tasks.cancel_scope.cancel()
    [(input, turns_before_the_run)] = seen
    assert input == RunAgentInput.model_validate_json(body)
    # Nothing but the thread of the parser is waited for: the fake server has the body at once.
    assert (turns_before_the_run > 0, gc.isenabled()) == (True, True)


_IN_SNAKE_CASE: dict[str, Any] = {
    "thread_id": "t",
    "run_id": "r",
    "parent_run_id": "p",
    "state": {"thread_id": 1, "source": {"mime_type": 2}},
    "messages": [
        {
            "id": "1",
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image", "source": {"type": "url", "value": "https://a.example/b", "mime_type": "image/png"}},
            ],
            "metadata": {"subagent_run_id": 3},
        },
        {
            "id": "2",
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "c",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"tool_call_id": 1}'},
                    "encrypted_value": "e",
                }
            ],
        },
        {"id": "3", "role": "tool", "tool_call_id": "c", "content": "done"},
    ],
    "tools": [{"name": "f", "description": "", "parameters": {"properties": {"tool_call_id": {}}}}],
    "forwarded_props": {"run_id": 5},
    "resume": [{"interrupt_id": "i", "status": "resolved", "payload": {"interrupt_id": 6}}],
}


async def _taken(body: Any) -> RunAgentInput:
    """Return the input that the app makes of a body."""
    seen = list[RunAgentInput]()

    def choose(request: ServedRequest, input: RunAgentInput) -> AbstractAgent:
        seen.append(input)
        raise RequestRefusedError(418, "seen")

    exchange = _Exchange([json.dumps(body).encode()])
    await exchange.ask(agent_app(choose))
    assert exchange.status == 418, exchange.detail
    return seen[0]


@pytest.mark.requirement("SET-17")
async def test_names_of_python_are_taken_at_every_depth_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    taken = await _taken(_IN_SNAKE_CASE)
    assert taken == RunAgentInput.model_validate(_IN_SNAKE_CASE)
    as_sent = json.loads(taken.model_dump_json(by_alias=True, exclude_none=True))
    assert taken == await _taken(as_sent)
    [warning] = [each.getMessage() for each in caplog.records if each.name == "agui_client.asgi"]
    assert warning == (
        "the input of a caller has encrypted_value for encryptedValue, forwarded_props for forwardedProps, "
        "interrupt_id for interruptId, mime_type for mimeType, parent_run_id for parentRunId and 4 more; have it write "
        "the names of the protocol (by_alias=True)"
    )
    # What is data keeps its names.
    assert as_sent["state"] == _IN_SNAKE_CASE["state"]
    assert as_sent["tools"] == _IN_SNAKE_CASE["tools"]
    assert (as_sent["forwardedProps"], as_sent["messages"][0]["metadata"]) == ({"run_id": 5}, {"subagent_run_id": 3})


@pytest.mark.requirement("SET-17")
async def test_of_a_member_under_both_names_the_name_of_the_protocol_counts(caplog: pytest.LogCaptureFixture) -> None:
    taken = await _taken({**_INPUT, "thread_id": "other"})
    assert (taken.thread_id, caplog.records) == ("t", [])


@pytest.mark.parametrize("body", [7, [], {"thread_id": "t", "messages": [7, {"role": 7}, {"role": "user"}]}], ids=str)
@pytest.mark.requirement("SET-17")
async def test_what_is_no_input_under_any_names_is_refused(body: Any) -> None:
    exchange = _Exchange([json.dumps(body).encode()])
    await exchange.ask(_app())
    assert exchange.status == 422


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (b"[" + b"{}," * 40_000 + b"1]", 413),
        (b'{"text": "' + b'[{,\\"\\\\' * 100_000 + b'"}', 418),
        (b"[" + b"9" * 4000 + b"]", 422),
        (b"[" + b"1.5," * 20_000 + b"1e999]", 422),
    ],
    ids=["many values", "the same in a text", "a long number", "a number that is infinite"],
)
async def test_a_body_that_would_hold_up_other_runs_is_refused_before_it_is_parsed(state: bytes, status: int) -> None:
    def choose(request: ServedRequest, input: RunAgentInput) -> AbstractAgent:
        raise RequestRefusedError(418, "taken")

    exchange = _Exchange([json.dumps({**_INPUT, "state": 7}).encode().replace(b"7", state)])
    await exchange.ask(agent_app(choose))
    assert exchange.status == status


@pytest.mark.requirement("SET-18")
async def test_half_of_a_character_in_a_body_is_replaced_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    taken = await _taken({**_INPUT, "messages": [{**_USER, "content": "a\ud83d"}], "state": {"\udc0e": "\ud83d\ude00"}})
    assert (taken.messages[0].content, taken.state) == ("a\ufffd", {"\ufffd": "\N{GRINNING FACE}"})
    [warning] = [each.getMessage() for each in caplog.records if each.name == "agui_client.asgi"]
    assert "half of a character" in warning
    exchange = _Exchange([b'{"threadId": "\\ud83d", NaN'])
    await exchange.ask(_app())
    assert exchange.status == 400
