"""The stories: what an application does with an agent, whoever wrote its server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ag_ui.core import RunStartedEvent, Tool

from agui_client import (
    ApprovalRequest,
    Approve,
    Cancel,
    ConversationSnapshot,
    Deny,
    HttpAgent,
    InterruptsNotCoveredError,
    RunFailedError,
    Timeouts,
    ToolError,
    tool,
)

from .frameworks import FRAMEWORKS, Framework

LIMIT = 60
"""The seconds that a story may take."""
WEATHER = Tool(
    name="get_weather",
    description="The weather in a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"18 degrees in {city}"


@tool(name="get_weather")
def get_no_weather(city: str) -> str:
    """The weather in a city."""
    raise ToolError(f"no weather in {city} today")


@tool(approval="always")
def buy_tickets(count: int) -> str:
    """Buy ferry tickets."""
    return f"bought {count} tickets"


@dataclass(frozen=True)
class Server:
    """A framework's server that is running."""

    framework: Framework
    url: str

    def agent(self, **options: Any) -> HttpAgent:
        """An agent of this server."""
        url = self.url + self.framework.path
        given: dict[str, Any] = {"timeout": Timeouts(first_event=30, idle=30, total=40)}
        if self.framework.connect is not None:
            given["connect_url"] = self.url + self.framework.connect
        return HttpAgent(url, **{**given, **options})


Story = Callable[[Server], Awaitable[None]]
STORIES: dict[str, Story] = {}
NOISY = {"unanswered", "exception", "abandoned", "cancelled"}
"""Stories in which something is wrong, so that warnings are in place."""


def story(function: Story) -> Story:
    """Add a story to the list."""
    STORIES[function.__name__] = function
    return function


async def tell(name: str, server: Server) -> None:
    """Carry a story out, in bounded time."""
    await asyncio.wait_for(STORIES[name](server), LIMIT)


def expect(text: str | None, *parts: str) -> None:
    """Assert that a text has all of these parts."""
    for part in parts:
        assert part in (text or ""), f"{part!r} is not in {text!r}"


@story
async def hello(server: Server) -> None:
    result = await HttpAgent(server.url + server.framework.path).run_agent("hello")
    expect(result.text, "Answer 1.")


@story
async def turns(server: Server) -> None:
    agent = server.agent()
    for number in (1, 2, 3):
        result = await agent.run_agent("hello")
        expect(result.text, f"Answer {number}.")
    assert [message.role for message in agent.messages if message.role != "system"] == ["user", "assistant"] * 3


@story
async def server_tool(server: Server) -> None:
    agent = server.agent()
    result = await agent.run_agent("lookup")
    expect(result.text, "Oslo has 700000 people")
    assert result.pending_tool_calls == []
    expect((await agent.run_agent("hello")).text, "Answer 2.")
    roles = [message.role for message in agent.messages if message.role in ("assistant", "tool")]
    assert roles == ["assistant", "tool", "assistant", "assistant"], roles


@story
async def tool_here(server: Server) -> None:
    agent = server.agent(tools=[get_weather])
    result = await agent.run_agent("weather")
    expect(result.text, "18 degrees in Oslo")
    expect((await agent.run_agent("hello")).text, "Answer 2.")


@story
async def two_tools(server: Server) -> None:
    agent = server.agent(tools=[get_weather])
    result = await agent.run_agent("both")
    expect(result.text, "18 degrees in Oslo", "18 degrees in Turin")
    expect((await agent.run_agent("hello")).text, "Answer 2.")


@story
async def failing_tool(server: Server) -> None:
    result = await server.agent(tools=[get_no_weather]).run_agent("weather")
    expect(result.text, "no weather in Oslo today")


@story
async def denial(server: Server) -> None:
    def approve(request: ApprovalRequest) -> Deny:
        return Deny("Too many tickets.")

    agent = server.agent(tools=[buy_tickets], approve=approve)
    result = await agent.run_agent("buy")
    expect(result.text, "Too many tickets.")


