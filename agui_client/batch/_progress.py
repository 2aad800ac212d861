"""The progress of a batch, and its summary at the end."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from agui_client._core.ground.display import Displayed
from agui_client._core.ground.field_docs import Record
from agui_client._core.ground.plain_text import cut_short
from agui_client._core.ground.prices import dollar_text

if TYPE_CHECKING:
    from agui_client._core.ground.prices import Cost
    from agui_client.batch._results import RowResult

_RECENT = 200
"""The number of finished rows that the rate is taken from."""
_LATE = 0.95
_MOST_KINDS, _LONGEST_KIND = 10, 200
"""The kinds of errors that the text of a summary has, and the characters of one."""


@dataclass(frozen=True, slots=True)
class Progress(Displayed, Record):
    """The progress of a batch; its text is a line for people."""

    total: int
    """The number of rows; with several agents, each counts."""
    finished: int
    """The number of rows that are finished, those of the journal and failed ones included."""
    from_journal: int
    """The number of rows that an earlier start finished."""
    failed: int
    """The number of finished rows without a reply."""
    running: int
    """The number of rows that are running."""
    tokens: int
    """The number of tokens that this start used."""
    seconds: float
    """The seconds since this start."""
    per_minute: float | None
    """The number of rows that are finished in a minute, of late; None before the first."""
    seconds_left: float | None
    """The seconds until the end, at this rate; None before the first row."""
    noun: str = "rows"
    """The word for the rows."""

    def __str__(self) -> str:
        parts = [f"{self.finished}/{self.total} {self.noun}", f"{self.failed} failed"]
        if self.per_minute is not None and self.seconds_left is not None:
            parts += [f"{self.per_minute:.0f} a minute", f"{_duration(self.seconds_left)} left"]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class AgentSummary(Record):
    """The rows of one agent."""

    finished: int
    """The number of finished rows."""
    failed: int
    """The number of those without a reply."""
    tokens: int
    """The number of tokens."""
    cost: float | None
    """The price of the tokens of rows whose cost is known; None if no row has one."""
    median_seconds: float | None
    """The time that half of the replies took at most; None without a reply."""
    late_seconds: float | None
    """The time that 95 in 100 replies took at most; None without a reply."""


@dataclass(frozen=True, slots=True)
class Summary(Displayed, Record):
    """The summary of a batch; its text is a few lines for people."""

    total: int
    """The number of rows; with several agents, each counts."""
    finished: int
    """The number of finished rows, those of the journal and failed ones included."""
    from_journal: int
    """The number of rows that an earlier start finished."""
    failed: int
    """The number of finished rows without a reply."""
    tokens: int
    """The number of tokens of all finished rows, those of the journal included."""
    seconds: float
    """The seconds that this start took."""
    cost: float | None = None
    """The price of these tokens in US dollars, as far as it is known; None if the budget counts no money."""
    unpriced: Sequence[str] = ()
    """The models that have no price: in a budget without "*" among its prices, the first of them stops the batch."""
    stopped_by: str | None = None
    """The budget that stopped the batch: "rows", "tokens", "cost", "seconds" or "failures"; None if none did."""
    errors: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of failed rows by the kind of the error (`RowError.kind`), the most frequent first."""
    agents: Mapping[str, AgentSummary] = field(default_factory=dict[str, AgentSummary])
    """The rows of each agent by its name, in the order in which they were given; a single agent's name is empty."""
    noun: str = "rows"
    """The word for the rows."""

    @property
    def is_complete(self) -> bool:
        """Whether every row is finished."""
        return self.finished == self.total

    def __str__(self) -> str:
        before = f", {self.from_journal} of them before" if self.from_journal else ""
        lines = [
            f"{self.finished} of {self.total} {self.noun} in {_duration(self.seconds)}{before}: {self.failed} failed"
        ]
        kinds = [f"  {count} {cut_short(kind, _LONGEST_KIND)}" for kind, count in self.errors.items()]
        lines += kinds if len(kinds) <= _MOST_KINDS else [*kinds[:_MOST_KINDS], f"  {len(kinds) - _MOST_KINDS} others"]
        for name, each in self.agents.items():
            took = (
                ""
                if each.median_seconds is None
                else f"median {each.median_seconds:.1f} s, 95 % within {each.late_seconds:.1f} s, "
            )
            spent = "" if each.cost is None else f", {dollar_text(each.cost)}"
            lines.append(f"{name or 'agent'}: {took}{each.tokens} tokens{spent}, {each.failed} failed")
        if self.unpriced:
            lines.append(f"there is no price of {', '.join(self.unpriced)}; see Budget(prices=...)")
        if self.stopped_by is not None:
            lines.append(
                f"stopped by the budget of {self.stopped_by}; {self.total - self.finished} {self.noun} are left"
            )
        return "\n".join(lines)


