"""Validators of the official classes that stop at the first wrong element of each list.

pydantic's own validators continue to the end of a list: 10 MB of `{}` in the place of messages become three million
errors, which take 1.6 GB and seconds in which no other task runs.

To change

- how many faults of an event or input are found: this module has the validators, which stop at the first one of each
  list; `Sanitizer` in `_core/protocol/validation.py` chooses between them and pydantic's own
"""

from __future__ import annotations

import threading
from typing import Any

from pydantic import BaseModel
from pydantic_core import CoreSchema, SchemaValidator

from agui_client._core.protocol.schema import is_array, is_object

_NOT_VALIDATED = frozenset({"metadata", "serialization"})
"""The parts of a schema that no validator reads."""
_making = threading.Lock()


def failing_fast(schema: CoreSchema) -> SchemaValidator:
    """Return a validator that accepts what a schema accepts, and finds at most one wrong element in each list.

    Args:
        schema: The core schema of official classes.
    """
    with _making:
        copies: dict[type[BaseModel], Any] = {}
        bounded: Any = _bounded(schema, copies)
        with_lists = [model for model, copy in copies.items() if copy is not None and model.__pydantic_complete__]
        # In the place of the schema of a complete class, a new validator takes over the one that the class has, which
        # does not fail fast. Only newer versions of pydantic have an option against it, and a private one.
        try:
            for model in with_lists:
                model.__pydantic_complete__ = False
            return SchemaValidator(schema if bounded is None else bounded)
        finally:
            for model in with_lists:
                model.__pydantic_complete__ = True


def _bounded(part: Any, copies: dict[type[BaseModel], Any]) -> Any:
    """Return a copy of a part of a schema in which every list fails fast; None if there is no list in it."""
    if is_array(part):
        changed = {index: copy for index, each in enumerate(part) if (copy := _bounded(each, copies)) is not None}
        return [changed.get(index, each) for index, each in enumerate(part)] if changed else None
    if not is_object(part):
        return None
    model: Any = part["cls"] if part.get("type") == "model" else None
    if model in copies:
        return copies[model]
    found = {
        name: copy
        for name, value in part.items()
        if name not in _NOT_VALIDATED and (copy := _bounded(value, copies)) is not None
    }
    if part.get("type") == "list":
        found["fail_fast"] = True
    bounded = {**part, **found} if found else None
    if model is not None:
        copies[model] = bounded
    return bounded
