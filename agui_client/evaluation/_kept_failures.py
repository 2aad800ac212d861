"""Cassettes: conversations that failed, to be held again without their agent, and made shorter."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agui_client._core.ground.files import file_reason, write_private
from agui_client._core.ground.secrets import hidden_json, hidden_text
from agui_client._core.protocol.message_text import content_text
from agui_client.errors import UsageError
from agui_client.evaluation._checks import check_named
from agui_client.evaluation._evaluation import Plan
from agui_client.evaluation._files import scenarios_in
from agui_client.evaluation._freezing import is_scenario
from agui_client.evaluation._outcomes import Outcome
from agui_client.evaluation._scenarios import Scenario
from agui_client.recording._reading import Recording
from agui_client.recording._replay_agent import ReplayAgent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ag_ui.core import RunAgentInput

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client.evaluation._scenarios import Check, Line


@dataclass(frozen=True)
class Cassette:
    """A conversation that failed: its scenario, with all that was decided in it, and the recording of the agent."""

    content: bytes
    """The lines of the file."""
    path: Path
    """The file, which gives tests their names."""
    checks: Sequence[Check] | None = None
    """Checks in the place of those in the file; None for those."""

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, checks: Sequence[Check] | None = None) -> Cassette:
        """Read a file.

        Args:
            path: The file.
            checks: Checks in the place of those in the file, as for functions that no module has.

        Raises:
            UsageError: It cannot be read.
        """
        try:
            return cls(Path(path).read_bytes(), Path(path), checks)
        except OSError as error:
            raise UsageError(f"the cassette {path} cannot be read: {file_reason(error)}") from error

    @property
    def scenario(self) -> Scenario:
        """The scenario.

        Raises:
            UsageError: The file has none.
        """
        line = next((each for each in self.content.splitlines() if is_scenario(each)), None)
        if line is None:
            raise UsageError(f"{self.path} is no cassette: it has no scenario; see Outcome.save")
        members: dict[str, Any] = json.loads(line)["scenario"]
        if self.checks is not None:
            members["checks"] = [*self.checks]
        return scenarios_in({"scenarios": [members]}, str(self.path))[0]

    def replay(self) -> Outcome:
        """Hold the conversation again with the recorded answers; nothing is sent anywhere."""
        return held(self.replayed(), self.scenario)

    def check(self) -> None:
        """Hold the conversation again with the recorded answers, as a test.

        Raises:
            AssertionError: A check fails.
        """
        _require_passed(self.replay())

    def renew(self, agent: AbstractAgent[Any], *, judge: AbstractAgent[Any] | str | None = None) -> Cassette:
        """Hold the conversation with an agent that was mended, and take its answers in the place of the recorded ones.

        Args:
            agent: The agent.
            judge: The agent that judges, if a check needs it.

        Returns:
            The cassette with the new answers, written to its file.

        Raises:
            AssertionError: A check still fails; then the file stays as it is.
        """
        outcome = held(agent, self.scenario, judge=judge)
        _require_passed(outcome)
        return _cassette_of(outcome).save(self.path)

    def save(self, path: str | os.PathLike[str]) -> Cassette:
        """Write the file."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_private(target, self.content)
        return Cassette(self.content, target, self.checks)

    def __str__(self) -> str:
        return self.path.stem

    def replayed(self) -> ReplayAgent[Any]:
        """Return the agent of the recording; it is the judge as well."""
        recording = Recording.parse(self.content, path=self.path)
        # What agents inside of the agent were asked is a part of its answer.
        recording.exchanges[:] = [each for each in recording.exchanges if each.request.parent is None]
        first = next((each.input for each in recording.exchanges), None)
        before: Any = {} if first is None else {"initial_messages": first.messages[:-1]}
        return ReplayAgent(recording, match=_asks_the_same, **before)


def _require_passed(outcome: Outcome) -> None:
    """Raise an error unless an outcome passed: pytest rewrites the asserts of a plugin's package, and -O drops them."""
    if not outcome.passed:
        raise AssertionError(str(outcome))


