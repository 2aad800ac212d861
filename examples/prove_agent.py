"""Two agents in the same conversations: one buys tickets without asking. Its failure is made short, and kept as a test.

It needs no key and no server: give it the URL of an agent to evaluate that one instead.
"""

import sys
from collections.abc import AsyncIterator
from tempfile import TemporaryDirectory

from ag_ui.core import RunAgentInput

from agui_client import AbstractAgent, HttpAgent
from agui_client.demo import demo_agent
from agui_client.evaluation import Scenario, Trial, evaluate_sync, shrink
from agui_client.testing import ScriptedAgent, Step, text, tool_call, tool_result, turn


def not_twice(trial: Trial) -> str | None:
    """Refuse an agent that repeats itself within one answer."""
    return None if all(turn.said.count("Morning") < 2 for turn in trial.turns) else "it plans two mornings"


SCENARIOS = [
    Scenario(
        name="weather", says=["How is Oslo?", "And if it rains?"], checks=[{"said": "degrees"}, {"turns_at_most": 2}]
    ),
    Scenario(
        name="no ferry",
        says=["Plan my Saturday", "Tell me more", "Book the ferry", "Thank you"],
        answer="deny",
        checks=[{"not_called": "buy_tickets"}, not_twice],
    ),
]


def hasty_agent() -> ScriptedAgent:
    """Make an agent that buys whatever it hears of."""

    async def answer(input: RunAgentInput) -> AsyncIterator[Step]:
        asked = str(input.messages[-1].content).lower()
        buying: list[Step] = [tool_call("buy_tickets", {"count": 2}), tool_result("paid")] if "book" in asked else []
        yield turn(*buying, text("Done." if buying else "18 degrees and clear."))

    return ScriptedAgent(answer)


def main(*urls: str) -> None:
    mine: dict[str, AbstractAgent] = {"careful": demo_agent(pace=0), "hasty": hasty_agent()}
    agents = {url: HttpAgent(url) for url in urls} or mine
    evaluation = evaluate_sync(agents, SCENARIOS, repeat=10)
    print(evaluation)
    for failure in evaluation.failures[:1]:
        with TemporaryDirectory() as folder:
            kept = shrink(failure, agents[failure.agent]).save(f"{folder}/kept.jsonl")
            print(f"kept as {kept.scenario.says}: {', '.join(kept.replay().failed)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
