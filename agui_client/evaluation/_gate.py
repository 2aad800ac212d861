"""The gate: whether enough conversations pass, and whether an agent is worse than it was."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from agui_client._core.ground.field_docs import Record
from agui_client.batch._journal import read_journal
from agui_client.errors import UsageError
from agui_client.evaluation._checks import verdicts_of
from agui_client.evaluation._conversing import TRIAL
from agui_client.evaluation._outcomes import ALL, Evaluation, Outcome

if TYPE_CHECKING:
    from agui_client.evaluation._evaluation import Plan
    from agui_client.evaluation._rates import Rate


@dataclass(frozen=True, slots=True)
class Worsening(Record):
    """A scenario that passes less often than in the baseline."""

    scenario: str
    """The name of the scenario; "all" for all together."""
    agent: str
    """The name of the agent; empty if there is only one."""
    before: Rate
    """The rate in the baseline."""
    after: Rate
    """The rate now."""

    @property
    def is_certain(self) -> bool:
        """Whether the 95 % interval of the difference excludes zero."""
        return self.after.minus(self.before)[1] < 0

    def __str__(self) -> str:
        least, most = (round(100 * bound) for bound in self.after.minus(self.before))
        shares = f"{100 * self.before.share:.0f} % → {100 * self.after.share:.0f} %"
        excludes = "excludes zero: worse" if self.is_certain else "has zero in it: not certain"
        name = f"{self.scenario} ({self.agent})" if self.agent else self.scenario
        return f"{name}: {shares}; the 95 % interval of the difference, {least} to {most} points, {excludes}"


def read_baseline(path: str | os.PathLike[str], plan: Plan) -> Evaluation:
    """Judge the conversations of an earlier journal by the checks of today.

    Args:
        path: The journal.
        plan: The conversations of today; those of scenarios with another name or another text are left out.

    Raises:
        UsageError: The file is not a journal of an evaluation, or has none of these conversations.
    """
    return Evaluation(_outcomes(Path(path), plan))


def _outcomes(path: Path, plan: Plan) -> Iterator[Outcome]:
    found = False
    for done in read_journal(path):
        scenario = plan.scenario_of(done.prompt)
        if scenario is None:
            continue
        try:
            trial = None if done.parsed is None else TRIAL.validate_python(done.parsed)
        except ValidationError as error:
            raise UsageError(f"{path} is not a journal of an evaluation: row {done.key}") from error
        found = True
        verdicts = {} if trial is None else verdicts_of(scenario, trial)
        repetition = 1 if trial is None else trial.repetition
        yield Outcome(done.agent, scenario, repetition, trial, verdicts, done.error, from_journal=True)
    if not found:
        raise UsageError(f"the baseline {path} has no conversation of these scenarios")


def worse(now: Evaluation, before: Evaluation) -> list[Worsening]:
    """Return the scenarios, and all together, that pass less often than before.

    Args:
        now: The evaluation.
        before: The baseline; if both have one agent, its name does not matter.
    """
    is_single = len(now.agents) == len(before.agents) == 1
    found: list[Worsening] = []
    for agent in now.agents:
        other = before.agents[0] if is_single else agent
        for name, rates in (*now.rates.items(), (ALL, now.totals)):
            earlier = before.totals if name == ALL else before.rates.get(name, {})
            one, two = earlier.get(other), rates.get(agent)
            if one is not None and two is not None and one.held and two.held and two.share < one.share:
                found.append(Worsening(name, agent, one, two))
    return found


def below(evaluation: Evaluation, least: float) -> list[str]:
    """Return a sentence for each scenario, and each agent as a whole, of which too few conversations pass.

    Args:
        least: The least share, from 0 to 1.
    """
    rates: Iterable[tuple[str, dict[str, Rate]]] = (*evaluation.rates.items(), (ALL, evaluation.totals))
    return [
        f"{f'{name} ({agent})' if agent else name}: "
        + (f"{rate.passed} of {rate.held} is below {100 * least:g} %" if rate.held else "no conversation was held")
        for name, by_agent in rates
        for agent, rate in by_agent.items()
        if not rate.held or rate.share < least
    ]
