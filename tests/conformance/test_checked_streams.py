"""`validate` and a client come to the same verdict about every conformance stream."""

from __future__ import annotations

from collections.abc import Generator
from typing import cast

import pytest
from ag_ui.core import RunAgentInput

from agui_client import AGUIError, ProtocolError, RunResult, validate
from agui_client.testing import ByteServer, Reply, Request, serve_bytes
from conformance_fixtures import MISSING, Fixture, fixtures

_FIXTURES = {fixture.name: fixture for fixture in fixtures()}


@pytest.fixture(scope="module")
def server() -> Generator[ByteServer]:
    """One server for all: the path of the request is the fixture's name."""

    def answer(request: Request) -> Reply:
        return Reply([_FIXTURES[request.path.removeprefix("/")].body])

    with serve_bytes(answer) as server:
        yield server


@pytest.mark.parametrize(
    "fixture",
    [pytest.param(fixture, id=name) for name, fixture in _FIXTURES.items()]
    or [pytest.param(None, marks=pytest.mark.skip(MISSING))],
)
def test_a_stream_has_an_error_if_a_client_rejects_it_and_warnings_if_a_client_warns(
    fixture: Fixture, server: ByteServer
) -> None:
    error: AGUIError | None = None
    result: RunResult | None = None
    server.requests.clear()
    try:
        result = fixture.agent(server.url + fixture.name).run_agent_sync(**fixture.options)
    except AGUIError as raised:
        error, result = raised, cast("RunResult | None", raised.partial)
    if not server.requests:
        pytest.skip("the input is refused, so that there is no stream")
    faults = validate(fixture.body, input=RunAgentInput.model_validate(server.requests[-1].json()))
    errors = [fault.rule for fault in faults if fault.severity == "error"]
    assert bool(errors) == (fixture.expect["outcome"] == "failed")
    assert errors[:1] == ([error.rule] if isinstance(error, ProtocolError) else [])
    expected = [each for each in result.warnings if each.event_type is not None] if result else []
    # A client reads no further than the first error.
    end = next((fault.event_index for fault in faults if fault.severity == "error"), None)
    warnings = [fault for fault in faults if fault.severity == "warning"]
    until_then = [each for each in warnings if end is None or (each.event_index or 0) <= end]
    assert [(each.rule, each.path, each.event_index) for each in until_then] == [
        (each.rule, each.path, each.event_index) for each in expected
    ]
