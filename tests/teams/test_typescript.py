"""A served team as the official TypeScript client reads it: an ordinary agent, whatever is inside."""

from __future__ import annotations

from pathlib import Path

import pytest
from ag_ui.core import RunErrorEvent

from agui_client import tool
from agui_client.asgi import agent_app
from agui_client.teams import ParallelAgent, SequentialAgent
from agui_client.testing import ScriptedAgent, interrupt, serve, state, text, tool_call, turn
from agui_client.threads import Threads
from support.typescript import run_typescript

_READER = Path(__file__).with_name("typescript_reader.mjs")


@pytest.mark.requirement("SUB-6", "SUB-7", "INT-4")
def test_the_typescript_client_reads_members_side_by_side_and_answers_one_that_is_three_agents_deep() -> None:
    paid: list[int] = []

    @tool(approval="always")
    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    clerk = ScriptedAgent(
        turn(text("One moment."), tool_call("pay", {"amount": 5})), turn(text("Done.")), agent_id="clerk", tools=[pay]
    )
    guide = ScriptedAgent(turn(state({"mood": "good"}), text("Lovely.")), agent_id="guide")
    office = SequentialAgent(SequentialAgent(clerk, agent_id="desk"), agent_id="office")
    team = ParallelAgent(office, guide, then=ScriptedAgent(turn(text("All is well.")), agent_id="judge"))
    with serve(agent_app(team)) as server:
        seen = run_typescript(_READER, server.url)
    first, second = seen["runs"]
    assert (seen["asked"], paid, len(guide.inputs), len(clerk.inputs)) == (["Allow the call of pay?"], [5], 1, 2)
    for run in (first, second):
        assert (run[0], run[-1]) == (["RUN_STARTED", None], ["RUN_FINISHED", None])
        begun = [owner for kind, owner in run if kind == "SUBAGENT_STARTED"]
        assert sorted(begun) == sorted(owner for kind, owner in run if kind == "SUBAGENT_FINISHED")
    # Whoever waits goes on under the same ids, and who is done is not asked again.
    depths = [sorted(owner.count("/") for kind, owner in run if kind == "SUBAGENT_STARTED") for run in seen["runs"]]
    assert depths == [[0, 0, 1, 2], [0, 0, 1, 2]]
    said = [(role, content, owner.count("/") if owner else None) for role, content, owner in seen["messages"]]
    assert said[-1] == ("assistant", "All is well.", None)
    assert ("tool", "paid 5", 0) in said
    assert seen["state"] == {"guide": {"mood": "good"}}


_RECOVERY = Path(__file__).with_name("typescript_recovery.mjs")


@pytest.mark.parametrize("place", ["with its caller", "stored"])
def test_the_typescript_client_goes_on_with_a_resumed_team_that_failed(place: str) -> None:
    first = ScriptedAgent(turn(text("F")), agent_id="first")
    asker = ScriptedAgent(turn(text("Sure?"), outcome=interrupt("Proceed?")), turn(text("Done.")), agent_id="asker")
    failing = ScriptedAgent(turn(text("Half."), RunErrorEvent(message="broken")), turn(text("W")), agent_id="failing")
    team = SequentialAgent(first, asker, failing)
    threads = Threads()
    app = agent_app(team if place != "stored" else lambda _request, input: threads.open(input.thread_id, team))
    with threads, serve(app) as server:
        seen = run_typescript(_RECOVERY, server.url)
    assert [each[:8] for each in seen["ends"]] == ["RUN_FINI", "RUN_ERRO", "RUN_FINI"]
    assert ([len(each.inputs) for each in (first, asker, failing)], seen["state"]) == ([1, 2, 2], {})
    assert [content for _, content in seen["messages"]] == ["Hi", "F", "Sure?", "Done.", "W"]
