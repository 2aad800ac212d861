"""Checks: what passes and what does not, as functions of a trial."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from agui_client._core.agent.state_watching import Places
from agui_client._core.conversation.state_merging import ABSENT
from agui_client._core.ground.plain_text import cut_short
from agui_client._core.protocol.message_text import tool_calls_in
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.tools.json_schema import bound_by_schema
from agui_client.errors import ToolError
from agui_client.evaluation._scenarios import LinearPattern, place_of
from agui_client.evaluation._trials import Turn, Verdict, arguments_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agui_client.evaluation._scenarios import Check, Scenario
    from agui_client.evaluation._trials import CalledTool, Trial

COMPLETES = "completes"
"""The check that every scenario has: the conversation comes to its end."""
_SHOWN = 200


def verdicts_of(scenario: Scenario, trial: Trial) -> dict[str, Verdict]:
    """Judge a trial by the checks of its scenario.

    Returns:
        The verdicts by the names of the checks.
    """
    verdicts = {COMPLETES: Verdict(trial.error is None, trial.error or "")}
    for name, (_, judge) in _named(scenario.checks).items():
        verdicts[name] = _verdict(judge, trial)
    return verdicts


def check_named(checks: Sequence[Check], name: str) -> tuple[list[Check], str]:
    """Return the check of a name, without those beside it, and its name there; none for the one of every scenario."""
    alone = [single for each, (single, _) in _named(checks).items() if each == name]
    return alone, next(iter(_named(alone)), COMPLETES)


def _named(checks: Sequence[Check]) -> dict[str, tuple[Any, Callable[[Trial], Any]]]:
    """Return each single check by its name, with the function that judges."""
    found: dict[str, tuple[Any, Callable[[Trial], Any]]] = {}
    for check in checks:
        single: list[Any] = [check] if callable(check) else _single(check)
        for each in single:
            name, judge = _judge_of(each)
            # Two functions may have one name, as those without a name have, and long texts one beginning.
            places = (name if number == 1 else f"{name} ({number})" for number in count(1))
            found[next(place for place in places if place not in found)] = each, judge
    return found


def _single(check: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each of several checks in one mapping, with the turn that they are about."""
    turn = {name: value for name, value in check.items() if name == "turn"}
    return [{kind: value, **turn} for kind, value in check.items() if kind != "turn"]


def _judge_of(check: Any) -> tuple[str, Callable[[Trial], Any]]:
    if callable(check):
        return place_of(check).partition(":")[2], check
    ((kind, expected),) = ((name, value) for name, value in check.items() if name != "turn")
    judge, number = partial(_READY[kind], expected), check.get("turn")
    name = f"{kind}: {_shown(expected)}"
    return (name, judge) if number is None else (f"{name} in turn {number}", partial(_in_turn, number, judge))


def _in_turn(number: int, judge: Callable[[Trial], Any], trial: Trial) -> Any:
    """Judge one turn; the others count as empty, so that the numbers of turns stay."""
    if number > len(trial.turns):
        return f"there was no turn {number}{_after(trial)}"
    turns = [turn if at == number else Turn(turn.prompt) for at, turn in enumerate(trial.turns, 1)]
    return judge(replace(trial, turns=turns, seconds=trial.turns[number - 1].seconds, state=None))


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


def _found(wanted: Any, text: str) -> list[str]:
    """Return those of the wanted texts that are in a text; of a regular expression, what it matches."""
    if is_object(wanted):
        return [*_matched(wanted.get("matches"), text), *_found(wanted.get("any", []), text)]
    listed = [wanted] if isinstance(wanted, str) else wanted
    return [each for each in listed if each.casefold() in text.casefold()]


def _matched(pattern: str | None, text: str) -> list[str]:
    """Return what a regular expression matches; of one that anybody may have written, the expression."""
    if isinstance(pattern, LinearPattern):
        return [str(pattern)] if pattern.is_in(text) else []
    match = None if pattern is None else re.search(pattern, text)
    return [] if match is None else [match.group()]


def _missing(wanted: Any, text: str) -> list[str]:
    """Return those of the wanted texts that are not in a text; a mapping is one."""
    found = _found(wanted, text)
    if is_object(wanted):
        return [] if found else [_shown(wanted)]
    return [_shown(each) for each in ([wanted] if isinstance(wanted, str) else wanted) if each not in found]


