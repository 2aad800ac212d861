"""Evaluations: scenarios, several times, with one agent or several side by side, on a batch.

Each conversation is a row of `run_many`: its journal, pace, retries and bar are those of the batch. Here the plan is
made, and trials are judged as they come.
"""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack
from zlib import crc32

from typing_extensions import TypedDict

from agui_client._core.agent.agent import AbstractAgent
from agui_client._core.ground.files import file_reason, place_beside
from agui_client._core.protocol.schema import is_a
from agui_client._core.run.options import checked_options, lists_keywords
from agui_client._core.transport.timeouts import check_number
from agui_client.batch._batch import Agents, Batch, agents_by_name, run_many
from agui_client.batch._workers import made_agent
from agui_client.errors import UsageError
from agui_client.evaluation._checks import verdicts_of
from agui_client.evaluation._conversing import Planned, ScenarioAgent, identity_of
from agui_client.evaluation._files import read_scenarios
from agui_client.evaluation._freezing import make_reproduction, reproduction_file
from agui_client.evaluation._outcomes import Evaluation, Outcome
from agui_client.evaluation._scenarios import Scenario
from agui_client.evaluation._trials import Trial, Verdict
from agui_client.recording._reading import Recording

if TYPE_CHECKING:
    from agui_client.batch._pace import Budget, RowRetry
    from agui_client.batch._results import RowResult


_LONGEST_NAME = 150
"""Bytes of the name of a reproduction, behind which come a number and the ending; file systems take 255."""
Scenarios: TypeAlias = Scenario | Iterable[Scenario] | str | os.PathLike[str]
"""Scenarios, or a file of them."""


class EvaluationOptions(TypedDict, total=False):
    """The keywords of `evaluate`."""

    repeat: int
    """The number of conversations in each scenario with each agent; 1 if left out."""
    user: AbstractAgent[Any] | str | None
    """The agent that plays the user in scenarios that name none: also by its URL or as "openai:gpt-5"."""
    judge: AbstractAgent[Any] | str | None
    """The agent that judges in scenarios that name none."""
    keep: str | os.PathLike[str] | None
    """The folder for reproductions of conversations that failed; if left out, "JOURNAL.failures", or without a
    journal a folder that is removed with the evaluation."""
    journal: str | os.PathLike[str] | None
    """The file that has a line for each conversation; the next start with it resumes there. See `run_many`."""
    at_once: int
    """The number of conversations at once; 10 if left out."""
    rerun_failed: bool
    """Whether conversations that could not be held in an earlier start are held again."""
    per_minute: float | None
    """The most conversations to begin in a minute."""
    retry: RowRetry | int | None
    """The policy for conversations that could not be held; see `run_many`."""
    budget: Budget | None
    """The most that this start may use; see `run_many`."""


@lists_keywords(EvaluationOptions)
async def evaluate(agents: Agents, scenarios: Scenarios, **options: Unpack[EvaluationOptions]) -> Evaluation:
    """Hold the conversations of scenarios with an agent, or with several side by side, and check them.

    Args:
        agents: The agent, a function that makes it, or several by name; each conversation has a clone.
        scenarios: The scenarios, or a file of them (.yaml, .json).
        options: See `EvaluationOptions`.

    Returns:
        The evaluation; conversations that failed are in it, not raised.

    Raises:
        UsageError: An agent, a scenario or an option is wrong, or the journal belongs to other scenarios.
    """
    plan = Plan(agents, scenarios, options)
    async with aclosing(aiter(plan.batch)) as finished:
        async for done in finished:
            plan.add(done)
    return plan.evaluation()


@lists_keywords(EvaluationOptions)
def evaluate_sync(agents: Agents, scenarios: Scenarios, **options: Unpack[EvaluationOptions]) -> Evaluation:
    """`evaluate` for code without `await`: scripts, threads, and notebooks with a running loop.

    Args:
        agents: The agent, a function that makes it, or several by name.
        scenarios: The scenarios, or a file of them.
        options: See `EvaluationOptions`.

    Returns:
        The evaluation.

    Raises:
        UsageError: As `evaluate`.
    """
    plan = Plan(agents, scenarios, options)
    # Closed here, and not with the traceback: Ctrl-C may come while a conversation is judged.
    with closing(iter(plan.batch)) as finished:
        for done in finished:
            plan.add(done)
    return plan.evaluation()


