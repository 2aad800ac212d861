"""The outcomes of an evaluation as a JUnit file without secrets, which CI systems read and store."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from agui_client._core.ground.secrets import hidden_text
from agui_client._rendering.junit import Problem, TestCase, TestSuite, as_junit
from agui_client.evaluation._trials import lines_of

if TYPE_CHECKING:
    from agui_client.evaluation._outcomes import Evaluation, Outcome


def write_junit(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write a test suite for each agent, with a test case for each conversation.

    Args:
        path: The file.
    """
    suites = [
        TestSuite(agent or "agent", [_case(each) for each in evaluation.outcomes if each.agent == agent])
        for agent in evaluation.agents
    ]
    Path(path).write_text(as_junit(suites), "utf-8")


def _case(outcome: Outcome) -> TestCase:
    seconds = 0.0 if outcome.trial is None else outcome.trial.seconds
    problem, output = None, ""
    if not outcome.passed:
        names = [*outcome.failed] if outcome.error is None else [outcome.error.type]
        message, text = "; ".join(map(hidden_text, names)), _shown("\n  ", [outcome.title, *outcome.reasons])
        problem = Problem("failure" if outcome.error is None else "error", message, text)
        output = "" if outcome.trial is None else _shown("\n", lines_of(outcome.trial))
    return TestCase(outcome.scenario.name, outcome.name, seconds, problem, output)


def _shown(between: str, parts: Iterable[str]) -> str:
    """Join parts of an outcome without their secrets: where one is hidden as a whole, the others stay."""
    return between.join(map(hidden_text, parts))
