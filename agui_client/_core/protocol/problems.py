"""Descriptions of rejected values: the path, the problem, and only a few characters of the value.

pydantic's own text is not passed on: it repeats what was received, and that may be a secret or a megabyte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ag_ui.core import RunErrorEvent
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agui_client._core.ground.json_pointers import pointer
from agui_client._core.ground.json_reading import load_json
from agui_client._core.ground.secrets import hidden_text, is_secret_name, without_sent
from agui_client._core.protocol.events import UnrecognizedEvent, WireEvent
from agui_client._core.protocol.schema import (
    EVENT_MODELS,
    ListSchema,
    ObjectSchema,
    OpenObject,
    Shape,
    TextOrItems,
    Variants,
    is_array,
    is_object,
)

LONGEST_PATH = 200
"""The characters of a path that are shown; the names in it are the sender's."""
MOST_REFUSALS = 1000
"""The malformed values of an object after which no more are looked for in its lists."""
_LONGEST_VALUE = 60
_LONGEST_WORDS = 300
_OF_JSON = frozenset('{"')
_MOST_SHOWN = 5
_KINDS: dict[type, str] = {dict: "an object", list: "an array", type(None): "null", bool: "a boolean"}
_ABOUT_CONTAINERS = frozenset({"missing", "union_tag_invalid", "union_tag_not_found"})
"""The kinds of errors whose input is the object around the wrong value."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A value the protocol rejects."""

    path: str
    """The JSON pointer of the value."""
    problem: str
    """The problem, to follow the path in a sentence."""
    is_null: bool = False
    """Whether it is a null where an optional field should be absent (PROC-17)."""


def shortened(value: object, limit: int = _LONGEST_VALUE) -> str:
    """Return a short text form of a scalar for messages; of objects and arrays only the kind."""
    if type(value) in _KINDS or not isinstance(value, str | int | float):
        return _KINDS.get(type(value), f"a {type(value).__name__}")
    if isinstance(value, int) and value.bit_length() > _LONGEST_VALUE:
        return "a number beyond the range of JSON integers"
    text = repr(value[:limit] if isinstance(value, str) else value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def words_in(data: str) -> str:
    """Return the words that stand in place of an event, quoted and cut: what is not JSON, or the error in an object.

    Args:
        data: The data of a frame, or the beginning of a response.

    Returns:
        The words; empty if the data may be an event, or hold a secret.
    """
    try:
        found: Any = load_json(data)
    except (ValueError, RecursionError):
        found = data if data[:1].isalpha() or not _OF_JSON.intersection(data) else None
    for name in ("error", "message", "detail"):
        if is_object(found):
            found = found.get(name, found)
    if not isinstance(found, str) or not found.strip() or hidden_text(found) != found:
        return ""
    return shortened(found.strip(), _LONGEST_WORDS)


def without_quotes(event: WireEvent, sent: Collection[str]) -> WireEvent:
    """Return an event without the secrets that were sent, if it is an error or of an unknown type; the rest is content.

    Args:
        sent: The secrets, see `SentSecrets`.
    """
    if isinstance(event, RunErrorEvent):
        return event.model_copy(update=_without_quotes(vars(event), sent))
    is_content = (event.type in EVENT_MODELS and event.type != "RUN_ERROR") or event.type.startswith("THINKING_")
    if is_content or not isinstance(event, UnrecognizedEvent):
        return event
    return UnrecognizedEvent(without_sent(event.type, sent), _without_quotes(event.data, sent))


def _without_quotes(value: Any, sent: Collection[str]) -> Any:
    if isinstance(value, str):
        return without_sent(value, sent)
    if is_object(value):
        return {without_sent(name, sent): _without_quotes(each, sent) for name, each in value.items()}
    return [_without_quotes(each, sent) for each in value] if is_array(value) else value


def sentence_of(refusal: Refusal) -> str:
    """Return a sentence about a refused value, path first."""
    return f"{refusal.path} {refusal.problem}".lstrip()


def summary(refusals: Sequence[Refusal]) -> str:
    """Join the first few sentences, and add the number of further ones."""
    shown = "; ".join(map(sentence_of, refusals[:_MOST_SHOWN]))
    if len(refusals) <= _MOST_SHOWN:
        return shown
    least = "at least " if len(refusals) >= MOST_REFUSALS else ""
    return f"{shown}; and {least}{len(refusals) - _MOST_SHOWN} more"


def first_problem(error: ValidationError) -> str:
    """Return what validation refused first, without the value, and where that stands."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{first['msg']} at /{'/'.join(map(str, first['loc']))}"


def refusals_of(shape: ObjectSchema, error: ValidationError) -> Iterable[Refusal]:
    """Describe in our words what validation refused: pydantic's own text repeats payloads, secrets among them."""
    found: dict[str, Refusal] = {}
    for details in error.errors(include_url=False, include_context=False):
        path, at, is_alternative = _locate(shape, details["loc"])
        if is_alternative and is_array(details["input"]):
            continue
        problem = "should be a string or an array of parts" if is_alternative else _problem(details, at)
        if details["type"] not in _ABOUT_CONTAINERS and not is_secret_name(path):
            problem += f", got {shortened(details['input'])}"
        found.setdefault(path, Refusal(path[:LONGEST_PATH], problem))
    return found.values()


def _locate(shape: Shape | None, steps: Iterable[int | str]) -> tuple[str, Shape | None, bool]:
    """Resolve a location of pydantic: the JSON pointer, the shape there, and whether only one alternative is meant.

    The steps also name the member of a union that was tried, which is not part of the path.
    """
    path = ""
    is_alternative = False
    for step in steps:
        is_alternative = False
        match shape:
            case Variants(members=members):
                shape = members.get(str(step))
            case TextOrItems(items=items):
                is_alternative = True
                shape = items
            case ObjectSchema(slots=slots):
                path = pointer(path, step)
                slot = slots.get(str(step))
                shape = slot.shape if slot else None
            case _:
                path = pointer(path, step)
                shape = shape.item if isinstance(shape, ListSchema) else None
    return path, shape, is_alternative


def _problem(details: ErrorDetails, at: Shape | None) -> str:
    if details["type"] == "missing":
        return "is missing"
    if isinstance(at, Variants) and details["type"] in _ABOUT_CONTAINERS:
        return f"should have a string as its {at.discriminator}"
    if isinstance(at, ObjectSchema | Variants | OpenObject):
        return "should be an object"
    # "Input should be a valid string", "List should have at least 1 item": what the input is stands at the end.
    return details["msg"][max(details["msg"].find("should"), 0) :]