class Plan:
    """The conversations to hold, and their outcomes so far.

    Args:
        options: The keywords of `evaluate`.
        keeps_all: Whether reproductions of conversations that passed are kept, too.
        look: Called with each outcome and its recording; None for nobody.

    Raises:
        UsageError: One of them is wrong.
    """

    def __init__(
        self,
        agents: Agents,
        scenarios: Scenarios,
        options: EvaluationOptions,
        *,
        keeps_all: bool = False,
        look: Callable[[Outcome, Recording], object] | None = None,
    ) -> None:
        given = checked_options(options, EvaluationOptions, "evaluate")
        repeat, journal, keep = given.pop("repeat", 1), given.get("journal"), given.pop("keep", None)
        helpers = {"user": given.pop("user", None), "judge": given.pop("judge", None)}
        check_number("repeat", repeat, least=1, is_whole=True)
        self._folder = _Folder() if keep is None and journal is None else None
        folder = Path(keep or f"{journal}.failures") if self._folder is None else self._folder.path
        if keep is not None:
            _check_folder(folder)
        rows = [
            _Row.make(scenario, helpers, number) for scenario in _listed(scenarios) for number in range(1, repeat + 1)
        ]
        self._identities: dict[str, str] = {}
        self._planned: dict[str, dict[str, Planned]] = {}
        self._keeps_all, self._look = keeps_all, look
        self._scenarios = {_without_number(row.prompt): row.scenario for row in rows}
        self._outcomes: dict[tuple[int, int], Outcome] = {}
        holding: dict[str, ScenarioAgent] = {}
        named = agents_by_name(agents)
        folders, files = {"": "", **_file_names(named.keys() - {""})}, _file_names([row.key for row in rows])
        for name, source in named.items():
            if isinstance(source, str):
                raise UsageError("evaluate() takes agents, or functions that make them; of an address, HttpAgent(url)")
            self._planned[name] = {
                row.prompt: Planned(row.scenario, row.repetition, folder / folders[name] / f"{files[row.key]}.jsonl")
                for row in rows
            }
            tested = made_agent(source)
            self._identities[name] = identity_of(tested)
            holding[name] = ScenarioAgent(tested, self._planned[name])
        of_batch: Any = given
        self.batch: Batch[Trial] = run_many(
            holding.get("", holding),
            [{"key": row.key, "prompt": row.prompt} for row in rows],
            key="key",
            parse=Trial,
            **of_batch,
        )
        """The batch."""
        self.batch.hide_secrets_in_journal()
        self.batch.check_journal(self._check_agent)
        self.batch.name_rows("conversations")

    def add(self, done: RowResult[Trial]) -> Outcome:
        """Judge a conversation that is finished, and keep it if it failed."""
        planned = self._planned[done.agent][done.prompt]
        trial = done.parsed
        verdicts = {} if trial is None else verdicts_of(planned.scenario, trial)
        outcome = Outcome(done.agent, planned.scenario, planned.repetition, trial, verdicts, done.error)
        outcome = replace(outcome, from_journal=done.from_journal, _folder=self._folder)
        if trial is not None and (self._keeps_all or not outcome.passed):
            outcome = replace(outcome, reproduction=_kept(planned, trial, is_before=done.from_journal))
        elif trial is not None:
            draft = planned.draft(trial.thread_id)
            if self._look is not None and draft.exists():
                self._look(outcome, Recording.read(draft))
            draft.unlink(missing_ok=True)
        if self._look is not None and outcome.reproduction is not None:
            self._look(outcome, Recording.read(outcome.reproduction))
        if trial is not None and not outcome.passed:
            self.batch.reject(done, "a check failed")
        self._outcomes[done.number, list(self._planned).index(done.agent)] = outcome
        return outcome

    def _check_agent(self, done: RowResult[Trial]) -> None:
        """Raise an error if the journal has the conversation of another agent."""
        trial, agent = done.parsed, self._identities[done.agent]
        if trial is not None and trial.agent != agent:
            whose = f"{done.key} of the agent {trial.agent or 'of an earlier version'}"
            raise UsageError(f"the journal has {whose}, and this one is {agent}; give another journal")

    def scenario_of(self, prompt: str) -> Scenario | None:
        """Return the scenario of a row in a journal, whatever its repetition; None if it is none of these.

        Args:
            prompt: The prompt of the row.
        """
        return self._scenarios.get(_without_number(prompt))

    def evaluation(self) -> Evaluation:
        """Return the evaluation of what is finished, in the order of the scenarios."""
        return Evaluation([outcome for _, outcome in sorted(self._outcomes.items())], self.batch.summary)


