"""The functions of the basic catalog that agents may call: a closed table of pure functions, linear in their arguments.

`regex` is not among them, as a pattern of an agent could freeze the program of the person; checks that need it are left
to the agent. `openUrl` is what a person does, not a program.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from agui_client._core.protocol.schema import is_array
from agui_client.a2ui._data import MISSING
from agui_client.a2ui._formats import date_text, moment_of, money_text, number_text

NOT_WORKED_OUT = {
    "regex": "a pattern of an agent is not matched here: the agent has to check this value",
    "openUrl": "an address is opened by the person, never by the program",
}
"""Functions of the catalog that are not carried out, with the reason."""

_EMAIL = re.compile(r"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}", re.ASCII)
_LONGEST_ADDRESS = 1_000
_MOST_DECIMALS = 100


class ArgumentError(ValueError):
    """Arguments that a function does not take; the text says which."""


def is_true(value: Any) -> bool:
    """Return whether a value counts as true, as in JavaScript: empty objects and arrays do."""
    return isinstance(value, dict | list) or (bool(value) and value == value)


def text_of(value: Any) -> str:
    """Return a value as text, as in JavaScript: JSON for objects and arrays, nothing for null."""
    match value:
        case str():
            return value
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        case _:
            return "" if value is MISSING else str(value)


def _float_text(value: float) -> str:
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text := repr(value), text)


def number_of(value: Any) -> float:
    """Return a value as a number, as in JavaScript: null, false and empty text are 0.

    Raises:
        ArgumentError: It is not a number.
    """
    if value is None or value is False:
        return 0
    try:
        if isinstance(value, int | float):
            number = value + 0
        elif isinstance(value, str) and len(value) < 100 and "_" not in value:
            number = float(value.strip() or 0)
        else:
            raise ArgumentError(f"{text_of(value)[:50]!r} is not a number")
    except ValueError as error:
        raise ArgumentError(f"{text_of(value)[:50]!r} is not a number") from error
    if math.isnan(number):
        raise ArgumentError("NaN is not a number")
    return number


def _argument(args: Mapping[str, Any], name: str) -> Any:
    if (value := args.get(name, MISSING)) is MISSING:
        raise ArgumentError(f"the argument {name} has no value")
    return value


def _bounds(args: Mapping[str, Any]) -> tuple[float, float]:
    low, high = args.get("min", MISSING), args.get("max", MISSING)
    if low is MISSING and high is MISSING:
        raise ArgumentError("neither min nor max is given")
    return -math.inf if low is MISSING else number_of(low), math.inf if high is MISSING else number_of(high)


def _values(args: Mapping[str, Any]) -> list[bool]:
    values = _argument(args, "values")
    if not is_array(values) or len(values) < 2:
        raise ArgumentError("values is not an array of at least two")
    return [is_true(each) for each in values]


def _required(args: Mapping[str, Any]) -> bool:
    value = _argument(args, "value")
    return not (value is None or value in ("", []))


def _length(args: Mapping[str, Any]) -> bool:
    value, (low, high) = _argument(args, "value"), _bounds(args)
    return low <= (len(value) if isinstance(value, str) or is_array(value) else 0) <= high


def _numeric(args: Mapping[str, Any]) -> bool:
    low, high = _bounds(args)
    return low <= number_of(_argument(args, "value")) <= high


def _email(args: Mapping[str, Any]) -> bool:
    address = text_of(_argument(args, "value"))
    return len(address) <= _LONGEST_ADDRESS and _EMAIL.fullmatch(address) is not None


def _decimals(args: Mapping[str, Any]) -> int | None:
    given = args.get("decimals", MISSING)
    if given is MISSING:
        return None
    decimals = number_of(given)
    if not 0 <= decimals <= _MOST_DECIMALS:
        raise ArgumentError(f"decimals is not a number from 0 to {_MOST_DECIMALS}")
    return int(decimals)


def _grouping(args: Mapping[str, Any]) -> bool:
    return is_true(args.get("grouping", True))


def _format_number(args: Mapping[str, Any]) -> str:
    return number_text(number_of(_argument(args, "value")), _decimals(args), grouping=_grouping(args))


def _format_currency(args: Mapping[str, Any]) -> str:
    value, currency = number_of(_argument(args, "value")), text_of(_argument(args, "currency"))
    return money_text(value, currency, _decimals(args), grouping=_grouping(args))


def _format_date(args: Mapping[str, Any]) -> str:
    value, pattern = args.get("value"), text_of(_argument(args, "format"))
    moment = moment_of(value) if is_true(value) else None
    return "" if moment is None else date_text(moment, pattern)


def _pluralize(args: Mapping[str, Any]) -> str:
    # American English knows `one` and `other`; the official renderer does not use `zero` for it either.
    is_one = number_of(_argument(args, "value")) == 1
    chosen = args.get("one") if is_one else None
    return text_of(args.get("other") if chosen is None or chosen is MISSING else chosen)


FUNCTIONS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "and": lambda args: all(_values(args)),
    "or": lambda args: any(_values(args)),
    "not": lambda args: not is_true(_argument(args, "value")),
    "required": _required,
    "length": _length,
    "numeric": _numeric,
    "email": _email,
    "formatNumber": _format_number,
    "formatCurrency": _format_currency,
    "formatDate": _format_date,
    "pluralize": _pluralize,
}
"""The functions by name; each takes worked-out arguments. `formatString` needs the data: see `Evaluation`."""