@story
async def edited(server: Server) -> None:
    def approve(request: ApprovalRequest) -> Approve:
        return Approve(arguments={"count": 1})

    agent = server.agent(tools=[buy_tickets], approve=approve)
    result = await agent.run_agent("buy")
    expect(result.text, "bought 1 tickets")


@story
async def approved_later(server: Server) -> None:
    agent = server.agent(tools=[buy_tickets])
    result = await agent.run_agent("buy")
    assert [call.function.name for call in result.pending_tool_calls] == ["buy_tickets"]
    expect(await elsewhere(server, agent), "bought 3 tickets")


@story
async def unanswered(server: Server) -> None:
    agent = server.agent(tools=[WEATHER])
    result = await agent.run_agent("weather")
    assert len(result.pending_tool_calls) == 1
    # A server that keeps the history itself may leave out what was not finished.
    expect((await agent.run_agent("hello")).text, "Answer ")
    expect((await agent.run_agent("hello")).text, "Answer ")


@story
async def state_up(server: Server) -> None:
    agent = server.agent(initial_state={"city": "Oslo"})
    expect((await agent.run_agent("state")).text, "The city is Oslo.")
    agent.set_state({"city": "Turin"})
    expect((await agent.run_agent("state")).text, "The city is Turin.")


@story
async def state_down(server: Server) -> None:
    agent = server.agent(initial_state={"city": "Oslo"})
    await agent.run_agent("move")
    assert agent.state.get("city") == "Turin", agent.state


@story
async def state_edited(server: Server) -> None:
    """An edit while the agent is at work survives the state that it sends, and reaches it with the next run."""
    agent = server.agent(initial_state={"city": "Oslo"})
    async with agent.stream("hello") as run:
        async for event in run:
            if isinstance(event, RunStartedEvent):
                with agent.edit_state() as state:
                    state["city"] = "Bonn"
                    state["note"] = "by train"
    assert (agent.state["city"], agent.state["note"]) == ("Bonn", "by train"), agent.state
    expect((await agent.run_agent("state")).text, "The city is Bonn.")
    async with agent.stream("move") as run:
        async for event in run:
            if isinstance(event, RunStartedEvent):
                with agent.edit_state() as state:
                    state["plan"] = ["museum"]
    # Of both sides, in the places of each.
    assert (agent.state["city"], agent.state["plan"]) == ("Turin", ["museum"]), agent.state


@story
async def reasoning(server: Server) -> None:
    result = await server.agent().run_agent("think")
    expect(result.text, "I thought.")
    expect("".join(str(message.content) for message in result.messages if message.role == "reasoning"), "Let me see.")


@story
async def exception(server: Server) -> None:
    agent = server.agent()
    try:
        await agent.run_agent("crash")
    except RunFailedError:
        pass
    else:
        raise AssertionError("the run does not fail")
    expect((await agent.run_agent("hello")).text, "Answer ")


@story
async def abort(server: Server) -> None:
    agent = server.agent()
    async with agent.stream("slow") as run:
        async for _ in run.text_stream:
            run.cancel()
    assert (await run.result()).aborted
    expect((await agent.run_agent("hello")).text, "Answer ")


@story
async def clones(server: Server) -> None:
    agent = server.agent()
    await agent.run_agent("hello")
    copies = [agent.clone(thread_id=f"{agent.thread_id}-{number}") for number in range(20)]
    results = await asyncio.gather(*(copy.run_agent("hello") for copy in copies))
    for result in results:
        expect(result.text, "Answer ")


@story
async def reconnect(server: Server) -> None:
    agent = server.agent()
    await agent.run_agent("hello")
    await agent.run_agent("lookup")
    again = server.agent(thread_id=agent.thread_id)
    await again.connect_agent()
    assert [message.role for message in again.messages] == [message.role for message in agent.messages]
    expect((await again.run_agent("hello")).text, "Answer 3.")


