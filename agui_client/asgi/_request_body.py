"""The body of a request to a served agent: read within bounds, and made an input, without holding up other runs.

The compiled parser and the compiled validators let no other Python code run until they return, in threads, too. So they
stop at the first faults, and a large input is validated in slices, in a thread, between which the event loop runs.

To change

- a limit of the size or the time of a request body: `read_body` here; its member in `AppLimits` (`asgi/_limits.py`);
  the table in docs/serving-reference.md
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from math import isinf
from typing import Any, NoReturn, TypeVar

import anyio
import anyio.to_thread
from ag_ui.core import RunAgentInput
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from agui_client._core.ground.concurrency import no_collection
from agui_client._core.ground.json_reading import load_json
from agui_client._core.protocol.fail_fast import failing_fast
from agui_client._core.protocol.open_items import listed
from agui_client._core.protocol.schema import ListSchema, is_array, is_object, record
from agui_client._core.protocol.split_characters import without_halves
from agui_client._core.transport.in_process import Receive
from agui_client._serving.served_request import RequestRefusedError
from agui_client.asgi._member_names import rename_members

_logger = logging.getLogger("agui_client.asgi")
T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)

_MOST_AT_ONCE = 64 * 1024
"""The bytes of a body that is parsed in the event loop, which takes less time there than a thread."""
_SLICE = 1000
"""The elements of a list that are validated in one go."""
_INPUT = record(RunAgentInput)
_SLOTS = _INPUT.slots
_LISTS = {slot.name: key for key, slot in _SLOTS.items() if isinstance(slot.shape, ListSchema)}
"""The lists of an input: their names in JSON by those in Python."""
_BYTES_OF_VALUE = 64
"""The bytes that each JSON value of the largest body has on average: more values would hold up other runs.

An input whose messages have text has more. A container that is not empty counts twice.
"""
_CHUNK = 256 * 1024
"""The bytes of a body that are looked through in one go."""
_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_MOST_DIGITS = 309
"""The digits of the shortest whole number that no float can hold; the time of the parser grows with their square."""
_LARGE_NUMBERS = (b"0e000", b"0e+000", b"0" * 200)
"""The parts of numbers that may be too large for a float, with all digits zero; texts may have them, too."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_validate = failing_fast(RunAgentInput.__pydantic_core_schema__).validate_python


def check_length(headers: Mapping[str, str], max_bytes: int) -> None:
    """Refuse a request that announces too long a body.

    Raises:
        RequestRefusedError: It does.
    """
    announced = headers.get("content-length", "")
    # Others than decimal numbers are the server's to refuse; too many digits would not become a number.
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > max_bytes):
        _refuse_length(max_bytes)


async def read_body(receive: Receive, *, max_bytes: int, seconds: float | None) -> bytes:
    """Read the body of a request.

    Args:
        receive: The ASGI callable.
        max_bytes: The size of the largest body that is accepted.
        seconds: The time that the whole body may take; None for any.

    Raises:
        RequestRefusedError: It is too long, took too long, or was cut.
    """
    body = bytearray()
    is_whole = False
    with anyio.move_on_after(seconds):
        while not is_whole:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestRefusedError(400, "the caller left before the end of its request")
            body += message.get("body", b"")
            if len(body) > max_bytes:
                _refuse_length(max_bytes)
            is_whole = not message.get("more_body", False)
    if not is_whole:
        raise RequestRefusedError(408, f"the body took more than {seconds:g} seconds")
    return bytes(body)


def is_large(headers: Mapping[str, str]) -> bool:
    """Return whether a request is so large that it should be worked on in a thread, or does not say how large it is."""
    announced = headers.get("content-length", "")
    return not announced.isdecimal() or int(announced) > _MOST_AT_ONCE


async def input_of(body: bytes, *, max_bytes: int) -> RunAgentInput:
    """Parse a body that is a `RunAgentInput`; see `parsed`."""
    return await parsed(body, _validated, max_bytes=max_bytes)


def command_validator(model: type[ModelT]) -> Callable[[Any], ModelT]:
    """Return what makes a model of the JSON of a command, for `parsed`; it refuses what does not fit with 422."""
    validate = failing_fast(model.__pydantic_core_schema__).validate_python

    def validated(data: Any) -> ModelT:
        """Make the model."""
        try:
            made: ModelT = validate(data)
        except ValidationError as invalid:
            details = invalid.errors(include_url=False, include_input=False, include_context=False)
            raise RequestRefusedError(422, details) from None
        return made

    return validated


async def parsed(body: bytes, validate: Callable[[Any], T], *, max_bytes: int) -> T:
    """Parse a body.

    Args:
        validate: Makes of its JSON what is returned, and stops at the first faults.
        max_bytes: The size of the largest body that is accepted.

    Raises:
        RequestRefusedError: It is not JSON, or not valid, or has too many values for any body.
    """
    most_values = max_bytes // _BYTES_OF_VALUE
    if len(body) <= _MOST_AT_ONCE:
        return _parsed(body, validate, max(most_values, _MOST_AT_ONCE))
    return await anyio.to_thread.run_sync(_parsed_aside, body, validate, most_values)


