"""The log of requests and the errors of foreign clients: one line for each attempt, and the error by its name."""

from __future__ import annotations

import httpx
import pytest

from agui_client import HttpAgent, TransportError
from agui_client.testing import faults, serve_bytes, sse, text, turn


def test_every_attempt_is_logged_with_its_reason_and_outcome(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "agui_client.transport")
    with serve_bytes(faults.status(503), sse(turn(text("Hello.")))) as server:
        agent = HttpAgent(server.url)
        with pytest.raises(TransportError):
            agent.run_agent_sync("Hi")
        agent.run_agent_sync("Hi")
    lines = [record.getMessage() for record in caplog.records if record.name == "agui_client.transport"]
    assert [line for line in lines if line.startswith("attempt")] == [
        "attempt 1: first attempt; 503",
        "attempt 1: first attempt; accepted",
    ]


def test_an_error_that_only_a_foreign_client_knows_is_a_transport_error_with_its_name() -> None:
    class OddError(httpx.RequestError):
        """An error of a client that httpx does not know."""

    def respond(request: httpx.Request) -> httpx.Response:
        raise OddError("no luck", request=request)

    agent = HttpAgent(
        "http://agent.test/", http_client=lambda: httpx.AsyncClient(transport=httpx.MockTransport(respond))
    )
    with pytest.raises(TransportError, match="OddError: no luck"):
        agent.run_agent_sync("Hi")
