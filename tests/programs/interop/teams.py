"""`python -m tests.programs.interop.teams`: teams of two pydantic-ai agents and one of each other framework.

They speak over sockets. Each server runs in the environment of its framework, and each story is carried out with all
frameworks.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ag_ui.core import Message, SubagentStartedEvent, UserMessage

from agui_client import AGUIError, Approve, ConversationSnapshot, HttpAgent, Resolve
from agui_client.asgi import agent_app
from agui_client.teams import HandoffAgent, Member, ParallelAgent, SequentialAgent, Team, TeamAgent

from .environments import made, running, say
from .frameworks import FRAMEWORKS, Framework
from .stories import LIMIT, Server, expect


@dataclass(frozen=True)
class Servers:
    """The servers of a team: pydantic-ai's twice, and another one."""

    one: Server
    two: Server
    other: Server

    def agents(self) -> tuple[HttpAgent, HttpAgent, HttpAgent]:
        """An agent of each server."""
        return self.one.agent(agent_id="one"), self.two.agent(agent_id="two"), self.other.agent(agent_id="other")


def _greeting(_: object) -> list[Message]:
    """Show a member no more than a greeting: the models do what the last word says."""
    return [UserMessage(id="greeting", content="hello")]


def _in_one(messages: Sequence[Message]) -> list[Message]:
    """Show a member all that the others said in one message."""
    said = "\n".join(str(each.content) for each in messages)
    return [UserMessage(id=f"said-{len(messages)}", content=said)]


_NEWEST_ONLY = {"agno"}
"""Frameworks that take no more than the newest message of a user from any request; ADK takes all of the first one."""


def _shown_all(agent: HttpAgent, servers: Servers) -> HttpAgent | Member:
    return Member(agent, sees=_in_one) if servers.other.framework.name in _NEWEST_ONLY else agent


_HOUSE = FRAMEWORKS["pydantic-ai"]
Story: TypeAlias = Callable[[Servers], Awaitable[None]]


async def sequence(servers: Servers) -> None:
    """Each is shown what the ones before it have said, in both orders, and again in the next run."""
    one, two, other = servers.agents()
    third = _shown_all(other, servers)
    team = SequentialAgent(one, third, two, strict=True)
    result = await team.run_agent("hello")
    # Each word of a user is a prompt to the models: "hello", then "[one]: Answer 1." and so on.
    assert [(each.name, each.text.strip()) for each in result.subagents] == [
        ("one", "Answer 1."),
        ("other", "Answer 4."),
        ("two", "Answer 7."),
    ]
    result = await team.run_agent("hello")
    numbers = [int(each.text.strip(". ").rpartition(" ")[2]) for each in result.subagents]
    # A server that is shown again, in one message, what it has kept counts it twice.
    kept = {"adk": 7, "agno": 15}.get(servers.other.framework.name, 11)
    assert numbers == [8, kept, 14], numbers
    turned = SequentialAgent(one, two, third, strict=True)
    expect((await turned.run_agent("lookup")).text, "Answer ")
    expect((await turned.run_agent("hello")).text, "Answer ")


async def parallel(servers: Servers) -> None:
    """Members side by side, and each of the frameworks as the one that sees all answers."""
    one, two, other = servers.agents()
    team = ParallelAgent(one, other, then=two, strict=True)
    result = await team.run_agent("lookup")
    for each in result.subagents:
        expect(each.text, "Answer " if each.name == "two" else "Oslo has 700000 people")
    result = await ParallelAgent(one, two, then=_shown_all(other, servers), strict=True).run_agent("hello")
    expect(result.text, "Answer 7.")


async def function(servers: Servers) -> None:
    """A function asks each something of its own; whoever has a state has it under its name."""
    one, two, other = servers.agents()

    async def lead(team: Team) -> str:
        first, second, third = await team.gather(("one", "hello"), ("other", "move"), ("two", "lookup"))
        return f"{first.text}{second.text}{third.text}"

    team = TeamAgent(lead, one=one, two=two, other=other, options={"strict": True})
    result = await team.run_agent("Go")
    expect(str(result.result), "Answer 1.", "moved to Turin", "Oslo has 700000 people")
    assert result.state["other"]["city"] == "Turin", result.state


async def tool(servers: Servers) -> None:
    """One agent asks another by a tool, in both directions."""
    one, _, other = servers.agents()
    one.tools = [servers.other.agent().as_tool("ask_other", "Knows cities.")]
    other.tools = [servers.one.agent().as_tool("ask_other", "Knows cities.")]
    for agent in (one, other):
        expect((await agent.run_agent("consult")).text, "Oslo has 700000 people")


