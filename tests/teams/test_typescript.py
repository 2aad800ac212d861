"""A served team as the official TypeScript client reads it: an ordinary agent, whatever is inside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput, RunErrorEvent

from agui_client import AbstractAgent, tool
from agui_client.asgi import agent_app
from agui_client.store import Store
from agui_client.teams import ParallelAgent, SequentialAgent
from agui_client.testing import ScriptedAgent, interrupt, pause, serve, state, text, tool_call, turn
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
    assert (paid, len(guide.inputs), len(clerk.inputs)) == ([5], 1, 2)
    assert seen["asked"] == ['Allow the call of pay with {"amount": 5}?']
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


def _recovered(team: AbstractAgent, place: str) -> Any:
    """Return what the client sees of a team that fails, until it is done."""
    store = Store()
    app = agent_app(team if place != "stored" else lambda _request, input: store.threads.open(input.thread_id, team))
    with store, serve(app) as server:
        return run_typescript(_RECOVERY, server.url)


@pytest.mark.parametrize("place", ["with its caller", "stored"])
def test_the_typescript_client_goes_on_with_a_resumed_team_that_failed(place: str) -> None:
    first = ScriptedAgent(turn(text("F")), agent_id="first")
    asker = ScriptedAgent(turn(text("Sure?"), outcome=interrupt("Proceed?")), turn(text("Done.")), agent_id="asker")
    failing = ScriptedAgent(turn(text("Half."), RunErrorEvent(message="broken")), turn(text("W")), agent_id="failing")
    seen = _recovered(SequentialAgent(first, asker, failing), place)
    assert [each[:8] for each in seen["ends"]] == ["RUN_FINI", "RUN_ERRO", "RUN_FINI"]
    assert ([len(each.inputs) for each in (first, asker, failing)], seen["state"]) == ([1, 2, 2], {})
    assert [content for _, content in seen["messages"]] == ["Hi", "F", "Sure?", "Done.", "W"]


@pytest.mark.requirement("INT-4", "LIFE-5")
@pytest.mark.parametrize(
    ("fails_in", "place"),
    [
        pytest.param(1, "with its caller", id="when it is asked-with its caller"),
        pytest.param(1, "stored", id="when it is asked-stored", marks=pytest.mark.soak),
        pytest.param(2, "with its caller", id="when it answers-with its caller", marks=pytest.mark.soak),
        pytest.param(2, "stored", id="when it answers-stored"),
    ],
)
def test_the_typescript_client_answers_a_team_in_a_team_whose_sibling_fails(place: str, fails_in: int) -> None:
    begun: list[int] = []
    is_asked, is_paid = anyio.Event(), anyio.Event()

    def question(_arguments: Mapping[str, Any]) -> str:
        is_asked.set()
        return "Pay?"

    @tool(approval="always", ask=question)
    async def pay(amount: int) -> str:
        begun.append(amount)
        is_paid.set()
        return f"paid {amount}"

    async def ask(input: RunAgentInput) -> AsyncIterator[Any]:
        has_result = any(each.role == "tool" for each in input.messages)
        yield turn(text("Paid.")) if has_result else turn(tool_call("pay", {"amount": 5}))

    async def fail(_input: RunAgentInput) -> AsyncIterator[Any]:
        if len(failing.inputs) == fails_in:
            await (is_asked, is_paid)[fails_in - 1].wait()
            yield turn(pause(0.02), text("Half."), RunErrorEvent(message="broken"))
        elif len(failing.inputs) < fails_in:
            yield turn(text("Sure?"), outcome=interrupt("Proceed?"))
        else:
            yield turn(text("Whole."))

    failing = ScriptedAgent(fail, agent_id="failing")
    clerk = ScriptedAgent(ask, agent_id="clerk", tools=[pay])
    seen = _recovered(ParallelAgent(failing, SequentialAgent(clerk, agent_id="inner")), place)
    assert seen["ends"][-1] == "RUN_FINISHED"
    assert sorted(each[:8] for each in seen["ends"]) == ["RUN_ERRO", *["RUN_FINI"] * len(seen["ends"][1:])]
    assert (begun, seen["state"]) == ([5], {})
    words = [content for _, content in seen["messages"] if content in ("Half.", "Whole.", "Paid.")]
    assert sorted(words) == ["Paid.", "Whole."]
