"""The wire cases of docs/wire-cases.md: what servers really send, and how a run of ours ends each time.

Each case goes over a socket to the async and to the sync surface. The rows of the document are held against the cases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from ag_ui.core import RunFinishedInterruptOutcome, RunFinishedSuccessOutcome

from agui_client import (
    AGUIError,
    DecodeError,
    FirstEventTimeoutError,
    HttpAgent,
    HTTPStatusError,
    IdleTimeoutError,
    IncompleteRunError,
    InvalidEventError,
    RunFailedError,
    RunResult,
    Timeouts,
    UnexpectedContentTypeError,
)
from agui_client.fast import fast_client
from agui_client.testing import ByteServer, Reply, serve_bytes

_DOCUMENT = Path(__file__).parents[2] / "docs" / "wire-cases.md"

START = '{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}'
FINISH = '{"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}'
OPEN = '{"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}'
CLOSE = '{"type": "TEXT_MESSAGE_END", "messageId": "m"}'
WORDS = ("Grüße ", "👋 an ", "Åsa")
TEXT = "".join(WORDS)


def content(delta: str) -> str:
    return f'{{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "{delta}"}}'


SAID = (OPEN, *map(content, WORDS), CLOSE)
ANSWER = (START, *SAID, FINISH)


def body(*events: str, newline: str = "\n", prefix: str = "data: ") -> bytes:
    return "".join(f"{prefix}{event}{newline}{newline}" for event in events).encode()


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    agent: HttpAgent
    server: ByteServer
    error: AGUIError | None
    result: RunResult
    """What it came to, or what had arrived."""

    @property
    def warned(self) -> list[tuple[str, str | None]]:
        return [(warning.rule, warning.path) for warning in self.result.warnings]


@dataclass(frozen=True)
class Case:
    """One thing a server does, and what must come of it."""

    name: str
    """Its row in the document."""
    reply: Reply
    expect: Callable[[Ended], None]
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """The agent's options."""


CASES: dict[str, Case] = {}


def case(
    name: str, reply: Reply | bytes, **options: Any
) -> Callable[[Callable[[Ended], None]], Callable[[Ended], None]]:
    """Register what must come of a reply."""

    def register(expect: Callable[[Ended], None]) -> Callable[[Ended], None]:
        CASES[name] = Case(name, Reply([reply]) if isinstance(reply, bytes) else reply, expect, options)
        return expect

    return register


def answered(ended: Ended) -> None:
    """The whole answer arrived, and nothing needed to be tolerated."""
    assert ended.error is None
    assert ended.result.text == TEXT
    assert [message.content for message in ended.agent.messages] == [TEXT]
    assert isinstance(ended.result.outcome, RunFinishedSuccessOutcome)
    assert ended.warned == []


def kept(ended: Ended, kind: type[AGUIError], text: str = TEXT) -> None:
    """The run failed this way, and what had arrived is in the error and on the agent."""
    assert ended.error is not None
    assert type(ended.error) is kind, ended.error
    assert ended.result.outcome is None
    assert [message.content for message in ended.agent.messages] == ([text] if text else [])
    assert (ended.error.thread_id, ended.error.run_id) == ("t", "r")


# --- framing

case("plain LF stream", body(*ANSWER))(answered)
case("CRLF framing", body(*ANSWER, newline="\r\n"))(answered)
case("bare CR framing", body(*ANSWER, newline="\r"))(answered)
case("`data:` without the space", body(*ANSWER, prefix="data:"))(answered)
case("UTF-8 BOM first", b"\xef\xbb\xbf" + body(*ANSWER))(answered)
case("comment keep-alives", b": hi\n\n" + body(START) + b":\n:\n\n" + body(*SAID) + b": ping\n\n" + body(FINISH))(
    answered
)
case("one event over several `data:` lines", body(*ANSWER).replace(b', "', b',\ndata: "'))(answered)
case("1 byte per write, multibyte text", Reply([bytes([byte]) for byte in body(*ANSWER)]))(answered)


# --- how a stream ends


@case("ends after content, no terminal event", body(START, *SAID))
def ends_after_content(ended: Ended) -> None:
    kept(ended, IncompleteRunError)


@case("ends inside a JSON frame", body(START, *SAID) + b'data: {"type": "RUN_FINI')
def ends_inside_a_frame(ended: Ended) -> None:
    kept(ended, IncompleteRunError)


@case("ends inside a character", body(START, OPEN, content("Gr")) + 'data: {"delta": "ü'.encode()[:-1])
def ends_inside_a_character(ended: Ended) -> None:
    kept(ended, IncompleteRunError, "Gr")


@case("the connection is reset in the middle", Reply([body(START, *SAID)], end="reset"))
def is_reset(ended: Ended) -> None:
    kept(ended, IncompleteRunError)


case("last frame lacks the blank line", body(*ANSWER).removesuffix(b"\n\n"))(answered)