@story
async def regenerate(server: Server) -> None:
    """The thread is cut back to its last question, which is answered anew."""
    agent = server.agent()
    await agent.run_agent("hello")
    await agent.run_agent("hello")
    agent.set_messages(agent.messages[:-1])
    expect((await agent.run_agent()).text, "Answer 2.")
    roles = [message.role for message in agent.messages if message.role != "system"]
    assert roles == ["user", "assistant"] * 2, roles
    expect((await agent.run_agent("hello")).text, "Answer 3.")


async def interrupted(server: Server) -> HttpAgent:
    """An agent whose server asks whether to send money."""
    agent = server.agent()
    result = await agent.run_agent("transfer")
    assert len(result.interrupts) == 1, f"no interrupt, but {result.text!r}, {result.pending_tool_calls}"
    return agent


@story
async def asked(server: Server) -> None:
    agent = await interrupted(server)
    assert agent.pending_tool_calls == [], "the call of the interrupt is pending"


@story
async def approved(server: Server) -> None:
    agent = await interrupted(server)
    result = await agent.run_agent(resume={agent.pending_interrupts[0].id: Approve()})
    expect(result.text, "sent 5 to Ada")
    assert result.interrupts == []
    expect((await agent.run_agent("hello")).text, "Answer 2.")


@story
async def approved_elsewhere(server: Server) -> None:
    expect(await elsewhere(server, await interrupted(server)), "sent 5 to Ada")


@story
async def denied(server: Server) -> None:
    agent = await interrupted(server)
    result = await agent.run_agent(resume={agent.pending_interrupts[0].id: Deny("Too much money.")})
    assert "sent 5" not in str(result.messages)
    expect((await agent.run_agent("hello")).text, "Answer 2.")


@story
async def approved_edited(server: Server) -> None:
    agent = await interrupted(server)
    interrupt_id = agent.pending_interrupts[0].id
    try:
        result = await agent.run_agent(resume={interrupt_id: Approve(arguments={"to": "Ada", "amount": 1})})
    except InterruptsNotCoveredError:
        # Nothing says that this server takes edited arguments, so nothing was sent.
        result = await agent.run_agent(resume={interrupt_id: Deny()})
        assert "sent 5" not in str(result.messages)
        return
    expect(result.text, "sent 1 to Ada")


@story
async def cancelled(server: Server) -> None:
    agent = await interrupted(server)
    await agent.run_agent(resume={agent.pending_interrupts[0].id: Cancel()})
    assert "sent 5" not in str(agent.messages)
    expect((await agent.run_agent("hello")).text, "Answer 2.")


@story
async def abandoned(server: Server) -> None:
    agent = await interrupted(server)
    agent.abandon_interrupts()
    await agent.run_agent("hello")
    assert "sent 5" not in str(agent.messages)
    assert [message.content for message in agent.messages if message.role == "user"] == ["transfer", "hello"]
    expect((await agent.run_agent("hello")).text, "Answer 3.")


# --- another process, days later


async def elsewhere(server: Server, agent: HttpAgent) -> str:
    """Approve what waits, in a new process that has only the saved conversation; returns the text of the run."""
    with tempfile.TemporaryDirectory() as directory:
        saved = Path(directory) / "conversation.json"
        saved.write_text(agent.snapshot().model_dump_json())
        command = [
            sys.executable,
            "-m",
            "tests.programs.interop.stories",
            server.framework.name,
            server.url,
            str(saved),
        ]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-1500:]
    return str(json.loads(done.stdout))


async def _approve_saved(name: str, url: str, saved: str) -> str | None:
    agent = Server(FRAMEWORKS[name], url).agent(tools=[buy_tickets])
    agent.restore(ConversationSnapshot.model_validate_json(saved))
    if agent.pending_interrupts:
        return (await agent.run_agent(resume={each.id: Approve() for each in agent.pending_interrupts})).text
    return (await agent.run_agent(tool_results={each.id: Approve() for each in agent.pending_tool_calls})).text


if __name__ == "__main__":
    framework, address, path = sys.argv[1:]
    print(json.dumps(asyncio.run(_approve_saved(framework, address, Path(path).read_text()))))