def _parsed_aside(body: bytes, validate: Callable[[Any], T], most_values: int) -> T:
    with no_collection():
        return _parsed(body, validate, most_values)


def _parsed(body: bytes, validate: Callable[[Any], T], most_values: int) -> T:
    may_be_large = _look_through(body, most_values)
    try:
        data: Any = from_json(body, allow_inf_nan=False)
    except ValueError as invalid:
        # The parser refuses half of a character, which a page may send that slices text as JavaScript does (SET-18).
        data = _mended(body)
        if data is None:
            fault: dict[str, Any] = {"type": "json_invalid", "loc": [], "msg": f"Invalid JSON: {invalid}"}
            raise RequestRefusedError(400, [fault]) from None
    if may_be_large:
        _check_numbers(data)
    return validate(data)


def _mended(body: bytes) -> Any:
    """Return the JSON of a body with U+FFFD in place of halves of characters; None if it is not JSON."""
    if not _HALF.search(body):
        return None
    try:
        data = without_halves(load_json(body, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        return None
    _logger.warning("the body of a caller has half of a character (a lone surrogate), which was replaced by U+FFFD")
    return data


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _look_through(body: bytes, most_values: int) -> bool:
    """Look through the body for what the parser should not meet; return whether a number of it may be infinite.

    Args:
        most_values: The number of values that it may have.

    Raises:
        RequestRefusedError: It has too many values, or a number with too many digits.
    """
    count, may_be_large, tail = 1, False, b""
    for outside in _outside_texts(body):
        count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        if count > most_values:
            raise RequestRefusedError(413, f"the input has more than {most_values} values")
        # A number may begin in the chunk before.
        digits = tail + outside.translate(_DIGITS)
        may_be_large = may_be_large or any(part in digits for part in _LARGE_NUMBERS)
        if may_be_large and b"0" * _MOST_DIGITS in digits:
            _refuse_number()
        tail = digits[-_MOST_DIGITS:]
    return may_be_large


def _outside_texts(body: bytes) -> Iterator[bytes]:
    """Yield what is outside of the texts of JSON, chunk by chunk, between which other threads may run."""
    start, is_text = 0, False
    while start < len(body):
        end = start + _CHUNK
        while body[end - 1 : end] == b"\\":  # the next byte belongs to it
            end += 1
        chunk = body[start:end]
        if b"\\" in chunk:
            chunk = chunk.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = chunk.split(b'"')
        yield b"".join(parts[is_text::2])
        is_text ^= len(parts) % 2 == 0
        start = end


def _check_numbers(data: Any) -> None:
    """Refuse numbers that pydantic accepts and that no agent can be sent: the parser made infinity of them.

    Raises:
        RequestRefusedError: A number is too large.
    """
    values = [data]
    while values:
        value = values.pop()
        if is_object(value):
            values += value.values()
        elif is_array(value):
            values += value
        elif isinstance(value, float) and isinf(value):
            _refuse_number()


def _validated(data: Any) -> RunAgentInput:
    """Return the input that JSON is.

    Raises:
        RequestRefusedError: It is none.
    """
    renamed = dict[str, str]()
    rename_members(_INPUT, data, renamed)
    if renamed:
        names = listed([f"{name} for {renamed[name]}" for name in sorted(renamed)])
        _logger.warning("the input of a caller has %s; have it write the names of the protocol (by_alias=True)", names)
    lists = {name: key for name, key in _LISTS.items() if is_object(data) and is_array(data.get(key))}
    input = _with_slices(data, lists.values(), 0)
    if longest := max((len(data[key]) for key in lists.values()), default=0):
        known = {key: data[key] for key in _SLOTS if key in data}
        for at in range(_SLICE, longest, _SLICE):
            more = _with_slices(known, lists.values(), at)
            for name in lists:
                getattr(input, name).extend(getattr(more, name))
    return input


def _with_slices(data: Any, keys: Collection[str], at: int) -> RunAgentInput:
    """Return an input with the elements of its lists from a position on, as many as are validated in one go.

    Raises:
        RequestRefusedError: It is none.
    """
    if keys:
        data = {**data, **{key: data[key][at : at + _SLICE] for key in keys}}
    try:
        input: RunAgentInput = _validate(data, by_alias=True, by_name=False)
    except ValidationError as invalid:
        details = invalid.errors(include_url=False, include_input=False, include_context=False)
        for fault in details:
            if len(fault["loc"]) > 1 and fault["loc"][0] in keys:
                key, index, *rest = fault["loc"]
                fault["loc"] = (key, at + int(index), *rest)
        raise RequestRefusedError(422, details) from None
    return input


def _refuse_number() -> NoReturn:
    raise RequestRefusedError(422, "a number of the input is out of range")


def _refuse_length(max_bytes: int) -> NoReturn:
    raise RequestRefusedError(413, f"the body has more than {max_bytes} bytes")
