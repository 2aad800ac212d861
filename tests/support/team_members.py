"""Scripted agents as members of teams, and the messages that they were sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from ag_ui.core import Event, Message, TokenUsage

from agui_client import AbstractAgent, ConversationSnapshot, FunctionTool, HttpAgent, RunFailedError, tool
from agui_client.asgi import agent_app
from agui_client.store import Store
from agui_client.teams import SequentialAgent
from agui_client.testing import ScriptedAgent, Turn, text, tool_call, turn

FIVE = [TokenUsage(model="m", input_tokens=2, output_tokens=3, total_tokens=5)]
"""The usage of each run of an agent that `says` made."""


def agent(name: str, *turns: Turn, **options: Any) -> ScriptedAgent:
    """A scripted agent with a name."""
    return ScriptedAgent(*turns, agent_id=name, **options)


def says(name: str, *texts: str) -> ScriptedAgent:
    """An agent that says one text in each run."""
    return agent(name, *(turn(text(each), usage=FIVE) for each in texts))


def shown(agent: ScriptedAgent, run: int = -1) -> list[tuple[str, Any]]:
    """The roles and contents that an agent got."""
    return [(message.role, message.content) for message in agent.inputs[run].messages]


def told(messages: list[Message]) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in messages]


def nested(inner: AbstractAgent, depth: int) -> AbstractAgent:
    """An agent inside of that many teams."""
    for level in range(depth):
        inner = SequentialAgent(inner, agent_id=f"level-{level}")
    return inner


@asynccontextmanager
async def placed(team: AbstractAgent, place: str) -> AsyncGenerator[AbstractAgent]:
    """A team that runs here, is served, or is served from a thread that is stored."""
    if place == "here":
        yield team
    elif place == "served":
        yield HttpAgent("http://team/", app=agent_app(team), strict=True)
    else:
        async with Store() as store:
            threads = store.threads
            app = agent_app(lambda _request, input: threads.open(input.thread_id, team))
            yield HttpAgent("http://team/", app=app, strict=True)


async def saved_documents(team: AbstractAgent, prompt: str, **options: Any) -> list[ConversationSnapshot]:
    """What a stored thread has at each moment of a run: what another process goes on with if this one is killed."""
    saved: list[str] = []

    async def save(checkpoint: Any) -> None:
        saved.append(checkpoint.snapshot().model_dump_json(by_alias=True))

    team.save_with(save)
    with suppress(RunFailedError):
        await team.run_agent(prompt, **options)
    return [ConversationSnapshot.model_validate_json(each) for each in saved]


async def events_of(team: AbstractAgent, prompt: str = "Hi", *, into: list[Event] | None = None) -> list[Event]:
    """The events of a run, also of one that fails."""
    events: list[Event] = [] if into is None else into
    async with team.stream(prompt) as run:
        async for event in run:
            events.append(event)  # noqa: PERF401 - what came before a failure counts
    return events


async def resumed(team: AbstractAgent, **options: Any) -> Any:
    """Go on in what could be another process: all that is left of the run is its saved conversation."""
    saved = team.snapshot().model_dump_json()
    twin = team.clone(thread_id="another")
    twin.restore(ConversationSnapshot.model_validate_json(saved))
    result = await twin.run_agent(**options)
    team.restore(twin.snapshot())
    return result


def pay_tool(paid: list[int], *, approval: Any = "always") -> FunctionTool[..., Any]:
    """A tool that wants approval, and keeps what was paid."""

    @tool(approval=approval)
    def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    return pay


def payer(paid: list[int]) -> ScriptedAgent:
    """An agent that pays 5."""
    turns = (turn(text("Paying."), tool_call("pay", {"amount": 5})), turn(text("Paid.")))
    return agent("payer", *turns, tools=[pay_tool(paid)])
