"""Requests to AgentCore: botocore verifies each signature over the bytes that arrived, and secrets are in no outlet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import httpx
import pytest

from agui_client import HttpAgent, HTTPStatusError, RetryPolicy, UsageError
from agui_client.aws import AgentCoreAuth
from agui_client.recording import record
from agui_client.testing import Request, faults, serve, serve_bytes, sse, text, turn

_NEEDED = "needs botocore: pip install 'agui-client[aws]'"
_AUTH: Any = pytest.importorskip("botocore.auth", reason=_NEEDED)
_REQUESTS: Any = pytest.importorskip("botocore.awsrequest", reason=_NEEDED)
_CREDENTIALS: Any = pytest.importorskip("botocore.credentials", reason=_NEEDED)
pytestmark = pytest.mark.anyio

SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "FwoGZXIvYXdzEXAMPLETOKEN+very/secret=="
KEYS: Any = _CREDENTIALS.Credentials("AKIDEXAMPLE", SECRET, TOKEN)
ARN = "arn:aws:bedrock-agentcore:eu-central-1:123456789012:runtime/agent-AbC"
PATH = f"/runtimes/{quote(ARN, safe='')}/invocations"
SESSION = "x-amzn-bedrock-agentcore-runtime-session-id"
HELLO = sse(turn(text("Hello.")))


def signature(sent: Request, base: str, service: str = "bedrock-agentcore") -> str:
    """Let botocore sign the request that arrived, at the time that it names."""
    names = sent.headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    headers = {name: sent.headers[name] for name in names if name not in ("host", "x-amz-date", "x-amz-security-token")}
    request: Any = _REQUESTS.AWSRequest("POST", base.rstrip("/") + sent.path, headers, sent.body)
    moment = datetime.strptime(sent.headers["x-amz-date"] + "+0000", "%Y%m%dT%H%M%SZ%z")
    signer: Any = _AUTH.SigV4Auth(KEYS, service, "eu-central-1")
    with patch.object(_AUTH, "get_current_datetime", lambda: moment):
        signer.add_auth(request)
    return str(request.headers["Authorization"])


@pytest.mark.parametrize("thread_id", ["t", "t" * 33, "t" * 300, "ö" * 40], ids=["short", "fits", "long", "not ASCII"])
async def test_a_run_is_signed_as_botocore_signs_it_and_has_one_session_for_each_thread(thread_id: str) -> None:
    with serve_bytes(HELLO, HELLO) as server:
        url = server.url.rstrip("/") + PATH + "?qualifier=DEFAULT"
        agent = HttpAgent(url, auth=AgentCoreAuth("eu-central-1", credentials=KEYS), thread_id=thread_id)
        for prompt in ("Hi", "And?"):
            await agent.run_agent(prompt)
        sent = server.requests
    assert [each.headers["authorization"] for each in sent] == [signature(each, server.url) for each in sent]
    sessions = {each.headers[SESSION] for each in sent}
    assert len(sessions) == 1
    assert 33 <= len(*sessions) <= 256
    assert (thread_id in sessions) == (thread_id == "t" * 33)
    assert f";{SESSION}" in sent[0].headers["authorization"]


async def test_a_large_body_and_one_that_is_streamed_are_signed_as_they_arrive() -> None:
    sent: list[Request] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            body = b""
            while (part := await receive())["type"] == "http.request":
                body += part.get("body", b"")
                if not part.get("more_body"):
                    break
            sent.append(Request("POST", scope["path"], {k.decode(): v.decode() for k, v in scope["headers"]}, body))
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 65_536

    def post(url: str) -> None:
        with httpx.Client(auth=auth) as client:
            client.post(url, content=b"y" * 4_194_304)

    auth = AgentCoreAuth("eu-central-1", service="lambda", credentials=KEYS)
    with serve(app) as server:
        async with httpx.AsyncClient(auth=auth) as client:
            await client.post(server.url, content=pieces())
        await asyncio.to_thread(post, server.url)
        url = server.url
    assert [len(each.body) for each in sent] == [4_194_304] * 2
    assert [each.headers["authorization"] for each in sent] == [signature(each, url, "lambda") for each in sent]
    assert [SESSION in each.headers for each in sent] == [False] * 2


async def test_a_redirect_and_a_repeated_request_are_signed_anew() -> None:
    replies = faults.redirect("/elsewhere"), faults.status(503, retry_after=0), HELLO
    with serve_bytes(*replies) as server:
        auth = AgentCoreAuth("eu-central-1", credentials=KEYS)
        agent = HttpAgent(server.url, auth=auth, retry=RetryPolicy(status=3))
        assert (await agent.run_agent("Hi")).text == "Hello."
        sent = server.requests
    assert [each.path for each in sent] == ["/", "/elsewhere", "/elsewhere"]
    assert [each.headers["authorization"] for each in sent] == [signature(each, server.url) for each in sent]


async def test_credentials_are_asked_for_each_request_and_not_in_the_event_loop() -> None:
    asked: list[str] = []

    class Renewed:
        def get_frozen_credentials(self) -> Any:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            asked.append("asked")
            return KEYS.get_frozen_credentials()

    with serve_bytes(HELLO, HELLO) as server:
        agent = HttpAgent(server.url, auth=AgentCoreAuth("eu-central-1", credentials=Renewed()))
        for prompt in ("Hi", "And?"):
            await agent.run_agent(prompt)
    assert asked == ["asked"] * 2


async def test_no_secret_is_in_an_error_a_log_or_a_recording(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    auth = AgentCoreAuth("eu-central-1", credentials=KEYS)
    quoted = f'{{"message": "The security token {TOKEN} is invalid"}}'.encode()
    with serve_bytes(faults.status(403, body=quoted)) as server:
        agent = HttpAgent(server.url, auth=auth, observers=[record(tmp_path / "run.jsonl")])
        with pytest.raises(HTTPStatusError) as raised:
            await agent.run_agent("Hi")
        [sent] = server.requests
    assert sent.headers["x-amz-security-token"] == TOKEN
    signed = sent.headers["authorization"].rpartition("=")[2]
    shown = [str(raised.value), repr(raised.value), repr(auth), caplog.text, repr(agent)]
    shown.append((tmp_path / "run.jsonl").read_text("utf-8"))
    for place, outlet in enumerate(shown):
        assert [secret for secret in (SECRET, TOKEN, signed) if secret in outlet] == [], place


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in ("AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(UsageError, match="give AgentCoreAuth a region, or set AWS_DEFAULT_REGION"):
        AgentCoreAuth()
    with pytest.raises(UsageError, match="there are no credentials of AWS"):
        next(AgentCoreAuth("eu-central-1").sync_auth_flow(httpx.Request("POST", "http://127.0.0.1/")))
