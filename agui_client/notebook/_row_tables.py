"""Tables of the rows of batches, and of two batches: rows unfold to their chats, and columns sort.

To change

- the tables of batches and of their comparisons: this module, with `notebook/_sortable_table.py` and
  `notebook/_charts.py`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agui_client._core.ground.prices import Prices, cost_of, dollar_text
from agui_client._rendering.story import counted, seconds_text
from agui_client.batch._comparison import BatchComparison, RowChange
from agui_client.batch._results import RowResult
from agui_client.notebook._charts import Charts
from agui_client.notebook._content import beginning, elements_of, preview
from agui_client.notebook._elements import ChatMessage, Details, Element, Line
from agui_client.notebook._sortable_table import Opener, Quantity, SortableTable
from agui_client.notebook._text_differences import differences
from agui_client.notebook._timeline import Wide

if TYPE_CHECKING:
    from agui_client.notebook._elements import Tone

_MOST_ROWS = 200
_MOST_INSPECTED = 20
"""The rows that have their events, too, those that failed before others: a saved notebook has all of it."""
_MOST_KINDS = _MOST_KEYS = 10
"""The kinds of failures that are listed above a table, and the rows that are named for each."""


@elements_of.register
def _(shown: RowResult) -> list[Element]:
    return _whole(shown, None, is_inspected=False)


def table_of_rows(rows: Sequence[RowResult], prices: Prices | None = None) -> list[Element]:
    """Describe rows as a table, below the kinds of their failures; those of several agents stand side by side.

    Args:
        rows: The rows; of very many only some are described, first those that failed.
        prices: The prices of a million tokens by the names of models; None for no cost.
    """
    ordered = sorted(rows)
    by_key: dict[str, dict[str, RowResult]] = {}
    for each in ordered:
        by_key.setdefault(each.key, {})[each.agent] = each
    agents = list(dict.fromkeys(each.agent for each in sorted(rows, key=lambda each: each.agent_number)))
    failed_first = sorted(by_key, key=lambda key: all(each.error is None for each in by_key[key].values()))
    inspected, chosen = set(failed_first[:_MOST_INSPECTED]), set(failed_first[:_MOST_ROWS])
    shown = {key: found for key, found in by_key.items() if key in chosen}
    has_cost = any(_cost(each, prices) is not None for each in ordered)
    lines = [_line(key, found, agents, prices, has_cost) for key, found in shown.items()]
    below = {
        place: _below(list(found.values()), prices, is_inspected=key in inspected)
        for place, (key, found) in enumerate(shown.items())
    }
    heads = ["row", "prompt", *(head for name in agents for head in _heads(name, has_cost))]
    if len(agents) > 1:
        heads.append("same")
    table = SortableTable(heads, lines, below)
    by_agent = {name: [each for each in ordered if each.agent == name] for name in agents}
    left_out = len(by_key) - len(lines)
    rest = [Line(f"{left_out} more rows")] if left_out else []
    return [*_failures(ordered), *_charts(by_agent, prices), table, *rest]


def _charts(sides: Mapping[str, Sequence[RowResult]], prices: Prices | None) -> list[Charts]:
    """Draw the seconds, the tokens and the cost of rows, in their order; those of several agents on one scale."""
    numbers: dict[str, tuple[list[float], list[int], list[float]]] = {}
    for name, rows in sides.items():
        seconds = [each.seconds for each in rows if each.seconds is not None]
        costs = [cost for each in rows if (cost := _cost(each, prices)) is not None]
        numbers[name] = seconds, [each.tokens for each in rows], costs
    return Charts.make(numbers)


def _cost(shown: RowResult, prices: Prices | None) -> float | None:
    """Return the price of the tokens of a row; None if the batch counted no money, and no prices are given."""
    if shown.cost is not None or prices is None or shown.result is None or shown.attempts > 1:
        return shown.cost  # the tokens of attempts that failed are in no result
    cost = cost_of(shown.result.usage, prices)
    return None if cost.unknown else float(cost.dollars)


def _heads(agent: str, has_cost: bool) -> list[str]:
    numbers = ["seconds", "tokens", *(["cost"] if has_cost else [])]
    return [agent, *(f"{agent}: {each}" for each in numbers)] if agent else ["answer", *numbers]


def _failures(rows: Sequence[RowResult]) -> list[Element]:
    """Describe each kind of failure with the rows that have it, the most frequent first."""
    keys: dict[str, list[str]] = {}
    for each in rows:
        if each.error is not None:
            keys.setdefault(each.error.kind, []).append(each.key)
    groups = sorted(keys.items(), key=lambda group: -len(group[1]))
    lines = [Line(f"{counted(len(found), 'failure')}: {kind} · {_some(found)}", "bad") for kind, found in groups]
    left_out = len(lines) - _MOST_KINDS
    return [*lines[:_MOST_KINDS], *([Line(f"{left_out} more kinds of failures", "bad")] if left_out > 0 else [])]


def _some(keys: Sequence[str]) -> str:
    shown = ", ".join(dict.fromkeys(keys[:_MOST_KEYS]))
    return f"rows {shown}, …" if len(keys) > _MOST_KEYS else f"row{'s' if len(keys) > 1 else ''} {shown}"


def _line(
    key: str, found: dict[str, RowResult], agents: Sequence[str], prices: Prices | None, has_cost: bool
) -> list[Element]:
    first = next(iter(found.values()))
    cells: list[Element] = [Opener(key, first.number), Line(beginning(first.prompt))]
    both = _at_difference(*found.values()) if len(found) == len(agents) == 2 else {}
    for name in agents:
        cells += _cells(found.get(name), prices, has_cost, both.get(name))
    if len(agents) > 1:
        ends = {("failed", each.error.kind) if each.error else ("answered", each.text) for each in found.values()}
        is_same = len(found) == len(agents) and len(ends) == 1
        cells.append(Line("same" if is_same else "differs", "dim" if is_same else "bad"))
    return cells


def _cells(shown: RowResult | None, prices: Prices | None, has_cost: bool, answer: Element | None) -> list[Element]:
    """Describe a result: the answer, the seconds, the tokens and their cost."""
    if shown is None:
        return [Line("not finished"), *[Line("")] * (3 if has_cost else 2)]
    took = Line("") if shown.seconds is None else Quantity(shown.seconds, seconds_text(shown.seconds), bar="dim")
    cells: list[Element] = [answer or _answer(shown), took, Quantity(shown.tokens, str(shown.tokens), bar="dim")]
    if has_cost:
        cost = _cost(shown, prices)
        cells.append(Line("") if cost is None else Quantity(cost, dollar_text(cost), bar="dim"))
    return cells


def _at_difference(one: RowResult, other: RowResult) -> dict[str, Element]:
    """Describe two answers from a little before their first difference on, by agent; nothing of others."""
    if one.error or other.error or one.text == other.text:
        return {}
    marked = differences(one.text, other.text)
    return {done.agent: Line(preview(each.around)) for done, each in zip((one, other), marked, strict=True)}


def _answer(shown: RowResult) -> Line:
    return Line(_end(shown), "bad" if shown.error else "dim")


def _end(shown: RowResult) -> str:
    return beginning(f"{shown.error.type}: {shown.error.message}") if shown.error else preview(shown.text) or "no text"


def _below(found: Sequence[RowResult], prices: Prices | None, *, is_inspected: bool) -> list[Element]:
    """Describe what a row unfolds to: where answers differ, the chats, and the runs in the inspector."""
    texts = [each.text for each in found if each.error is None]
    both = _beside(texts, [each.agent for each in found]) if len(texts) == len(found) == 2 else []
    return [*both, *(element for each in found for element in _whole(each, prices, is_inspected=is_inspected))]


def _beside(texts: Sequence[str], heads: Sequence[str]) -> list[Element]:
    """Describe two answers side by side, with marks where they differ; nothing of equal ones."""
    one, other = texts
    return [] if one == other else [Wide(["", *heads], [[Line("≠", "bad"), *differences(one, other)]])]


def _whole(shown: RowResult, prices: Prices | None, *, is_inspected: bool) -> list[Element]:
    chat = [Line(_about(shown), "bad" if shown.error else "good"), *_chat(shown)]
    if not is_inspected or shown.result is None or not shown.result.kept_lines:
        return chat
    return [*chat, Details("the run in the inspector", elements_of(shown.result.inspect(prices=prices)))]


@elements_of.register
def of_comparison(shown: BatchComparison, prices: Prices | None = None) -> list[Element]:
    """Describe the rows that differ in two batches.

    Args:
        shown: The comparison.
        prices: The prices of a million tokens by the names of models; None for no cost.
    """
    all_changed = [each for each in shown.rows if each.change != "same"]
    changed = all_changed[:_MOST_ROWS]
    gravest_first = list(shown.counts)
    both = [done for each in changed for done in (each.before, each.after) if done is not None]
    has_cost = any(_cost(each, prices) is not None for each in both)
    lines = [_change(each, gravest_first.index(each.change), prices)[: None if has_cost else -1] for each in changed]
    below = {place: _of_both(each, prices, is_inspected=place < _MOST_INSPECTED) for place, each in enumerate(changed)}
    heads = [
        "row",
        "agent",
        "prompt",
        "change",
        "before",
        "after",
        "seconds",
        "tokens",
        *(["cost"] if has_cost else []),
    ]
    if not any(each.agent for each in changed):
        heads, lines = [heads[0], *heads[2:]], [[line[0], *line[2:]] for line in lines]
    left_out = len(all_changed) - len(lines)
    table = [SortableTable(heads, lines, below)] if lines else []
    sides = {
        name: [done for each in shown.rows if (done := getattr(each, name)) is not None] for name in ("before", "after")
    }
    tone: Tone = "bad" if "broken" in shown.counts else "good"
    rest = [Line(f"{left_out} more rows")] if left_out else []
    return [Line(str(shown), tone), *_charts(sides, prices), *table, *rest]


def _change(row: RowChange, gravity: int, prices: Prices | None) -> list[Element]:
    """Describe a row of two batches; a head sorts changes by their gravity."""
    some = row.after or row.before
    assert some is not None
    sides = [each for each in (row.before, row.after) if each is not None]
    tone: Tone = "bad" if row.change == "broken" else "good" if row.change == "fixed" else "dim"
    seconds = [each.seconds for each in sides if each.seconds is not None]
    costs = [cost for each in sides if (cost := _cost(each, prices)) is not None]
    return [
        Opener(row.key, some.number),
        Line(row.agent),
        Line(beginning(some.prompt)),
        Quantity(gravity, row.change, tone),
        *_ends(row),
        _grown(seconds, seconds_text),
        _grown([each.tokens for each in sides], "{:.0f}".format),
        _grown(costs, dollar_text),
    ]


def _ends(row: RowChange) -> list[Element]:
    """Describe how a row ended before and after: two answers from a little before their first difference on."""
    if row.before is not None and row.after is not None:
        named = replace(row.before, agent="before"), replace(row.after, agent="after")
        if both := _at_difference(*named):
            return [*both.values()]
    return [Line("") if each is None else _answer(each) for each in (row.before, row.after)]


def _of_both(row: RowChange, prices: Prices | None, *, is_inspected: bool) -> list[Element]:
    """Describe what a row of two batches unfolds to."""
    sides = {"before": row.before, "after": row.after}
    both = []
    if row.change == "changed" and row.before is not None and row.after is not None:
        both = _beside([row.before.text, row.after.text], [*sides])
    return [
        *both,
        *(
            Details(f"{name}: {_end(each)}", _whole(each, prices, is_inspected=is_inspected), is_open=not both)
            for name, each in sides.items()
            if each is not None
        ),
    ]


def _grown(values: Sequence[float], write: Callable[[float], str]) -> Element:
    """Describe how a number changed: a bar is as long as the change, and green if there is less of it."""
    if not values:
        return Line("")
    change = values[-1] - values[0]
    return Quantity(change, " → ".join(map(write, values)), bar="bad" if change > 0 else "good")


def _chat(shown: RowResult) -> list[Element]:
    if shown.result is not None:
        chat = elements_of(shown.result)
    else:
        chat = [
            ChatMessage("user", "user", shown.prompt),
            *([ChatMessage("agent", "agent", shown.text)] if shown.text else []),
        ]
    return [*chat, *([Line(f"{shown.error.type}: {shown.error.message}", "bad")] if shown.error else [])]


def _about(shown: RowResult) -> str:
    took = [] if shown.seconds is None else [seconds_text(shown.seconds)]
    repeated = [f"{shown.attempts} attempts"] if shown.attempts > 1 else []
    before = ["from the journal"] if shown.from_journal else []
    agent = [shown.agent] if shown.agent else []
    return " · ".join([f"row {shown.key}", *agent, *took, f"{shown.tokens} tokens", *repeated, *before])
