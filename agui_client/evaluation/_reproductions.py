"""Reproductions: conversations that failed, to be held again without their agent; `_shrinking` makes them shorter."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agui_client._core.ground.files import file_reason, replace_private
from agui_client._core.ground.secrets import hidden_json, hidden_text
from agui_client._core.protocol.message_text import content_text
from agui_client._core.protocol.schema import is_array, is_object
from agui_client.errors import UsageError
from agui_client.evaluation._evaluation import Plan
from agui_client.evaluation._files import scenarios_in
from agui_client.evaluation._freezing import MEMBERS, scenario_line
from agui_client.evaluation._outcomes import Outcome
from agui_client.evaluation._scenarios import REST, Scenario, place_of
from agui_client.recording._reading import Recording
from agui_client.recording._replay_agent import ReplayAgent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from ag_ui.core import RunAgentInput

    from agui_client._core.agent.agent import AbstractAgent
    from agui_client.evaluation._trials import Trial

    CheckFunction: TypeAlias = Callable[[Trial], Any]
    """A check that is a function."""


@dataclass(frozen=True)
class Reproduction:
    """A conversation that failed: its scenario, with all that was decided in it, and the recording of the agent."""

    content: bytes
    """The lines of the file."""
    path: Path
    """The file, which gives tests their names."""
    checks: Sequence[CheckFunction] = ()
    """The functions among which those are found that the file names as checks."""

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, checks: Iterable[CheckFunction] = ()) -> Reproduction:
        """Read a file, which imports and calls nothing that the file names.

        Args:
            path: The file.
            checks: The functions among which those are found that the file names as checks; it may name fewer.

        Raises:
            UsageError: It cannot be read, or a check is not a function.
        """
        functions = tuple(checks)
        if not all(map(callable, functions)):
            raise UsageError("checks= takes the functions that the reproduction names; it has its other checks itself")
        try:
            return cls(Path(path).read_bytes(), Path(path), functions)
        except OSError as error:
            raise UsageError(f"the reproduction {path} cannot be read: {file_reason(error)}") from error

    @property
    def scenario(self) -> Scenario:
        """The scenario.

        Raises:
            UsageError: The file has none, or it has a member that no reproduction has, or it names a check that is not
                among those given.
        """
        line = next(filter(None, map(scenario_line, self.content.splitlines())), None)
        members: object = None if line is None else line.get("scenario")
        if not is_object(members):
            raise UsageError(f"{self.path} is not a reproduction: it has no scenario; see Outcome.save")
        if foreign := sorted(members.keys() - MEMBERS):
            raise UsageError(
                f"{self.path}: a reproduction is data, and has no {foreign[0]}: only scenarios of yours may"
            )
        members = {**members, "checks": self._found(members.get("checks", [])), "approve": _for_scripts(members)}
        return scenarios_in({"scenarios": [members]}, str(self.path), is_data=True)[0]

    def _found(self, checks: Any) -> Any:
        """Return the checks of the file, with functions for the names among them."""
        if not is_array(checks):
            return checks
        named = Counter(each for each in checks if isinstance(each, str))
        given: dict[str, list[CheckFunction]] = {}
        for function in self.checks:
            given.setdefault(place_of(function), []).append(function)
        for name, count in named.items():
            found = given.get(name, [])
            if not found:
                how = f"checks=[{name.rpartition(':')[2]}]"
                raise UsageError(f"{self.path} names the check {name}, which is not looked for: give it as {how}")
            if 1 < len(found) != count:
                raise UsageError(f"{self.path} has {count} of the {len(found)} checks {name}: give it those alone")
        turns = {name: iter(found if len(found) > 1 else found * named[name]) for name, found in given.items()}
        return [next(turns[each]) if isinstance(each, str) else each for each in checks]

    def replay(self) -> Outcome:
        """Hold the conversation again with the recorded responses; nothing is sent anywhere."""
        return held(self.replayed(), self.scenario)

    def check(self) -> None:
        """Hold the conversation again with the recorded responses, as a test.

        Raises:
            AssertionError: A check fails.
        """
        _require_passed(self.replay())

    def renew(self, agent: AbstractAgent[Any], *, judge: AbstractAgent[Any] | str | None = None) -> Reproduction:
        """Hold the conversation with an agent that was mended, and take its responses instead of the recorded ones.

        Args:
            judge: The agent that judges, if a check needs it.

        Returns:
            The reproduction with the new responses, written to its file.

        Raises:
            AssertionError: A check still fails; then the file stays as it is.
        """
        outcome = held(agent, self.scenario, judge=judge)
        _require_passed(outcome)
        return reproduction_of(outcome).save(self.path)

    def save(self, path: str | os.PathLike[str]) -> Reproduction:
        """Write the file."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_private(target, self.content)
        return Reproduction(self.content, target, self.checks)

    def __str__(self) -> str:
        return self.path.stem

    def replayed(self) -> ReplayAgent[Any]:
        """Return the agent of the recording; it is the judge as well."""
        recording = Recording.parse(self.content, path=self.path)
        # What agents inside of the agent were asked is a part of its reply.
        recording.exchanges[:] = [each for each in recording.exchanges if each.request.parent is None]
        first = next((each.input for each in recording.exchanges), None)
        before: Any = {} if first is None else {"initial_messages": first.messages[:-1]}
        return ReplayAgent(recording, match=_asks_the_same, **before)


def _for_scripts(members: Mapping[str, Any]) -> Any:
    """Return the approvals of a reproduction, for its scripted tools alone: a file approves no function of an agent."""
    policy, tools = members.get("approve"), members.get("tools")
    if policy is None or not is_array(tools):
        return policy
    names = [each["name"] for each in tools if is_object(each) and isinstance(each.get("name"), str)]
    if not is_object(policy):
        return dict.fromkeys(names, policy)
    return {name: policy.get(name, policy.get(REST)) for name in names if name in policy or REST in policy}


def _require_passed(outcome: Outcome) -> None:
    """Raise an error unless an outcome passed: pytest rewrites the asserts of a plugin's package, and -O drops them."""
    if not outcome.passed:
        raise AssertionError(str(outcome))


def held(agent: AbstractAgent[Any], scenario: Scenario, *, judge: AbstractAgent[Any] | str | None = None) -> Outcome:
    """Hold one conversation, whose recording is kept, whatever comes of it.

    Args:
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


def reproduction_of(outcome: Outcome) -> Reproduction:
    """Return the reproduction of a conversation.

    Raises:
        UsageError: There is none.
    """
    if outcome.reproduction is None:
        raise UsageError(f"there is no reproduction of {outcome.name}")
    return Reproduction.read(outcome.reproduction, checks=filter(callable, outcome.scenario.checks))


def without_replay(failure: Outcome) -> list[str]:
    """Return the checks that failed and pass when the reproduction is replayed; a recording has no time and no secrets.

    Args:
        failure: The failure, whose reproduction is replayed.
    """
    replayed = reproduction_of(failure).replay().failed
    return [name for name in failure.failed if name not in replayed]


def reproductions(folder: str | os.PathLike[str], *, checks: Iterable[CheckFunction] = ()) -> list[Reproduction]:
    """Return the reproductions of a folder, for `@pytest.mark.parametrize("each", reproductions("..."), ids=str)`.

    Args:
        folder: The folder; those inside it count, too.
        checks: See `Reproduction.read`.
    """
    functions = tuple(checks)
    return [Reproduction.read(path, checks=functions) for path in sorted(Path(folder).rglob("*.jsonl"))]
