"""What the agent sent as arguments, on its way to keyword arguments of a function (SEC-2, TOOL-2).

Broken JSON, or values that do not fit, are for the agent to mend: it is told which argument is wrong, and why, in the
words of JSON. Nothing of this ends a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from agui_client._pipeline.schema import is_array, is_object
from agui_client.errors import ToolError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from agui_client._tools.schema import Parameters

_JSON: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool | None
_KINDS = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number", type(None): "null"}
_MISSING = ("missing", "missing_keyword_only_argument")
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_ABSENT = object()
_HIDDEN = "**********"
"""What pydantic writes for a secret."""
_MOST_PROBLEMS = 10
_LONGEST = 2000
"""Characters of a complaint: what the agent sent comes back in it, and may be long."""


def parsed(text: str) -> object:
    """Read the JSON text of a call's arguments.

    Args:
        text: What the agent streamed; agents send nothing at all for a tool without arguments.

    Raises:
        ToolError: It is not JSON.
    """
    if not text.strip():
        return {}
    try:
        return from_json(text.encode(), allow_inf_nan=False)
    except ValueError as error:
        raise ToolError(_shortened(f"the arguments are not JSON: {error}; send one JSON object")) from None


def as_json(arguments: object) -> dict[str, Any]:
    """Bring arguments into the form in which they are shown, compared and validated.

    Args:
        arguments: What the agent sent, or what a person made of it.

    Raises:
        ToolError: They are no JSON object.
    """
    try:
        plain: _JSON = from_json(to_json(arguments, by_alias=True), allow_inf_nan=False)
    except ValueError as error:
        raise ToolError(_shortened(f"the arguments hold something that is not JSON: {error}")) from None
    if isinstance(plain, dict):
        return plain
    raise ToolError(f"the arguments are {_KINDS[type(plain)]}; send one JSON object")


def validated(parameters: Parameters, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Hold arguments against a function's parameters.

    What fits without loss is taken, as pydantic does with JSON: models write "3" for 3 and 3.0 for 3, and refusing that
    would cost a round and change nothing. 3.5 for an integer is refused, and so is 3 for a string.

    Args:
        parameters: What the function takes.
        arguments: A JSON object.

    Returns:
        The function's keyword arguments.

    Raises:
        ToolError: They do not fit; each that is wrong is named.
    """
    try:
        return parameters.adapter.validate_json(to_json(arguments))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise ToolError(_complaint(errors, arguments, list(parameters.schema["properties"]))) from None


def as_taken(parameters: Parameters, sent: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of what the function is called with, so that whoever decides about a call sees what will happen.

    That is what was sent, with "true" for a boolean become true and defaults filled in. What JSON cannot hold, or hides
    as pydantic does with secrets, stays as it was sent, and so does an object that is written under other names than it
    is read under: an edit of it would be lost.

    Args:
        parameters: What the function takes.
        sent: What the agent or a person sent.
        values: What `validated` made of it.

    Returns:
        A JSON object, by the names the agent uses; a default that has no JSON is not in it.
    """
    shown = {offered: _shown(values[name], sent.get(offered, _ABSENT)) for offered, name in parameters.names.items()}
    there = {offered: value for offered, value in shown.items() if value is not _ABSENT}
    if not _mistaken(parameters, there, there, values):
        return there
    mistaken = [
        name
        for name in there
        if is_object(there[name]) and _mistaken(parameters, {**sent, name: there[name]}, [name], values)
    ]
    return {name: sent.get(name, value) if name in mistaken else value for name, value in there.items()}


def _mistaken(
    parameters: Parameters, arguments: Mapping[str, Any], asked: Iterable[str], values: Mapping[str, Any]
) -> bool:
    """Whether what is shown, sent again, would be taken for something else."""
    try:
        again = validated(parameters, arguments)
        return not all(_is_same_value(again[parameters.names[each]], values[parameters.names[each]]) for each in asked)
    except Exception:  # types of the application's may refuse to be compared, too
        return True


def _is_same_value(value: object, other: object) -> bool:
    return value == other or (type(value).__eq__ is object.__eq__ and _shown(value, None) == _shown(other, None))


def _shown(value: object, sent: object) -> object:
    try:
        shown = _with_hidden(from_json(to_json(value, by_alias=True), allow_inf_nan=False), sent)
    except ValueError:
        return sent
    return _ABSENT if shown == _HIDDEN and sent is _ABSENT else shown


def _with_hidden(shown: Any, sent: object) -> Any:
    """The JSON of a value with what it hides as it was sent; what was not sent stays hidden, and is left out."""
    if is_object(shown):
        held: Mapping[str, Any] = sent if is_object(sent) else {}
        return {
            name: _with_hidden(value, held.get(name, _ABSENT))
            for name, value in shown.items()
            if value != _HIDDEN or name in held
        }
    if is_array(shown) and is_array(sent) and len(shown) == len(sent):
        return [_with_hidden(*pair) for pair in zip(shown, sent, strict=True)]
    return sent if shown == _HIDDEN and sent is not _ABSENT else shown


def _complaint(errors: Sequence[ErrorDetails], arguments: Mapping[str, Any], known: Sequence[str]) -> str:
    problems = [_problem(error, arguments) for error in errors[:_MOST_PROBLEMS]]
    if more := len(errors) - len(problems):
        problems.append(f"and {more} more")
    complaint = "the arguments do not fit: " + "; ".join(problems)
    if any(error["type"] in _UNKNOWN and len(error["loc"]) == 1 for error in errors):
        complaint += f" (known: {', '.join(known) or 'none'})"
    return _shortened(complaint)


def _problem(error: ErrorDetails, arguments: Mapping[str, Any]) -> str:
    where = repr(_place(error["loc"], arguments, is_missing=error["type"] in _MISSING))
    if error["type"] in _MISSING:
        return f"{where} is missing"
    if error["type"] in _UNKNOWN:
        return f"{where} is unknown"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"


def _place(loc: Sequence[str | int], arguments: Mapping[str, Any], *, is_missing: bool) -> str:
    """Where an error is, as `shape.points[2]`."""
    steps = [*_steps(loc, arguments), *(loc[-1:] if is_missing else ())]
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _steps(loc: Sequence[str | int], arguments: Mapping[str, Any]) -> Iterator[str | int]:
    """The keys and positions of a place; pydantic puts names of Python's types between them, for unions."""
    here: Any = arguments
    for step in loc:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            continue
        yield step


def _shortened(sentence: str) -> str:
    return sentence if len(sentence) <= _LONGEST else f"{sentence[:_LONGEST]}…"
