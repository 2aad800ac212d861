"""Shrinking: a conversation that failed is made as short as it can be while it fails for the same reason."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agui_client.errors import UsageError
from agui_client.evaluation._checks import check_named
from agui_client.evaluation._outcomes import Outcome
from agui_client.evaluation._reproductions import Reproduction, held, reproduction_of

if TYPE_CHECKING:
    from agui_client._core.agent.agent import AbstractAgent
    from agui_client.evaluation._scenarios import Line, Scenario


def shrink(
    failure: Outcome | Reproduction | str | os.PathLike[str],
    agent: AbstractAgent[Any] | None = None,
    *,
    reference: AbstractAgent[Any] | None = None,
    judge: AbstractAgent[Any] | str | None = None,
) -> Reproduction:
    """Make a conversation that failed as short as it can be while the same check fails for the same reason.

    Only that check stays. The end is cut off where the check fails without it. Prompts in the middle can be left out
    only if the agent answers anew. What the agent owes may be owed to any prompt, so that a check for it, such as
    `called`, keeps all of them, unless a reference shows which: it passes where the agent fails.

    Args:
        failure: The failure, or its reproduction.
        agent: The agent that failed; without it, nothing is sent anywhere.
        reference: An agent that passes, such as an earlier version.
        judge: The agent that judges, if a check needs it.

    Returns:
        The shortest one, to be saved.

    Raises:
        UsageError: The conversation does not fail when it is held again, or there is no reproduction.
    """
    if isinstance(failure, Outcome):
        whole = reproduction_of(failure)
    else:
        whole = failure if isinstance(failure, Reproduction) else Reproduction.read(failure)
    failed = whole.replay().failed
    if not failed:
        raise UsageError(f"the conversation of {whole.path} does not fail when it is held again")
    name, verdict = next(iter(failed.items()))
    checks, name = check_named(whole.scenario.checks, name)
    alone = whole.scenario.model_copy(update={"checks": checks})
    same = _SameFailure(alone, name, _without_place(verdict.reason), reference, judge)
    cut = _without_end(whole, same)
    return cut if agent is None else _without_middle(cut, same, agent)


@dataclass(frozen=True)
class _SameFailure:
    """A failure, and how it is looked for in a conversation with fewer prompts."""

    scenario: Scenario
    """The scenario, with the check that failed alone."""
    check: str
    """The name of that check."""
    reason: str
    """The reason, without its place."""
    reference: AbstractAgent[Any] | None
    """An agent that passes, if there is one."""
    judge: AbstractAgent[Any] | str | None
    """The agent that judges."""

    def with_prompts(self, says: Sequence[Line], asked: AbstractAgent[Any]) -> Reproduction | None:
        """Return the conversation with these prompts; None if it is another failure, or none."""
        scenario = self.scenario.model_copy(update={"says": says})
        outcome = held(asked, scenario, judge=self.judge)
        found = outcome.failed.get(self.check)
        if found is None:
            return None
        is_same = _without_place(found.reason) == self.reason
        if not is_same and (self.reference is None or not held(self.reference, scenario, judge=self.judge).passed):
            return None
        return reproduction_of(outcome)


def _without_end(reproduction: Reproduction, same: _SameFailure) -> Reproduction:
    """Cut off the prompts behind the failure; the recorded answers are all that is needed."""
    says = same.scenario.says
    shorter = (same.with_prompts(says[:length], reproduction.replayed()) for length in range(1, len(says) + 1))
    return next((found for found in shorter if found is not None), reproduction)


def _without_middle(reproduction: Reproduction, same: _SameFailure, agent: AbstractAgent[Any]) -> Reproduction:
    """Leave out each prompt without which the agent still fails; the last one only if a reference shows that it may."""
    says, at = reproduction.scenario.says, 0
    while at < len(says) - (same.reference is None):
        fewer = [*says[:at], *says[at + 1 :]]
        if fewer and (found := same.with_prompts(fewer, agent)) is not None:
            reproduction, says = found, fewer
        else:
            at += 1
    return reproduction


def _without_place(reason: str) -> str:
    """Return a reason without the numbers of turns, which are others in a shorter conversation."""
    return re.sub(r"\bin turn \d+(?:, \d+)*", "", reason)