class Counts:
    """Counts the rows of a batch.

    Args:
        total: The number of rows.
        agents: The names of the agents in their order.
        limit: The US dollars that may be spent; None for any.
    """

    def __init__(self, total: int, agents: Iterable[str], limit: Decimal | None = None) -> None:
        self.agents: tuple[str, ...] = tuple(agents)
        self.total: int = total
        self.running: int = 0
        self.tokens: int = 0
        self.stopped_by: str | None = None
        self.noun: str = "rows"
        self.begun = 0
        self.failed_now: int = 0
        self._finished = self._from_journal = 0
        self._started = time.perf_counter()
        self._ended: float | None = None
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._errors: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._costs: dict[str, float] = {}
        self._limit, self._spent = limit, Decimal()
        self._unknown, self._assumed = dict[str, None](), dict[str, None]()
        self._times: defaultdict[str, list[float]] = defaultdict(list)
        self._rows: Counter[str] = Counter()

    def start(self) -> None:
        """Begin to measure time."""
        self._started = time.perf_counter()

    def end(self) -> None:
        """Stop measuring time."""
        self._ended = time.perf_counter()

    def add(self, done: RowResult) -> None:
        """Count a finished row."""
        self._finished += 1
        self._rows[done.agent] += 1
        self._tokens[done.agent] += done.tokens
        if done.cost is not None:
            self._costs[done.agent] = self._costs.get(done.agent, 0) + done.cost
        if done.error is not None:
            self._errors[done.error.kind] += 1
            self._failed[done.agent] += 1
        elif done.seconds is not None:
            self._times[done.agent].append(done.seconds)
        if done.from_journal:
            self._from_journal += 1
            return
        self.tokens += done.tokens
        self.failed_now += done.error is not None
        self._recent.append(time.perf_counter())

    def reject(self, agent: str, why: str) -> None:
        """Count a finished row that has a reply as failed.

        Args:
            agent: The name of the agent.
            why: The kind of the failure.
        """
        self._errors[why] += 1
        self._failed[agent] += 1

    def spend(self, cost: Cost) -> None:
        """Count what a row of this start cost."""
        self._spent += cost.dollars
        self._unknown |= dict.fromkeys(cost.unknown)
        self._assumed |= dict.fromkeys(cost.assumed)

    @property
    def is_spent(self) -> bool:
        """Whether this start has spent what it may, or nobody knows what it has."""
        return self._limit is not None and (self._spent >= self._limit or bool(self._unknown))

    def progress(self) -> Progress:
        """Return how far the batch is."""
        now = self._now()
        rate = left = None
        if self._recent:
            # The window begins with the start until it is full.
            is_full = len(self._recent) == _RECENT
            since = self._recent[0] if is_full else self._started
            rate = 60 * (len(self._recent) - is_full) / max(now - since, 1e-6)
            left = 60 * (self.total - self._finished) / rate if rate else None
        return Progress(
            total=self.total,
            finished=self._finished,
            from_journal=self._from_journal,
            failed=self._errors.total(),
            running=self.running,
            tokens=self.tokens,
            seconds=now - self._started,
            per_minute=rate,
            seconds_left=left,
            noun=self.noun,
        )

    def summary(self) -> Summary:
        """Sum up the batch."""
        return Summary(
            total=self.total,
            finished=self._finished,
            from_journal=self._from_journal,
            failed=self._errors.total(),
            tokens=self._tokens.total(),
            seconds=self._now() - self._started,
            cost=sum(self._costs.values()) if self._costs else None,
            unpriced=(*self._unknown, *self._assumed),
            stopped_by=self.stopped_by,
            errors=dict(self._errors.most_common()),
            agents={name: self._of_agent(name) for name in self.agents if self._rows[name]},
            noun=self.noun,
        )

    def _of_agent(self, name: str) -> AgentSummary:
        times = sorted(self._times[name])
        return AgentSummary(
            finished=self._rows[name],
            failed=self._failed[name],
            tokens=self._tokens[name],
            cost=self._costs.get(name),
            median_seconds=times[(len(times) - 1) // 2] if times else None,
            late_seconds=times[int((len(times) - 1) * _LATE)] if times else None,
        )

    def _now(self) -> float:
        return time.perf_counter() if self._ended is None else self._ended


def _duration(seconds: float) -> str:
    """Return a time for people."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
