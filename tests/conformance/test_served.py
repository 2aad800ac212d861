"""Streams through a served agent and back: what a caller reads is what the agent's own caller would have read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from ag_ui.core import RunAgentInput, RunErrorEvent, RunFinishedEvent, RunStartedEvent

from agui_client import AGUIError, FunctionAgent, HttpAgent, IncompleteRunError, ProtocolError, RunFailedError
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.warnings import WarningLog
from agui_client.asgi import ServedRequest, agent_app
from agui_client.demo import demo_agent
from agui_client.testing import Server, serve, serve_bytes
from conformance_fixtures import MISSING, Fixture, fixtures

if TYPE_CHECKING:
    from ag_ui.core import Event
    from pydantic import BaseModel

    from agui_client import UnrecognizedEvent

_FIXTURES = {fixture.name: fixture for fixture in fixtures()}


@pytest.fixture(scope="module")
def served() -> Generator[Server]:
    """A server of all streams: the path of the request is the fixture's name."""

    def choose(request: ServedRequest, input: RunAgentInput) -> FunctionAgent:
        stream = _FIXTURES[request.path.removeprefix("/")].stream

        async def play(input: RunAgentInput) -> AsyncIterator[Event | UnrecognizedEvent]:
            decoder = Decoder(WarningLog())
            for event in stream:
                yield decoder.feed(json.dumps(event))

        return FunctionAgent(play)

    # Of a caller who is not trusted, the ids of interrupts would be signed.
    with serve(agent_app(choose, trust_caller=True)) as server:
        yield server


@pytest.mark.parametrize(
    "fixture",
    [pytest.param(fixture, id=name) for name, fixture in _FIXTURES.items()]
    or [pytest.param(None, marks=pytest.mark.skip(MISSING))],
)
def test_a_stream_comes_through_a_served_agent_unchanged(fixture: Fixture, served: Server) -> None:
    with serve_bytes(fixture.body) as server:
        direct, direct_events, failure = _read(fixture.agent(server.url), fixture)
    agent, events, error = _read(fixture.agent(served.url + fixture.name), fixture)
    if isinstance(failure, ProtocolError):
        # What breaks the protocol reaches nobody: the run fails for the caller.
        cause = "incomplete" if isinstance(failure, IncompleteRunError) else "invalid"
        assert (type(error), getattr(error, "code", None)) == (RunFailedError, f"upstream_{cause}")
    else:
        assert (type(error), str(error)) == (type(failure), str(failure))
    assert _inside(fixture, events) == _inside(fixture, direct_events)
    assert _named(fixture, agent.messages) == _named(fixture, direct.messages)
    assert agent.state == direct.state
    assert agent.pending_interrupts == direct.pending_interrupts


def _read(agent: HttpAgent, fixture: Fixture) -> tuple[HttpAgent, list[Event], AGUIError | None]:
    events: list[Event] = []
    with agent.stream_sync(**fixture.options) as run:
        try:
            for event in run:
                events.append(event)  # noqa: PERF402 - a list that raises has nothing
        except AGUIError as error:
            return agent, events, error
    return agent, events, None


def _inside(fixture: Fixture, events: list[Event]) -> list[Any]:
    """The events inside runs: the caller has one run, whatever number the agent sends."""
    edges = (RunStartedEvent, RunFinishedEvent, RunErrorEvent)
    return _named(fixture, [each for each in events if not isinstance(each, edges)])


def _named(fixture: Fixture, models: Sequence[BaseModel]) -> list[Any]:
    """The models as JSON, ids that were minted here replaced by numbers."""
    minted: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return (
            found[0] if found[0] in json.dumps(fixture.stream) else f"minted {minted.setdefault(found[0], len(minted))}"
        )

    shown = json.dumps([each.model_dump(mode="json", by_alias=True, warnings=False) for each in models])
    return list(json.loads(re.sub(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", number, shown)))


def test_the_served_demo_agent_passes_the_validator_of_the_protocol() -> None:
    pytest.importorskip("ag_ui_validate", reason="pip install ag-ui-validate")
    program = "import sys; from ag_ui_validate.cli import main; sys.exit(main())"
    with serve(agent_app(demo_agent(pace=0))) as server:
        command = [sys.executable, "-c", program, server.url, "--max-warnings", "0", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