async def handover(servers: Servers) -> None:
    """A member hands over, and the other one goes on, also with the next run."""
    one, _, other = servers.agents()
    team = HandoffAgent(one, Member(other, sees=_greeting), strict=True)
    result = await team.run_agent("handover")
    assert [each.name for each in result.subagents] == ["one", "other"], result.subagents
    expect(result.text, "Answer 1.")
    assert result.pending_tool_calls == [], result.pending_tool_calls
    async with team.stream("hello") as run:
        names = [event.name async for event in run if isinstance(event, SubagentStartedEvent)]
    assert names == ["other"], names


async def approval(servers: Servers) -> None:
    """An approval three agents deep is answered in a second process after the first was killed."""
    expect(await _in_two_processes("deep", servers), "sent 5 to Ada")


async def delegated_approval(servers: Servers) -> None:
    """An approval of an agent that another one asks by a tool, in a team, is answered in a second process."""
    expect(await _in_two_processes("delegated", servers), "sent 5 to Ada")


async def at_once(servers: Servers) -> None:
    """One member is asked many things at once, and answers all of them."""
    _, _, other = servers.agents()

    async def lead(team: Team) -> list[str]:
        return [each.text for each in await team.map("other", ["hello", "lookup"] * 4, at_once=4)]

    result = await TeamAgent(lead, other=other, options={"strict": True}).run_agent("Go")
    texts: Any = result.result
    for text, said in zip(texts, ["Answer 1.", "Oslo has 700000 people"] * 4, strict=True):
        expect(text, said)


async def again_and_again(servers: Servers) -> None:
    """One member is asked one thing after the other in a run, and goes on with its own words."""
    _, _, other = servers.agents()

    async def lead(team: Team) -> list[str]:
        return [(await team.run("other", prompt)).text for prompt in ("lookup", "lookup", "think", "think")]

    result = await TeamAgent(lead, other=other, options={"strict": True}).run_agent("Go")
    texts: Any = result.result
    for text, said in zip(texts, ["700000", "700000", "thought", "thought"], strict=True):
        expect(text, said)


async def plain_approval(servers: Servers) -> None:
    """An approval in a team that is served says how it is answered, and is in the words of AG-UI, whoever asks."""
    *_, other = servers.agents()
    caller = HttpAgent("http://team/", app=agent_app(SequentialAgent(SequentialAgent(other, agent_id="desk"))))
    asked = (await caller.run_agent("transfer")).interrupts
    assert all(each.message for each in asked), asked
    # LangGraph's own `interrupt()` takes any answer: nobody but the graph knows what it reads.
    is_free = servers.other.framework.name in ("langgraph", "langgraph-older")
    assert is_free or all("approved" in (each.response_schema or {})["properties"] for each in asked), asked
    result = await caller.run_agent(resume={each.id: Resolve({"approved": True}) for each in asked})
    assert any("sent 5 to Ada" in str(each.content) for each in result.messages if each.role == "tool"), result


async def recovery(servers: Servers) -> None:
    """A resumed team whose last server is away goes on when it is back, and does nothing twice."""
    one, two, other = servers.agents()
    away = HttpAgent("http://127.0.0.1:9/", agent_id="two")

    def team(last: HttpAgent) -> TeamAgent[object]:
        async def lead(team: Team) -> str:
            first = await team.run("one", "hello")
            await team.run("other", "transfer")
            return first.text + (await team.run("two", "hello")).text

        return TeamAgent(lead, one=one, other=other, two=last, options={"strict": True})

    asking = team(away)
    answers = {each.id: Approve() for each in (await asking.run_agent("Go")).interrupts}
    try:
        await asking.run_agent(resume=answers)
    except AGUIError as error:
        expect(str(error), "nothing listens there")
    back = team(two)
    back.restore(ConversationSnapshot.model_validate_json(asking.snapshot().model_dump_json()))
    result = await back.run_agent(resume=answers)
    assert str(result.result).replace(" ", "") == "Answer1.Answer1.", result
    assert [each.name for each in result.subagents] == ["two"], result.subagents
    sent = [each for each in back.messages if each.role == "tool" and "sent 5 to Ada" in str(each.content)]
    assert len(sent) == 1, back.messages


STORIES: dict[str, Story] = {
    each.__name__: each
    for each in (
        *(sequence, parallel, function, tool, handover, at_once, again_and_again),
        *(approval, plain_approval, delegated_approval, recovery),
    )
}
_ASKING = ("approval", "plain_approval", "delegated_approval", "recovery")