@case("`RUN_ERROR`", body(START, *SAID, '{"type": "RUN_ERROR", "message": "overloaded", "code": "E7"}'))
def reports_a_failure(ended: Ended) -> None:
    kept(ended, RunFailedError)
    assert isinstance(ended.error, RunFailedError)
    assert (ended.error.code, ended.error.event.message) == ("E7", "overloaded")


# --- what is in a frame


@case("unknown event type", body(START, '{"type": "FUTURE", "x": 1}', *SAID, FINISH))
def unknown_type(ended: Ended) -> None:
    assert (ended.error, ended.result.text) == (None, TEXT)
    assert ended.warned == [("PROC-7", None)]


NULLED = body(START, OPEN.replace("}", ', "timestamp": null}'), *SAID[1:], FINISH)


@case("`timestamp: null`", NULLED)
def null_is_refused(ended: Ended) -> None:
    kept(ended, InvalidEventError, "")
    assert isinstance(ended.error, InvalidEventError)
    assert (ended.error.rule, ended.error.path) == ("PROC-17", "/timestamp")
    assert 'null_fields="drop"' in str(ended.error)


@case('`timestamp: null`, with `null_fields="drop"`', NULLED, null_fields="drop")
def null_is_dropped(ended: Ended) -> None:
    assert (ended.error, ended.result.text) == (None, TEXT)
    assert ended.warned == [("PROC-17", "/timestamp")]


@case(
    "an `outcome` without its `type`, or with one that is not text",
    body(START, *SAID, FINISH[:-1] + ', "outcome": {}}'),
)
def union_without_its_discriminator(ended: Ended) -> None:
    kept(ended, InvalidEventError)
    assert isinstance(ended.error, InvalidEventError)
    assert (ended.error.rule, ended.error.path) == ("PROC-6", "/outcome")


@case("one frame of broken JSON", body(START, *SAID, '{"type": "RAW", }', FINISH))
def broken_json(ended: Ended) -> None:
    kept(ended, DecodeError)


CHUNKS = [f'{{"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "{word}"}}' for word in WORDS]
case("`TEXT_MESSAGE_CHUNK`", body(START, *CHUNKS, FINISH))(answered)


def call(part: str, call_id: str, more: str = "") -> str:
    return f'{{"type": "TOOL_CALL_{part}", "toolCallId": "{call_id}"{more}}}'


@case(
    "interleaved tool calls a, b",
    body(
        START,
        call("START", "a", ', "toolCallName": "look"'),
        call("START", "b", ', "toolCallName": "ask"'),
        call("ARGS", "a", ', "delta": "{1"'),
        call("ARGS", "b", ', "delta": "{2"'),
        call("ARGS", "a", ', "delta": "1}"'),
        call("END", "b"),
        call("END", "a"),
        FINISH,
    ),
)
def interleaved_calls(ended: Ended) -> None:
    assert ended.error is None
    calls = [(each.id, each.function.name, each.function.arguments) for each in ended.result.pending_tool_calls]
    assert calls == [("a", "look", "{11}"), ("b", "ask", "{2")]


@case(
    "a tool call that starts again with whole arguments, and no result",
    body(
        START,
        call("START", "a", ', "toolCallName": "look"'),
        call("ARGS", "a", ', "delta": "{\\"at\\": 1}"'),
        call("END", "a"),
        call("START", "a", ', "toolCallName": "ask"'),
        call("ARGS", "a", ', "delta": "{\\"at\\": 2}"'),
        call("END", "a"),
        FINISH,
    ),
)
def call_that_starts_again(ended: Ended) -> None:
    assert ended.error is None
    calls = [(each.id, each.function.name, each.function.arguments) for each in ended.result.pending_tool_calls]
    assert calls == [("a", "look", '{"at": 2}')]


@case("half of a character alone, in any text", body(START, OPEN, content("a\\ud83d b"), CLOSE, FINISH))
def half_of_a_character(ended: Ended) -> None:
    assert ended.error is None
    assert ended.result.text == "a\ufffd b"
    assert [rule for rule, _ in ended.warned] == ["PROC-12"]


SNAPSHOT = '{"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}}'


@case(
    "`STATE_SNAPSHOT` and `STATE_DELTA`",
    body(START, SNAPSHOT, '{"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/b", "value": [2]}]}', FINISH),
)
def state_is_reduced(ended: Ended) -> None:
    assert (ended.error, ended.warned) == (None, [])
    assert ended.agent.state == ended.result.state == {"a": 1, "b": [2]}


PATCH = '[{"op": "replace", "path": "/a", "value": 2}, {"op": "remove", "path": "/zz"}]'


@case("a delta that does not apply", body(START, SNAPSHOT, f'{{"type": "STATE_DELTA", "delta": {PATCH}}}', FINISH))
def delta_does_not_apply(ended: Ended) -> None:
    assert ended.error is None
    assert ended.agent.state == ended.result.state == {"a": 1}
    assert ended.warned == [("SNAP-5", "/delta")]


