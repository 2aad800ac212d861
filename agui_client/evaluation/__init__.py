"""Evaluation: scenarios in which a simulated user talks with an agent, and checks of what came of it.

    evaluation = evaluate_sync({"old": old, "new": new}, "scenarios.yaml", repeat=5, journal="trials.jsonl")
    print(evaluation)

The modules, from low to high: `_trials` (what is known of a conversation), `_scenarios`, `_freezing` (the scenario of a
reproduction), `_sources` and `_files` (scenarios out of rows, recordings and files), `_checks`, `_scripts` (scripted
tools and decisions), `_playing` (the agents that play the user and judge), `_conversing`, `_rates`, `_outcomes`,
`_evaluation`, `_gate`, `_reproductions` and `_shrinking`; `_junit` and `_reports` (for programs and people). YAML needs
the extra `evaluate`.
"""

from agui_client.evaluation._evaluation import evaluate, evaluate_sync
from agui_client.evaluation._files import read_scenarios
from agui_client.evaluation._outcomes import Evaluation, Outcome
from agui_client.evaluation._rates import Rate
from agui_client.evaluation._reproductions import Reproduction, reproductions
from agui_client.evaluation._scenarios import Scenario
from agui_client.evaluation._shrinking import shrink
from agui_client.evaluation._sources import recorded_scenarios
from agui_client.evaluation._trials import CalledTool, Trial, Turn, Verdict

__all__ = [
    "CalledTool",
    "Evaluation",
    "Outcome",
    "Rate",
    "Reproduction",
    "Scenario",
    "Trial",
    "Turn",
    "Verdict",
    "evaluate",
    "evaluate_sync",
    "read_scenarios",
    "recorded_scenarios",
    "reproductions",
    "shrink",
]