# --- two processes


def _asking_team(kind: str, servers: Servers) -> tuple[SequentialAgent, str]:
    """Return a team that asks for an approval, and the prompt with which it does."""
    one, two, other = servers.agents()
    if kind == "deep":
        desk = SequentialAgent(other, agent_id="desk")
        return SequentialAgent(ParallelAgent(one, desk, agent_id="office"), Member(two, sees=_greeting)), "transfer"
    one.tools = [other.as_tool("ask_other", "Sends money.")]
    return SequentialAgent(SequentialAgent(one, agent_id="office")), "delegate"


async def _in_two_processes(kind: str, servers: Servers) -> str:
    """Run a team in a process that is killed when it is asked, and answer in another; return all that was written."""
    with tempfile.TemporaryDirectory() as directory:
        saved = Path(directory) / "conversation.json"
        given = (kind, servers.one.url, servers.two.url, servers.other.framework.name, servers.other.url, str(saved))
        asking = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.programs.interop.teams", "--ask", *given, stdout=-1, stderr=-1, stdin=-1
        )
        assert asking.stdout is not None
        first = await asking.stdout.readline()
        asking.kill()
        _, complaints = await asking.communicate()
        assert first == b"asked\n", complaints.decode()[-1500:]
        command = [sys.executable, "-m", "tests.programs.interop.teams", "--answer", *given]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-1500:]
    return done.stdout


def _ask(team: SequentialAgent, prompt: str, saved: Path) -> None:
    result = team.run_agent_sync(prompt)
    assert result.interrupts, result
    saved.write_text(team.snapshot().model_dump_json())
    print("asked", flush=True)
    sys.stdin.read()  # until it is killed


def _answer(team: SequentialAgent, saved: Path) -> None:
    team.restore(ConversationSnapshot.model_validate_json(saved.read_text()))
    result = team.run_agent_sync(resume={each.id: Approve() for each in team.pending_interrupts})
    assert (result.interrupts, result.pending_tool_calls) == ([], []), result
    print([message.content for message in result.new_messages if message.role in ("assistant", "tool")])


def _process(is_answer: bool, kind: str, one: str, two: str, name: str, other: str, saved: str) -> None:
    servers = Servers(Server(_HOUSE, one), Server(_HOUSE, two), Server(FRAMEWORKS[name], other))
    team, prompt = _asking_team(kind, servers)
    if is_answer:
        _answer(team, Path(saved))
    else:
        _ask(team, prompt, Path(saved))


# --- the program


def _told(names: Sequence[str], servers: Servers) -> int:
    """Carry stories out and print how each ended; return the number of those that failed."""
    failures = 0
    framework = servers.other.framework
    for name in names:
        if framework.verdicts.get("asked") is not None and name in _ASKING:
            print(f"{framework.name:24}{name:20}- (never asks)", flush=True)
            continue
        try:
            asyncio.run(asyncio.wait_for(STORIES[name](servers), 2 * LIMIT))
            print(f"{framework.name:24}{name:20}pass", flush=True)
        except Exception as error:
            failures += 1
            print(f"{framework.name:24}{name:20}FAIL {type(error).__name__}: {error}"[:1500], flush=True)
    return failures


@contextmanager
def _served(framework: Framework, root: Path) -> Generator[Servers]:
    """Run two servers of pydantic-ai, and one of another framework."""
    house = made("pydantic_ai", root)
    with (
        running("pydantic_ai", house) as (one, _),
        running("pydantic_ai", house) as (two, _),
        running(framework.environment, made(framework.environment, root)) as (other, _),
    ):
        yield Servers(Server(_HOUSE, one), Server(_HOUSE, two), Server(framework, other))


def main() -> int:
    """Carry the stories out with each framework; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.interop.teams", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FRAMEWORKS, default=["langgraph"], help="the other frameworks")
    parser.add_argument("--story", nargs="+", choices=STORIES, default=list(STORIES), help="only these stories")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the environments here for the next time")
    chosen = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="agui-interop-") as directory:
        root = (chosen.keep or Path(directory)).resolve()
        root.mkdir(parents=True, exist_ok=True)
        for name in chosen.only:
            with _served(FRAMEWORKS[name], root) as servers:
                failures += _told(chosen.story, servers)
    say(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    if sys.argv[1:2] in (["--ask"], ["--answer"]):
        _process(sys.argv[1] == "--answer", *sys.argv[2:])
    else:
        sys.exit(main())
