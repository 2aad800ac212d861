"""The state of an application as JSON: what can be saved with a conversation, and sent with a run."""

from __future__ import annotations

from math import isfinite
from typing import Any

from pydantic_core import to_jsonable_python

from agui_client._core.protocol.patch import DEEPEST_TEXT, nests_deeper
from agui_client.errors import UsageError


def state_as_json(state: Any) -> Any:
    """Return the application's state as JSON of its own that fits into a saved conversation and a run input.

    Args:
        state: Any JSON value; the models and dataclasses in it are dumped by alias.

    Raises:
        UsageError: It has no JSON form, or is too deep.
    """
    try:
        own = state if nests_deeper(state, DEEPEST_TEXT - 1) else to_jsonable_python(state, by_alias=True)
    except ValueError as error:
        raise UsageError(f"the state cannot be written as JSON: {error}; it was not taken") from None
    if nests_deeper(own, DEEPEST_TEXT - 1):
        raise UsageError(f"the state contains itself, or nests deeper than {DEEPEST_TEXT - 1} levels; it was not taken")
    if (number := _not_of_json(own)) is not None:
        raise UsageError(f"the state has {number}, which is not a JSON number; it was not taken")
    return own


def _not_of_json(value: Any) -> float | None:
    """Return a number in a state that JSON does not have, with which the next run would fail; None without one."""
    values = [value]
    while values:
        each = values.pop()
        if isinstance(each, float) and not isfinite(each):
            return each
        if isinstance(each, dict | list):
            values += each.values() if isinstance(each, dict) else each
    return None
