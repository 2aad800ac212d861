"""Keywords of JSON Schema that are checked otherwise than by the library, all of them in bounded time (INT-7, SEC-2).

The library tries patterns with an engine that may backtrack for ever, takes 19.99 for no multiple of 0.01, and compares
each item of a list with each other. Here patterns are tried by an engine whose time is linear; what it does not
understand, such as look-around, is not checked, and logged once.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, time
from fractions import Fraction
from functools import lru_cache
from time import thread_time
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from agui_client._core.ground.plain_text import cut_short
from agui_client._core.protocol.open_items import quoted
from agui_client._core.protocol.schema import is_array, is_object

if TYPE_CHECKING:
    from jsonschema import ValidationError as Fault

Keyword: TypeAlias = "Callable[[Any, Any, Any, dict[str, Any]], Iterator[Fault]]"
"""A check: the validator, the value of the keyword, the value to check, and the schema around the keyword."""

_logger = logging.getLogger("agui_client.tools")
_MOST_STEPS = 100_000
"""The most steps of checking one value: about a second. A schema that refers to itself twice doubles its work with each
level of the value."""
MOST_REFERENCES_WITHIN = 64
"""The most references that are followed within each other, as by a tree: each takes a dozen levels of the stack."""
_LONGEST_PATTERN, _LONGEST_TEXT = 1000, 10_000
"""Characters of a pattern that is tried, and of a text that it is tried on."""
_PATTERN_SECONDS = 0.5
"""The time of patterns on one value, after which the others are not tried; one of them may take as long again."""
_OTHERWISE = re.compile(r"&&|--|~~|\[[^\]]*\[")
"""The characters that are operations on sets in the engine, and plain characters in JavaScript and Python."""


def bounded(keywords: Mapping[str, Keyword]) -> dict[str, Keyword]:
    """Return the library's keywords and those from below, which together check one value in a bounded time.

    Args:
        keywords: The library's.
    """
    left, patterns = _MOST_STEPS, _Patterns()
    ours = {
        **_KEYWORDS,
        "pattern": patterns.pattern,
        "patternProperties": patterns.pattern_properties,
        "additionalProperties": patterns.additional_properties,
    }

    def counted(check: Keyword) -> Keyword:
        """Return a keyword that counts the values that it looks at."""

        def checked(validator: Any, limit: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Fault]:
            """Check as the keyword does, as long as steps are left."""
            nonlocal left
            left -= 1 + sum(len(each) for each in (limit, instance) if is_object(each) or is_array(each))
            if left < 0:
                raise TimeoutError
            return check(validator, limit, instance, schema)

        return checked

    checks = {**keywords, **ours}
    for name in checks.keys() & {"$ref", "$recursiveRef"}:
        checks[name] = _ending(checks[name])
    return {name: counted(check) for name, check in checks.items()}


def _ending(check: Keyword) -> Keyword:
    """Return a reference that is not followed to itself on the same value, nor further than Python's stack allows."""
    followed: set[tuple[str, int]] = set()

    def checked(validator: Any, reference: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Fault]:
        """Check as the keyword does."""
        if (step := (reference, id(instance))) in followed or len(followed) == MOST_REFERENCES_WITHIN:
            raise RecursionError("a reference leads to itself, or too far")
        followed.add(step)
        try:
            yield from check(validator, reference, instance, schema)
        finally:
            followed.remove(step)

    return checked


class _Patterns:
    """The keywords with patterns, which share the time that they may take on one value."""

    def __init__(self) -> None:
        self._seconds = _PATTERN_SECONDS

    def _matches(self, pattern: Any, text: str) -> bool | None:
        """Return whether a text has a place that fits a pattern; None if that is not checked."""
        if self._seconds < 0 or len(text) > _LONGEST_TEXT or not isinstance(pattern, str):
            return None
        begun_at = thread_time()
        try:
            validator = _compiled(pattern)
            return None if validator is None else _fits(validator, text)
        finally:
            self._seconds -= thread_time() - begun_at

    def pattern(self, validator: Any, pattern: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Fault]:
        """Check a text."""
        if isinstance(instance, str) and self._matches(pattern, instance) is False:
            yield _fault()

    def pattern_properties(self, validator: Any, of: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Fault]:
        """Check the members of an object whose names fit patterns."""
        for pattern, part in of.items() if is_object(instance) else ():
            for name in instance:
                if self._matches(pattern, name):
                    yield from validator.descend(instance[name], part, path=name, schema_path=pattern)

    def additional_properties(self, validator: Any, of: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Fault]:
        """Check the members of an object that no other keyword names."""
        if not is_object(instance):
            return
        patterns = schema.get("patternProperties", {})
        for name in (each for each in instance if each not in schema.get("properties", {})):
            if any(self._matches(pattern, name) is not False for pattern in patterns):
                continue
            if of is False:
                yield _fault(path=[name])
            else:
                yield from validator.descend(instance[name], of, path=name)


