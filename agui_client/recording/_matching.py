"""Matching of requests with recorded ones: two are the same if they ask the same; differences become sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from ag_ui.core import RunAgentInput, StateDeltaEvent

from agui_client._core.ground.json_pointers import parts_of
from agui_client._core.ground.plain_text import cut_short
from agui_client._core.protocol.json_difference import Operation, difference
from agui_client._core.protocol.patch import Document, PatchFailed
from agui_client._core.protocol.schema import is_array, is_object
from agui_client.errors import UsageError

Match: TypeAlias = Callable[[RunAgentInput, RunAgentInput], bool]
"""Takes a recorded input and the one that is asked now; returns whether the recorded response fits."""

ABSENT = object()
"""Stands for what is not there, as None is a value."""
_IDS = ("threadId", "runId", "parentRunId", "protocolVersion")
_MOST = 20
_SHOWN = 60


class UnrecordedRequestError(UsageError):
    """A recording has no response to what was asked; the note on the exception lists all differences."""


def question(recorded: dict[str, Any], ignore: Iterable[str] = ()) -> dict[str, Any]:
    """Return what an input asks: without the ids that a caller chooses anew each time.

    Args:
        recorded: The JSON of an input.
        ignore: The JSON pointers of values that do not count; "*" is each member or element.
    """
    asked = {name: value for name, value in recorded.items() if name not in _IDS and value not in (None, [])}
    messages = asked.get("messages")
    # A file may have anything in it, which is then like nothing that is asked.
    asked["messages"] = [
        {name: value for name, value in message.items() if name != "id"} if is_object(message) else message
        for message in (messages if is_array(messages) else [])
    ]
    for pointer in ignore:
        asked = _without(asked, parts_of(pointer))
    return asked


def _without(value: Any, parts: Sequence[str]) -> Any:
    """Return a value without what stands at the parts of a pointer; elements of lists become null."""
    first, *rest = parts
    if is_object(value):
        named = {name: name in (first, "*") or first == "*" for name in value}
        kept = {name: item for name, item in value.items() if rest or not named[name]}
        return {name: _without(item, rest) if named[name] else item for name, item in kept.items()}
    if is_array(value):
        chosen = [first in (str(index), "*") for index in range(len(value))]
        empty = [_without(item, rest) if rest else None for item in value]
        return [empty[index] if is_chosen else value[index] for index, is_chosen in enumerate(chosen)]
    return value


def differences(recorded: Any, asked: Any, named: Callable[[str], str] = str) -> Iterator[str]:
    """Yield the differences between two JSON values, a sentence each.

    The sentences follow each other as operations of a JSON Patch do: the index of an element is its place after the
    earlier ones.

    Args:
        recorded: The first value.
        asked: The second.
        named: Makes the name of a place of its pointer; the pointer itself by default.
    """
    operations = difference(recorded, asked, is_detailed=True)
    if operations is None:
        yield "nearly everything is different"
        return
    for operation, before in _steps(recorded, operations):
        yield _sentence(operation, before, named)


def changed_places(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """Return the places at which two JSON values differ, each with what stands there; `ABSENT` for nothing.

    Args:
        before: The first value.
        after: The second.
    """
    operations = difference(before, after, is_detailed=True)
    if operations is None:
        return [("", before, after)]
    places: list[tuple[str, Any, Any]] = []
    for operation, value in _steps(before, operations):
        path, is_new = operation["path"], operation["op"] == "add"
        if operation["op"] == "move":
            places.append((operation["from"], _found(value, operation["from"]), ABSENT))
            places.append((path, ABSENT, _found(value, operation["from"])))
        else:
            places.append((path, ABSENT if is_new else _found(value, path), operation.get("value", ABSENT)))
    return places


def _steps(recorded: Any, operations: Sequence[Operation]) -> Iterator[tuple[Operation, Any]]:
    """Yield operations, each with the value that it changes."""
    document = Document(recorded)
    for operation in operations:
        yield operation, document.look()
        try:
            document.patch(StateDeltaEvent.model_validate({"delta": [operation]}).delta)
        except PatchFailed:
            return  # A file may have values that are deeper than any that an agent sends.


def _sentence(operation: Operation, before: Any, named: Callable[[str], str]) -> str:
    path = operation["path"]
    place = named(path) or "it"
    match operation["op"]:
        case "add":
            return f"{place} is new: {_short(operation['value'])}"
        case "remove":
            return f"{place} was recorded, and is missing now: {_short(_found(before, path))}"
        case "move":
            return f"{place} was recorded as {named(operation['from'])}"
        case _:
            old, new = _found(before, path), operation["value"]
            return f"{place} is {_short(new, old)}, recorded was {_short(old, new)}"


def _found(value: Any, path: str) -> Any:
    """Return the value at a place that exists."""
    for part in parts_of(path):
        value = value[int(part) if is_array(value) else part]
    return value


def no_answer(
    name: str, asked: dict[str, Any], candidates: Sequence[dict[str, Any]], *, is_matched: bool = False
) -> UnrecordedRequestError:
    """Return the error for a request without a response.

    Args:
        name: The name of the recording.
        asked: The question.
        candidates: The recorded ones.
        is_matched: Whether match= compared them.
    """
    if not candidates:
        return UnrecordedRequestError(f"the recording {name} has no response to any request of this kind")
    lengths = [abs(len(candidate["messages"]) - len(asked["messages"])) for candidate in candidates]
    least = min(lengths)
    near = [place for place, length in enumerate(lengths) if length == least]
    found = {place: list(differences(candidates[place], asked)) for place in near}
    nearest = min(near, key=lambda place: len(found[place]))
    lines = found[nearest] or ["match= refused the same question"]
    more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
    which = f"; the nearest of its {len(candidates)} requests is number {nearest + 1}" if len(candidates) > 1 else ""
    tops = {parts_of(place)[0] for place, _, _ in changed_places(candidates[nearest], asked) if place}
    other = f", or give ignore={json.dumps([f'/{top}' for top in sorted(tops)])}" if tops - {"messages"} else ""
    other = other if "messages" not in tops else ", or give match="
    advice = f"record it anew{'' if is_matched else other}"
    error = UnrecordedRequestError(f"the recording {name} has no response to this request: {lines[0]}{more}; {advice}")
    listed = lines[:_MOST] + ([f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else [])
    error.add_note("\n  ".join([f"What was asked differs from {name}{which}:", *listed]))
    return error


def _short(value: Any, other: Any = None) -> str:
    """Return a value for a person: of a long text the part around the first character that differs."""
    if not isinstance(value, str):
        return cut_short(json.dumps(value, ensure_ascii=False), 2 * _SHOWN)
    start = 0
    if isinstance(other, str):
        same = next((at for at, pair in enumerate(zip(value, other, strict=False)) if pair[0] != pair[1]), None)
        start = max(0, (min(len(value), len(other)) if same is None else same) - _SHOWN // 2)
    end = start + 2 * _SHOWN
    return f"{'…' if start else ''}{json.dumps(value[start:end], ensure_ascii=False)}{'…' if end < len(value) else ''}"