def _said(wanted: Any, trial: Trial) -> str | None:
    if not (missing := _missing(wanted, trial.said)):
        return None
    last = cut_short(next((each.text for each in reversed(trial.turns) if each.text), ""), _SHOWN)
    what = "it" if isinstance(wanted, str) else ", ".join(missing)
    return f"the agent did not say {what}{_after(trial)}; its last reply is {_shown(last)}"


def _not_said(wanted: Any, trial: Trial) -> str | None:
    for number, turn in enumerate(trial.turns, 1):
        if found := _found(wanted, turn.said):
            return f"the agent said {'it' if isinstance(wanted, str) else _shown(found[0])} in turn {number}"
    return None


def _not_leaked(wanted: Any, trial: Trial) -> str | None:
    for number, turn in enumerate(trial.turns, 1):
        for place, value in _sent(turn):
            if found := _found(wanted, value):
                return f"the agent sent {_shown(found[0])} in {place} in turn {number}"
    found = _found(wanted, _text_of(trial.state))
    return f"the state has {_shown(found[0])} at the end" if found else None


def _sent(turn: Turn) -> Iterator[tuple[str, str]]:
    """Yield what the agent sent in a turn, and where; results of tools that were executed here are not its own."""
    ours = {each.tool_call_id for each in turn.tool_executions}
    for message in turn.messages:
        content = _text_of(getattr(message, "content", None))
        if message.role == "tool" and message.tool_call_id not in ours:
            yield "the result of a tool", content
        elif message.role not in ("tool", "user"):
            yield {"assistant": "a text", "reasoning": "its reasoning"}.get(message.role, f"an {message.role}"), content
        for _, call in tool_calls_in([message]):
            yield f"the arguments of {call.function.name}", _text_of(arguments_of(call.function.arguments))
    for asked in (*(each.interrupt for each in turn.answered), *turn.interrupts):
        yield "a question", _text_of(asked.model_dump(mode="json", exclude={"id"}))
    yield "its result", _text_of(turn.result)


def _text_of(value: Any) -> str:
    """Return all texts in a value, names of members included, as they are read, without the escapes of JSON."""
    if isinstance(value, str):
        return value
    if is_object(value):
        return "\n".join(f"{name}\n{_text_of(item)}" for name, item in value.items())
    if is_array(value):
        return "\n".join(map(_text_of, value))
    return "" if value is None else str(to_jsonable_python(value, fallback=repr))


def _called(expected: Any, trial: Trial) -> str | None:
    wanted: Mapping[str, Any] = expected if is_object(expected) else {}
    found, times, most = _calls(expected, trial), wanted.get("times"), wanted.get("at_most")
    if len(found) == times or (times is None and (len(found) <= most if most is not None else found)):
        return None
    return f"the agent made {len(found)} such calls{_after(trial)}; {_calls_made(trial)}"


def _called_in_order(expected: list[Any], trial: Trial) -> str | None:
    calls = iter(trial.calls)
    for number, each in enumerate(expected, 1):
        if not any(_fits(call, each) for call in calls):
            what = f"call {number}, {_shown(each)}, did not come in this order"
            return f"{what}{_after(trial)}; {_calls_made(trial)}"
    return None


def _calls_made(trial: Trial) -> str:
    """Say which tools the agent called, and in which turn."""
    turns: dict[int, list[str]] = {}
    for each in trial.calls:
        turns.setdefault(each.turn, []).append(f"{each.name}({_shown(each.arguments)})")
    made = ", ".join(f"{', '.join(calls)} in turn {turn}" for turn, calls in turns.items()) or "nothing"
    return f"it called {cut_short(made, 2 * _SHOWN)}"


def _valid_arguments(expected: bool, trial: Trial) -> str | None:
    for call in trial.calls:
        try:
            if not is_object(call.arguments):
                raise ToolError("they are not a JSON object")
            if (schema := trial.tools.get(call.name)) is not None:
                bound_by_schema(schema, call.arguments)
        except ToolError as error:
            return f"{call.name}({_shown(call.arguments)}) in turn {call.turn}: {cut_short(str(error), _SHOWN)}"
    return None


