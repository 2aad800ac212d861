"""JSON Schemas that servers wrote: checking values by them, completing values with their defaults (INT-7, SEC-2).

The work is bounded and nothing is fetched: `pattern` and `format` are not checked, and a schema that is large, broken,
takes long, or refers to anything outside itself checks nothing. The server that wrote it checks the value again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import from_json, to_json

from agui_client._core.ground.plain_text import cut_short
from agui_client._core.protocol.problems import LONGEST_PATH, shortened
from agui_client._core.protocol.schema import is_array, is_object
from agui_client.errors import ToolError

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_MOST_VALUES = 1000
_MOST_STEPS = 100_000
"""The most steps of checking one value: about a second. A schema that refers to itself twice doubles its work with each
level of the value."""
_MOST_PROBLEMS = 10
_LONGEST_LIMIT = 200
_LONGEST = 2000
"""Characters of an error about arguments."""
_Keyword: TypeAlias = "Callable[[Any, Any, Any, dict[str, Any]], Iterator[ValidationError]]"


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """A place of a value where it does not fit its schema."""

    place: str
    """The place as a path from the root, `$`."""
    path: tuple[str | int, ...]
    """The names of members and the positions that lead to the place."""
    keyword: str | None
    """The keyword of the schema that is not met; None where nothing may stand."""
    limit: Any
    """The value of the keyword; of `required`, the members that are missing."""

    def __str__(self) -> str:
        if self.keyword is None:
            return f"{self.place}: nothing may stand there"
        limit = cut_short(json.dumps(self.limit, ensure_ascii=False), _LONGEST_LIMIT)
        return f"{self.place}: {self.keyword} is {limit}"


_ADDRESSES = ("$schema", "$id", "id", "$anchor")
"""Keywords that make a part of a schema a document of its own, with references that are not followed here."""


def bound_by_schema(schema: Mapping[str, Any], arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """Check the arguments of a tool call by a JSON Schema.

    Args:
        schema: The schema that the agent was offered.
        arguments: The agent's JSON text, or a person's edits.

    Returns:
        The arguments as JSON, completed by the schema's defaults.

    Raises:
        ToolError: They are no JSON object, or do not fit.
    """
    completed = with_defaults(schema, as_object(arguments))
    if problems := schema_problems(schema, completed):
        raise misfit(plainly(problems))
    return completed


def as_object(arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as JSON; agents send nothing at all for a tool without arguments.

    Raises:
        ToolError: They are no JSON object.
    """
    try:
        given = from_json(arguments.strip().encode() or b"{}") if isinstance(arguments, str) else dict(arguments)
        # Written and read again, since NaN, infinity and edits of a person's are no JSON yet.
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


def schema_faults(schema: Mapping[str, Any], value: Any) -> list[SchemaFault]:
    """Check a value by a schema, as `schema_problems` does; return the first faults, none twice."""
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
        validator: Validator = library.extend(dialect, _bounded(dialect.VALIDATORS))(root, registry=nothing_else)
        faults = map(_fault, islice(validator.iter_errors(value), _MOST_PROBLEMS))
        return [*{str(each): each for each in faults}.values()]
    except Exception:
        # Besides the library's own errors: endless references (RecursionError), a `$ref` that is no string, and the end
        # of the steps.
        return []


def plainly(problems: list[str]) -> str:
    """Join problems into one text that names places without the root, such as `year: minimum is 2000`."""
    return "; ".join(problem.removeprefix("$").removeprefix(": ").removeprefix(".") for problem in problems)


def with_defaults(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """Complete an object with the defaults of its schema's properties.

    Args:
        schema: A JSON Schema.
        value: A JSON object.

    Returns:
        A new object; the given members first, in their order.
    """
    completed = dict(value)
    properties = schema.get("properties")
    for name, each in properties.items() if is_object(properties) else ():
        if is_object(each) and "default" in each and name not in value:
            completed[name] = copy.deepcopy(each["default"])
    return completed


def is_usable(schema: dict[str, Any], most: int) -> bool:
    """Check that a schema refers to nothing but its own parts, and stays small when its references are followed.

    Args:
        schema: A JSON Schema.
        most: The most values that it may have, those counted again that are referred to again.
    """
    sizes: dict[str, int] = {}

    def size(value: Any) -> int:
        """Count the values."""
        if not is_object(value):
            return 1 + sum(map(size, value)) if is_array(value) else 1
        if value is not schema and any(isinstance(value.get(name), str) for name in _ADDRESSES):
            return most + 1
        reference = value.get("$ref")
        return 1 + sum(map(size, value.values())) + (referred(reference) if isinstance(reference, str) else 0)

    def referred(reference: str) -> int:
        """Count the values of a part that is referred to; its size is computed once."""
        if reference not in sizes:
            sizes[reference] = 0  # a part that refers to itself, as a tree does, does not grow by that
            part = referred_part(schema, reference)
            sizes[reference] = most if part is None else size(part)
        return sizes[reference]

    try:
        return size(schema) <= most
    except RecursionError:
        return False


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


def _bounded(keywords: Mapping[str, _Keyword]) -> dict[str, _Keyword]:
    """Return the library's keywords and those from below, which together check one value in a bounded time."""
    left = _MOST_STEPS

    def bounded(check: _Keyword) -> _Keyword:
        """Return a keyword that counts the values that it looks at."""

        def checked(validator: Any, limit: Any, instance: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
            """Check as the keyword does, as long as steps are left."""
            nonlocal left
            left -= 1 + sum(len(each) for each in (limit, instance) if is_object(each) or is_array(each))
            if left < 0:
                raise TimeoutError
            return check(validator, limit, instance, schema)

        return checked

    return {name: bounded(check) for name, check in {**keywords, **_KEYWORDS}.items()}


# --- keywords for which the library tries patterns, or compares everything with everything


def _additional_properties(validator: Any, of: Any, instance: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if not is_object(instance) or "patternProperties" in schema:
        return
    for name in (each for each in instance if each not in schema.get("properties", {})):
        if of is False:
            yield ValidationError("", path=[name])
        else:
            yield from validator.descend(instance[name], of, path=name)


def _unique_items(validator: Any, is_wanted: Any, instance: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    texts = [json.dumps(item, sort_keys=True) for item in instance] if is_wanted and is_array(instance) else []
    if len(set(texts)) < len(texts):
        yield ValidationError("")


def _unchecked(validator: Any, limit: Any, instance: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
    return iter(())


_UNCHECKED = ("pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef")
_KEYWORDS: Mapping[str, _Keyword] = {
    **dict.fromkeys(_UNCHECKED, _unchecked),
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
