"""Credentials go to the agent and nowhere else: not into errors, results, representations or logs (SEC-7, SEC-9)."""

# isinstance() makes a RunResult[Unknown] of a partial result.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import httpx2
import pytest
from ag_ui.core import ReasoningEncryptedValueEvent

from agui_client import AGUIError, EventLog, HttpAgent, HTTPStatusError, RetryPolicy, RunResult, UsageError, tool
from agui_client._core.transport.client import ClientRequest
from agui_client.batch import run_many
from agui_client.inspector import inspector_page
from agui_client.recording import Recording, ReplayAgent, record
from agui_client.testing import Raw, Reply, reasoning, serve_bytes, sse, state, text, tool_call, turn

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

SECRET = "s3cr3t"
ANSWER = sse(turn(text("Hi.")))
SECRET_HEADERS = {
    "Set-Cookie": f"session={SECRET}",
    "Authentication-Info": f'nextnonce="{SECRET}"',
    "Authorization": SECRET,
    "Cookie": SECRET,
    "Proxy-Authorization": SECRET,
    "Refresh": f"5; url=https://ada:{SECRET}@elsewhere/?key={SECRET}",
    "Link": f"<https://elsewhere/?key={SECRET}>; rel=next, </b>",
    "Content-Location": f"/answers/{SECRET}",
    "X-See": f"/callback#access={SECRET}",
    "Report-To": f'{{"endpoints": [{{"url": "//ada:{SECRET}@reports"}}]}}',
}


def agent_at(url: str, **settings: Any) -> HttpAgent:
    """An agent with a secret in every place that can hold one."""
    address = url.replace("http://", f"http://ada:{SECRET}@") + f"?key={SECRET}#{SECRET}"
    return HttpAgent(address, headers={"Authorization": f"Bearer {SECRET}", "Cookie": f"c={SECRET}"}, **settings)


def everything_said(error: BaseException) -> str:
    """An error as a log would show it, its causes included."""
    return "\n".join([str(error), repr(error), *traceback.format_exception(error)])


async def failure_of(agent: HttpAgent) -> AGUIError:
    with pytest.raises(AGUIError) as caught:
        await agent.run_agent("Hi")
    return caught.value


REPLIES = {
    "401": Reply([b"no"], status=401, headers=SECRET_HEADERS),
    "500": Reply(status=500, headers=SECRET_HEADERS),
    "302": Reply(status=302, headers=SECRET_HEADERS | {"Location": f"http://ada:{SECRET}@elsewhere/?key={SECRET}"}),
    "html": Reply([b"<html>"], content_type="text/html", headers=SECRET_HEADERS),
    "broken JSON": Reply([b"data: {\n\n"], headers=SECRET_HEADERS),
    "reset": Reply(ANSWER[:100].splitlines(), end="reset", headers=SECRET_HEADERS),
    "cut": Reply([b"data: {"], end="cut", headers=SECRET_HEADERS),
    "empty": Reply(headers=SECRET_HEADERS),
    "silent": Reply(end="stall", headers=SECRET_HEADERS),
}


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES.keys())
async def test_no_error_holds_a_secret(reply: Reply, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agui_client")
    with serve_bytes(reply) as server:
        error = await failure_of(agent_at(server.url, timeout=0.1))
    assert SECRET not in everything_said(error)
    assert SECRET not in caplog.text


@tool
async def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "tokens", [["s3cr3t-first", "s3cr3t-second"], [f"{SECRET}-alike"] * 2], ids=["renewed", "alike"]
)
async def test_a_refusal_quotes_no_request_of_its_turn(tokens: list[str]) -> None:
    left = iter(tokens)
    quoting = Reply([" ".join(["refused:", *tokens]).encode()], status=500)
    with serve_bytes(sse(turn(tool_call("look"))), quoting) as server:
        agent = HttpAgent(server.url, headers=lambda: {"Authorization": f"Bearer {next(left)}"}, tools=[look])
        error = await failure_of(agent)
    assert isinstance(error, HTTPStatusError)
    assert error.body == "refused: [redacted] [redacted]"
    assert not any(token in everything_said(error) for token in tokens)


