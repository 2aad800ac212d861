"""The protocol's own conformance streams, byte for byte over HTTP, on every surface."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from ag_ui.core import BaseEvent

from agui_client import AGUIError, HttpAgent, ProtocolWarning, RunResult
from agui_client.testing import ByteServer, Reply, Request, serve_bytes
from conformance_fixtures import MISSING, Fixture, Observed, check, fixtures

if TYPE_CHECKING:
    from ag_ui.core import Event

pytestmark = pytest.mark.requirement("PROC-1", "PROC-12")

_FIXTURES = {fixture.name: fixture for fixture in fixtures()}

_VERBS = 4
"""The verbs beside `stream`, which comes to the same as each of them."""


def each_fixture(turn: int | None = None) -> pytest.MarkDecorator:
    """Run a test with each fixture; with a turn, each fourth is in the fast tier, so that another verb has the next."""
    return pytest.mark.parametrize(
        "fixture",
        [
            pytest.param(fixture, id=name, marks=() if turn in (None, at % _VERBS) else pytest.mark.soak)
            for at, (name, fixture) in enumerate(_FIXTURES.items())
        ]
        or [pytest.param(None, marks=pytest.mark.skip(MISSING))],
    )


@pytest.fixture(scope="module")
def server() -> Generator[ByteServer, None, None]:
    """One server for all: the path of the request is the fixture's name."""

    def answer(request: Request) -> Reply:
        return Reply([_FIXTURES[request.path.removeprefix("/")].body])

    with serve_bytes(answer) as server:
        yield server


def listened(agent: HttpAgent) -> list[Event]:
    """Where every event is put that subscribers are told of."""
    events: list[Event] = []
    agent.on(BaseEvent)(events.append)
    return events


def observed(
    server: ByteServer,
    agent: HttpAgent,
    events: list[Event],
    error: Exception | None,
    warnings: list[ProtocolWarning] | None = None,
) -> Observed:
    if warnings is None:
        partial = error.partial if isinstance(error, AGUIError) else None
        warnings = partial.warnings if isinstance(partial, RunResult) else []
    asked = [request for request in server.requests if request.path == httpx.URL(agent.url).path]
    server.requests.clear()
    return Observed(events, error, agent.messages, agent.state, warnings, asked[-1].json() if asked else None)


def logged(caplog: pytest.LogCaptureFixture) -> list[ProtocolWarning]:
    """The warnings as the log has them: the end of an observable carries no result."""
    said = [record.args for record in caplog.records if record.name == "agui_client"]
    return [ProtocolWarning(str(args[1]), str(args[0])) for args in said if isinstance(args, tuple)]


@each_fixture(0)
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a stream to its end, and that is on both loops
async def test_run_agent(fixture: Fixture, server: ByteServer) -> None:
    agent = fixture.agent(server.url + fixture.name)
    events = listened(agent)
    result: RunResult | None = None
    error = None
    try:
        result = await agent.run_agent(**fixture.options)
    except AGUIError as raised:
        error = raised
    check(fixture, observed(server, agent, events, error, result.warnings if result else None))


@each_fixture()
@pytest.mark.anyio
async def test_stream(fixture: Fixture, server: ByteServer) -> None:
    agent = fixture.agent(server.url + fixture.name)
    events: list[Event] = []
    error = None
    async with agent.stream(**fixture.options) as run:
        try:
            async for event in run:
                events.append(event)  # noqa: PERF401 - a comprehension that raises adds nothing
        except AGUIError as raised:
            error = raised
        check(fixture, observed(server, agent, events, error, run.warnings))


@each_fixture(1)
def test_run_agent_sync(fixture: Fixture, server: ByteServer) -> None:
    agent = fixture.agent(server.url + fixture.name)
    events = listened(agent)
    result: RunResult | None = None
    error = None
    try:
        result = agent.run_agent_sync(**fixture.options)
    except AGUIError as raised:
        error = raised
    check(fixture, observed(server, agent, events, error, result.warnings if result else None))


@each_fixture(2)
def test_stream_sync(fixture: Fixture, server: ByteServer) -> None:
    agent = fixture.agent(server.url + fixture.name)
    events: list[Event] = []
    error = None
    with agent.stream_sync(**fixture.options) as run:
        try:
            events.extend(run)
        except AGUIError as raised:
            error = raised
        check(fixture, observed(server, agent, events, error, run.warnings))


@each_fixture(3)
def test_observe(fixture: Fixture, server: ByteServer, caplog: pytest.LogCaptureFixture) -> None:
    agent = fixture.agent(server.url + fixture.name)
    events: list[Event] = []
    errors: list[Any] = []
    over = threading.Event()

    def fail(error: Exception) -> None:
        errors.append(error)
        over.set()

    agent.observe(**fixture.options).subscribe(events.append, fail, over.set)
    assert over.wait(20)
    check(fixture, observed(server, agent, events, errors[0] if errors else None, logged(caplog)))
