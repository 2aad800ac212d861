"""Outcomes: conversations with their verdicts, and an evaluation as the table of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agui_client._core.ground.display import Displayed
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.files import replace_private
from agui_client.batch._results import kind_of
from agui_client.errors import UsageError
from agui_client.evaluation._rates import Measures, Rate

if TYPE_CHECKING:
    from agui_client._core.ground.prices import Prices
    from agui_client.batch._progress import Summary
    from agui_client.batch._results import RowError
    from agui_client.evaluation._scenarios import Scenario
    from agui_client.evaluation._trials import Trial, Verdict

ALL = "all"
"""The name of the row of all scenarios together."""
_MOST_FAILURES = 20


@dataclass(frozen=True, slots=True, eq=False)
class Outcome(Displayed, Record):
    """One conversation, judged."""

    agent: str
    """The name of the agent; empty if there is only one."""
    scenario: Scenario
    """The scenario."""
    repetition: int
    """The number of the repetition, from 1."""
    trial: Trial | None
    """The conversation; None if it could not be held."""
    verdicts: Mapping[str, Verdict]
    """The verdicts by the names of the checks."""
    error: RowError | None = None
    """The reason why the conversation could not be held."""
    reproduction: Path | None = None
    """The reproduction of a conversation that failed; None if it passed, or nothing was recorded."""
    from_journal: bool = False
    """Whether an earlier start has held the conversation."""
    _folder: object = field(default=None, repr=False)

    @property
    def passed(self) -> bool:
        """Whether the conversation passed all checks."""
        return self.trial is not None and all(verdict.passed for verdict in self.verdicts.values())

    @property
    def failed(self) -> dict[str, Verdict]:
        """The verdicts that are against it."""
        return {name: verdict for name, verdict in self.verdicts.items() if not verdict.passed}

    @property
    def name(self) -> str:
        """The scenario, and the number of the repetition."""
        return f"{self.scenario.name} #{self.repetition}"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Keep the reproduction in another place, such as a folder of tests.

        Args:
            path: The file.

        Raises:
            UsageError: There is no reproduction.
        """
        if self.reproduction is None:
            raise UsageError(f"there is no reproduction of {self.name}: it passed, or was not recorded in this start")
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_private(target, self.reproduction.read_bytes())
        return target

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why it failed, or could not be held, in a line each."""
        if self.error is not None:
            return (f"{self.error.type}: {self.error.message}",)
        return tuple(f"{name}: {verdict.reason}" for name, verdict in self.failed.items())

    @property
    def title(self) -> str:
        """The conversation, and what came of it."""
        came = "could not be held" if self.error is not None else "passed" if self.passed else "failed"
        return f"{self.name} ({self.agent}) {came}" if self.agent else f"{self.name} {came}"

    def __str__(self) -> str:
        return "\n  ".join([self.title, *self.reasons])


class Evaluation(Displayed):
    """The outcomes of an evaluation; its text is a table for people.

    Args:
        summary: The summary of the batch; None if the outcomes come from several.
    """

    def __init__(self, outcomes: Iterable[Outcome], summary: Summary | None = None) -> None:
        self.outcomes: Sequence[Outcome] = tuple(outcomes)
        """All conversations."""
        self.summary = summary
        """The summary of the batch; None if this is a comparison."""

    @property
    def failures(self) -> list[Outcome]:
        """The conversations that were held and failed."""
        return [each for each in self.outcomes if each.trial is not None and not each.passed]

    @property
    def broken(self) -> list[Outcome]:
        """The conversations that could not be held."""
        return [each for each in self.outcomes if each.trial is None]

    @property
    def passed(self) -> bool:
        """Whether every conversation was held and passed."""
        is_complete = self.summary is None or self.summary.is_complete
        return is_complete and all(each.passed for each in self.outcomes)

    @property
    def agents(self) -> list[str]:
        """The names of the agents."""
        return list(dict.fromkeys(each.agent for each in self.outcomes))

    @property
    def rates(self) -> dict[str, dict[str, Rate]]:
        """The rates by scenario and agent, those scenarios first that fail most."""
        found: dict[str, dict[str, Counter[str]]] = {}
        for each in self.outcomes:
            counts = found.setdefault(each.scenario.name, {}).setdefault(each.agent, Counter())
            counts["passed"] += each.passed
            counts["broken" if each.trial is None else "held"] += 1
        rates = {name: {agent: Rate(**counts) for agent, counts in by.items()} for name, by in found.items()}
        return dict(sorted(rates.items(), key=lambda item: min(_share(each) for each in item[1].values())))

    @property
    def totals(self) -> dict[str, Rate]:
        """The rates of all scenarios together, by agent."""
        empty = dict.fromkeys(self.agents, Rate())
        for rates in self.rates.values():
            for agent, rate in rates.items():
                empty[agent] += rate
        return empty

    @property
    def faults(self) -> dict[str, int]:
        """The number of conversations in which the agents broke a rule of the protocol, by agent, rule and severity."""
        found = Counter(
            f"{each.agent}{': ' if each.agent else ''}{fault}"
            for each in self.outcomes
            if each.trial is not None
            for fault in dict.fromkeys(f"{one.rule} ({one.severity})" for one in each.trial.faults)
        )
        return dict(found.most_common())

    def compare(self, later: Evaluation, names: tuple[str, str] = ("before", "after")) -> Evaluation:
        """Return this evaluation and a later one side by side.

        Args:
            later: The later one.
            names: The names under which both stand in the table.
        """
        both = zip(names, (self, later), strict=True)
        return Evaluation(
            _renamed(outcome, f"{name} {outcome.agent}".strip()) for name, each in both for outcome in each.outcomes
        )

    def __str__(self) -> str:
        return text_of(self)

    __repr__ = __str__


def measures_of(evaluation: Evaluation, agent: str, prices: Prices | None = None) -> Measures:
    """Measure the conversations of one agent.

    Args:
        agent: The name of the agent.
        prices: The prices of a million tokens by the names of models.
    """
    held = [each.trial for each in evaluation.outcomes if each.agent == agent and each.trial is not None]
    return Measures.from_trials(held, prices)


def table_of(evaluation: Evaluation, prices: Prices | None = None) -> list[list[str]]:
    """Return the cells of the table: a line of names, and one for each scenario, those that fail most first.

    Behind them come a line for all scenarios together, if there are several, and lines of times, tokens and cost.

    Args:
        prices: The prices of a million tokens by the names of models.
    """
    agents = evaluation.agents
    heads = ["scenario", *(name or "passed" for name in agents), *(["difference"] if len(agents) == 2 else [])]
    lines = [heads]
    by_scenario = evaluation.rates
    totals = {ALL: evaluation.totals} if len(by_scenario) > 1 else {}
    for name, rates in (*by_scenario.items(), *totals.items()):
        both = [rates.get(agent, Rate()) for agent in agents]
        lines.append([name, *map(str, both), *([_difference(both[0], both[1], agents)] if len(agents) == 2 else [])])
    measured = [measures_of(evaluation, agent, prices) for agent in agents]
    rows = {
        "seconds": [_times(each.seconds) for each in measured],
        "first text": [_times(each.first_text) for each in measured],
        "tokens": [str(each.tokens or "") for each in measured],
        "cost": [_cost(each) for each in measured],
    }
    rest = [""] * (len(agents) == 2)
    return [*lines, *([name, *cells, *rest] for name, cells in rows.items() if any(cells))]


def _times(both: tuple[float, float] | None) -> str:
    """Say what half of the times are at most, and 95 in 100."""
    return "" if both is None else f"p50 {both[0]:.2f} s, p95 {both[1]:.2f} s"


def _cost(measured: Measures) -> str:
    """Say what tokens cost, and which models have no price."""
    cost = [] if measured.cost is None else [f"{measured.cost:.4f}"]
    missing = [f"no price of {', '.join(measured.unpriced)}"] if measured.unpriced else []
    return "; ".join([*cost, *missing])


def _difference(one: Rate, other: Rate, names: Sequence[str]) -> str:
    """Say which of two is better, if the interval of the difference excludes zero."""
    for worse, better, name in ((one, other, names[1]), (other, one, names[0])):
        if better.minus(worse)[0] > 0:
            return f"{name} is better"
    return "not certain" if one.passed * other.held != other.passed * one.held else ""


def _share(rate: Rate) -> float:
    return rate.share if rate.held else -1.0


def headline(evaluation: Evaluation) -> str:
    """Return a line about an evaluation."""
    passed = sum(each.passed for each in evaluation.outcomes)
    broken = f", {len(evaluation.broken)} could not be held" if evaluation.broken else ""
    before = sum(each.from_journal for each in evaluation.outcomes)
    journal = f"; {before} of {len(evaluation.outcomes)} from the journal" if before else ""
    summary = evaluation.summary
    left = 0 if summary is None else summary.total - summary.finished
    rest = f"; {left} of {summary.total} not held" if summary is not None and left else ""
    return f"{passed} of {len(evaluation.outcomes)} conversations passed{broken}{rest}{journal}"


def text_of(evaluation: Evaluation, prices: Prices | None = None) -> str:
    """Return an evaluation as a text for people: the table, the failures, and the rules that were broken.

    Args:
        prices: The prices of a million tokens by the names of models.
    """
    return "\n".join([*_table(evaluation, prices), *_failures(evaluation)])


def _table(evaluation: Evaluation, prices: Prices | None) -> list[str]:
    lines = table_of(evaluation, prices)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return [headline(evaluation), *(line.rstrip() for line in padded)]


def _failures(evaluation: Evaluation) -> list[str]:
    same: dict[tuple[str, str, tuple[str, ...]], list[Outcome]] = {}
    for each in (*evaluation.failures, *evaluation.broken):
        kinds = tuple(kind_of(reason) for reason in each.reasons)
        same.setdefault((each.agent, each.scenario.name, kinds), []).append(each)
    lines: list[str] = []
    for first, *others in list(same.values())[:_MOST_FAILURES]:
        lines += [f"{first.title}, as did {len(others)} more" if others else first.title]
        lines += [f"  {reason}" for reason in first.reasons]
    more = [f"and {len(same) - _MOST_FAILURES} other failures"] if len(same) > _MOST_FAILURES else []
    faults = [f"{fault} in {count} conversations" for fault, count in evaluation.faults.items()]
    return [*lines, *more, *(["protocol:", *(f"  {each}" for each in faults)] if faults else [])]


def _renamed(outcome: Outcome, agent: str) -> Outcome:
    return replace(outcome, agent=agent)