@pytest.mark.requirement("SEC-9")
async def test_a_failed_connection_holds_no_secret() -> None:
    with serve_bytes(b"") as server:
        url = server.url
    assert SECRET not in everything_said(await failure_of(agent_at(url, retry=RetryPolicy(first_wait=0.01))))


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "url",
    [
        *(f"nowhere/{SECRET}", f"ftp://ada:{SECRET}@host/", f"http://ada:{SECRET}@[::", f"http://[{SECRET}]/"),
        *(
            f"http://u:p@host:{SECRET}/",
            f"http://ada:{SECRET}",
            f"http://{SECRET}\N{SNOWMAN}--/",
            f"http://{SECRET}\0/",
        ),
    ],
)
async def test_an_impossible_address_is_an_error_without_secrets(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        HttpAgent(url)
    assert SECRET not in everything_said(caught.value)


@pytest.mark.requirement("SEC-9")
async def test_an_impossible_connect_url_is_an_error_without_secrets() -> None:
    with pytest.raises(UsageError) as caught:
        HttpAgent("http://host/", connect_url=f"http://ada:{SECRET}")
    assert SECRET not in everything_said(caught.value)


@pytest.mark.requirement("SEC-9")
async def test_an_impossible_port_is_not_shown_as_it_may_be_a_password() -> None:
    with pytest.raises(UsageError) as caught:
        HttpAgent("http://ada:123456/")
    assert "123456" not in repr(caught.value)


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "headers", [{"Authorization": f"Bearer {SECRET}\N{SNOWMAN}"}, {"Authorization": f"Bearer {SECRET}\n"}, {"X": 7}]
)
async def test_headers_that_are_none_are_an_error_without_secrets(headers: Any) -> None:
    with serve_bytes(ANSWER) as server:
        with pytest.raises(UsageError) as refused:
            await HttpAgent(server.url, headers=headers).run_agent("Hi")
        assert SECRET not in everything_said(refused.value)
        assert SECRET not in everything_said(await failure_of(HttpAgent(server.url, headers=lambda: headers)))


@pytest.mark.requirement("SEC-9")
async def test_a_result_holds_the_response_headers_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agui_client")
    with serve_bytes(Reply([ANSWER], headers=SECRET_HEADERS | {"X-Request-Id": "42"})) as server:
        agent = agent_at(server.url)
        result = await agent.run_agent("Hi")
    assert result.response is not None
    assert {result.response.headers[name.lower()] for name in SECRET_HEADERS} == {"[redacted]"}
    assert result.response.headers["x-request-id"] == "42"
    assert SECRET not in f"{result!r}{result.response}"
    assert SECRET not in repr(agent)
    assert SECRET not in str(agent)
    assert SECRET not in caplog.text


@pytest.mark.requirement("SEC-9", "SSE-8")
async def test_a_refusals_headers_are_kept_without_secrets() -> None:
    harmless = {"retry-after": "7", "x-request-id": "42", "link": "</docs>; rel=help", "www-authenticate": "Bearer"}
    with serve_bytes(Reply(status=429, headers=SECRET_HEADERS | harmless)) as server:
        error = await failure_of(agent_at(server.url))
    assert isinstance(error, HTTPStatusError)
    assert isinstance(error.partial, RunResult)
    assert SECRET not in f"{error.headers}{error.partial.response}"
    kept = {name: value for name, value in error.headers.items() if name in harmless}
    assert kept == {name: value for name, value in harmless.items() if name != "link"}


@pytest.mark.requirement("SEC-9")
async def test_the_challenge_of_a_refusal_is_kept() -> None:
    challenge = 'Bearer error="invalid_token", resource_metadata="https://agent.example/.well-known/resource"'
    with serve_bytes(Reply(status=401, headers={"WWW-Authenticate": challenge})) as server:
        error = await failure_of(agent_at(server.url))
    assert isinstance(error, HTTPStatusError)
    assert error.headers["www-authenticate"] == challenge


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "head",
    [
        f"HTTP/1.1 200 OK\r\nSet-Cookie : session={SECRET}",
        f"HTTP/1.1 200 OK\r\nSet-Cookie: session={SECRET}\0",
        f"HTTP/1.1 {SECRET}",
        f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}",
    ],
    ids=["name", "value", "status", "chunk"],
)
async def test_what_is_not_http_is_an_error_without_a_quotation_of_it(head: str) -> None:
    with serve_bytes(Reply([Raw(f"{head}\r\n\r\n".encode())], status=None, chunked=False)) as server:
        error = await failure_of(HttpAgent(server.url))
    assert "what came is not HTTP (illegal " in str(error)
    assert SECRET not in everything_said(error)


