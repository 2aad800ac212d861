"""Displays of evaluations: the table of rates, whose cells unfold to the conversations that failed."""

from __future__ import annotations

from collections.abc import Iterator

from agui_client.evaluation._outcomes import Evaluation, Outcome, headline, table_of
from agui_client.notebook._content import conversation, elements_of
from agui_client.notebook._elements import Bar, Details, Element, Line, Table

_MOST = 20


@elements_of.register
def _(shown: Evaluation) -> list[Element]:
    passed, total = sum(each.passed for each in shown.outcomes), len(shown.outcomes)
    heads, *rows = table_of(shown)
    table = Table(heads, [list(_cells(shown, heads, row)) for row in rows])
    faults = [Line(f"{fault} in {count} conversations", "bad") for fault, count in shown.faults.items()]
    return [
        Bar(passed, total - passed, total),
        Line(headline(shown), "good" if shown.passed else "bad"),
        table,
        *faults,
    ]


def _cells(shown: Evaluation, heads: list[str], row: list[str]) -> Iterator[Element]:
    """Yield the cells of a scenario: those of agents with failures unfold."""
    for place, text in enumerate(row):
        agent = shown.agents[place - 1] if 0 < place <= len(shown.agents) else None
        own = [
            each for each in shown.outcomes if (each.scenario.name, each.agent) == (row[0], agent) and not each.passed
        ]
        failed = [element for each in own[:_MOST] for element in elements_of(each)]
        yield Details(text, failed, "bad") if failed else Line(text)


@elements_of.register
def _(shown: Outcome) -> list[Element]:
    reasons = [Line(reason, "bad") for reason in shown.reasons]
    chat = [] if shown.trial is None else conversation(shown.trial.messages)
    return [Details(shown.title, [*reasons, *chat], "good" if shown.passed else "bad")]