ASKING = FINISH.replace("}", ', "outcome": {"type": "interrupt", "interrupts": [{"id": "i", "reason": "approval"}]}}')


@case("interrupt outcome", body(START, *SAID, ASKING))
def interrupted(ended: Ended) -> None:
    assert ended.error is None
    assert isinstance(ended.result.outcome, RunFinishedInterruptOutcome)
    assert [each.id for each in ended.result.interrupts] == ["i"]
    assert ended.agent.pending_interrupts == ended.result.interrupts


# --- what is not an event stream

PAGE = "<!doctype html><title>Sign in</title>" + " " * 600


@case("HTTP 200 with an HTML login page", Reply([PAGE.encode()], content_type="text/html; charset=utf-8"))
def login_page(ended: Ended) -> None:
    kept(ended, UnexpectedContentTypeError, "")
    assert isinstance(ended.error, UnexpectedContentTypeError)
    assert (ended.error.content_type, ended.error.body) == ("text/html", PAGE[:512])


@case("HTTP 200, empty body", b"")
def empty_body(ended: Ended) -> None:
    kept(ended, IncompleteRunError, "")


@case("words in place of events, such as `data: Sorry, quota exceeded`", b"data: Sorry, quota exceeded\n\n")
def words(ended: Ended) -> None:
    kept(ended, DecodeError, "")
    assert str(ended.error).endswith(f"; {ended.server.url} responded with 'Sorry, quota exceeded'")


REFUSAL = '{"detail": "no such agent"}'


@case("HTTP 401 or 500 with a JSON body", Reply([REFUSAL.encode()], status=401, content_type="application/json"))
def refused(ended: Ended) -> None:
    kept(ended, HTTPStatusError, "")
    assert isinstance(ended.error, HTTPStatusError)
    assert (ended.error.status_code, ended.error.body) == (401, REFUSAL)


@case("the server goes silent", Reply([body(START, *SAID)], end="stall"), timeout=Timeouts(idle=0.1))
def silent(ended: Ended) -> None:
    kept(ended, IdleTimeoutError)


@case("the server says nothing at all", Reply([b""], end="stall", chunked=False), timeout=Timeouts(first_event=0.1))
def mute(ended: Ended) -> None:
    kept(ended, FirstEventTimeoutError, "")


@case("the request", body(*ANSWER), initial_state={"a": None})
def request(ended: Ended) -> None:
    (sent,) = ended.server.requests
    assert sent.json() == {
        "threadId": "t",
        "runId": "r",
        "protocolVersion": "1.0",
        "messages": [],
        "state": {"a": None},
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["accept"] == "text/event-stream"


# --- running them


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def served(request: pytest.FixtureRequest) -> Generator[tuple[Case, ByteServer, HttpAgent], None, None]:
    wire_case: Case = request.param
    with serve_bytes(wire_case.reply) as server:
        yield wire_case, server, HttpAgent(server.url, thread_id="t", **wire_case.options)


def judge(served: tuple[Case, ByteServer, HttpAgent], run: Callable[[HttpAgent], RunResult]) -> None:
    wire_case, server, agent = served
    error: AGUIError | None = None
    try:
        result: RunResult | None = run(agent)
    except AGUIError as raised:
        error, result = raised, cast("RunResult | None", raised.partial)
    assert result is not None
    wire_case.expect(Ended(agent, server, error, result))


@pytest.mark.requirement("SSE-1", "SSE-2", "SSE-3", "SSE-4", "SSE-6", "SSE-7", "SSE-8", "SSE-9", "SSE-12", "PB-2")
@pytest.mark.requirement("TRUNC-1", "LIFE-7", "INPUT-2", "INPUT-6", "SET-1", "SET-12", "SET-13")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_run_ends_as_the_table_says(served: tuple[Case, ByteServer, HttpAgent], backend: str) -> None:
    async def run(agent: HttpAgent) -> RunResult:
        return await agent.run_agent(run_id="r")

    judge(served, lambda agent: anyio.run(run, agent, backend=backend))


def test_a_sync_run_ends_as_the_table_says(served: tuple[Case, ByteServer, HttpAgent]) -> None:
    judge(served, lambda agent: agent.run_agent_sync(run_id="r"))


def test_a_run_over_the_fast_client_ends_as_the_table_says(served: tuple[Case, ByteServer, HttpAgent]) -> None:
    wire_case, server, _ = served
    agent = HttpAgent(server.url, thread_id="t", http_client=fast_client, **wire_case.options)
    judge((wire_case, server, agent), lambda agent: anyio.run(lambda: agent.run_agent(run_id="r")))


def test_the_document_has_a_row_for_every_case_and_no_other() -> None:
    rows = re.findall(r"^\| (?!case |---)(.+?) \|", _DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == list(CASES)
