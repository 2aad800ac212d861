"""Arguments of tool calls: the agent's JSON text, or a person's edits, checked and completed (SEC-2, TOOL-2).

Broken JSON, or values that do not fit, are for the agent to mend: the error names each wrong argument, and why, in the
words of JSON. Nothing of this ends a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json, to_json, to_jsonable_python

from agui_client._protocol.problems import shortened
from agui_client._protocol.schema import is_array, is_object
from agui_client._tools.json_schema import cut_short, plainly, schema_problems, with_defaults
from agui_client._tools.parameters import Parameters
from agui_client.errors import ToolError

_PLAINLY = {
    **dict.fromkeys(("missing", "missing_keyword_only_argument"), "is missing"),
    **dict.fromkeys(("extra_forbidden", "unexpected_keyword_argument"), "is unknown"),
}
"""The words for types of errors that pydantic describes in Python's terms."""
_LONGEST = 2000
"""Characters of an error: the agent's own arguments are quoted in it, and may be long."""


def bound_by_schema(schema: Mapping[str, Any], arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """Check arguments by a JSON Schema.

    Args:
        schema: The schema that the agent was offered.
        arguments: The agent's JSON text, or a person's edits.

    Returns:
        The arguments as JSON, completed by the schema's defaults.

    Raises:
        ToolError: They are no JSON object, or do not fit.
    """
    completed = with_defaults(schema, _as_object(arguments))
    if problems := schema_problems(schema, completed):
        raise ToolError(cut_short(f"the arguments do not fit: {plainly(problems)}", _LONGEST))
    return completed


def bound_by_type(parameters: Parameters, arguments: str | Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check arguments by the types of a function's parameters.

    What fits without loss is accepted, as pydantic does with JSON: models write "3" for 3 and 3.0 for 3, and refusing
    that would cost a round and change nothing. 3.5 for an integer is refused, and so is 3 for a string.

    Args:
        parameters: The function's parameters.
        arguments: The agent's JSON text, or a person's edits.

    Returns:
        The arguments as JSON, completed by the function's defaults; and the function's keyword arguments.

    Raises:
        ToolError: They are no JSON object, or do not fit; each that is wrong is named.
    """
    sent = _as_object(arguments)
    try:
        values = parameters.adapter.validate_json(to_json(sent))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise ToolError(_complaint(errors, parameters.schema["properties"])) from None
    dump = partial(to_jsonable_python, by_alias=True, serialize_unknown=True)
    read = {offered: dump(values.get(name)) for offered, name in parameters.names.items()}
    return with_defaults(parameters.schema, _with_types_of(sent, read)), values


def _as_object(arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as JSON; agents send nothing at all for a tool without arguments."""
    try:
        given = from_json(arguments.strip().encode() or b"{}") if isinstance(arguments, str) else dict(arguments)
        # Written and read again, since NaN, infinity and edits of a person's are no JSON yet.
        plain = from_json(to_json(given, by_alias=True, inf_nan_mode="constants"), allow_inf_nan=False)
    except ValueError as error:
        raise ToolError(cut_short(f"the arguments are not JSON: {error}; send one JSON object", _LONGEST)) from None
    if is_object(plain):
        return plain
    raise ToolError(f"the arguments are {shortened(plain)}; send one JSON object")


def _with_types_of(sent: Any, read: Any) -> Any:
    """Return the JSON that was sent, with true for "true" and 2 for "2" where the function reads them so.

    An approval rule that compares `arguments["force"] is True` must not be passed by "true", which the function reads
    as true.
    """
    if is_object(sent) and is_object(read):
        return {name: _with_types_of(value, read.get(name, value)) for name, value in sent.items()}
    if is_array(sent) and is_array(read) and len(sent) == len(read):
        return [_with_types_of(*pair) for pair in zip(sent, read, strict=True)]
    is_other = isinstance(sent, str) or isinstance(sent, bool) is not isinstance(read, bool)
    return read if isinstance(read, bool | int | float) and is_other else sent


def _complaint(errors: Sequence[ErrorDetails], known: Iterable[str]) -> str:
    complaint = "the arguments do not fit: " + "; ".join(map(_problem, errors))
    if any(_PLAINLY.get(error["type"]) == "is unknown" and len(error["loc"]) == 1 for error in errors):
        complaint += f" (known: {', '.join(known) or 'none'})"
    return cut_short(complaint, _LONGEST)


def _problem(error: ErrorDetails) -> str:
    """Describe an error by its place, such as `shape.points.2`, and what is wrong there."""
    where = repr(".".join(map(str, error["loc"])))
    plainly = _PLAINLY.get(error["type"])
    return f"{where} {plainly}" if plainly else f"{where}: {error['msg'].removeprefix('Value error, ')}"