def _denial_honoured(expected: bool, trial: Trial) -> str | None:
    for number, turn in enumerate(trial.turns, 1):
        denied = [each.interrupt for each in turn.answered if _is_denial(each.entry.payload)]
        asked = [each.interrupt for each in turn.answered] + turn.interrupts
        calls = [call for _, call in tool_calls_in(turn.messages)]
        names = {call.id: call.function.name for call in calls}
        refused = {each.tool_call_id for each in turn.tool_executions if each.error == "denied"}
        refused |= {each.tool_call_id for each in denied if each.tool_call_id}
        seen: list[tuple[str, Any]] = []
        for call in calls:
            about = call.function.name, arguments_of(call.function.arguments)
            if about in seen:
                return f"the agent called {call.function.name} again in turn {number}, which was denied"
            if call.id in refused:
                seen.append(about)
        for each in denied:
            question = (each.reason, each.message, names.get(each.tool_call_id or ""))
            others = [one for one in asked if (one.reason, one.message, names.get(one.tool_call_id or "")) == question]
            if len(others) > 1:
                return f"the agent asked again in turn {number} what was denied: {each.message or each.reason}"
    return None


def _is_denial(payload: Any) -> bool:
    return payload is False or (is_object(payload) and payload.get("approved") is False)


def _not_called(expected: Any, trial: Trial) -> str | None:
    found = _calls(expected, trial)
    return f"the agent called it in turn {found[0].turn} with {_shown(found[0].arguments)}" if found else None


def _calls(expected: Any, trial: Trial) -> list[CalledTool]:
    return [each for each in trial.calls if _fits(each, expected)]


def _fits(call: CalledTool, expected: Any) -> bool:
    wanted: Mapping[str, Any] = {"tool": expected} if isinstance(expected, str) else expected
    arguments = wanted.get("arguments")
    return call.name == wanted["tool"] and (not arguments or _has(call.arguments, arguments))


def _has(given: Any, expected: Any) -> bool:
    """Return whether a value has what is expected: objects at any depth may have further members."""
    if is_object(expected):
        return is_object(given) and all(name in given and _has(given[name], value) for name, value in expected.items())
    if is_array(expected):
        return is_array(given) and len(given) == len(expected) and all(map(_has, given, expected))
    return is_same_json(given, expected)


def _asked(wanted: Any, trial: Trial) -> str | None:
    questions = [each.message or each.reason for each in trial.asked]
    if not (missing := _missing(wanted, "\n".join(questions))):
        return None
    what, asked = (
        "it" if isinstance(wanted, str) else ", ".join(missing),
        ", ".join(map(_shown, questions)) or "nothing",
    )
    return f"the agent did not ask {what}{_after(trial)}; it asked {asked}"


def _seconds_at_most(most: float, trial: Trial) -> str | None:
    return f"it took {trial.seconds:.2f} seconds" if trial.seconds > most else None


def _first_text_at_most(most: float, trial: Trial) -> str | None:
    times = ((number, turn.first_text) for number, turn in enumerate(trial.turns, 1) if turn.first_text is not None)
    slow = next((each for each in times if each[1] > most), None)
    return None if slow is None else f"the first text of turn {slow[0]} came after {slow[1]:.2f} seconds"


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
    found: dict[str, list[str]] = {}
    for number, turn in enumerate(trial.turns, 1):
        for each in turn.faults:
            if each.severity != "advice":
                found.setdefault(f"{each.rule} ({each.severity}): {each.problem}", []).append(str(number))
    return "; ".join(f"in turn {', '.join(dict.fromkeys(turns))}, {fault}" for fault, turns in found.items()) or None


def _judged(wanted: Any, trial: Trial) -> Verdict:
    question = wanted if isinstance(wanted, str) else wanted["statement"]
    found = trial.judged.get(question)
    if found is None:
        return Verdict(False, "the judge was not asked, as the conversation ended too early")
    if isinstance(wanted, str):
        return found
    if found.score is None:
        return Verdict(False, f"the judge gave no score: {found.reason}")
    return Verdict(found.score >= wanted["at_least"], f"the score is {found.score:g}: {found.reason}", found.score)


_READY: Mapping[str, Callable[[Any, Trial], Any]] = {
    "said": _said,
    "not_said": _not_said,
    "called": _called,
    "not_called": _not_called,
    "called_in_order": _called_in_order,
    "valid_arguments": _valid_arguments,
    "asked": _asked,
    "denial_honoured": _denial_honoured,
    "not_leaked": _not_leaked,
    "state": _state,
    "turns_at_most": _turns_at_most,
    "conforms": _conforms,
    "seconds_at_most": _seconds_at_most,
    "first_text_at_most": _first_text_at_most,
    "judge": _judged,
}


def _after(trial: Trial) -> str:
    return f" in {len(trial.turns)} turn{'s' * (len(trial.turns) != 1)}"


def _shown(value: Any) -> str:
    return cut_short(json.dumps(value, ensure_ascii=False, default=repr), _SHOWN)
