"""A program that evaluates an agent, to be stopped and started again: stopped_evaluation.py JOURNAL "wait"|"go on"."""

from __future__ import annotations

import sys
import time
from collections import Counter

from ag_ui.core import RunAgentInput

from agui_client import FunctionAgent
from agui_client.evaluation import Scenario, Trial, evaluate_sync

asked: Counter[str] = Counter()


def answer(input: RunAgentInput) -> str:
    asked["times"] += 1
    if sys.argv[2] == "wait" and asked["times"] > 3:
        time.sleep(60)
    return "no" if input.messages[-1].content == "third" else "yes"


def line(trial: Trial) -> str:
    return "third" if trial.repetition == 3 else "hi"


if __name__ == "__main__":
    quick = Scenario(name="quick", says=[line], checks=[{"said": "yes"}])
    evaluation = evaluate_sync(FunctionAgent(answer), quick, repeat=8, at_once=1, journal=sys.argv[1])
    kept = ", ".join(each.reproduction.name for each in evaluation.failures if each.reproduction)
    sys.stdout.write(f"{evaluation}\nasked {asked['times']}, kept {kept}\n")