# A compiled pattern may have 10 MB, so that few are kept.
@lru_cache(maxsize=8)
def _compiled(pattern: str) -> SchemaValidator | None:
    """Return a pattern for an engine of linear time; None if that does not take it, or may read it otherwise."""
    if (found := linear_pattern(pattern)) is None:
        _warn(cut_short(pattern, 100))
    return found


def linear_pattern(pattern: str) -> SchemaValidator | None:
    """Return a validator of texts in which a pattern is found, in linear time.

    Args:
        pattern: The pattern, of whatever provenance.

    Returns:
        The validator; None if its engine does not take the pattern, as one with look-around or a reference to a group,
        or may read it otherwise.
    """
    if len(pattern) > _LONGEST_PATTERN or _OTHERWISE.search(pattern):
        return None
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None


@lru_cache(maxsize=1000)
def _warn(pattern: str) -> None:
    """Say once that a pattern is not checked."""
    _logger.warning("the pattern %s of a schema is not checked: it takes more than linear time here", quoted(pattern))


def _fits(validator: SchemaValidator, text: str) -> bool:
    try:
        validator.validate_python(text)
    except ValidationError:
        return False
    return True


def _fault(path: list[str] | None = None) -> Fault:
    from jsonschema import ValidationError as Fault

    return Fault("", path=path or ())


def _unique_items(validator: Any, is_wanted: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Fault]:
    texts = [json.dumps(item, sort_keys=True) for item in instance] if is_wanted and is_array(instance) else []
    if len(set(texts)) < len(texts):
        yield _fault()


def _multiple_of(validator: Any, step: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Fault]:
    """Check a number as it is written: 19.99 is not a multiple of 0.01 in binary."""
    if isinstance(instance, int | float) and not isinstance(instance, bool):
        value, unit = (Fraction(each if isinstance(each, int) else repr(each)) for each in (instance, step))
        if value % unit:
            yield _fault()


# --- formats


def _is_moment(text: str) -> bool:
    """Return whether a text is a date and a time; both may lack what many servers do not ask for, such as the zone."""
    return re.match(r"\d{4}-\d\d-\d\d[Tt ]\d\d:", text) is not None and _is_read(datetime.fromisoformat, text.upper())


def _is_time(text: str) -> bool:
    return re.match(r"\d\d:\d\d", text) is not None and _is_read(time.fromisoformat, text.upper())


def _is_read(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _is_address(text: str) -> bool:
    return _is_read(urlsplit, text) and bool(urlsplit(text).scheme) and not any(each.isspace() for each in text)


_FORMATS: Mapping[str, Callable[[str], bool]] = {"date-time": _is_moment, "time": _is_time, "uri": _is_address}
_LIBRARYS_FORMATS = frozenset({"date", "email", "ipv4", "ipv6", "uuid"})


def _format(validator: Any, name: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Fault]:
    if not isinstance(instance, str) or not isinstance(name, str):
        return
    if name in _FORMATS:
        fits = _FORMATS[name](instance)
    else:
        fits = name not in _LIBRARYS_FORMATS or validator.FORMAT_CHECKER.conforms(instance, name)
    if not fits:
        yield _fault()


def _unchecked(validator: Any, limit: Any, instance: Any, schema: dict[str, Any]) -> Iterator[Fault]:
    return iter(())


_KEYWORDS: Mapping[str, Keyword] = {
    # Of these, the library's way to find what is left over tries patterns of its own.
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "$dynamicRef"), _unchecked),
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
    "format": _format,
}
