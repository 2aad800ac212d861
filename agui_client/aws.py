"""Requests to agents in AWS (extra `aws`): signed with SigV4, and with the session of AgentCore.

    agent = HttpAgent(url, auth=AgentCoreAuth("eu-central-1"))

botocore signs, and finds credentials as all programs for AWS do. The body is signed, too: it is in memory anyway.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator, Generator
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import anyio.to_thread
import httpx
from pydantic_core import from_json

from agui_client._core.protocol.schema import is_object
from agui_client.errors import UsageError

__all__ = ["AgentCoreAuth"]

_SESSION = "X-Amzn-Bedrock-AgentCore-Runtime-Session-Id"
_SHORTEST, _LONGEST = 33, 256
"""The characters that AgentCore takes for the id of a session."""
_SIGNED = ("content-type", _SESSION)
"""The headers that are signed beside those of the signer: proxies may change others."""
_ADDED = ("Authorization", "X-Amz-Date", "X-Amz-Security-Token")
_IS_OURS: ContextVar[bool] = ContextVar("agui_client.aws", default=False)


class AgentCoreAuth(httpx.Auth):
    """Signs each request, and names the session of AgentCore by the thread: one microVM serves one conversation.

    Each attempt and each redirect is signed anew, with credentials that are not expired.

    Args:
        region: The region of the agent, such as "eu-central-1"; None for that of the environment or the profile.
        service: The name that is signed for; "bedrock-agentcore" for AgentCore, "execute-api" for API Gateway, "lambda"
            for URLs of functions. Only AgentCore gets the header of the session.
        credentials: Credentials of botocore or boto3; None for those that `botocore.session.Session()` finds.

    Raises:
        UsageError: There is no region.
        ImportError: botocore is not installed.
    """

    requires_request_body = True

    def __init__(
        self, region: str | None = None, *, service: str = "bedrock-agentcore", credentials: Any = None
    ) -> None:
        try:
            # Not above: the module can be described where botocore, which has no types, is not installed.
            self._signing, self._requests = import_module("botocore.auth"), import_module("botocore.awsrequest")
            session: Any = import_module("botocore.session").Session()
        except ModuleNotFoundError as missing:
            raise ImportError("AgentCoreAuth needs botocore: pip install 'agui-client[aws]'") from missing
        self._region: Any = region or session.get_config_variable("region")
        if not self._region:
            raise UsageError("there is no region of AWS: give AgentCoreAuth a region, or set AWS_DEFAULT_REGION")
        self._service, self._session, self._credentials = service, session, credentials

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Sign a request of a client without `await`."""
        request.read()
        self._sign(request, self._frozen())
        yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Sign a request."""
        await request.aread()
        # Credentials that are about to expire are renewed over the network.
        self._sign(request, await anyio.to_thread.run_sync(self._frozen))
        yield request

    def _frozen(self) -> Any:
        """Return the credentials of this moment."""
        if self._credentials is None:
            self._credentials = self._session.get_credentials()
        if self._credentials is None:
            raise UsageError("there are no credentials of AWS: set AWS_PROFILE, or give AgentCoreAuth(credentials=...)")
        freeze = getattr(self._credentials, "get_frozen_credentials", None)
        return self._credentials if freeze is None else freeze()

    def _sign(self, request: httpx.Request, credentials: Any) -> None:
        body = request.content
        if self._service == "bedrock-agentcore" and _SESSION not in request.headers:
            request.headers[_SESSION] = _session_id(body)
        headers = {name: request.headers[name] for name in _SIGNED if name in request.headers}
        signed: Any = self._requests.AWSRequest(request.method, str(request.url), headers, body)
        signer: Any = self._signing.SigV4Auth(credentials, self._service, self._region)
        # botocore's records of this at DEBUG have the signed headers, and so the session's token.
        token = _IS_OURS.set(True)
        try:
            signer.add_auth(signed)
        finally:
            _IS_OURS.reset(token)
        for name in _ADDED:
            request.headers.pop(name, None)
            if name in signed.headers:
                request.headers[name] = signed.headers[name]


def _session_id(body: bytes) -> str:
    """Return the id of the session for the thread of an input: AgentCore takes no short ids, so these are hashed."""
    given: Any = from_json(body) if body else {}
    thread_id = str(given.get("threadId") or "") if is_object(given) else ""
    is_taken = thread_id.isascii() and thread_id.isprintable() and _SHORTEST <= len(thread_id) <= _LONGEST
    return thread_id if is_taken else hashlib.sha256(thread_id.encode()).hexdigest()


logging.getLogger("botocore.auth").addFilter(lambda _: not _IS_OURS.get())