def _check_folder(folder: Path) -> None:
    """Raise an error if files cannot be put into a folder, before anything is sent; make it if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        Path(mkdtemp(dir=folder)).rmdir()
    except OSError as error:
        raise UsageError(f"keep: reproductions cannot be put into {folder}: {file_reason(error)}") from error


def _kept(planned: Planned, trial: Trial, *, is_before: bool) -> Path | None:
    """Return the reproduction of a conversation, which is made unless an earlier start has made it."""
    path, draft = planned.path, planned.draft(trial.thread_id)
    if is_before:
        found = reproduction_file(trial.thread_id, sorted(path.parent.glob(f"{escape(path.stem)}*.jsonl")))
        if found is not None:
            draft.unlink(missing_ok=True)
            return found
    if not draft.exists():
        return None
    make_reproduction(draft, planned.scenario, trial)
    return place_beside(draft, path)


class _Folder:
    """A folder that goes with the last outcome that refers to it."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="agui-evaluation-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True)
class _Row:
    """A conversation of all agents."""

    scenario: Scenario
    repetition: int
    key: str
    prompt: str

    @classmethod
    def make(cls, scenario: Scenario, helpers: Mapping[str, Any], repetition: int) -> _Row:
        """Make the row of a repetition; the digest in its prompt refuses the journal of another scenario."""
        given = {name: each for name, each in helpers.items() if getattr(scenario, name) is None}
        whole = scenario.model_copy(update=given)
        key = f"{scenario.name} #{repetition}"
        for name, is_needed, member in (("user", whole.goal, "goal"), ("judge", whole.questions, "the check judge")):
            if is_needed and getattr(whole, name) is None:
                who = "an agent that plays the user" if name == "user" else "an agent"
                raise UsageError(f"{scenario.name}: {member}: needs {name}:, {who}")
        helped = {name: helper(getattr(whole, name), name) for name in helpers}
        return cls(whole.model_copy(update=helped), repetition, key, f"{key} ({whole.digest})")


def _without_number(prompt: str) -> str:
    """Return the prompt of a row without the number of the repetition."""
    return re.sub(r" #\d+( \(\w+\))$", r"\1", prompt)


def _listed(scenarios: Scenarios) -> list[Scenario]:
    if isinstance(scenarios, str | os.PathLike):
        return read_scenarios(scenarios)
    listed = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    if not listed or not all(is_a(each, Scenario) for each in listed):
        raise UsageError("evaluate() takes scenarios: Scenario(...), a list of them, or a file")
    names = Counter(each.name for each in listed)
    if doubled := [name for name, count in names.items() if count > 1]:
        raise UsageError(f"two scenarios are named {doubled[0]!r}")
    return listed


def _file_names(names: Collection[str]) -> dict[str, str]:
    """Return names as those of files; where two would be the same or one too long, with a checksum."""
    plain = {name: re.sub(r"[^\w.-]+", "-", name).strip("-.") for name in names}
    short = {name: made.encode()[:_LONGEST_NAME].decode(errors="ignore") for name, made in plain.items()}
    counts = Counter(plain.values())
    return {
        name: made if counts[made] == 1 and made and made == plain[name] else f"{made}{crc32(name.encode()):08x}"
        for name, made in short.items()
    }


def helper(given: AbstractAgent[Any] | str | None, role: str) -> AbstractAgent[Any] | None:
    """Return the agent that plays the user, or judges.

    Args:
        given: The agent, its URL, or the name of a model, such as "openai:gpt-5" (extra `llm`).
        role: "user" or "judge".

    Raises:
        UsageError: The model cannot be used.
    """
    if not isinstance(given, str):
        return given
    if given.lower().startswith(("http://", "https://")):
        from agui_client._core.agent.http_agent import HttpAgent

        return HttpAgent(given)
    try:
        from agui_client.llm import LLMAgent
    except ImportError as error:
        raise UsageError(f"{role}: {given}: {error}") from error
    return LLMAgent(given, output_type=Verdict if role == "judge" else str)