@pytest.mark.requirement("SEC-7", "SEC-9")
def test_a_request_shows_nothing_of_what_it_sends() -> None:
    url = HttpAgent(f"http://ada:{SECRET}@host/?key={SECRET}")._transport.url
    request = ClientRequest(body=SECRET.encode(), url=url, headers={"Authorization": SECRET})
    assert SECRET not in repr(request)


@pytest.mark.requirement("SEC-7")
@pytest.mark.parametrize(
    "last",
    [
        {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "new", "entityId": "r", "encryptedValue": SECRET},
        {"type": "REASONING_ENCRYPTED_VALUE", "subtype": 1, "entityId": "r", "encryptedValue": SECRET},
        {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "r", "encryptedValue": [SECRET]},
        {
            "type": "REASONING_ENCRYPTED_VALUE",
            "subtype": "message",
            "entityId": "r",
            "encryptedValue": SECRET,
            "x": SECRET,
        },
        ReasoningEncryptedValueEvent(subtype="message", entity_id="nobody", encrypted_value=SECRET),
        {
            "type": "MESSAGES_SNAPSHOT",
            "messages": [{"id": 7, "role": "reasoning", "content": "", "encryptedValue": SECRET}],
        },
        {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "r", "role": "elf", "encryptedValue": SECRET}]},
    ],
    ids=["subtype", "subtype kind", "kind", "property", "entity", "message", "role"],
)
async def test_an_encrypted_value_is_in_no_error_warning_or_log(last: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agui_client")
    script = turn(reasoning("Hm.", message_id="r"), last)
    with serve_bytes(sse(script)) as server:
        agent = HttpAgent(server.url)
        try:
            said = repr((await agent.run_agent("Hi")).warnings)
        except AGUIError as error:
            said = everything_said(error) + repr(isinstance(error.partial, RunResult) and error.partial.warnings)
    assert SECRET not in said
    assert SECRET not in caplog.text


@pytest.mark.requirement("SEC-7", "REASON-6")
async def test_an_encrypted_value_goes_back_to_its_agent_unchanged() -> None:
    with serve_bytes(sse(turn(reasoning("Hm.", message_id="r", encrypted_value=SECRET)))) as server:
        agent = HttpAgent(server.url)
        await agent.run_agent("Hi")
        await agent.run_agent("Go on.")
        sent = server.requests[1].json()["messages"]
    assert sent[1] == {"id": "r", "role": "reasoning", "content": "Hm.", "encryptedValue": SECRET}


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("library", [None, httpx.AsyncClient, httpx2.AsyncClient], ids=["own", "httpx", "httpx2"])
async def test_no_library_below_logs_a_secret(
    library: Callable[[], httpx.AsyncClient] | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serve_bytes(Reply([ANSWER], headers=SECRET_HEADERS)) as server:
        await agent_at(server.url, http_client=library).run_agent("Hi")
    assert f"HTTP Request: POST {server.url} " in caplog.text
    assert "receive_response_headers.complete" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("library", [None, httpx2.AsyncClient], ids=["own", "httpx2"])
async def test_no_library_below_logs_a_malformed_header(
    library: Callable[[], httpx.AsyncClient] | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    head = Raw(f"HTTP/1.1 200 OK\r\nSet-Cookie: session={SECRET}\0\r\n\r\n".encode())
    with serve_bytes(Reply([head], status=None)) as server:
        said = everything_said(await failure_of(agent_at(server.url, http_client=library)))
    assert "receive_response_headers.failed" in caplog.text
    assert SECRET not in said + caplog.text


async def test_the_log_of_requests_that_are_not_ours_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serve_bytes(Reply([ANSWER], headers={"X-Seen": "yes"})) as server:
        async with httpx.AsyncClient() as client:
            await client.get(f"{server.url}?page=2")
    assert f"GET {server.url}?page=2" in caplog.text
    assert "X-Seen" in caplog.text


QUOTED = {
    "token": "q7Rtz9-hunter2-wLx3Mp",
    "cookie": "c00kieVal-77ab-Zq",
    "key": "k3y-8812-AbCdEf",
    "password": "pw/9$1zQ-own",
    "query": "qtok-55aa-MnOpQ",
}
"""Credentials that do not look like any, so that only the client that sent them can know them."""
QUOTATION = " ".join(QUOTED.values())
WAYS: dict[str, Callable[[str], dict[str, Any]]] = {
    "headers": lambda url: {
        "url": f"{url}?access={QUOTED['query']}",
        "headers": {
            "Authorization": f"Bearer {QUOTED['token']}",
            "Cookie": f"a=b; sid={QUOTED['cookie']}",
            "X-Api-Key": QUOTED["key"],
            "X-Own": QUOTED["password"],
        },
    },
    "address": lambda url: {
        "url": url.replace("//", f"//ada:{quote(QUOTED['password'], safe='')}@") + f"?access={QUOTED['query']}",
        "headers": {"Cookie": f"sid={QUOTED['cookie']}", "X-Own": QUOTED["token"]},
        "auth": AddsKey(),
    },
    "auth": lambda url: {
        "url": f"{url}?access={QUOTED['query']}",
        "headers": lambda: {"Cookie": f"sid={QUOTED['cookie']}", "Token": QUOTED["token"], "X-Api-Key": QUOTED["key"]},
        "auth": ("ada", QUOTED["password"]),
    },
}


class AddsKey(httpx.BasicAuth):
    """An auth that adds more than the headers that the client knows."""

    def __init__(self) -> None:
        super().__init__("ada", QUOTED["password"])

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        request.headers["X-Service"] = QUOTED["key"]
        yield from super().auth_flow(request)


def of_events(*events: dict[str, Any], tail: str = "") -> Reply:
    started = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
    return Reply([b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in (started, *events)) + tail.encode()])


UNKNOWN = {"type": QUOTATION, "data": [{QUOTED["key"]: QUOTATION}]}
END = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
QUOTING = {
    "403": Reply([f"no: {QUOTATION}".encode()], status=403),
    "JSON": Reply([json.dumps({"detail": {"said": QUOTATION}}).encode()], status=403, content_type="application/json"),
    "500": Reply([QUOTATION.encode()], status=500),
    "html": Reply([f"<html>{QUOTATION}</html>".encode()], content_type="text/html"),
    "content type": Reply([b"x"], content_type=f"text/{QUOTED['key']}"),
    "header": Reply([b"x"], status=404, headers={"X-Echo": QUOTATION, QUOTED["key"]: "1"}),
    "reason": Reply(
        [Raw(f"HTTP/1.1 403 {QUOTATION}\r\ncontent-length: 0\r\n\r\n".encode())], status=None, chunked=False
    ),
    "location": Reply(status=302, headers={"Location": f"http://elsewhere/{QUOTED['token']}/{QUOTED['key']}"}),
    "error": of_events(
        {"type": "RUN_ERROR", "message": QUOTATION, "code": QUOTED["key"], "rawEvent": {"a": QUOTATION}}
    ),
    "error with more": of_events({"type": "RUN_ERROR", "message": QUOTATION, "more": {"said": QUOTATION}}),
    "unknown": of_events(UNKNOWN, END),
    "unknown and late": of_events(END, UNKNOWN),
    "no JSON": of_events(tail=f"data: {QUOTATION}\n\n"),
    "words": Reply([f"data: {QUOTATION}\n\n".encode()]),
    "cut": of_events(tail=f"data: {QUOTATION}"),
}


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("reply", QUOTING.values(), ids=QUOTING.keys())
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
async def test_a_credential_that_the_server_quotes_is_in_nothing_that_is_shown_logged_or_kept(
    way: Callable[[str], dict[str, Any]], reply: Reply, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[object] = []
    with serve_bytes(reply) as server:
        agent = HttpAgent(**way(server.url)).use(record(tmp_path / "run.jsonl"))
        agent.subscribe(EventLog())
        try:
            result: Any = await agent.run_agent("Hi")
        except AGUIError as error:
            result = error.partial
            said += [everything_said(error), {name: each for name, each in vars(error).items() if name != "partial"}]
        said += [result, result.attempts, result.response, result.warnings, result.failure, result.to_json()]
        said += [result.inspect()._repr_mimebundle_(), (tmp_path / "run.jsonl").read_text("utf-8"), caplog.text]
        async for done in run_many(HttpAgent(**way(server.url)), ["Hi"], journal=tmp_path / "journal", retry=0):
            said += [done, (tmp_path / "journal").read_text("utf-8")]
    for each in said:
        assert not [name for name, secret in QUOTED.items() if secret[:9] in str(each)], each


async def test_what_an_agent_says_is_not_touched() -> None:
    told = {"type": "CUSTOM", "name": "told", "value": QUOTATION}
    with serve_bytes(Reply([sse(turn(text(QUOTATION), told, result=QUOTATION))])) as server:
        result = await HttpAgent(**WAYS["headers"](server.url)).run_agent("Hi")
    assert (result.text, result.result) == (QUOTATION, QUOTATION)


def in_pieces(*pieces: str) -> list[dict[str, Any]]:
    deltas = [{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": each} for each in pieces]
    start = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
    return [start, *deltas, {"type": "TEXT_MESSAGE_END", "messageId": "m"}]


CONTENT: dict[str, list[dict[str, Any]]] = {
    "raw": [{"type": "RAW", "event": {"headers": [QUOTATION]}, "source": QUOTED["key"]}],
    "custom": [{"type": "CUSTOM", "name": QUOTED["key"], "value": {QUOTED["token"]: [QUOTATION, {"x": QUOTATION}]}}],
    "JSON in JSON": [{"type": "CUSTOM", "name": "x", "value": json.dumps([json.dumps({"said": QUOTATION})])}],
    "an address": [{"type": "CUSTOM", "name": "x", "value": f"/callback/{quote(QUOTATION, safe='')}/end"}],
    "state": [{"type": "STATE_SNAPSHOT", "snapshot": {QUOTED["key"]: QUOTATION, "é\n": ["é\n" + QUOTATION]}}],
    "patch": [
        {"type": "STATE_SNAPSHOT", "snapshot": {}},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": f"/{QUOTED['key']}", "value": QUOTATION}]},
    ],
    "activity": [
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "PLAN", "content": {QUOTED["key"]: QUOTATION}}
    ],
    "metadata": [
        {"type": "STEP_STARTED", "stepName": QUOTED["key"], "metadata": {"x": QUOTATION}},
        {"type": "STEP_FINISHED", "stepName": QUOTED["key"]},
    ],
    "messages": [{"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m", "role": "user", "content": QUOTATION}]}],
    "result": [
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": QUOTED["key"]},
        *({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": each} for each in json.dumps({"x": QUOTATION})),
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
        {"type": "TOOL_CALL_RESULT", "toolCallId": "c", "messageId": "t", "content": QUOTATION},
    ],
    "text": in_pieces(*QUOTATION),
    "text in two pieces": in_pieces(QUOTATION[:9], QUOTATION[9:]),
}
CREDENTIALS = {name: secret for name, secret in QUOTED.items() if name != "query"}


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("events", CONTENT.values(), ids=CONTENT.keys())
async def test_content_that_quotes_a_credential_is_recorded_shown_and_logged_without_it(
    events: list[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "agui_client.events")
    headers = {"Authorization": f"Bearer {QUOTED['token']}", "Cookie": f"a=b; sid={QUOTED['cookie']}"}
    with serve_bytes(Reply([sse(turn(*events, text("Bye", message_id="end")))])) as server:
        url = server.url.replace("//", f"//ada:{quote(QUOTED['password'], safe='')}@")
        agent = HttpAgent(url, headers={**headers, "X-Api-Key": QUOTED["key"]}).use(record(tmp_path / "run.jsonl"))
        agent.subscribe(EventLog())
        first = await agent.run_agent("Hi")
        await agent.run_agent("And what I have now?")
        unrecorded = await HttpAgent(url, headers={**headers, "X-Api-Key": QUOTED["key"]}).run_agent("Hi")
    written, page = (tmp_path / "run.jsonl").read_text("utf-8"), inspector_page(Recording.read(tmp_path / "run.jsonl"))
    assert "Bye" in written
    assert [*map(json.loads, written.splitlines())][-1]["ending"] == "success"
    shown = [each.inspect()._repr_mimebundle_() for each in (first, unrecorded)]
    is_cut = any(each["type"] in ("TOOL_CALL_ARGS", "TEXT_MESSAGE_CONTENT") for each in events)
    for said in (written, page.decode(), str(shown), "" if is_cut else caplog.text):
        assert not [name for name, secret in CREDENTIALS.items() if secret in said or quote(secret, safe="") in said]
    replayed = await ReplayAgent(tmp_path / "run.jsonl").run_agent("Hi")
    assert len(replayed.messages) == len(first.messages)
    assert replayed.messages[-1] == first.messages[-1]


@pytest.mark.requirement("SEC-9")
async def test_what_is_no_credential_is_recorded_as_it_is(tmp_path: Path) -> None:
    sent = {
        "Cookie": "thread=thread-17; run=run-17; theme=assistant",
        "X-Request-Id": "request-17-abcdef",
        "X-Api-Key": "state",
        "Authorization": "Bearer messages",
    }
    said = "thread-17 run-17 theme=assistant request-17-abcdef state Bearer messages sk-short q7Rtz9-hunter2-wLx3Mp"
    with serve_bytes(Reply([sse(turn(state({"state": said, "messages": ["assistant"]}), text("Hi.")))])) as server:
        agent = HttpAgent(server.url, thread_id="thread-17", headers=sent).use(record(tmp_path / "run.jsonl"))
        await agent.run_agent("Hi", run_id="run-17")
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text("utf-8").splitlines()]
    events = [line["event"] for line in lines if line["kind"] == "event"]
    assert events[1]["snapshot"]["messages"] == ["assistant"]
    assert events[1]["snapshot"]["state"] == said.replace("messages", "[redacted]")
    assert [each["type"] for each in events if each["type"].startswith("TEXT")] == [
        f"TEXT_MESSAGE_{each}" for each in ("START", "CONTENT", "END")
    ]


@pytest.mark.requirement("SEC-9")
async def test_a_sentence_about_an_event_quotes_no_credential() -> None:
    stray = {"type": "TEXT_MESSAGE_CONTENT", "messageId": QUOTED["token"], "delta": "x"}
    more = {"type": "STEP_STARTED", "stepName": "s", QUOTED["key"]: 1}
    wrong = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": QUOTED["key"]}
    after: dict[Any, dict[str, Any]] = {
        "TEXT_MESSAGE_CONTENT": END,
        "TEXT_MESSAGE_START": {"type": "TEXT_MESSAGE_END", "messageId": "m"},
        "STEP_STARTED": {"type": "STEP_FINISHED", "stepName": "s"},
    }
    for event in (stray, wrong, more):
        with serve_bytes(of_events(event, after[event["type"]], END)) as server:
            said: Any
            try:
                said = (await HttpAgent(**WAYS["headers"](server.url)).run_agent("Hi")).warnings
            except AGUIError as error:
                said = everything_said(error), getattr(error, "values", None), getattr(error, "place", None)
        assert "[redacted]" in str(said)
        assert not [name for name, secret in QUOTED.items() if secret[:9] in str(said)]


def test_an_agent_that_has_sent_secrets_goes_to_another_process_with_what_it_has() -> None:
    with serve_bytes(*[sse(turn(text("Hello.")))] * 2) as server:
        agent = HttpAgent(server.url, headers={"authorization": "Bearer t0ken-of-ann"})
        agent.run_agent_sync("Hi")
        carried: HttpAgent = pickle.loads(pickle.dumps(agent))
        assert carried.messages == agent.messages
        carried.run_agent_sync("Hi")
        assert server.requests[1].headers["authorization"] == "Bearer t0ken-of-ann"
