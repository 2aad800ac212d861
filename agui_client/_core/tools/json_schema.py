"""JSON Schemas that servers wrote: checking values by them, completing values with their defaults (INT-7, SEC-2).

A value is judged as it was sent: a default is an annotation, and completes the value only if it fits, too. The work is
bounded and nothing is fetched: a schema that is large, broken, takes long, or refers to anything outside itself checks
nothing. `schema_keywords.py` has the keywords that are checked otherwise than by the library. The server that wrote the
schema checks the value again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import from_json, to_json

from agui_client._core.ground.plain_text import cut_short
from agui_client._core.protocol.problems import LONGEST_PATH, shortened
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.tools.schema_keywords import bounded
from agui_client.errors import ToolError

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_MOST_VALUES = 1000
_MOST_LEVELS = 80
"""The most levels of arrays and objects of a schema: the library takes up to ten levels of the stack for each."""
_MOST_REFERENCES = 8
_MOST_PROBLEMS = 10
_LONGEST_LIMIT = 200
_LONGEST = 2000
"""Characters of an error about arguments."""
_Path: TypeAlias = "tuple[str | int, ...]"
_WORDS = {"required": "needs", "type": "must be of type", "enum": "must be one of", "const": "must be"}
"""Keywords that are clearer as a verb; the limits of others are said by the keyword, as in `minimum is 2000`."""


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """A place of a value where it does not fit its schema."""

    place: str
    """The place as a path from the root, `$`."""
    path: _Path
    """The names of members and the positions that lead to the place."""
    keyword: str | None
    """The keyword of the schema that is not met; None where nothing may stand."""
    limit: Any
    """The value of the keyword; of `required`, the members that are missing."""

    def __str__(self) -> str:
        if self.keyword is None:
            return f"{self.place}: nothing may stand there"
        if self.keyword == "additionalProperties" and self.limit is False:
            return f"{self.place}: the schema has no such member"
        limit = json.dumps(self.limit, ensure_ascii=False)
        limit = cut_short(limit[1:-1] if self.keyword == "required" and is_array(self.limit) else limit, _LONGEST_LIMIT)
        return f"{self.place}: {_WORDS.get(self.keyword, f'{self.keyword} is')} {limit}"


_ADDRESSES = ("$schema", "$id", "id", "$anchor")
"""Keywords that make a part of a schema a document of its own, with references that are not followed here."""


def bound_by_schema(schema: Mapping[str, Any], arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """Check the arguments of a tool call by a JSON Schema.

    Args:
        schema: The schema that the agent was offered.
        arguments: The agent's JSON text, or a person's edits.

    Returns:
        The arguments as JSON, completed by those defaults of the schema that fit.

    Raises:
        ToolError: They are not a JSON object, or do not fit.
    """
    sent = as_object(arguments)
    if problems := schema_problems(schema, sent):
        raise misfit(plainly(problems))
    return with_defaults(schema, sent)


def as_object(arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as JSON; agents send nothing at all for a tool without arguments.

    Raises:
        ToolError: They are not a JSON object.
    """
    try:
        given = from_json(arguments.strip().encode() or b"{}") if isinstance(arguments, str) else dict(arguments)
        # Written and read again, since NaN, infinity and edits of a person's are not JSON yet.
        plain = from_json(to_json(given, by_alias=True, inf_nan_mode="constants"), allow_inf_nan=False)
    except (ValueError, TypeError) as error:
        raise ToolError(cut_short(f"the arguments are not JSON: {error}; send one JSON object", _LONGEST)) from None
    if is_object(plain):
        return plain
    raise ToolError(f"the arguments are {shortened(plain)}; send one JSON object")


def misfit(problems: str) -> ToolError:
    """Return the error for arguments that do not fit; they may be long, and are quoted in it."""
    return ToolError(cut_short(f"the arguments do not fit: {problems}", _LONGEST))


