"""Runs against pydantic-ai's AG-UI server, recorded over a socket and replayed without it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from ag_ui.core import Interrupt, StateDeltaEvent, StateSnapshotEvent
from pydantic import BaseModel

pytest.importorskip("pydantic_ai.ui.ag_ui", reason="needs pydantic-ai: pip install 'pydantic-ai-slim[ag-ui]'")
from pydantic_ai import Agent, DeferredToolRequests, RunContext, ToolReturn
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, FunctionModel
from pydantic_ai.ui import StateDeps
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from agui_client import ApprovalRequest, Approve, HttpAgent, ToolContext, tool
from agui_client.recording import ReplayAgent, record
from support.offline_model import Heard, House, OfflineModel, Saying, returned
from support.replays import facts, lines_of
from support.verbs import VERBS, Verb, by_verb

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

HOUSE = House()


@pytest.fixture(autouse=True, scope="module")
def _open_house() -> Iterator[None]:
    with HOUSE.opened():
        yield


class Trip(BaseModel):
    """The state that the agent and the application share."""

    city: str = ""
    stops: list[str] = []


@tool
async def get_weather(ctx: ToolContext, city: str) -> dict[str, Any]:
    """Current weather for a city."""
    await anyio.lowlevel.checkpoint()
    return {"city": city, "celsius": 18}


@tool(approval="always")
def delete_file(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


def approve(request: ApprovalRequest) -> Approve:
    return Approve({"path": "/b"})


def answer(asked: Interrupt) -> Approve:
    return Approve()


def calling(*calls: tuple[str, str, str]) -> FunctionModel:
    """A model that makes calls, and then says what came of them."""

    def script(given: Sequence[Heard]) -> Saying:
        results = returned(given)
        return f"I was told: {results}" if results else calls

    return OfflineModel(script).model


async def think(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    """Thinks before it speaks, and signs what it thought."""
    yield {0: DeltaThinkingPart(content="Let me ")}
    yield {0: DeltaThinkingPart(content="think.", signature="signed")}
    yield "It is fine."


async def fail(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    """Breaks down in the middle."""
    yield "Well, "
    raise RuntimeError("the model is down")


def planning() -> Agent[Any, Any]:
    """Writes the state with a snapshot and a delta."""
    agent = Agent(calling(("plan", "c", '{"city": "Oslo"}')), deps_type=StateDeps[Trip])

    @agent.tool
    def plan(context: RunContext[StateDeps[Trip]], city: str) -> ToolReturn:
        snapshot = StateSnapshotEvent(snapshot={**context.deps.state.model_dump(), "city": city})
        delta = StateDeltaEvent.model_validate({"delta": [{"op": "add", "path": "/stops/-", "value": "ferry"}]})
        return ToolReturn("planned", metadata=[snapshot, delta])

    return agent


def deferring() -> Agent[None, Any]:
    """Deletes a file itself, once somebody has approved it."""
    agent = Agent(calling(("remove", "c", '{"path": "/a"}')), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def remove(path: str) -> str:
        return f"the server removed {path}"

    return agent


WEATHER = ("get_weather", "c1", '{"city": "Oslo"}'), ("get_weather", "c2", '{"city": "Turin"}')
STORIES: dict[str, Any] = {
    "text": lambda: Agent(FunctionModel(stream_function=think)),
    "tools here": lambda: Agent(calling(*WEATHER)),
    "an approval here": lambda: Agent(calling(("delete_file", "c", '{"path": "/a"}'))),
    "an approval there": deferring,
    "state": planning,
    "an error": lambda: Agent(FunctionModel(stream_function=fail)),
}
OPTIONS: dict[str, Any] = {
    "tools": [get_weather, delete_file],
    "approve": approve,
    "answer": answer,
    "initial_state": {"city": "Turin", "stops": []},
}


@by_verb("story", STORIES, ["tools here", "an error"], thorough=["stream-asyncio"])
def test_a_run_is_replayed_as_it_was_recorded(verb: Verb, story: Any, tmp_path: Path) -> None:
    dispatch = {"deps": StateDeps(Trip())} if story is planning else {}
    with HOUSE.served(story(), **dispatch) as url:
        agent = HttpAgent(url, **OPTIONS).use(record(tmp_path / "run.jsonl"))
        expected = [facts(verb(agent, prompt), agent) for prompt in ("How is it?", "Again?")]
    replay = ReplayAgent(tmp_path / "run.jsonl", **OPTIONS)
    assert [facts(verb(replay, prompt), replay) for prompt in ("How is it?", "Again?")] == expected


def split(agent: Agent[Any, Any], at: int, end: int | None = None) -> Any:
    """An app with the agent's answers in two pieces, and cut off."""

    async def respond(request: Request) -> StreamingResponse:
        response: Any = await AGUIAdapter.dispatch_request(request, agent=agent)
        body = b"".join([piece.encode() async for piece in response.body_iterator])

        async def pieces() -> AsyncIterator[bytes]:
            yield body[:at]
            yield body[at:end]

        return StreamingResponse(pieces(), media_type="text/event-stream")

    return Starlette(routes=[Route("/", respond, methods=["POST"])])


@pytest.mark.parametrize("end", [None, -70], ids=["whole", "cut"])
def test_it_is_recorded_the_same_at_every_split_of_its_bytes(end: int | None, tmp_path: Path) -> None:
    verb, path = VERBS["stream-asyncio"], tmp_path / "run.jsonl"
    expected: Any = None
    found: list[Any] = []
    for at in range(1, 900, 1 if "AGUI_ALL_SPLITS" in os.environ else 71):
        path.unlink(missing_ok=True)
        app = split(Agent(FunctionModel(stream_function=think)), at, end)
        agent = HttpAgent("http://app/", app=app, thread_id="t").use(record(path))
        expected = facts(verb(agent, "Hi", run_id="r"), agent)
        found.append(lines_of(path))
    replay = ReplayAgent(path, thread_id="t")
    assert facts(verb(replay, "Hi", run_id="r"), replay) == expected
    assert (expected["error"] is None) == (end is None)
    assert all(each == found[0] for each in found)