def held(agent: AbstractAgent[Any], scenario: Scenario, *, judge: AbstractAgent[Any] | str | None = None) -> Outcome:
    """Hold one conversation, whose recording is kept, whatever comes of it.

    Args:
        agent: The agent.
        scenario: The scenario.
        judge: The agent that judges; the agent itself if it is a recording.
    """
    if isinstance(agent, ReplayAgent):
        judge = agent
    plan = Plan(agent, scenario, {"judge": judge}, keeps_all=True)
    (outcome,) = [plan.add(done) for done in plan.batch]
    return outcome


def _asks_the_same(recorded: RunAgentInput, asked: RunAgentInput) -> bool:
    return _asked(recorded) == _asked(asked)


def _asked(input: RunAgentInput) -> tuple[str, str, list[Any]]:
    """Return what an input asks last, without secrets, as the recording has it.

    The whole conversation is not compared: history=, context and tools may be those of another program.
    """
    last = input.messages[-1] if input.messages else None
    text = "" if last is None else content_text(getattr(last, "content", None))
    answers = [hidden_json([each.status, each.payload]) for each in input.resume or ()]
    return "" if last is None else last.role, hidden_text(text), answers


def _cassette_of(outcome: Outcome) -> Cassette:
    if outcome.cassette is None:
        raise UsageError(f"there is no cassette of {outcome.name}")
    return Cassette.read(outcome.cassette, checks=outcome.scenario.checks)


def shrink(
    failure: Outcome | Cassette | str | os.PathLike[str],
    agent: AbstractAgent[Any] | None = None,
    *,
    reference: AbstractAgent[Any] | None = None,
    judge: AbstractAgent[Any] | str | None = None,
) -> Cassette:
    """Make a conversation that failed as short as it can be while the same check fails for the same reason.

    Only that check stays. The end is cut off where the check fails without it. Prompts in the middle can be left out
    only if the agent answers anew. What the agent owes may be owed to any prompt, so that a check for it, such as
    `called`, keeps all of them, unless a reference shows which: it passes where the agent fails.

    Args:
        failure: The failure, or its cassette.
        agent: The agent that failed; without it, nothing is sent anywhere.
        reference: An agent that passes, such as an earlier version.
        judge: The agent that judges, if a check needs it.

    Returns:
        The shortest one, to be saved.

    Raises:
        UsageError: The conversation does not fail when it is held again, or there is no cassette.
    """
    if isinstance(failure, Outcome):
        cassette = _cassette_of(failure)
    else:
        cassette = failure if isinstance(failure, Cassette) else Cassette.read(failure)
    failed = cassette.replay().failed
    if not failed:
        raise UsageError(f"the conversation of {cassette.path} does not fail when it is held again")
    name, verdict = next(iter(failed.items()))
    whole = cassette.scenario
    checks, name = check_named(whole.checks, name)
    alone = whole.model_copy(update={"checks": checks})

    def shorter(says: Sequence[Line], asked: AbstractAgent[Any]) -> Cassette | None:
        """Return the conversation with fewer prompts; None if it is another failure, or none."""
        scenario = alone.model_copy(update={"says": says})
        outcome = held(asked, scenario, judge=judge)
        found = outcome.failed.get(name)
        if found is None:
            return None
        is_same = _without_place(found.reason) == _without_place(verdict.reason)
        if not is_same and (reference is None or not held(reference, scenario, judge=judge).passed):
            return None
        return _cassette_of(outcome)

    says = whole.says
    for length in range(1, len(says) + 1):
        if (found := shorter(says[:length], cassette.replayed())) is not None:
            cassette, says = found, says[:length]
            break
    at = 0
    while agent is not None and at < len(says) - (reference is None):
        fewer = [*says[:at], *says[at + 1 :]]
        if fewer and (found := shorter(fewer, agent)) is not None:
            cassette, says = found, fewer
        else:
            at += 1
    return cassette


def _without_place(reason: str) -> str:
    """Return a reason without the number of the turn, which is another in a shorter conversation."""
    return re.sub(r"\bin turn \d+", "", reason)


def cassettes(folder: str | os.PathLike[str]) -> list[Cassette]:
    """Return the cassettes of a folder, for `@pytest.mark.parametrize("cassette", cassettes("..."), ids=str)`.

    Args:
        folder: The folder; those inside it count, too.
    """
    return [Cassette.read(path) for path in sorted(Path(folder).rglob("*.jsonl"))]