def schema_problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Check a value by a schema.

    Args:
        schema: A JSON Schema, of whatever provenance.
        value: The value as JSON.

    Returns:
        A text for each of the first problems, such as `$.year: minimum is 2000`: the place, the keyword and its limit,
        never the value. Nothing if the schema cannot be used.
    """
    return [str(fault) for fault in schema_faults(schema, value)]


def schema_faults(schema: Mapping[str, Any], value: Any, most: int | None = _MOST_PROBLEMS) -> list[SchemaFault]:
    """Check a value by a schema, as `schema_problems` does; return the first faults, none twice.

    Args:
        value: The value as JSON.
        most: The number of faults after which checking ends; None for all.
    """
    # Loaded when there is a schema: few interrupts carry one, and the import is not small.
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    library: Any = validators  # its types leave `extend` out
    root = dict(schema)
    try:
        if not is_usable(root, _MOST_VALUES):
            return []
        # Where a part refers to the root, the root's `$schema` would bring the library's own keywords back.
        dialect: Any = library.validator_for({"$schema": root.pop("$schema", "")}, default=Draft202012Validator)
        if not dialect(dialect.META_SCHEMA).is_valid(root):
            return []
        nothing_else: Registry[Any] = Registry()
        validator: Validator = library.extend(dialect, bounded(dialect.VALIDATORS))(root, registry=nothing_else)
        faults = map(_fault, islice(validator.iter_errors(value), most))
        return [*{str(each): each for each in faults}.values()]
    except Exception:
        # Besides the library's own errors: references without an end, a `$ref` that is not a string, and the end of the
        # steps.
        return []


def plainly(problems: list[str]) -> str:
    """Join problems into one text that names places without the root, such as `year: minimum is 2000`."""
    return "; ".join(problem.removeprefix("$").removeprefix(": ").removeprefix(".") for problem in problems)


def with_defaults(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """Complete an object, and the objects in it, with the defaults of its schema's properties, as far as they fit.

    Args:
        schema: A JSON Schema.
        value: A JSON object.

    Returns:
        A new object; the given members first, in their order.
    """
    root = dict(schema)
    completed: dict[str, Any] = without_unfit(schema, given := dict(value), _completed(root, root, given))
    return completed


def without_unfit(schema: Mapping[str, Any], sent: Any, completed: Any) -> Any:
    """Return a completed value without those of its completions that do not fit the schema.

    Args:
        schema: A JSON Schema.
        sent: The value as it was sent, as JSON.
        completed: The value with further members.
    """
    added, fitting = [*_added(sent, completed)], copy.deepcopy(completed)
    while added and (faults := [each.path for each in schema_faults(schema, fitting, None)]):
        # A fault is a completion's own; or that of an object around it, which must not have so many, or not this one.
        unfit = [path for path in added if any(fault[: len(path)] == path for fault in faults)]
        unfit = unfit or [path for path in added if any(path[: len(fault)] == fault for fault in faults)]
        if not unfit:
            break
        for path in unfit:
            _remove(fitting, path)
        added = [path for path in added if path not in unfit]
    return fitting


def _completed(schema: Any, root: dict[str, Any], value: Any) -> Any:
    """Return a value whose objects have the defaults of their properties, whether these fit or not."""
    schema = resolved(schema, root) if is_object(schema) else {}
    properties = schema.get("properties")
    if not is_object(value) or not is_object(properties):
        return value
    completed = {**value}
    for name, each in properties.items():
        if name in completed:
            completed[name] = _completed(each, root, completed[name])
        # A schema that is too large to be used judges its defaults one by one.
        elif is_object(each) and "default" in each and not schema_faults(each, each["default"]):
            completed[name] = copy.deepcopy(each["default"])
    return completed


def _added(sent: Any, completed: Any, path: _Path = ()) -> Iterator[_Path]:
    """List the places of members that were added to a value."""
    if is_object(sent) and is_object(completed):
        for name, each in completed.items():
            if name in sent:
                yield from _added(sent[name], each, (*path, name))
            else:
                yield (*path, name)
    elif is_array(sent) and is_array(completed) and len(sent) == len(completed):
        for number, pair in enumerate(zip(sent, completed, strict=True)):
            yield from _added(*pair, (*path, number))


def _remove(value: Any, path: _Path) -> None:
    *way, name = path
    for step in way:
        value = value[step]
    del value[name]


def resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return the schema itself, or the part of the same document that it refers to."""
    for _ in range(_MOST_REFERENCES):
        reference = schema.get("$ref")
        referred = referred_part(root, reference) if isinstance(reference, str) else None
        if not is_object(referred):
            break
        schema = referred
    return schema


def is_usable(schema: dict[str, Any], most: int) -> bool:
    """Check that a schema refers to nothing but its own parts, and stays small when its references are followed.

    Args:
        schema: A JSON Schema.
        most: The most values that it may have, those counted again that are referred to again.
    """
    sizes: dict[str, int] = {}

    def size(value: Any, levels: int = 0) -> int:
        """Count the values."""
        if levels > _MOST_LEVELS:
            return most + 1
        if not is_object(value):
            return 1 + sum([size(each, levels + 1) for each in value]) if is_array(value) else 1
        if value is not schema and any(isinstance(value.get(name), str) for name in _ADDRESSES):
            return most + 1
        reference = value.get("$ref")
        inner = 1 + sum([size(each, levels + 1) for each in value.values()])
        return inner + referred(reference, levels + 1) if isinstance(reference, str) else inner

    def referred(reference: str, levels: int) -> int:
        """Count the values of a part that is referred to; its size is computed once."""
        if reference not in sizes:
            sizes[reference] = 0  # a part that refers to itself, as a tree does, does not grow by that
            part = referred_part(schema, reference)
            sizes[reference] = most if part is None else size(part, levels)
        return sizes[reference]

    return size(schema) <= most


def referred_part(schema: dict[str, Any], reference: str) -> Any:
    """Return the part of a schema that a local reference is to; None for any other reference."""
    at: Any = schema
    for step in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
        at = at.get(step) if is_object(at) else None
    return at


def _fault(error: ValidationError) -> SchemaFault:
    where, path = cut_short(error.json_path, LONGEST_PATH), tuple(error.absolute_path)
    limit: Any = error.validator_value
    if not isinstance(error.validator, str):
        return SchemaFault(where, path, None, None)
    if error.validator == "required" and is_array(limit) and is_object(error.instance):
        limit = [name for name in limit if name not in error.instance]
    return SchemaFault(where, path, error.validator, limit)
