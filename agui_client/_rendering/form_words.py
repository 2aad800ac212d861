"""The words of forms: bounds of a schema for a label, and the reasons why a value does not fit, for people (INT-7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agui_client._core.ground.plain_text import cut_short
from agui_client._core.protocol.schema import is_array, is_object

if TYPE_CHECKING:
    from agui_client._core.tools.json_schema import SchemaFault

_LONGEST = 200
_LONGEST_PATTERN = 80
"""Characters of a pattern in a label."""
_LONGEST_UNIT = 20
_KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}
_REASONS: Mapping[str, Callable[[Any], str]] = {
    "type": lambda kinds: f"must be {' or '.join(_kind(each) for each in (kinds if is_array(kinds) else [kinds]))}",
    "enum": lambda values: f"must be one of {', '.join(map(name_of, values))}",
    "const": lambda value: f"must be {'yes' if value is True else name_of(value)}",
    "minimum": lambda least: f"must be at least {least}",
    "maximum": lambda most: f"must be at most {most}",
    "exclusiveMinimum": lambda bound: f"must be more than {bound}",
    "exclusiveMaximum": lambda bound: f"must be less than {bound}",
    "multipleOf": lambda step: f"must be a multiple of {step}",
    "minLength": lambda least: f"needs at least {_counted(least, 'character')}",
    "maxLength": lambda most: f"may have at most {_counted(most, 'character')}",
    "pattern": lambda pattern: f"must match {pattern}",
    "format": lambda name: f"must be a valid {name}",
    "minItems": lambda least: f"needs at least {_counted(least, 'entry')}",
    "maxItems": lambda most: f"may have at most {_counted(most, 'entry')}",
    "uniqueItems": lambda _: "must not have an entry twice",
    "dependentRequired": lambda names: f"is incomplete: {_dependencies(names)}",
    "anyOf": lambda _: "fits none of what is possible here",
    "oneOf": lambda _: "does not fit exactly one of what is possible here",
}


def reasons_of(fault: SchemaFault, description: str = "") -> Iterable[tuple[tuple[str | int, ...], str]]:
    """Say a fault in words.

    Args:
        description: The description of the value, which says more than its pattern.

    Yields:
        A place, and what is wrong there; of `required`, the place of each member that is missing.
    """
    if fault.keyword == "required" and is_array(fault.limit):
        yield from (((*fault.path, str(name)), "is missing") for name in fault.limit)
    elif fault.keyword is None:
        yield fault.path, "is not expected here"
    elif fault.keyword == "pattern" and description and not fault.path:
        yield fault.path, f"does not have the form that is asked for: {cut_short(description, _LONGEST)}"
    else:
        say = _REASONS.get(fault.keyword)
        limit = _whole(fault.limit)
        words = f"does not fit: {fault.keyword} is {name_of(limit)}" if say is None else say(limit)
        yield fault.path, cut_short(words, _LONGEST)


def in_words(faults: Iterable[SchemaFault], description: str = "") -> str:
    """Join faults into one text, each with its place: `lines[1]: must be a whole number; mode: is missing`.

    Args:
        description: The description of the value, which says more than its pattern.
    """
    said = [reason for fault in faults for reason in reasons_of(fault, description)]
    return "; ".join(f"{_place(path)}: {words}" if path else words for path, words in said)


def bounds_of(schema: Mapping[str, Any], unit: str = "") -> str:
    """Write the bounds of a schema as a hint, such as `2 to 6` or `matching ^[A-Z]+$`; empty if it has none.

    Args:
        schema: The schema of a value.
        unit: What is counted, such as "character"; empty for numbers.
    """
    names = {"": ("minimum", "maximum"), "character": ("minLength", "maxLength")}.get(unit, ("minItems", "maxItems"))
    least, most = (_number(schema.get(name)) for name in names)
    more, less = (_number(schema.get(f"exclusive{each}")) for each in ("Minimum", "Maximum"))
    # A text or a list of one and more is what "needed" says.
    least = None if unit and least in (0, 1) and most is None else least
    if least is not None and most is not None and unit == "":
        hints = [f"{least} to {most}"]
    elif least is not None and most is not None:
        hints = [f"{_counted(least, unit)}" if least == most else f"{least} to {_counted(most, unit)}"]
    else:
        hints = [f"at least {_counted(least, unit)}"] if least is not None else []
        hints += [f"more than {more}"] if more is not None and not unit else []
        hints += [f"at most {_counted(most, unit)}"] if most is not None else []
        hints += [f"less than {less}"] if less is not None and not unit else []
    step = _number(schema.get("multipleOf")) if unit == "" else None
    hints += [f"a multiple of {step}"] if step not in (None, 1) else []
    pattern = schema.get("pattern") if unit == "character" else None
    return ", ".join(
        [*hints, *([f"matching {cut_short(pattern, _LONGEST_PATTERN)}"] if isinstance(pattern, str) else [])]
    )


def unit_of(schema: Mapping[str, Any]) -> str:
    """Return the unit of a value, such as NOK, by the annotations that schemas use for it; empty if it has none."""
    units = (schema.get(name) for name in ("unit", "units", "x-unit"))
    return next((cut_short(each, _LONGEST_UNIT) for each in units if isinstance(each, str)), "")


def kind_in_words(kind: object) -> str:
    """Name a kind of value, such as "a whole number"."""
    return _kind(kind)


def name_of(choice: Any) -> str:
    """Write a choice as it is shown and typed: text as it is, any other value as JSON."""
    return choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False)


def _number(value: object) -> float | None:
    return _whole(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(limit: Any) -> Any:
    """Write 0.0, as pydantic has it, as people do."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _kind(kind: object) -> str:
    return _KINDS.get(kind, kind) if isinstance(kind, str) else name_of(kind)


def _counted(count: Any, unit: str) -> str:
    plural = "entries" if unit == "entry" else f"{unit}s"
    return f"{count} {unit if count == 1 else plural}" if unit else f"{count}"


def _dependencies(names: object) -> str:
    pairs = names.items() if is_object(names) else ()
    return "; ".join(f"with {name}, {', '.join(map(name_of, needed))} is needed" for name, needed in pairs)


def _place(path: tuple[str | int, ...]) -> str:
    """Write a path as JSONPath does, without the root."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")
