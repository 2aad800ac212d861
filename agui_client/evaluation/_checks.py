"""Checks: what passes and what does not, as functions of a trial."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from agui_client._core.agent.state_watching import Places
from agui_client._core.conversation.state_merging import ABSENT
from agui_client._core.ground.plain_text import cut_short
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.schema import is_object
from agui_client.evaluation._scenarios import place_of
from agui_client.evaluation._trials import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agui_client.evaluation._scenarios import Check, Scenario
    from agui_client.evaluation._trials import CalledTool, Trial

COMPLETES = "completes"
"""The check that every scenario has: the conversation comes to its end."""
_SHOWN = 200


def verdicts_of(scenario: Scenario, trial: Trial) -> dict[str, Verdict]:
    """Judge a trial by the checks of its scenario.

    Args:
        scenario: The scenario.
        trial: The trial.

    Returns:
        The verdicts by the names of the checks.
    """
    verdicts = {COMPLETES: Verdict(trial.error is None, trial.error or "")}
    for name, (_, judge) in _named(scenario.checks).items():
        verdicts[name] = _verdict(judge, trial)
    return verdicts


def check_named(checks: Sequence[Check], name: str) -> tuple[list[Check], str]:
    """Return the check of a name, without those beside it, and its name there; none for the one of every scenario.

    Args:
        checks: The checks.
        name: The name.
    """
    alone = [single for each, (single, _) in _named(checks).items() if each == name]
    return alone, next(iter(_named(alone)), COMPLETES)


def _named(checks: Sequence[Check]) -> dict[str, tuple[Any, Callable[[Trial], Any]]]:
    """Return each single check by its name, with the function that judges."""
    found: dict[str, tuple[Any, Callable[[Trial], Any]]] = {}
    for check in checks:
        single: list[Any] = [check] if callable(check) else [{kind: value} for kind, value in check.items()]
        for each in single:
            name, judge = _judge_of(each)
            # Two functions may have one name, as those without a name have, and long texts one beginning.
            places = (name if number == 1 else f"{name} ({number})" for number in count(1))
            found[next(place for place in places if place not in found)] = each, judge
    return found


def _judge_of(check: Any) -> tuple[str, Callable[[Trial], Any]]:
    if callable(check):
        return place_of(check).partition(":")[2], check
    ((kind, expected),) = check.items()
    return f"{kind}: {_shown(expected)}", partial(_READY[kind], expected)


def _verdict(judge: Callable[[Trial], Any], trial: Trial) -> Verdict:
    try:
        found: object = judge(trial)
    except AssertionError as error:
        return Verdict(False, cut_short(str(error), _SHOWN) or "an assertion failed")
    except Exception as error:  # a slip in one check must not end hundreds of conversations
        return Verdict(False, f"the check itself raised {type(error).__name__}: {cut_short(str(error), _SHOWN)}")
    if isinstance(found, Verdict):
        return found
    if isinstance(found, str):
        return Verdict(False, found)
    # The number of turns, so that a shorter conversation that fails for want of the rest has another reason.
    return Verdict(True) if found is None or found is True else Verdict(False, f"it returned {found!r}{_after(trial)}")


def _said(text: str, trial: Trial) -> str | None:
    if text.casefold() in trial.said.casefold():
        return None
    last = cut_short(trial.turns[-1].text, _SHOWN) if trial.turns else ""
    return f"the agent did not say it{_after(trial)}; its last answer is {_shown(last)}"


def _not_said(text: str, trial: Trial) -> str | None:
    said = (number for number, turn in enumerate(trial.turns, 1) if text.casefold() in turn.said.casefold())
    return None if (number := next(said, None)) is None else f"the agent said it in turn {number}"


def _called(expected: Any, trial: Trial) -> str | None:
    found, times = _calls(expected, trial), expected.get("times") if is_object(expected) else None
    if len(found) == times or (found and times is None):
        return None
    others = ", ".join(f"{each.name}({_shown(each.arguments)})" for each in trial.calls) or "nothing"
    return f"the agent made {len(found)} such calls{_after(trial)}; it called {cut_short(others, 2 * _SHOWN)}"


def _not_called(expected: Any, trial: Trial) -> str | None:
    found = _calls(expected, trial)
    return f"the agent called it in turn {found[0].turn} with {_shown(found[0].arguments)}" if found else None


def _calls(expected: Any, trial: Trial) -> list[CalledTool]:
    wanted: Mapping[str, Any] = {"tool": expected} if isinstance(expected, str) else expected
    arguments: Mapping[str, Any] = wanted.get("arguments", {})
    return [each for each in trial.calls if each.name == wanted["tool"] and _has(each.arguments, arguments)]


def _has(given: Any, expected: Mapping[str, Any]) -> bool:
    return not expected or (
        is_object(given) and all(name in given and is_same_json(given[name], value) for name, value in expected.items())
    )


def _asked(text: str, trial: Trial) -> str | None:
    questions = [each.message or each.reason for each in trial.asked]
    if any(text.casefold() in each.casefold() for each in questions):
        return None
    return f"the agent did not ask it{_after(trial)}; it asked {', '.join(map(_shown, questions)) or 'nothing'}"


def _state(expected: Mapping[str, Any], trial: Trial) -> str | None:
    for path, value in expected.items():
        found = list(Places(path).changes(ABSENT, trial.state))
        if not found:
            return f"the state has no {path}{_after(trial)}"
        for place, actual in found:
            if not is_same_json(actual, value):
                return f"{place} is {_shown(actual)}, not {_shown(value)}{_after(trial)}"
    return None


def _turns_at_most(most: int, trial: Trial) -> str | None:
    return f"it took {len(trial.turns)} turns" if len(trial.turns) > most else None


def _conforms(expected: bool, trial: Trial) -> str | None:
    faults = [f"{each.rule} ({each.severity}): {each.problem}" for each in trial.faults if each.severity != "advice"]
    return "; ".join(faults) or None


def _judged(question: str, trial: Trial) -> Verdict:
    return trial.judged.get(question) or Verdict(False, "the judge was not asked, as the conversation ended too early")


_READY: Mapping[str, Callable[[Any, Trial], Any]] = {
    "said": _said,
    "not_said": _not_said,
    "called": _called,
    "not_called": _not_called,
    "asked": _asked,
    "state": _state,
    "turns_at_most": _turns_at_most,
    "conforms": _conforms,
    "judge": _judged,
}


def _after(trial: Trial) -> str:
    return f" in {len(trial.turns)} turn{'s' * (len(trial.turns) != 1)}"


def _shown(value: Any) -> str:
    return cut_short(json.dumps(value, ensure_ascii=False, default=repr), _SHOWN)
