"""Teams of pydantic-ai's agents over sockets, and an approval three agents deep that another process answers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests

from agui_client import AbstractAgent, HttpAgent, validate
from agui_client.asgi import agent_app
from agui_client.teams import Member, ParallelAgent, SequentialAgent, Team, TeamAgent
from agui_client.testing import serve
from support.offline_model import Heard, House, OfflineModel, Saying, returned
from support.programs import STRICT, Program
from support.typescript import run_typescript

HOUSE = House()
_SECONDS = 60
_READER = Path(__file__).parents[2] / "teams" / "typescript_reader.mjs"
_PROGRAM = """
import sys
from agui_client import Approve, ConversationSnapshot, HttpAgent
from agui_client.teams import ParallelAgent, SequentialAgent

url, path = sys.argv[1:3]
clerk = HttpAgent(url, agent_id="clerk")
team = SequentialAgent(ParallelAgent(SequentialAgent(clerk, agent_id="desk"), agent_id="office"))
if len(sys.argv) == 3:
    team.run_agent_sync("Delete it.")
    with open(path, "w") as file:
        file.write(team.snapshot().model_dump_json())
    print("asked", flush=True)
    sys.stdin.read()  # until it is killed
else:
    with open(path) as file:
        team.restore(ConversationSnapshot.model_validate_json(file.read()))
    [question] = team.pending_interrupts
    result = team.run_agent_sync(resume={question.id: Approve()})
    print([each.text for each in result.subagents][-1], result.state, result.interrupts)
"""


@pytest.fixture(autouse=True, scope="module")
def _open_house() -> Iterator[None]:
    with HOUSE.opened():
        yield


def says(text: str) -> OfflineModel:
    return OfflineModel(lambda _given: text)


def test_agents_of_a_server_work_after_each_other_side_by_side_and_for_each_other() -> None:
    first, second, judge = says("Facts."), says("Story."), says("Both.")
    asking = OfflineModel(
        lambda given: f"It says {returned(given)[0]}" if returned(given) else [("ask", "c1", '{"prompt": "Hm?"}')]
    )
    with (
        HOUSE.served(Agent(first.model)) as one,
        HOUSE.served(Agent(second.model)) as two,
        HOUSE.served(Agent(judge.model)) as three,
        HOUSE.served(Agent(asking.model)) as four,
    ):
        researcher, writer = HttpAgent(one, agent_id="researcher"), HttpAgent(two, agent_id="writer")
        assert SequentialAgent(researcher, writer, strict=True).run_agent_sync("Write").text == "Story."
        team = ParallelAgent(researcher, writer, then=HttpAgent(three, agent_id="judge"), strict=True)
        assert team.run_agent_sync("Write").text == "Both."
        asker = HttpAgent(four, tools=[researcher.as_tool("ask", "Knows facts.")])
        assert asker.run_agent_sync("Hi").text == "It says Facts."
    assert second.given[0][-1] == ("user-prompt", "[researcher]: Facts.")
    assert sorted(str(content) for _, content in judge.given[0]) == [
        "Write",
        "[researcher]: Facts.",
        "[writer]: Story.",
    ]


def test_an_approval_three_agents_deep_is_answered_by_another_process(tmp_path: Path) -> None:
    deleted: list[str] = []

    def script(given: Sequence[Heard]) -> Saying:
        results = returned(given)
        return f"Done: {results[0]}" if results else [("delete_file", "call-1", '{"path": "a.txt"}')]

    agent = Agent(OfflineModel(script).model, output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True, name="delete_file")
    def delete_file(path: str) -> str:
        """Delete a file."""
        deleted.append(path)
        return "deleted"

    saved = str(tmp_path / "saved.json")
    with HOUSE.served(agent) as url:
        with Program("-c", _PROGRAM, url, saved, flags=STRICT, stdin=subprocess.PIPE) as asking:
            assert asking.stdout is not None
            assert asking.stdout.readline().strip() == "asked"
            asking.kill()
        assert deleted == []
        with Program("-c", _PROGRAM, url, saved, "answer", flags=STRICT) as answering:
            out, complaints = answering.communicate(timeout=_SECONDS)
    assert (out.strip(), complaints) == ("Done: deleted {} []", "")
    assert (delete_file("b.txt"), deleted) == ("deleted", ["a.txt", "b.txt"])


class Verdict(BaseModel):
    """The answer of a critic."""

    good: bool


def _of_verdict(given: Sequence[Heard]) -> Saying:
    """Say what a model does that is told of no schema before its second prompt."""
    prompts = [str(content) for kind, content in given if kind == "user-prompt"]
    return '{"good": true}' if '"title":"Verdict"' in prompts[-1] else "It is good."


@pytest.mark.requirement("SUB-6", "LIFE-5")
@pytest.mark.parametrize("way", ["in its text", "by an output tool"])
@pytest.mark.parametrize("depth", [0, 1], ids=["flat", "inner"])
def test_the_answer_of_a_member_is_of_the_type_that_the_team_wants(way: str, depth: int) -> None:
    read: list[Any] = []
    agent: Agent[None, Any] = Agent(OfflineModel(_of_verdict).model)
    if way == "by an output tool":
        model = OfflineModel(lambda _given: [("final_result", "c1", '{"good": true}')])
        agent = Agent(model.model, output_type=Verdict)

    async def decide(team: Team) -> None:
        read.append((await team.run("critic", "Is it good?")).parsed)

    with HOUSE.served(agent) as url:
        team: AbstractAgent = TeamAgent(decide, critic=Member(HttpAgent(url), answer=Verdict))
        for _ in range(depth):
            team = SequentialAgent(Member(team, "inner"))
        with serve(agent_app(team)) as server:
            seen = run_typescript(_READER, server.url)
            with HttpAgent(server.url, strict=True).stream_sync("Hi") as run:
                events = [*run]
    assert read == [Verdict(good=True)] * 2
    assert (seen["runs"][0][-1], seen["state"], validate(events)) == (["RUN_FINISHED", None], {}, [])
    # An answer that fits is the only one.
    assert [role for role, *_ in seen["messages"]][2:] == {
        "in its text": ["assistant", "user", "assistant"],
        "by an output tool": ["assistant", "tool"],
    }[way]
