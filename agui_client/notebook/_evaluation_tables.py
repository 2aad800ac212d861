"""Displays of evaluations: the table of rates, whose rows unfold to the conversations that failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from agui_client._core.ground.prices import Prices
from agui_client.evaluation._outcomes import Evaluation, Outcome, headline, table_of
from agui_client.evaluation._rates import Measures, Rate
from agui_client.inspector._summary import summary_of
from agui_client.notebook._charts import Charts
from agui_client.notebook._content import conversation, elements_of
from agui_client.notebook._elements import Bar, Details, Element, Line, Table
from agui_client.notebook._recording_elements import of_recording
from agui_client.notebook._sortable_table import Opener, Quantity, SortableTable
from agui_client.recording import Recording, RecordingError

_MOST = 20
"""The conversations of an agent that a scenario unfolds to, and those of all that have their events, too."""


@elements_of.register
def of_evaluation(shown: Evaluation, prices: Prices | None = None) -> list[Element]:
    """Describe an evaluation: the rates, the conversations that failed, and what all of them took.

    Args:
        shown: The evaluation.
        prices: The prices of a million tokens by the names of models; None for no cost.
    """
    passed, total = sum(each.passed for each in shown.outcomes), len(shown.outcomes)
    heads, *lines = table_of(shown, prices)
    scenarios = [(name, rates, lines[place]) for place, (name, rates) in enumerate(shown.rates.items())]
    inspected = [each for each in shown.outcomes if not each.passed][:_MOST]
    below = [_failed(shown, name, inspected, prices) for name, _, _ in scenarios]
    rows = [_row(shown, *each, can_open=bool(below[place])) for place, each in enumerate(scenarios)]
    together = [[Line(cell) for cell in line] for line in lines[len(scenarios) :]]
    return [
        Bar(passed, total - passed, total),
        Line(headline(shown), "good" if shown.passed else "bad"),
        *_charts(shown, prices),
        SortableTable(heads, rows, dict(enumerate(below))),
        *([Table(["all together", *heads[1:]], together)] if together else []),
        *(Line(f"{fault} in {count} conversations", "bad") for fault, count in shown.faults.items()),
    ]


def _row(
    shown: Evaluation, name: str, rates: Mapping[str, Rate], line: Sequence[str], *, can_open: bool
) -> list[Element]:
    """Describe the rates of a scenario."""
    cells: list[Element] = [Opener(name) if can_open else Line(name)]
    for agent, text in zip(shown.agents, line[1:], strict=False):
        rate = rates.get(agent, Rate())
        is_good = rate.passed == rate.held and not rate.broken
        cells.append(Quantity(rate.share if rate.held else 0.0, text, "dim" if is_good else "bad", "good", 1.0))
    return [*cells, *map(Line, line[len(cells) :])]


def _failed(shown: Evaluation, name: str, inspected: Sequence[Outcome], prices: Prices | None) -> list[Element]:
    """Describe the conversations of a scenario that failed, of each agent some."""
    own = [each for each in shown.outcomes if each.scenario.name == name and not each.passed]
    by_agent = [[each for each in own if each.agent == agent] for agent in shown.agents]
    return [
        _outcome(each, _inspected(each, prices) if each in inspected else [])
        for failed in by_agent
        for each in failed[:_MOST]
    ]


def _inspected(shown: Outcome, prices: Prices | None) -> list[Element]:
    """Describe the recording of a conversation; nothing if there is none any more."""
    if shown.reproduction is None:
        return []
    with suppress(OSError, RecordingError):
        recorded = summary_of(Recording.read(shown.reproduction), prices)
        return [Details("the conversation in the inspector", of_recording(recorded, prices))]
    return []


def _charts(shown: Evaluation, prices: Prices | None) -> list[Charts]:
    """Draw the seconds, the tokens and the cost of conversations; those of several agents on one scale."""
    sides: dict[str, tuple[list[float], list[int], list[float]]] = {}
    for agent in shown.agents:
        held = [each.trial for each in shown.outcomes if each.agent == agent and each.trial is not None]
        costs = [cost for each in held if (cost := Measures.from_trials([each], prices).cost) is not None]
        sides[agent] = [each.seconds for each in held], [each.tokens for each in held], costs
    return Charts.make(sides)


@elements_of.register
def _(shown: Outcome) -> list[Element]:
    return [_outcome(shown, _inspected(shown, None))]


def _outcome(shown: Outcome, inspected: Sequence[Element]) -> Element:
    reasons = [Line(reason, "bad") for reason in shown.reasons]
    chat = [] if shown.trial is None else conversation(shown.trial.messages)
    return Details(shown.title, [*reasons, *chat, *inspected], "good" if shown.passed else "bad")
