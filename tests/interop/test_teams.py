"""Teams of pydantic-ai's agents over sockets, and an approval three agents deep that another process answers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pydantic_ai import Agent, DeferredToolRequests

from agui_client import HttpAgent
from agui_client.teams import ParallelAgent, SequentialAgent
from support.offline_model import Heard, House, OfflineModel, Saying, returned
from support.programs import STRICT, Program

HOUSE = House()
_SECONDS = 60
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
