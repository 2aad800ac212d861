"""Evaluation: scenarios in which a simulated user talks with an agent, and checks of what came of it.

    evaluation = evaluate_sync({"old": old, "new": new}, "scenarios.yaml", repeat=5, journal="trials.jsonl")
    print(evaluation)

The modules, from low to high: `trials` (what is known of a conversation), `scenarios`, `reading` (files of them),
`checks`, `scripts` (scripted tools and decisions), `helpers` (the agents that play the user and judge), `conversing`,
`freezing` (the scenario of a cassette), `outcomes`, `evaluation`, `cassettes`, `junit`. YAML needs the extra
`evaluate`.
"""

from agui_client.evaluation.evaluation import evaluate, evaluate_sync
from agui_client.evaluation.kept_failures import Cassette, cassettes, shrink
from agui_client.evaluation.outcomes import Evaluation, Outcome, Rate
from agui_client.evaluation.scenario_files import read_scenarios
from agui_client.evaluation.scenarios import Scenario
from agui_client.evaluation.trials import CalledTool, Trial, Turn, Verdict

__all__ = [
    "CalledTool",
    "Cassette",
    "Evaluation",
    "Outcome",
    "Rate",
    "Scenario",
    "Trial",
    "Turn",
    "Verdict",
    "cassettes",
    "evaluate",
    "evaluate_sync",
    "read_scenarios",
    "shrink",
]
