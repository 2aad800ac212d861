"""`python -m tests.programs.external.mcp_client URL`: the client that MCP's conformance suite starts for a scenario."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

sys.path[:0] = [str(Path(__file__).resolve().parents[3])]

from agui_client import Resolve  # noqa: E402 - found by the line above
from agui_client.mcp import mcp_server  # noqa: E402
from agui_client.testing import ScriptedAgent, text, tool_call, turn  # noqa: E402

_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "elicitation-sep1034-client-defaults": ("test_client_elicitation_defaults", {}),
    "sse-retry": ("test_reconnection", {}),
    "auth/scope-step-up": ("test-tool", {}),
}
"""The tool that an agent calls in a scenario; in others, its tools are listed only."""


_REDIRECT = "http://localhost:3000/callback"
_DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The address of the client's metadata that the suite expects."""


class _Memory:
    """Keeps tokens, as a `TokenStorage` of the SDK."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Browser:
    """A person who signs in: opens the address, and comes back with the code."""

    def __init__(self) -> None:
        self._query: dict[str, list[str]] = {}

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as browser:
            self._query = parse_qs(urlsplit((await browser.get(url)).headers["location"]).query)

    async def come_back(self) -> AuthorizationCodeResult:
        found = {name: values[0] for name, values in self._query.items()}
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))


def _auth(url: str, scenario: str) -> httpx2.Auth | None:
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    context = cast("dict[str, str]", given)
    match scenario:
        case "auth/client-credentials-basic":
            return ClientCredentialsOAuthProvider(url, _Memory(None), context["client_id"], context["client_secret"])
        case "auth/client-credentials-jwt":
            name = context["client_id"]
            signed = SignedJWTParameters(
                issuer=name,
                subject=name,
                signing_key=context["private_key_pem"],
                signing_algorithm=context["signing_algorithm"],
            )
            return PrivateKeyJWTOAuthProvider(url, _Memory(None), name, signed.create_assertion_provider())
        case _ if scenario.startswith("auth/"):
            known = None
            if "client_id" in context:
                known = OAuthClientInformationFull.model_validate(
                    {**context, "redirect_uris": [_REDIRECT], "token_endpoint_auth_method": "client_secret_basic"}
                )
            browser = _Browser()
            about = OAuthClientMetadata.model_validate({"client_name": "agui_client", "redirect_uris": [_REDIRECT]})
            return OAuthClientProvider(
                url, about, _Memory(known), browser.open, browser.come_back, client_metadata_url=_DOCUMENT
            )
        case _:
            return None


async def _main(url: str) -> None:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    call = _CALLS.get(scenario)
    first = text("No tools are needed.") if call is None else tool_call(*call)
    tools = [mcp_server(url, auth=_auth(url, scenario))]
    agent = ScriptedAgent(turn(first), turn(text("Done.")), tools=tools, answer=lambda question: Resolve({}))
    await agent.run_agent("Go.")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[-1]))
