"""Judging an answer by the schema that an agent wrote for it: in bounded time, and in words of its own (INT-7).

Nothing is fetched, and no pattern is tried that could take for ever. What cannot be judged by refuses nothing: the
agent will look at the answer itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from time import thread_time
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import SchemaError, SchemaValidator, core_schema

from agui_client._pipeline.refusal import LONGEST_PATH
from agui_client._pipeline.schema import is_array, is_object

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_Keyword: TypeAlias = "Callable[[Any, Any, Any, dict[str, Any]], Iterable[ValidationError] | None]"

_SECONDS = 0.2
"""Of a thread's own time, for one judgement: some thousand values, or the check of a form with some hundred fields."""
_LONGEST_PATTERN = 300
"""Characters of a pattern, and of a text that it is tried on: what is linear in both is slow if both are long."""
_MOST_TOLD = 10
_LONGEST_LIMIT = 200


def schema_errors(schema: dict[str, Any], payload: Any) -> list[str]:
    """What an answer's schema has against it.

    Args:
        schema: The interrupt's `responseSchema`.
        payload: The answer as JSON.

    Returns:
        One sentence for each of the first problems: where it is, and what the schema says there, never the answer. None
        for a schema that is none, that points elsewhere, or that takes too long.
    """
    # Loaded when an interrupt carries a schema: few do, and the import is not small.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    try:
        dialect = validator_for({"$schema": schema.get("$schema", "")}, default=Draft202012Validator)
        judge: type[Validator] = _bounded(dialect)
        if any(judge(dialect.META_SCHEMA).iter_errors(schema)):
            return []
        # The agent must not make this machine fetch anything: the registry is empty.
        problems = islice(judge(schema, registry=Registry()).iter_errors(payload), _MOST_TOLD)
        return list(dict.fromkeys(map(_sentence, problems)))
    except Exception:
        # Besides the library's own errors: endless references (RecursionError), an `$id` that is no URI or no string.
        return []


def is_modest(schema: dict[str, Any], most: int) -> bool:
    """Whether a schema stays small when it is followed to its ends.

    Args:
        schema: The interrupt's `responseSchema`.
        most: How many values it may have, those counted again that are referred to again.
    """
    sizes: dict[str, int] = {}

    def size(value: Any) -> int:
        """How many values there are."""
        if is_object(value):
            reference = value.get("$ref")
            return 1 + sum(map(size, value.values())) + (referred(reference) if isinstance(reference, str) else 0)
        return 1 + sum(map(size, value)) if is_array(value) else 1

    def referred(reference: str) -> int:
        """The size of what is referred to, counted once."""
        if reference not in sizes:
            sizes[reference] = 0  # what refers to itself, as a tree does, does not grow by that
            sizes[reference] = size(found(schema, reference))
        return sizes[reference]

    try:
        return size(schema) <= most
    except RecursionError:
        return False


def found(schema: dict[str, Any], reference: str) -> Any:
    """What a reference within a schema is to; None for any other."""
    at: Any = schema
    for step in reference.removeprefix("#").strip("/").split("/"):
        at = at.get(step) if is_object(at) else None
    return at


def _sentence(error: ValidationError) -> str:
    where = f"does not fit its responseSchema at {_shortened(error.json_path, LONGEST_PATH)}"
    if not isinstance(error.validator, str):
        return f"{where}: nothing may stand there"
    limit = error.validator_value
    if error.validator == "required" and is_array(limit) and is_object(error.instance):
        limit = [name for name in limit if name not in error.instance]
    return f"{where}: {error.validator} is {_shortened(json.dumps(limit, ensure_ascii=False), _LONGEST_LIMIT)}"


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def _bounded(dialect: Any) -> Any:
    """A validator class of a dialect that gives up when its time is over.

    Raises:
        TimeoutError: By its instances.
    """
    from jsonschema import validators

    library: Any = validators  # its types leave `extend` out
    deadline = thread_time() + _SECONDS

    def in_time(keyword: _Keyword) -> _Keyword:
        """A keyword that gives up when the time is over."""

        def judged(validator: Any, limit: Any, instance: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
            """Judge one value by the keyword."""
            if thread_time() > deadline:
                raise TimeoutError("the schema takes too long")
            for error in keyword(validator, limit, instance, schema) or ():
                error.message, error.args = "", ()  # both repeat the answer, once for each alternative
                yield error

        return judged

    keywords: dict[str, _Keyword] = {**dialect.VALIDATORS, **_KEYWORDS}
    bounded = library.extend(dialect, {name: in_time(keyword) for name, keyword in keywords.items()})
    evolved = bounded.evolve

    def evolve(self: Any, **changes: Any) -> Any:
        """A validator of a part, in the same time."""
        # A part that names a dialect would be judged by the library's own class for it, whatever time that takes.
        schema = changes.get("schema", self.schema)
        if is_object(schema) and "$schema" in schema:
            changes["schema"] = {name: value for name, value in schema.items() if name != "$schema"}
        return evolved(self, **changes)

    bounded.evolve = evolve
    return bounded


# --- keywords for which the library tries Python's patterns, or compares everything with everything


def _pattern(validator: Any, pattern: Any, instance: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if isinstance(instance, str) and _is_match(pattern, instance) is False:
        yield ValidationError("")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, schema: dict[str, Any]
) -> Iterator[ValidationError]:
    if is_object(instance):
        for pattern, of in patterns.items():
            for name, value in instance.items():
                if _is_match(pattern, name):
                    yield from validator.descend(value, of, path=name, schema_path=pattern)


def _additional_properties(validator: Any, of: Any, instance: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if not is_object(instance):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in named or any(_is_match(pattern, name) is not False for pattern in patterns):
            continue
        if of is False:
            yield ValidationError("", path=[name])
        else:
            yield from validator.descend(value, of, path=name)


def _unique_items(validator: Any, is_wanted: Any, instance: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if is_wanted and is_array(instance):
        written = {json.dumps(item, sort_keys=True) for item in instance}
        if len(written) < len(instance):
            yield ValidationError("")


def _unjudged(validator: Any, limit: Any, instance: Any, schema: dict[str, Any]) -> None:
    """Nothing: what the library does to find out what is evaluated cannot be bounded from here."""


def _is_match(pattern: Any, text: str) -> bool | None:
    """Whether a pattern is found in a text, by an engine that does not backtrack; None if it cannot be said."""
    if not isinstance(pattern, str) or max(len(pattern), len(text)) > _LONGEST_PATTERN:
        return None
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python(text)
    except SchemaError:
        return None


_KEYWORDS: Mapping[str, _Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "unevaluatedItems": _unjudged,
    "unevaluatedProperties": _unjudged,
}
